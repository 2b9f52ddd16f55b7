//! The efficiency of a link as tables, and what the published one may mean.

use gannet_torus::link::efficiency::{LineCode, LinkModel};
use serde::Serialize;

/// Raw rate of the published link, bit/s.
pub const PUBLISHED_RATE: f64 = 28e9;
/// Published total efficiency.
pub const PUBLISHED_EFFICIENCY: f64 = 0.784;
/// Words of the largest packets.
const LARGEST: f64 = 256.0;

/// A link with packets of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EfficiencyRow {
    /// Bytes of payload in each packet.
    pub payload_bytes: f64,
    /// Words of packets between two credits.
    pub credit_interval_words: f64,
    /// Part that framing leaves.
    pub framing: f64,
    /// Part that credits leave.
    pub credits: f64,
    /// Part that the FIFO at the far end allows at most; none if it never limits.
    pub fifo_limit: Option<f64>,
    /// Payload words per word time.
    pub efficiency: f64,
    /// Payload bits for each raw bit.
    pub total_efficiency: f64,
    /// Bytes of payload per second.
    pub payload_bytes_per_s: f64,
    /// The least FIFO with which the line never waits, words.
    pub fifo_least_words: f64,
}

impl EfficiencyRow {
    /// What the model says of a link.
    pub fn new(model: &LinkModel) -> Self {
        let limit = model.flow_limit();
        Self {
            payload_bytes: 16.0 * model.payload_words,
            credit_interval_words: model.credit_interval,
            framing: model.framing(),
            credits: model.credits(),
            fifo_limit: limit.is_finite().then_some(limit),
            efficiency: model.efficiency(),
            total_efficiency: model.total_efficiency(),
            payload_bytes_per_s: model.payload_rate(),
            fifo_least_words: model.fifo_least(),
        }
    }
}

/// A way to read the published 0.784.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// What the figure is taken for.
    pub reading: &'static str,
    /// What framing and credits leave then, after the line code.
    pub efficiency: f64,
    /// Words between two credits that leave it, with the largest packets.
    pub credit_interval_words: f64,
    /// Rate of the channel after the line code, bytes/s.
    pub channel_bytes_per_s: f64,
    /// Rate of payload, bytes/s.
    pub payload_bytes_per_s: f64,
}

/// The two ways to read the published 0.784 of 28 Gbit/s; the first is the likelier.
pub fn readings() -> [Reading; 2] {
    let code = LineCode::EightTen;
    let on_top = PUBLISHED_EFFICIENCY;
    let within = PUBLISHED_EFFICIENCY / code.ratio();
    [("on top of 8b/10b", on_top), ("8b/10b included", within)].map(|(reading, efficiency)| {
        let mut model = LinkModel {
            raw_rate: PUBLISHED_RATE,
            code,
            payload_words: LARGEST,
            credit_interval: 1.0,
            fifo_words: f64::INFINITY,
            round_trip: 0.0,
            answer_interval: 2.0,
        };
        // Framing of the largest packets leaves more than either reading.
        model.credit_interval = model.credit_interval_for(efficiency).unwrap_or(f64::INFINITY);
        Reading {
            reading,
            efficiency,
            credit_interval_words: model.credit_interval,
            channel_bytes_per_s: PUBLISHED_RATE / 8.0 * code.ratio(),
            payload_bytes_per_s: model.payload_rate(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readings_give_their_published_rate() {
        let [first, second] = readings();
        assert!((first.payload_bytes_per_s / 2.195e9 - 1.0).abs() < 1e-3, "{first:?}");
        assert!((first.credit_interval_words - 7.8).abs() < 0.1, "{first:?}");
        assert!((second.payload_bytes_per_s / 2.744e9 - 1.0).abs() < 1e-3, "{second:?}");
        assert!((second.efficiency - 0.98).abs() < 1e-12);
    }
}
