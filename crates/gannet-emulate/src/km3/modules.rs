//! Optical modules: what noise each sends in which datagram, and how its clocks are off.

use std::ops::Range;

use gannet_measure::random::Random;
use gannet_wire::Record;
use gannet_wire::km3net::detector_file::Pmt;
use gannet_wire::km3net::{CHANNELS, DetectorFile, Hit, SLICE_NS};

use super::config::Config;
use super::light_slices::Readout;
use super::noise::{NoiseHit, NoiseSlice};
use crate::config::ConfigError;
use crate::seeds::{Purpose, family};

/// Bytes of a hit.
pub(super) const HIT_LEN: usize = Hit::LEN;
/// Slices in a second.
pub(super) const SLICES_PER_S: f64 = 1e9 / SLICE_NS as f64;
/// Most datagrams of a slice.
const WINDOWS_MAX: usize = 4096;

/// One in so many of the hits that a datagram has room for may be light.
const LIGHT_SHARE: usize = 5;

/// The modules of a detector.
#[derive(Clone, Debug)]
pub(super) struct Modules {
    detector: DetectorFile,
    /// By module and channel, what is taken from the time of a hit, in ns: t0 less the least of all.
    offsets: Vec<[u32; CHANNELS]>,
    noise: Vec<NoiseSlice>,
    /// Datagrams of a slice.
    pub(super) windows: usize,
    /// Most hits of a datagram.
    pub(super) room: usize,
    choice: u64,
}

impl Modules {
    /// The modules of `detector`.
    pub(super) fn new(config: &Config, detector: DetectorFile) -> Result<Self, ConfigError> {
        let (windows, room) = (windows(config)?, config.datagrams.room());
        let slices = config.noise.slices.max(detector.modules().len().div_ceil(windows));
        let noise = (0..slices)
            .map(|number| NoiseSlice::new(&config.noise, config.seed, number, windows, room));
        Ok(Self {
            offsets: offsets(&detector),
            noise: noise.collect(),
            windows,
            room,
            choice: family(config.seed, Purpose::Choice, 0),
            detector,
        })
    }

    /// The noise of `module` in a slice.
    fn noise(&self, module: usize, slice: u64) -> Noise<'_> {
        let slices = self.noise.len();
        // Modules that share a slice of noise begin it with different windows.
        let turn = Random::stream(self.choice, slice).below(self.windows as u64) as usize;
        let first = (turn + module / slices) % self.windows;
        Noise { slice: &self.noise[module % slices], first, windows: self.windows }
    }

    /// Hits of noise of each channel of `module` in a slice.
    pub(super) fn noise_counts(&self, module: usize) -> [u32; CHANNELS] {
        self.noise[module % self.noise.len()].counts()
    }

    /// Appends the noise of `module` in datagram `window` of a slice to `out`.
    pub(super) fn write_noise(&self, module: usize, slice: u64, window: usize, out: &mut Vec<u8>) {
        let (noise, offsets) = (self.noise(module, slice), &self.offsets[module]);
        let (hits, shift) = noise.hits(window);
        let place = out.len();
        out.resize(place + HIT_LEN * hits.len(), 0);
        let (places, _) = out[place..].as_chunks_mut::<HIT_LEN>();
        for (place, &NoiseHit { time, channel, tot }) in places.iter_mut().zip(hits) {
            let time = time.wrapping_add(shift).saturating_sub(offsets[usize::from(channel)]);
            Hit { channel, time, time_over_threshold: tot }.emit(place);
        }
    }

    /// The time of a slice in datagram `window` of `module`, in ns.
    pub(super) fn time_of(&self, module: usize, slice: u64, window: usize) -> Range<u32> {
        let noise = self.noise(module, slice);
        let last = window + 1 == self.windows;
        noise.begin(window)..if last { u32::MAX } else { noise.begin(window + 1) }
    }
}

/// A slice of noise that begins with another window than its first.
struct Noise<'a> {
    slice: &'a NoiseSlice,
    first: usize,
    windows: usize,
}

impl Noise<'_> {
    /// Hits of datagram `window`, and what is added to their time, modulo 2^32.
    fn hits(&self, window: usize) -> (&[NoiseHit], u32) {
        let place = (self.first + window) % self.windows;
        let round = if place < self.first { SLICE_NS as u32 } else { 0 };
        (self.slice.window(place), round.wrapping_sub(self.slice.begin(self.first)))
    }

    /// When datagram `window` begins, in ns since the slice began.
    fn begin(&self, window: usize) -> u32 {
        let place = (self.first + window) % self.windows;
        self.slice.begin(place).wrapping_add(self.hits(window).1)
    }

    /// The datagram of this time of the slice, in ns.
    fn window_of(&self, time: u32) -> usize {
        let turned = u64::from(time).min(SLICE_NS - 1) + u64::from(self.slice.begin(self.first));
        let place = self.slice.window_of((turned % SLICE_NS) as u32);
        (place + self.windows - self.first) % self.windows
    }
}

impl Readout for Modules {
    fn detector(&self) -> &DetectorFile {
        &self.detector
    }

    fn offset(&self, module: usize, channel: u8) -> u32 {
        self.offsets[module][usize::from(channel)]
    }

    fn room(&self, module: usize, slice: u64, time: u32) -> (usize, usize) {
        let noise = self.noise(module, slice);
        let window = noise.window_of(time);
        (window, self.room.saturating_sub(noise.hits(window).0.len()))
    }
}

/// Datagrams of a slice: so many that noise five standard deviations above its mean leaves room for light.
pub(super) fn windows(config: &Config) -> Result<usize, ConfigError> {
    let (noise, room) = (&config.noise, config.datagrams.room());
    let spread = (noise.rate_max_hz - noise.rate_min_hz) / 12f64.sqrt() * (CHANNELS as f64).sqrt();
    let hits = (noise.hits_per_s() + 3.0 * spread) * SLICE_NS as f64 * 1e-9;
    let of_noise = room - room / LIGHT_SHARE;
    let windows = ((hits + 5.0 * hits.sqrt()) / of_noise as f64).ceil().max(1.0);
    if windows <= WINDOWS_MAX as f64 {
        Ok(windows as usize)
    } else {
        let expected = "the hits of a slice do not fit into 4096 datagrams of this length";
        Err(ConfigError::new("datagrams.bytes_max", config.datagrams.bytes_max, expected))
    }
}

fn offsets(detector: &DetectorFile) -> Vec<[u32; CHANNELS]> {
    let t0 = || detector.modules().iter().flat_map(|module| &module.pmts).map(|pmt| pmt.t0_ns);
    let least = t0().fold(f64::MAX, f64::min);
    let of_module = |pmts: &[Pmt]| {
        let mut offsets = [0; CHANNELS];
        for (offset, pmt) in offsets.iter_mut().zip(pmts) {
            *offset = (pmt.t0_ns - least).round() as u32;
        }
        offsets
    };
    detector.modules().iter().map(|module| of_module(&module.pmts)).collect()
}
