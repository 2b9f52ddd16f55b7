//! The channels of a run one by one: pedestal, noise, rate of items, and which of them are noisy or
//! dead.
//!
//! What looks at them is the detector's: a [`ChannelSurvey`](crate::detector::ChannelSurvey). This
//! is what it tells; [`mod@file`] keeps it as a table.

pub mod file;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a channel looks like beside the others of its plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ChannelFigures {
    /// Number of the channel, in the detector.
    pub channel: u32,
    /// Name of its stream.
    pub stream: String,
    /// Plane that it is in, where there are some: of wires 0 and 1 induction, 2 collection.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
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
            rms_median: median(channels.iter().filter_map(|c| c.rms).collect()),
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

/// The value in the middle; of two the lower one.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 5.0, 7.0]), Some(5.0));
    }
}
