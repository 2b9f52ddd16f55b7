//! The channels of a run one by one: pedestal, noise, rate of primitives, and which of them are
//! noisy or dead.
//!
//! [`Survey`] makes the figures from the counters of the streams, [`mod@file`] keeps them as a table,
//! [`mask`] makes a list for the configuration of them. Rates are per second of detector time: the
//! frames that were searched tell it, so a slow front end or a file that is read at once makes no
//! difference.
//!
//! The rule: a channel is *noisy* when it makes more than [`NOISY_FACTOR`] times as many primitives
//! as the median channel of its plane, and at least [`NOISY_PRIMITIVES_MIN`], in the whole run or
//! of late. It is *dead* when its samples do not change at all. Channels that are masked have no
//! part in the median.

mod condition;
pub mod file;
pub mod mask;
mod survey;

use serde::{Deserialize, Serialize};

pub use condition::{NOISY_FACTOR, NOISY_PRIMITIVES_MIN};
pub use survey::{RECENT, StreamSurvey, Survey};

/// What a channel looks like beside the others of its plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Nothing to tell.
    #[default]
    Good,
    /// It makes far more primitives than the others.
    Noisy,
    /// Its samples never change.
    Dead,
    /// The configuration keeps it from making primitives.
    Masked,
}

impl Condition {
    /// Every condition.
    pub const ALL: [Self; 4] = [Self::Good, Self::Noisy, Self::Dead, Self::Masked];

    /// Name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Noisy => "noisy",
            Self::Dead => "dead",
            Self::Masked => "masked",
        }
    }
}

/// One channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChannelFigures {
    /// Offline number.
    pub channel: u32,
    /// Place of its stream on the detector, `detector/crate/slot/stream`.
    pub stream: String,
    /// Plane of its wire: 0 and 1 induction, 2 collection.
    pub plane: u8,
    /// Pedestal, ADC counts; absent before the first frame.
    pub pedestal: Option<u64>,
    /// Noise about it, ADC counts: root mean square of Gaussian noise with the same quartiles.
    pub rms: Option<f64>,
    /// Trigger primitives found.
    pub tps: u64,
    /// The same per second, over the whole run.
    pub tp_rate_hz: f64,
    /// The same per second, over the last ten to twenty seconds.
    pub recent_tp_rate_hz: f64,
    /// What the figures say.
    pub condition: Condition,
}

impl ChannelFigures {
    /// The larger of the two rates, by which channels are ranked.
    pub fn highest_rate_hz(&self) -> f64 {
        self.tp_rate_hz.max(self.recent_tp_rate_hz)
    }
}

/// The channels of one stream together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ChannelSummary {
    /// Mean of the pedestals, ADC counts.
    pub pedestal_mean: Option<f64>,
    /// Largest pedestal, ADC counts.
    pub pedestal_max: Option<u64>,
    /// Median of the noise, ADC counts.
    pub rms_median: Option<f64>,
    /// Channels that are dead.
    pub dead: u64,
    /// Channels that are noisy.
    pub noisy: u64,
}

impl ChannelSummary {
    /// The summary of `channels`.
    pub fn of(channels: &[ChannelFigures]) -> Self {
        let pedestals = || channels.iter().filter_map(|channel| channel.pedestal);
        let known = pedestals().count();
        Self {
            pedestal_mean: (known > 0).then(|| pedestals().sum::<u64>() as f64 / known as f64),
            pedestal_max: pedestals().max(),
            rms_median: condition::median(channels.iter().filter_map(|c| c.rms).collect()),
            dead: count(channels, Condition::Dead),
            noisy: count(channels, Condition::Noisy),
        }
    }
}

/// Number of channels in a condition.
pub fn count(channels: &[ChannelFigures], condition: Condition) -> u64 {
    channels.iter().filter(|channel| channel.condition == condition).count() as u64
}

/// The `n` channels with the highest rates, the highest first; those without primitives are not
/// among them.
pub fn loudest(channels: &[ChannelFigures], n: usize) -> Vec<&ChannelFigures> {
    let mut ranked: Vec<_> = channels.iter().filter(|channel| channel.tps > 0).collect();
    ranked.sort_by(|a, b| {
        let by_rate = b.highest_rate_hz().total_cmp(&a.highest_rate_hz());
        by_rate.then(a.channel.cmp(&b.channel))
    });
    ranked.truncate(n);
    ranked
}
