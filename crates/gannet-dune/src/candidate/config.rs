//! Candidate algorithms and their parameters, with the published names and default values.

use gannet_wire::trigger_activity;
use gannet_wire::trigger_candidate::{Algorithm, Type};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CandidateMaker;
use super::activity_window::ActivityWindowMaker;
use super::collection::{CollectionMaker, Complete};
use super::each::EachMaker;
use crate::activity::ActivityConfig;
use gannet_trigger::candidate::CANDIDATE_ACTIVITIES_MAX;
use gannet_trigger::error::{Result, require};

/// A candidate algorithm with its parameters; it takes the activities of the algorithm of the
/// same name. All times are in ticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "algorithm", rename_all = "kebab-case")]
pub enum CandidateConfig {
    /// Each activity is a candidate.
    Prescale(EachActivity),
    /// Each activity is a candidate.
    AdcSimpleWindow(EachActivity),
    /// A window of activities with much charge or many channels.
    HorizontalMuon(ActivityWindow),
    /// A window of activities with much charge or many channels.
    ChannelAdjacency(ActivityWindow),
    /// Activities up to a number of primitives.
    ChannelDistance(DistanceCandidate),
    /// A fixed number of activities.
    Bundle(BundleCandidate),
}

/// Parameters where each activity is a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EachActivity {
    /// One of so many candidates is kept.
    pub prescale: u64,
}

/// Parameters of a window of activities. It fires on any of the conditions that are on; with none
/// on, each activity is a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ActivityWindow {
    /// One of so many candidates is kept.
    pub prescale: u64,
    /// Length of the window, ticks.
    pub window_length: u64,
    /// Fire on the charge of all activities.
    pub trigger_on_adc: bool,
    /// The charge must be above this, ADC counts.
    pub adc_threshold: u64,
    /// Fire on the number of channels with hits.
    pub trigger_on_n_channels: bool,
    /// The number must be above this.
    pub n_channels_threshold: u32,
}

/// Parameters of ChannelDistance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DistanceCandidate {
    /// One of so many candidates is kept.
    pub prescale: u64,
    /// Most primitives of a candidate; an activity that alone has more is a candidate by itself.
    pub max_tp_count: u64,
}

/// Parameters of Bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BundleCandidate {
    /// One of so many candidates is kept.
    pub prescale: u64,
    /// Activities of a candidate.
    pub bundle_size: u32,
}

impl Default for EachActivity {
    fn default() -> Self {
        Self { prescale: 1 }
    }
}

impl Default for ActivityWindow {
    fn default() -> Self {
        Self {
            prescale: 1,
            window_length: 80_000,
            trigger_on_adc: false,
            adc_threshold: 1_200_000,
            trigger_on_n_channels: false,
            n_channels_threshold: 600,
        }
    }
}

impl Default for DistanceCandidate {
    /// The default of the published schema, with which nearly every activity is a candidate at
    /// once; that of the published code, 1000, would wait for dozens.
    ///
    /// Source: DUNE-DAQ/appmodel `trigger.schema.xml`.
    fn default() -> Self {
        Self { prescale: 1, max_tp_count: 8 }
    }
}

impl Default for BundleCandidate {
    fn default() -> Self {
        Self { prescale: 1, bundle_size: 1 }
    }
}

impl CandidateConfig {
    /// The default candidate algorithm for an activity algorithm: the one of its name.
    pub fn mirror(activity: &ActivityConfig) -> Self {
        match activity {
            ActivityConfig::Prescale(_) => Self::Prescale(EachActivity::default()),
            ActivityConfig::AdcSimpleWindow(_) => Self::AdcSimpleWindow(EachActivity::default()),
            ActivityConfig::HorizontalMuon(_) => Self::HorizontalMuon(ActivityWindow::default()),
            ActivityConfig::ChannelAdjacency(_) => {
                Self::ChannelAdjacency(ActivityWindow::default())
            }
            ActivityConfig::ChannelDistance(_) => {
                Self::ChannelDistance(DistanceCandidate::default())
            }
            ActivityConfig::Bundle(_) => Self::Bundle(BundleCandidate::default()),
        }
    }

    /// The activity algorithm whose activities it takes.
    pub fn activity_algorithm(&self) -> trigger_activity::Algorithm {
        match self {
            Self::Prescale(_) => trigger_activity::Algorithm::Prescale,
            Self::AdcSimpleWindow(_) => trigger_activity::Algorithm::AdcSimpleWindow,
            Self::HorizontalMuon(_) => trigger_activity::Algorithm::HorizontalMuon,
            Self::ChannelAdjacency(_) => trigger_activity::Algorithm::ChannelAdjacency,
            Self::ChannelDistance(_) => trigger_activity::Algorithm::ChannelDistance,
            Self::Bundle(_) => trigger_activity::Algorithm::Bundle,
        }
    }

    /// One of so many candidates is kept.
    pub fn prescale(&self) -> u64 {
        match self {
            Self::Prescale(each) | Self::AdcSimpleWindow(each) => each.prescale,
            Self::HorizontalMuon(window) | Self::ChannelAdjacency(window) => window.prescale,
            Self::ChannelDistance(distance) => distance.prescale,
            Self::Bundle(bundle) => bundle.prescale,
        }
    }

    /// Tests the values against their bounds.
    ///
    /// # Errors
    /// Names the field and what it must be.
    pub fn check(&self) -> Result<()> {
        let at_least_one = |value: u64, path| require(value > 0, path, "it must be 1 or more");
        at_least_one(self.prescale(), "prescale")?;
        match self {
            Self::HorizontalMuon(window) | Self::ChannelAdjacency(window) => {
                at_least_one(window.window_length, "window_length")
            }
            Self::Bundle(bundle) => {
                let size = bundle.bundle_size as usize;
                let fits = (1..=CANDIDATE_ACTIVITIES_MAX).contains(&size);
                require(fits, "bundle_size", "it must be 1 to 1024")
            }
            Self::ChannelDistance(_) | Self::Prescale(_) | Self::AdcSimpleWindow(_) => Ok(()),
        }
    }

    /// The maker that these parameters describe.
    pub(super) fn maker(&self) -> Box<dyn CandidateMaker> {
        match self {
            Self::Prescale(_) => Box::new(EachMaker::prescale()),
            Self::AdcSimpleWindow(_) => Box::new(EachMaker::adc_simple_window()),
            Self::HorizontalMuon(window) => Box::new(ActivityWindowMaker::new(
                window.clone(),
                Type::HorizontalMuon,
                Algorithm::HorizontalMuon,
            )),
            Self::ChannelAdjacency(window) => Box::new(ActivityWindowMaker::new(
                window.clone(),
                Type::ChannelAdjacency,
                Algorithm::ChannelAdjacency,
            )),
            Self::ChannelDistance(distance) => {
                Box::new(CollectionMaker::new(Complete::TpCount(distance.max_tp_count)))
            }
            Self::Bundle(bundle) => {
                Box::new(CollectionMaker::new(Complete::Activities(bundle.bundle_size as usize)))
            }
        }
    }
}
