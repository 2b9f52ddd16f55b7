//! Calibration pulses: on every channel at the same time, in equal steps.

use gannet_wire::adc14::{Block, SAMPLES};

use super::config;
use super::noise::Planes;
use super::pulse::{LEAD, Shapes, TAIL};
use gannet_wire::TpcFormat;

/// Which frames hold a calibration pulse.
#[derive(Clone, Debug)]
pub(crate) struct Pulser {
    period: u64,
    peak: u16,
    shapes: Shapes,
}

impl Pulser {
    pub(crate) fn new(config: &config::Pulser, format: TpcFormat) -> Self {
        let period = config.period.ns() as f64 * format.samples_per_s() / 1e9;
        Self {
            period: (period.round() as u64).max(SAMPLES as u64),
            peak: config.adc.round() as u16,
            shapes: Shapes::default(),
        }
    }

    /// Numbers of the pulses of which a part lies in frame `index`; pulse `n` peaks at sample
    /// `n * period + LEAD` from the first.
    fn pulses(&self, index: u64) -> std::ops::Range<u64> {
        let frame = index * SAMPLES as u64;
        let first = frame.saturating_sub(LEAD + TAIL).div_ceil(self.period);
        first..(frame + SAMPLES as u64 - 1) / self.period + 1
    }

    /// True if frame `index` holds a part of a pulse.
    pub(crate) fn touches(&self, index: u64) -> bool {
        !self.pulses(index).is_empty()
    }

    /// Adds the pulses of frame `index` to a block whose channels lie in `planes`.
    pub(crate) fn apply(&self, planes: &Planes, index: u64, block: &mut Block) {
        for number in self.pulses(index) {
            let at = (number * self.period + LEAD) as i64 - (index * SAMPLES as u64) as i64;
            for (channel, &plane) in planes.iter().enumerate() {
                self.shapes.apply(block, channel, plane, at as i32, self.peak);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::quantity::Span;
    use gannet_wire::adc14::{BLOCK_LEN, CHANNELS, get};

    #[test]
    fn pulses_come_at_the_period_also_across_frame_borders() {
        // 100 us are 195.3125 samples, so 195: the borders of frames are met in every way.
        let config = config::Pulser { period: Span(100_000), adc: 500.0 };
        let pulser = Pulser::new(&config, TpcFormat::WibEth);
        let mut wave = Vec::new();
        for index in 0..200 {
            let mut block = [0; BLOCK_LEN];
            pulser.apply(&[2; CHANNELS], index, &mut block);
            // The outermost samples of a pulse may be below one count.
            assert!(pulser.touches(index) || block.iter().all(|&byte| byte == 0), "{index}");
            wave.extend((0..SAMPLES).map(|sample| get(&block, 63, sample)));
        }
        let peaks: Vec<usize> = (0..wave.len()).filter(|&s| wave[s] == 500).collect();
        assert_eq!(peaks.len(), wave.len().div_ceil(195));
        assert!(peaks.iter().enumerate().all(|(n, &sample)| sample == n * 195 + 8));
    }
}
