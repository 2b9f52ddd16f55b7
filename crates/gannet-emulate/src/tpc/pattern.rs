//! The fixed-rate pattern: single samples at full scale in equal steps of time.

use gannet_measure::random::Random;
use gannet_wire::adc14::{Block, CHANNELS, SAMPLES};

use super::block::saturate;
use super::config;
use gannet_wire::TpcFormat;

/// Time in samples with 32 bits behind the point.
const FRACTION_BITS: u32 = 32;
const SAMPLE: u64 = 1 << FRACTION_BITS;
/// Step from the channel of one hit to that of the next: coprime to 64, so all take turns.
const CHANNEL_STEP: u64 = 29;

/// Which samples of each frame are at full scale.
///
/// Hit `k` of a stream is at sample `(phase + k * step)` and channel `29 k mod 64`, so that each
/// channel has exactly the configured rate and hits of one channel never touch.
#[derive(Clone, Debug)]
pub struct Pattern {
    step: u64,
    seed: u64,
}

impl Pattern {
    /// The pattern of `config` for frames of this `format`.
    pub(crate) fn new(config: &config::Pattern, format: TpcFormat, seed: u64) -> Self {
        let samples = format.samples_per_s() / (config.rate_hz * CHANNELS as f64);
        Self { step: (samples * SAMPLE as f64).round() as u64, seed }
    }

    /// Channel and sample of each hit in frame `index` of `stream`, in order of time.
    pub fn hits(&self, stream: usize, index: u64) -> impl Iterator<Item = (usize, usize)> {
        let phase = Random::stream(self.seed, stream as u64).below(self.step);
        let frame = u128::from(index) * SAMPLES as u128 * u128::from(SAMPLE);
        let (phase, step) = (u128::from(phase), u128::from(self.step));
        let mut number = frame.saturating_sub(phase).div_ceil(step) as u64;
        let mut place = (phase + u128::from(number) * step - frame) as u64;
        std::iter::from_fn(move || {
            let sample = (place >> FRACTION_BITS) as usize;
            let channel = (number.wrapping_mul(CHANNEL_STEP) % CHANNELS as u64) as usize;
            number += 1;
            place += self.step;
            (sample < SAMPLES).then_some((channel, sample))
        })
    }

    /// True if frame `index` of `stream` holds a hit.
    pub(crate) fn touches(&self, stream: usize, index: u64) -> bool {
        self.hits(stream, index).next().is_some()
    }

    /// Sets the samples of frame `index` of `stream` in its block.
    pub(crate) fn apply(&self, stream: usize, index: u64, block: &mut Block) {
        self.hits(stream, index).for_each(|(channel, sample)| saturate(block, channel, sample));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(rate_hz: f64) -> Pattern {
        Pattern::new(&config::Pattern { rate_hz }, TpcFormat::WibEth, 1)
    }

    #[test]
    fn each_channel_has_the_configured_rate() {
        for rate_hz in [100.0, 90_000.0] {
            let pattern = pattern(rate_hz);
            let frames = 3052;
            let mut counts = [0u32; CHANNELS];
            for index in 0..frames {
                pattern.hits(2, index).for_each(|(channel, _)| counts[channel] += 1);
            }
            let expected = rate_hz * frames as f64 / 30_517.578_125;
            for count in counts {
                assert!((f64::from(count) - expected).abs() <= 1.0, "{count} {expected}");
            }
        }
    }

    #[test]
    fn the_rate_of_the_published_generator_is_a_hit_every_9768_ticks() {
        let ticks = pattern(100.0).step as f64 / SAMPLE as f64 * 32.0;
        assert!((ticks - 9768.0).abs() < 4.0, "{ticks}");
    }

    #[test]
    fn hits_of_one_channel_never_touch() {
        let pattern = pattern(250_000.0);
        let mut last = [-1000i64; CHANNELS];
        for index in 0..100 {
            for (channel, sample) in pattern.hits(0, index) {
                let now = index as i64 * 64 + sample as i64;
                assert!(now - last[channel] >= 7);
                last[channel] = now;
            }
        }
    }

    #[test]
    fn streams_are_out_of_step() {
        let pattern = pattern(1000.0);
        let first = |stream| pattern.hits(stream, 0).next();
        assert!((1..8).any(|stream| first(stream) != first(0)));
    }
}
