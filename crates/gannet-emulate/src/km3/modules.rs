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

/// The modules of a detector.
#[derive(Clone, Debug)]
pub(super) struct Modules {
    detector: DetectorFile,
    /// By module and channel, what is taken from the time of a hit, in ns: t0 less the least of all.
    offsets: Vec<[u32; CHANNELS]>,
    noise: Vec<NoiseSlice>,
    /// Datagrams of a slice.
    pub(super) windows: usize,
    /// Time of a datagram.
    pub(super) window_ns: u32,
    /// Most hits of a datagram.
    pub(super) room: usize,
    choice: u64,
}

impl Modules {
    /// The modules of `detector`.
    pub(super) fn new(config: &Config, detector: DetectorFile) -> Result<Self, ConfigError> {
        let (windows, room) = (windows(config)?, config.datagrams.room());
        let window_ns = (SLICE_NS / windows as u64) as u32;
        let slices = config.noise.slices.max(detector.modules().len().div_ceil(windows));
        let noise = (0..slices).map(|number| {
            NoiseSlice::new(&config.noise, config.seed, number, windows, window_ns, room)
        });
        Ok(Self {
            offsets: offsets(&detector),
            noise: noise.collect(),
            windows,
            window_ns,
            room,
            choice: family(config.seed, Purpose::Choice, 0),
            detector,
        })
    }

    /// Noise of `module`, before its clocks are taken into account, in datagram `window` of a slice.
    pub(super) fn noise(&self, module: usize, slice: u64, window: usize) -> &[NoiseHit] {
        // Modules that share a slice of noise begin it with different windows.
        let turn = Random::stream(self.choice, slice).below(self.windows as u64) as usize;
        let first = turn + module / self.noise.len();
        self.noise[module % self.noise.len()].window((window + first) % self.windows)
    }

    /// Hits of noise of each channel of `module` in a slice.
    pub(super) fn noise_counts(&self, module: usize) -> [u32; CHANNELS] {
        self.noise[module % self.noise.len()].counts()
    }

    /// Appends the noise of `module` in datagram `window` of a slice to `out`.
    pub(super) fn write_noise(&self, module: usize, slice: u64, window: usize, out: &mut Vec<u8>) {
        let (noise, offsets) = (self.noise(module, slice, window), &self.offsets[module]);
        let begin = self.time_of(window).start;
        let place = out.len();
        out.resize(place + HIT_LEN * noise.len(), 0);
        let (places, _) = out[place..].as_chunks_mut::<HIT_LEN>();
        for (place, &NoiseHit { time, channel, tot }) in places.iter_mut().zip(noise) {
            let time = (begin + time).saturating_sub(offsets[usize::from(channel)]);
            Hit { channel, time, time_over_threshold: tot }.emit(place);
        }
    }

    /// The time of a slice in datagram `window`, in ns.
    pub(super) fn time_of(&self, window: usize) -> Range<u32> {
        let begin = window as u32 * self.window_ns;
        let last = window + 1 == self.windows;
        begin..if last { u32::MAX } else { begin + self.window_ns }
    }

    /// Datagram of this time of a slice.
    fn window_of(&self, time: u32) -> usize {
        ((time / self.window_ns) as usize).min(self.windows - 1)
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
        let window = self.window_of(time);
        (window, self.room.saturating_sub(self.noise(module, slice, window).len()))
    }
}

/// Datagrams of a slice, so that there is room for five standard deviations more than the mean.
pub(super) fn windows(config: &Config) -> Result<usize, ConfigError> {
    let (noise, room) = (&config.noise, config.datagrams.room());
    let spread = (noise.rate_max_hz - noise.rate_min_hz) / 12f64.sqrt() * (CHANNELS as f64).sqrt();
    let hits = (noise.hits_per_s() + 3.0 * spread) * SLICE_NS as f64 * 1e-9;
    let enough = |windows: usize| {
        let mean = hits / windows as f64;
        mean + 5.0 * mean.sqrt() + 2.0 <= room as f64
    };
    (1..=WINDOWS_MAX).find(|&windows| enough(windows)).ok_or_else(|| {
        let expected = "the hits of a slice do not fit into 4096 datagrams of this length";
        ConfigError::new("datagrams.bytes_max", config.datagrams.bytes_max, expected)
    })
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
