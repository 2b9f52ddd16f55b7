//! The noise of the channels of a stream, from a few of its samples.
//!
//! A look takes the 64 samples that one frame has of one channel, and the channels take turns. What
//! is taken of them is the distance of their quartiles, as a hit moves it little: up to a quarter
//! of the samples may lie as far out as they like. Gaussian noise of standard deviation 1 has
//! quartiles 1.349 apart. The estimate of a channel is an average over its last looks; one look
//! has a statistical error of 15 %, sixteen have one of 4 %. Noise that is slower than a frame is
//! not seen.

use gannet_kernels::tpg::block::{ADC_BITS, Block, rows, sample};
use gannet_kernels::tpg::{CHANNELS, SAMPLES};
use gannet_measure::counter::Gauge;

/// Distance of the quartiles of Gaussian noise with standard deviation 1.
const GAUSSIAN_QUARTILES: f64 = 1.349;
/// Looks at a channel that its estimate is an average of.
const LOOKS_AVERAGED: u64 = 16;
/// Looks at a stream after which each channel has a full average.
const LOOKS_EARLY: u64 = LOOKS_AVERAGED * CHANNELS as u64;
/// Frames from one look to the next until then: 0.3 s at the true rate.
const FRAMES_EARLY: u32 = 8;
/// Frames from one look to the next from then on: each channel is looked at twice a second. A look
/// takes about as long as the search of a frame, so this adds less than a hundredth to it.
const FRAMES: u32 = 256;

/// Looks at the channels of a stream in turns.
#[derive(Debug, Default)]
pub(super) struct NoiseMonitor {
    /// Looks so far.
    looks: u64,
    /// Frames to let pass before the next one.
    wait: u32,
}

impl NoiseMonitor {
    /// Lets a frame pass, or looks at one channel of it and brings its gauge up to date.
    #[inline]
    pub(super) fn frame(&mut self, block: &Block, noise: &[Gauge; CHANNELS]) {
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        self.look(block, noise);
    }

    #[cold]
    fn look(&mut self, block: &Block, noise: &[Gauge; CHANNELS]) {
        let channel = (self.looks % CHANNELS as u64) as usize;
        let earlier = (self.looks / CHANNELS as u64).min(LOOKS_AVERAGED - 1);
        self.looks += 1;
        self.wait = if self.looks < LOOKS_EARLY { FRAMES_EARLY - 1 } else { FRAMES - 1 };
        let mut samples = [0; SAMPLES];
        for (value, row) in samples.iter_mut().zip(rows(block)) {
            *value = sample(row, channel) as i16;
        }
        let now = rms(&samples);
        let gauge = &noise[channel];
        gauge.set(match gauge.get() {
            // No noise at all is another state of the channel, not a small value of the same.
            Some(mean) if mean > 0.0 && now > 0.0 => mean + (now - mean) / (earlier + 1) as f64,
            _ => now,
        });
    }
}

/// Standard deviation of Gaussian noise with the quartiles of `samples`; 0 when all are equal.
fn rms(samples: &[i16; SAMPLES]) -> f64 {
    if samples.iter().all(|sample| *sample == samples[0]) {
        return 0.0;
    }
    (quantile(samples, 3 * SAMPLES / 4) - quantile(samples, SAMPLES / 4)) / GAUSSIAN_QUARTILES
}

/// Value below which `rank` of the samples lie, 1 to 63, where an integer stands for all values that
/// are rounded to it.
fn quantile(samples: &[i16; SAMPLES], rank: usize) -> f64 {
    // Counting 64 samples takes a few vector instructions, so bisecting is faster than sorting.
    let below = |value: i16| samples.iter().map(|s| u16::from(*s < value)).sum::<u16>();
    let rank = rank as u16;
    let value = (0..ADC_BITS).rev().fold(0, |value, bit| {
        let larger = value | 1 << bit;
        if below(larger) < rank { larger } else { value }
    });
    let (lower, upper) = (below(value), below(value + 1));
    f64::from(value) - 0.5 + f64::from(rank - lower) / f64::from(upper - lower)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_kernels::tpg::block::pack;
    use gannet_measure::random::Random;
    use proptest::prelude::*;

    fn gauges() -> [Gauge; CHANNELS] {
        std::array::from_fn(|_| Gauge::default())
    }

    /// A block with Gaussian noise of `rms` about `pedestal` on every channel.
    fn noise(random: &mut Random, pedestal: f64, rms: f64) -> Vec<u16> {
        (0..4096).map(|_| (pedestal + rms * random.normal()).round() as u16).collect()
    }

    fn block(samples: &[u16]) -> Box<Block> {
        pack(|t, c| samples[64 * t + c])
    }

    #[test]
    fn the_estimate_is_that_of_the_noise() {
        for (pedestal, rms) in [(900.0, 1.0), (900.3, 3.5), (8200.7, 12.0), (2000.0, 400.0)] {
            let (mut monitor, gauges) = (NoiseMonitor::default(), gauges());
            let mut random = Random::new(5);
            for _ in 0..1024 {
                let block = block(&noise(&mut random, pedestal, rms));
                (0..FRAMES_EARLY).for_each(|_| monitor.frame(&block, &gauges));
            }
            let found = gauges.each_ref().map(|gauge| gauge.get().unwrap());
            let mean = found.iter().sum::<f64>() / 64.0;
            // The values are rounded, which is a noise of its own.
            assert!((mean - rms).abs() < 0.03 * rms + 0.05, "{mean} for {rms}");
            let far = |found: &&f64| (*found - rms).abs() > 0.15 * rms + 0.05;
            assert_eq!(found.iter().find(far), None, "for {rms}");
        }
    }

    #[test]
    fn hits_hardly_move_it() {
        let (mut monitor, gauges) = (NoiseMonitor::default(), gauges());
        let mut random = Random::new(6);
        for _ in 0..1024 {
            let mut samples = noise(&mut random, 900.0, 5.0);
            // A hit of six samples on every channel, in every frame.
            samples[64 * 20..64 * 26].iter_mut().for_each(|sample| *sample += 500);
            let block = block(&samples);
            (0..FRAMES_EARLY).for_each(|_| monitor.frame(&block, &gauges));
        }
        let mean = gauges.iter().map(|gauge| gauge.get().unwrap()).sum::<f64>() / 64.0;
        assert!((5.0..6.5).contains(&mean), "{mean}");
    }

    #[test]
    fn channels_take_turns_and_looks_become_rare() {
        let (mut monitor, gauges) = (NoiseMonitor::default(), gauges());
        let block = pack(|t, _| 900 + t as u16 % 5);
        (0..FRAMES_EARLY * 3).for_each(|_| monitor.frame(&block, &gauges));
        assert_eq!(gauges.iter().filter(|gauge| gauge.get().is_some()).count(), 3);
        (0..FRAMES_EARLY * 1024).for_each(|_| monitor.frame(&block, &gauges));
        let looks = monitor.looks;
        (0..FRAMES * 10).for_each(|_| monitor.frame(&block, &gauges));
        assert_eq!(monitor.looks, looks + 10);
    }

    #[test]
    fn a_channel_that_never_changes_has_none_and_may_come_back() {
        let (mut monitor, gauges) = (NoiseMonitor::default(), gauges());
        let flat = pack(|_, c| if c == 1 { 16383 } else { 0 });
        (0..FRAMES_EARLY * 64).for_each(|_| monitor.frame(&flat, &gauges));
        assert!(gauges.iter().all(|gauge| gauge.get() == Some(0.0)));
        let noise = block(&noise(&mut Random::new(7), 900.0, 10.0));
        (0..FRAMES_EARLY * 64).for_each(|_| monitor.frame(&noise, &gauges));
        assert!(gauges.iter().all(|gauge| gauge.get() > Some(5.0)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn quantiles_lie_where_sorting_puts_them(
            samples in prop::array::uniform32(0i16..1 << 14), rank in 1usize..SAMPLES,
        ) {
            let samples: [i16; SAMPLES] = std::array::from_fn(|i| samples[i / 2]);
            let mut sorted = samples;
            sorted.sort_unstable();
            let found = quantile(&samples, rank);
            prop_assert!((found - f64::from(sorted[rank - 1])).abs() <= 0.5, "{found}");
        }
    }
}
