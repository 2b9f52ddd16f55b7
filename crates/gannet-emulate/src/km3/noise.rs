//! Hits of the dark: photomultipliers that fire by themselves, and decays of potassium 40 near a
//! module.
//!
//! Slices of noise are made beforehand, each cut into windows of as many hits, of which a datagram
//! carries one: modules send when a datagram is full, so that they all have one length. Modules that share
//! a slice begin it with different windows, so that no two modules ever have the same hits at the same time.

use gannet_measure::random::Random;
use gannet_wire::km3net::detector_file::{self, Vector};
use gannet_wire::km3net::{CHANNELS, SLICE_NS};

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

/// A hit of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NoiseHit {
    /// Time since the slice began, in ns.
    pub time: u32,
    /// Channel.
    pub channel: u8,
    /// Time over threshold, in ns.
    pub tot: u8,
}

/// A slice of noise of one module.
#[derive(Clone, Debug)]
pub(super) struct NoiseSlice {
    /// In order of time.
    hits: Vec<NoiseHit>,
    /// When each window begins: with its first hit, but for the first, which begins with the slice.
    begins: Vec<u32>,
    /// Hits of each channel.
    counts: [u32; CHANNELS],
}

impl NoiseSlice {
    /// Slice `number` of noise, in `windows` windows of at most `room` hits.
    pub(super) fn new(
        noise: &Noise,
        seed: u64,
        number: usize,
        windows: usize,
        room: usize,
    ) -> Self {
        let random = &mut Random::new(family(seed, Purpose::Noise, number));
        let rates = [(); CHANNELS]
            .map(|()| noise.rate_min_hz + (noise.rate_max_hz - noise.rate_min_hz) * random.unit());
        let neighbours = Neighbours::new();
        let mut hits = Vec::new();
        let seconds = SLICE_NS as f64 * 1e-9;
        for (channel, rate) in rates.iter().enumerate() {
            for _ in 0..poisson(random, rate * seconds) {
                hits.push(hit(random.unit() * SLICE_NS as f64, channel, random));
            }
        }
        for _ in 0..poisson(random, noise.twofold_hz / (1.0 - ONE_MORE) * seconds) {
            let time = random.unit() * SLICE_NS as f64;
            let first = random.below(CHANNELS as u64) as usize;
            let (mut seen, mut channel) = (0u32, first);
            loop {
                seen |= 1 << channel;
                hits.push(hit(time + DECAY_NS * random.normal(), channel, random));
                let count = seen.count_ones();
                if count >= 2 && !random.chance(ONE_MORE) || count == DECAY_PMTS_MAX {
                    break;
                }
                while seen & 1 << channel != 0 {
                    channel = neighbours.near(first, random);
                }
            }
        }
        hits.sort_unstable();
        hits.truncate(windows * room);
        let mut counts = [0; CHANNELS];
        hits.iter().for_each(|hit| counts[usize::from(hit.channel)] += 1);
        let mut slice = Self { hits, begins: vec![0; windows], counts };
        for window in 1..windows {
            let first = slice.hits.get(slice.place(window));
            slice.begins[window] = first.map_or(SLICE_NS as u32, |hit| hit.time);
        }
        slice
    }

    /// The hits of a window, in order of time.
    pub(super) fn window(&self, window: usize) -> &[NoiseHit] {
        &self.hits[self.place(window)..self.place(window + 1)]
    }

    /// When a window begins, in ns since the slice began.
    pub(super) fn begin(&self, window: usize) -> u32 {
        self.begins[window]
    }

    /// The window of this time since the slice began, in ns.
    pub(super) fn window_of(&self, time: u32) -> usize {
        self.begins.partition_point(|&begin| begin <= time).saturating_sub(1)
    }

    /// Hits of each channel in the whole slice.
    pub(super) fn counts(&self) -> [u32; CHANNELS] {
        self.counts
    }

    /// Place of the first hit of a window. The first windows have one more than the others if the hits
    /// cannot be shared out evenly.
    fn place(&self, window: usize) -> usize {
        let (each, more) =
            (self.hits.len() / self.begins.len(), self.hits.len() % self.begins.len());
        window * each + window.min(more)
    }
}

fn hit(time: f64, channel: usize, random: &mut Random) -> NoiseHit {
    let time = time.clamp(0.0, (SLICE_NS - 1) as f64).round() as u32;
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

    const SECONDS: f64 = SLICE_NS as f64 * 1e-9;

    #[test]
    fn photomultipliers_fire_at_5_to_8_khz_and_modules_at_200() {
        let mut all = 0;
        for number in 0..20 {
            for count in NoiseSlice::new(&Noise::default(), 1, number, 126, 240).counts() {
                // Five standard deviations around the least and the most.
                assert!((380..=950).contains(&count), "{count}");
                all += count;
            }
        }
        let khz = f64::from(all) / 20.0 / SECONDS * 1e-3;
        // 31 of 6.5 kHz, and two or three hits of each of 588 decays.
        assert!((khz - 202.8).abs() < 2.5, "{khz}");
    }

    #[test]
    fn decays_are_seen_by_two_photomultipliers_500_times_a_second() {
        let mut quiet = Noise { rate_min_hz: 0.0, rate_max_hz: 0.0, ..Noise::default() };
        quiet.twofold_hz = 500.0;
        let slices = 32;
        let mut folds = [0; 12];
        for number in 0..slices {
            let slice = NoiseSlice::new(&quiet, 1, number, 4, 240);
            let near = |a: &NoiseHit, b: &NoiseHit| b.time - a.time < 20;
            for decay in slice.hits.chunk_by(near) {
                folds[decay.len()] += 1;
                let mut channels: Vec<u8> = decay.iter().map(|hit| hit.channel).collect();
                channels.sort_unstable();
                channels.dedup();
                assert_eq!(channels.len(), decay.len());
            }
        }
        let seconds = slices as f64 * SECONDS;
        let [two, three, four] = [2, 3, 4].map(|fold| f64::from(folds[fold]) / seconds);
        assert!((two - 500.0).abs() < 65.0, "{two}");
        assert!((three - 75.0).abs() < 30.0, "{three}");
        assert!((2.0..=30.0).contains(&four), "{four}");
    }

    #[test]
    fn windows_are_in_order_and_have_as_many_hits_within_their_time() {
        let noise = Noise { rate_max_hz: 20_000.0, ..Noise::default() };
        let slice = NoiseSlice::new(&noise, 1, 0, 200, 240);
        let mut counts = [0; CHANNELS];
        let each = slice.hits.len() / 200;
        for number in 0..200 {
            let window = slice.window(number);
            assert!(window.is_sorted() && (each..=each + 1).contains(&window.len()));
            let end = if number == 199 { SLICE_NS as u32 } else { slice.begin(number + 1) };
            let time = slice.begin(number)..=end;
            assert!(window.iter().all(|hit| time.contains(&hit.time) && hit.tot >= 4));
            assert_eq!(slice.window_of(window[1].time), number);
            window.iter().for_each(|hit| counts[usize::from(hit.channel)] += 1);
        }
        assert_eq!(counts, slice.counts());
        let other = NoiseSlice::new(&noise, 1, 1, 200, 240);
        assert_ne!(slice.window(0), other.window(0));
    }

    #[test]
    fn more_hits_than_there_is_room_for_are_left_out_and_few_leave_windows_empty() {
        assert_eq!(NoiseSlice::new(&Noise::default(), 1, 0, 10, 240).hits.len(), 2400);
        let quiet = Noise { rate_min_hz: 0.0, rate_max_hz: 0.0, ..Noise::default() };
        let slice = NoiseSlice::new(&quiet, 1, 0, 4000, 240);
        assert!((0..4000).all(|window| slice.window(window).len() <= 1));
        assert_eq!(slice.begin(3999), SLICE_NS as u32);
    }
}
