//! Hits of the dark: photomultipliers that fire by themselves, and decays of potassium 40 near a
//! module.
//!
//! Slices of noise are made beforehand, each cut into windows of equal time, of which a datagram
//! carries one. Modules that share a slice begin it with different windows, so that no two modules
//! ever have the same hits at the same time.

use gannet_measure::random::Random;
use gannet_wire::km3net::CHANNELS;
use gannet_wire::km3net::detector_file::{self, Vector};

use super::config::Noise;
use super::light::time_over_threshold;
use crate::rich::poisson;
use crate::seeds::{Purpose, family};

/// Spread of the times of the hits of one decay, in ns.
const DECAY_NS: f64 = 1.5;
/// Of all decays that several photomultipliers see, how many one more sees.
const ONE_MORE: f64 = 0.15;
/// Most photomultipliers that see one decay.
const DECAY_PMTS_MAX: u32 = 8;

/// A hit in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NoiseHit {
    /// Time since the window began, in ns.
    pub time: u32,
    /// Channel.
    pub channel: u8,
    /// Time over threshold, in ns.
    pub tot: u8,
}

/// A slice of noise of one module.
#[derive(Clone, Debug)]
pub(super) struct NoiseSlice {
    hits: Vec<NoiseHit>,
    /// Where each window begins.
    begins: Vec<u32>,
    /// Hits of each channel.
    counts: [u32; CHANNELS],
}

impl NoiseSlice {
    /// Slice `number` of noise, in `windows` windows of `window_ns`, of which each has `room` hits.
    pub(super) fn new(
        noise: &Noise,
        seed: u64,
        number: usize,
        windows: usize,
        window_ns: u32,
        room: usize,
    ) -> Self {
        let random = &mut Random::new(family(seed, Purpose::Noise, number));
        let rates = [(); CHANNELS]
            .map(|()| noise.rate_min_hz + (noise.rate_max_hz - noise.rate_min_hz) * random.unit());
        let neighbours = Neighbours::new();
        let mut slice = Self { hits: Vec::new(), begins: vec![0], counts: [0; CHANNELS] };
        let mut window = Vec::new();
        for _ in 0..windows {
            window.clear();
            let seconds = f64::from(window_ns) * 1e-9;
            for (channel, rate) in rates.iter().enumerate() {
                for _ in 0..poisson(random, rate * seconds) {
                    window.push(hit(
                        random.unit() * f64::from(window_ns),
                        channel,
                        window_ns,
                        random,
                    ));
                }
            }
            for _ in 0..poisson(random, noise.twofold_hz / (1.0 - ONE_MORE) * seconds) {
                let time = random.unit() * f64::from(window_ns);
                let first = random.below(CHANNELS as u64) as usize;
                let (mut seen, mut channel) = (0u32, first);
                loop {
                    seen |= 1 << channel;
                    let time = time + DECAY_NS * random.normal();
                    window.push(hit(time, channel, window_ns, random));
                    let count = seen.count_ones();
                    if count >= 2 && !random.chance(ONE_MORE) || count == DECAY_PMTS_MAX {
                        break;
                    }
                    while seen & 1 << channel != 0 {
                        channel = neighbours.near(first, random);
                    }
                }
            }
            window.truncate(room);
            window.sort_unstable();
            window.iter().for_each(|hit| slice.counts[usize::from(hit.channel)] += 1);
            slice.hits.extend_from_slice(&window);
            slice.begins.push(slice.hits.len() as u32);
        }
        slice
    }

    /// The hits of a window, in order of time.
    pub(super) fn window(&self, window: usize) -> &[NoiseHit] {
        &self.hits[self.begins[window] as usize..self.begins[window + 1] as usize]
    }

    /// Hits of each channel in the whole slice.
    pub(super) fn counts(&self) -> [u32; CHANNELS] {
        self.counts
    }
}

fn hit(time: f64, channel: usize, window_ns: u32, random: &mut Random) -> NoiseHit {
    let time = time.clamp(0.0, f64::from(window_ns - 1)).round() as u32;
    NoiseHit { time, channel: channel as u8, tot: time_over_threshold(1, random) }
}

/// Which photomultipliers look in about the same direction.
struct Neighbours {
    /// Per photomultiplier the share of light of all others up to each, of all light they see.
    shares: Vec<[f64; CHANNELS]>,
}

impl Neighbours {
    fn new() -> Self {
        let directions = detector_file::directions();
        let share = |a: &Vector, b: &Vector| {
            let cos: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            if cos > 0.999 { 0.0 } else { (3.0 * (cos - 1.0)).exp() }
        };
        let shares = directions.iter().map(|a| {
            let mut shares = [0.0; CHANNELS];
            let mut sum = 0.0;
            for (place, b) in shares.iter_mut().zip(&directions) {
                sum += share(a, b);
                *place = sum;
            }
            shares.map(|share| share / sum)
        });
        Self { shares: shares.collect() }
    }

    /// Another photomultiplier that sees the same decay as `channel`.
    fn near(&self, channel: usize, random: &mut Random) -> usize {
        let share = random.unit();
        self.shares[channel].iter().position(|&to| share < to).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_NS: u32 = 793_650;

    /// 63 windows, which are half a slice.
    fn slices() -> Vec<NoiseSlice> {
        let noise = Noise::default();
        (0..20).map(|number| NoiseSlice::new(&noise, 1, number, 63, WINDOW_NS, 240)).collect()
    }

    #[test]
    fn photomultipliers_fire_at_5_to_8_khz_and_modules_at_200() {
        let seconds = 63.0 * f64::from(WINDOW_NS) * 1e-9;
        let mut all = 0;
        for slice in slices() {
            for count in slice.counts() {
                // Five standard deviations around the least and the most.
                assert!((145..=515).contains(&count), "{count}");
                all += count;
            }
        }
        let khz = f64::from(all) / 20.0 / seconds * 1e-3;
        // 31 of 6.5 kHz, and two or three hits of each of 588 decays.
        assert!((khz - 202.8).abs() < 2.5, "{khz}");
    }

    #[test]
    fn decays_are_seen_by_two_photomultipliers_500_times_a_second() {
        let mut quiet = Noise { rate_min_hz: 0.0, rate_max_hz: 0.0, ..Noise::default() };
        quiet.twofold_hz = 500.0;
        let slice = NoiseSlice::new(&quiet, 1, 0, 4000, WINDOW_NS, 240);
        let seconds = 4000.0 * f64::from(WINDOW_NS) * 1e-9;
        let mut folds = [0; 12];
        for window in 0..4000 {
            let near = |a: &NoiseHit, b: &NoiseHit| b.time - a.time < 20;
            for decay in slice.window(window).chunk_by(near) {
                folds[decay.len()] += 1;
                let mut channels: Vec<u8> = decay.iter().map(|hit| hit.channel).collect();
                channels.sort_unstable();
                channels.dedup();
                assert_eq!(channels.len(), decay.len());
            }
        }
        let [two, three, four] = [2, 3, 4].map(|fold| f64::from(folds[fold]) / seconds);
        assert!((two - 500.0).abs() < 40.0, "{two}");
        assert!((three - 75.0).abs() < 20.0, "{three}");
        assert!((2.0..=25.0).contains(&four), "{four}");
    }

    #[test]
    fn windows_are_in_order_and_within_their_time_and_room() {
        let noise = Noise { rate_max_hz: 20_000.0, ..Noise::default() };
        let slice = NoiseSlice::new(&noise, 1, 0, 20, WINDOW_NS, 240);
        let mut counts = [0; CHANNELS];
        for window in (0..20).map(|window| slice.window(window)) {
            assert!(window.is_sorted() && window.len() <= 240);
            assert!(window.iter().all(|hit| hit.time < WINDOW_NS && hit.tot >= 4));
            window.iter().for_each(|hit| counts[usize::from(hit.channel)] += 1);
        }
        assert_eq!(counts, slice.counts());
        let other = NoiseSlice::new(&noise, 1, 1, 20, WINDOW_NS, 240);
        assert_ne!(slice.window(0), other.window(0));
    }
}
