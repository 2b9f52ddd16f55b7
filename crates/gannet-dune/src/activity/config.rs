//! Activity algorithms and their parameters, with the published names and default values.

use gannet_wire::trigger_activity::Algorithm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ActivityMaker;
use super::adc_simple_window::AdcRule;
use super::bundle::BundleMaker;
use super::channel_adjacency::TrackRule;
use super::channel_distance::DistanceMaker;
use super::horizontal_muon::MuonRule;
use super::prescale::PrescaleMaker;
use super::window::{WINDOW_TPS_MAX, WindowMaker};
use crate::sampling::Sampling;
use gannet_trigger::error::{Result, require};

/// An activity algorithm with its parameters. All times are in ticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "algorithm", rename_all = "kebab-case")]
pub enum ActivityConfig {
    /// Every primitive is an activity.
    Prescale(Prescale),
    /// A window whose charge is above a threshold.
    AdcSimpleWindow(AdcSimpleWindow),
    /// A window with a long run of adjacent channels, or other signs of a horizontal track.
    HorizontalMuon(HorizontalMuon),
    /// Each long run of adjacent channels in a window.
    ChannelAdjacency(ChannelAdjacency),
    /// Primitives near one another in channel number and time.
    ChannelDistance(ChannelDistance),
    /// A fixed number of primitives.
    Bundle(Bundle),
}

/// Parameters of Prescale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prescale {
    /// One of so many activities is kept.
    pub prescale: u64,
    /// Longer primitives are not looked at, ticks.
    pub max_time_over_threshold: u64,
}

/// Parameters of ADCSimpleWindow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdcSimpleWindow {
    /// One of so many activities is kept.
    pub prescale: u64,
    /// Longer primitives are not looked at, ticks.
    pub max_time_over_threshold: u64,
    /// Length of the window, ticks.
    pub window_length: u64,
    /// The sum of all integrals must be above this, ADC counts.
    pub adc_threshold: u64,
}

/// Parameters of HorizontalMuon. A window fires on any of the conditions that are on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HorizontalMuon {
    /// One of so many activities is kept.
    pub prescale: u64,
    /// Longer primitives are not looked at, ticks.
    pub max_time_over_threshold: u64,
    /// Length of the window, ticks; at most the longest drift.
    pub window_length: u64,
    /// Fire on the sum of all integrals.
    pub trigger_on_adc: bool,
    /// The sum must be above this, ADC counts.
    pub adc_threshold: u64,
    /// Fire on the number of channels with hits.
    pub trigger_on_n_channels: bool,
    /// The number must be above this.
    pub n_channels_threshold: u32,
    /// Fire on the longest run of adjacent channels.
    pub trigger_on_adjacency: bool,
    /// The run must have more channels than this.
    pub adjacency_threshold: u32,
    /// Gaps in a run: the next is bridged while the steps over those before it sum up to less.
    pub adjacency_tolerance: u32,
    /// Fire when the primitive after the window is long.
    pub trigger_on_tot: bool,
    /// It must be longer than this, ticks.
    pub tot_threshold: u64,
}

/// Parameters of ChannelAdjacency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelAdjacency {
    /// One of so many activities is kept.
    pub prescale: u64,
    /// Longer primitives are not looked at, ticks.
    pub max_time_over_threshold: u64,
    /// Length of the window, ticks; at most the longest drift.
    pub window_length: u64,
    /// A run must have more channels than this.
    pub adjacency_threshold: u32,
    /// Gaps in a run: the next is bridged while those before it missed fewer channels in all.
    pub adjacency_tolerance: u32,
}

/// Parameters of ChannelDistance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelDistance {
    /// One of so many activities is kept.
    pub prescale: u64,
    /// Longer primitives are not looked at, ticks.
    pub max_time_over_threshold: u64,
    /// Longest time from the first primitive to the start of the last, ticks.
    pub window_length: u64,
    /// Farthest that a primitive may be from the channels of the group so far; others are passed
    /// over.
    pub max_channel_distance: u32,
    /// Fewest primitives of an activity.
    pub min_tps: u32,
}

/// Parameters of Bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bundle {
    /// One of so many activities is kept.
    pub prescale: u64,
    /// Longer primitives are not looked at, ticks.
    pub max_time_over_threshold: u64,
    /// Primitives of an activity.
    pub bundle_size: u32,
}

/// Default of `max_time_over_threshold`, ticks.
///
/// Source: DUNE-DAQ/appmodel `trigger.schema.xml`, class `TAAlgorithm`.
const MAX_TIME_OVER_THRESHOLD: u64 = 10_000;

/// Gives parameter structs their published defaults.
macro_rules! published_defaults {
    ($($name:ident { $($field:ident: $value:expr),* })*) => {
        $(impl Default for $name {
            fn default() -> Self {
                Self {
                    prescale: 1,
                    max_time_over_threshold: MAX_TIME_OVER_THRESHOLD,
                    $($field: $value,)*
                }
            }
        })*
    };
}

published_defaults! {
    Prescale {}
    AdcSimpleWindow { window_length: 100_000, adc_threshold: 1_200_000 }
    HorizontalMuon {
        window_length: 8_000,
        trigger_on_adc: false, adc_threshold: 3_000_000,
        trigger_on_n_channels: false, n_channels_threshold: 400,
        trigger_on_adjacency: true, adjacency_threshold: 15, adjacency_tolerance: 3,
        trigger_on_tot: false, tot_threshold: 5_000
    }
    ChannelAdjacency { window_length: 8_000, adjacency_threshold: 15, adjacency_tolerance: 3 }
    ChannelDistance { window_length: 8_000, max_channel_distance: 50, min_tps: 20 }
    Bundle { bundle_size: 1 }
}

/// The value of a field that every variant has.
macro_rules! of_each {
    ($config:expr, $field:ident) => {
        match $config {
            ActivityConfig::Prescale(parameters) => parameters.$field,
            ActivityConfig::AdcSimpleWindow(parameters) => parameters.$field,
            ActivityConfig::HorizontalMuon(parameters) => parameters.$field,
            ActivityConfig::ChannelAdjacency(parameters) => parameters.$field,
            ActivityConfig::ChannelDistance(parameters) => parameters.$field,
            ActivityConfig::Bundle(parameters) => parameters.$field,
        }
    };
}

impl ActivityConfig {
    /// One of so many activities is kept.
    pub fn prescale(&self) -> u64 {
        of_each!(self, prescale)
    }

    /// Longer primitives are not looked at, ticks.
    pub fn max_time_over_threshold(&self) -> u64 {
        of_each!(self, max_time_over_threshold)
    }

    /// The algorithm as activities carry it.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Prescale(_) => Algorithm::Prescale,
            Self::AdcSimpleWindow(_) => Algorithm::AdcSimpleWindow,
            Self::HorizontalMuon(_) => Algorithm::HorizontalMuon,
            Self::ChannelAdjacency(_) => Algorithm::ChannelAdjacency,
            Self::ChannelDistance(_) => Algorithm::ChannelDistance,
            Self::Bundle(_) => Algorithm::Bundle,
        }
    }

    /// Tests the values against their bounds.
    ///
    /// # Errors
    /// Names the field and what it must be.
    pub fn check(&self) -> Result<()> {
        let at_least_one = |value: u64, path| require(value > 0, path, "it must be 1 or more");
        let fits_window = |tps: u32, path| {
            let fits = (1..=WINDOW_TPS_MAX).contains(&(tps as usize));
            require(fits, path, "it must be 1 to 32768")
        };
        at_least_one(self.prescale(), "prescale")?;
        match self {
            Self::Prescale(_) => Ok(()),
            Self::AdcSimpleWindow(window) => at_least_one(window.window_length, "window_length"),
            Self::HorizontalMuon(muon) => {
                at_least_one(muon.window_length, "window_length")?;
                at_least_one(muon.adjacency_threshold.into(), "adjacency_threshold")?;
                let charge = muon.trigger_on_adc || muon.trigger_on_tot;
                let any = charge || muon.trigger_on_n_channels || muon.trigger_on_adjacency;
                require(any, "trigger_on_adjacency", "at least one trigger_on_... must be true")
            }
            Self::ChannelAdjacency(track) => {
                at_least_one(track.window_length, "window_length")?;
                at_least_one(track.adjacency_threshold.into(), "adjacency_threshold")
            }
            Self::ChannelDistance(distance) => fits_window(distance.min_tps, "min_tps"),
            Self::Bundle(bundle) => fits_window(bundle.bundle_size, "bundle_size"),
        }
    }

    /// The maker that these parameters describe.
    pub(super) fn maker(&self, sampling: Sampling) -> Box<dyn ActivityMaker> {
        match self {
            Self::Prescale(_) => Box::new(PrescaleMaker::new(sampling)),
            Self::AdcSimpleWindow(window) => {
                let rule = AdcRule::new(window.adc_threshold, sampling);
                Box::new(WindowMaker::new(rule, window.window_length))
            }
            Self::HorizontalMuon(muon) => {
                let rule = MuonRule::new(muon.clone(), sampling);
                Box::new(WindowMaker::new(rule, muon.window_length))
            }
            Self::ChannelAdjacency(track) => {
                Box::new(WindowMaker::new(TrackRule::new(track, sampling), track.window_length))
            }
            Self::ChannelDistance(distance) => {
                Box::new(DistanceMaker::new(distance.clone(), sampling))
            }
            Self::Bundle(bundle) => Box::new(BundleMaker::new(bundle.bundle_size, sampling)),
        }
    }
}
