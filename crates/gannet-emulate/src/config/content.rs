//! What the frames hold: pedestals, noise and signals.

use gannet_measure::quantity::Span;
use gannet_wire::adc14;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, within};
use gannet_wire::TpcFormat;

/// Largest rate of tracks per second: 20 in the 2 ms that are prepared at a time.
const TRACKS_HZ_MAX: f64 = 10_000.0;
/// Largest rate of deposits per second.
const DEPOSITS_HZ_MAX: f64 = 1_000_000.0;
/// Largest rate of pattern hits per channel: a hit every 7.8 samples.
const PATTERN_HZ_MAX: f64 = 250_000.0;

/// Pedestals and noise by kind of plane, in ADC counts.
///
/// The defaults are those of ProtoDUNE-HD run 27980.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Noise {
    /// Mean pedestal of the induction planes.
    pub induction_pedestal: f64,
    /// Pedestals of induction channels are spread evenly by this much up and down.
    pub induction_spread: f64,
    /// Noise of induction channels, root mean square.
    pub induction_rms: f64,
    /// Mean pedestal of the collection plane.
    pub collection_pedestal: f64,
    /// Pedestals of collection channels are spread evenly by this much up and down.
    pub collection_spread: f64,
    /// Noise of collection channels, root mean square.
    pub collection_rms: f64,
    /// Different blocks of noise that are made beforehand and sent in random order, 1 to 1024.
    pub blocks: usize,
}

impl Default for Noise {
    fn default() -> Self {
        Self {
            induction_pedestal: 8200.0,
            induction_spread: 50.0,
            induction_rms: 12.0,
            collection_pedestal: 840.0,
            collection_spread: 140.0,
            collection_rms: 9.0,
            blocks: 64,
        }
    }
}

impl Noise {
    /// Noise beyond this many standard deviations is cut.
    ///
    /// Blocks are sent again and again: one rare excursion in a block would come back as a hit
    /// every few frames, which no real noise does.
    pub const SIGMAS_MAX: f64 = 4.0;

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let plane = |key, pedestal: f64, spread: f64, rms: f64| {
            let reach = spread + Self::SIGMAS_MAX * rms;
            within(key, pedestal, reach, f64::from(adc14::ADC_MAX) - reach)
        };
        within("noise.induction_spread", self.induction_spread, 0.0, 4000.0)?;
        within("noise.induction_rms", self.induction_rms, 0.0, 500.0)?;
        within("noise.collection_spread", self.collection_spread, 0.0, 4000.0)?;
        within("noise.collection_rms", self.collection_rms, 0.0, 500.0)?;
        plane(
            "noise.induction_pedestal",
            self.induction_pedestal,
            self.induction_spread,
            self.induction_rms,
        )?;
        plane(
            "noise.collection_pedestal",
            self.collection_pedestal,
            self.collection_spread,
            self.collection_rms,
        )?;
        within("noise.blocks", self.blocks as f64, 1.0, 1024.0)
    }
}

/// Cosmic tracks: straight lines over neighbouring channels, each channel later by the drift.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tracks {
    /// Tracks per second in the whole detector; 0 for none.
    pub rate_hz: f64,
    /// Typical peak on a collection channel above the pedestal, in ADC counts.
    pub adc: f64,
    /// Peak on an induction channel as a fraction of that on a collection channel.
    pub induction_fraction: f64,
    /// Fewest collection channels that a track crosses, if the detector has them.
    pub channels_min: usize,
    /// Most collection channels that a track crosses.
    pub channels_max: usize,
    /// Largest drift-time difference of neighbouring channels, in samples.
    pub slope_max: f64,
}

impl Default for Tracks {
    fn default() -> Self {
        Self {
            rate_hz: 10.0,
            adc: 400.0,
            induction_fraction: 0.6,
            channels_min: 48,
            channels_max: 300,
            slope_max: 6.0,
        }
    }
}

impl Tracks {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("tracks.rate_hz", self.rate_hz, 0.0, TRACKS_HZ_MAX)?;
        within("tracks.adc", self.adc, 1.0, 8000.0)?;
        within("tracks.induction_fraction", self.induction_fraction, 0.0, 2.0)?;
        within("tracks.channels_min", self.channels_min as f64, 1.0, 2560.0)?;
        within("tracks.channels_max", self.channels_max as f64, self.channels_min as f64, 2560.0)?;
        within("tracks.slope_max", self.slope_max, 0.0, 100.0)
    }
}

/// Point-like deposits of low energy: a few neighbouring channels at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Deposits {
    /// Deposits per second in the whole detector; 0 for none.
    pub rate_hz: f64,
    /// Typical peak on the central collection channel above the pedestal, in ADC counts.
    pub adc: f64,
    /// Peak on an induction channel as a fraction of that on a collection channel.
    pub induction_fraction: f64,
    /// Most neighbouring channels of a plane that see the deposit.
    pub channels_max: usize,
}

impl Default for Deposits {
    fn default() -> Self {
        Self { rate_hz: 50.0, adc: 150.0, induction_fraction: 0.6, channels_max: 3 }
    }
}

impl Deposits {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("deposits.rate_hz", self.rate_hz, 0.0, DEPOSITS_HZ_MAX)?;
        within("deposits.adc", self.adc, 1.0, 8000.0)?;
        within("deposits.induction_fraction", self.induction_fraction, 0.0, 2.0)?;
        within("deposits.channels_max", self.channels_max as f64, 1.0, 16.0)
    }
}

/// Calibration pulses: the same pulse on every channel of every stream at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pulser {
    /// Time from one pulse to the next, at least one frame.
    pub period: Span,
    /// Peak above the pedestal, in ADC counts.
    pub adc: f64,
}

impl Default for Pulser {
    fn default() -> Self {
        Self { period: Span::ms(10), adc: 1000.0 }
    }
}

impl Pulser {
    pub(super) fn check(&self, format: TpcFormat) -> Result<(), ConfigError> {
        let frame_ns = (1e9 / format.frames_per_s()).ceil();
        if (self.period.ns() as f64) < frame_ns || self.period > Span::s(3600) {
            let expected = format!("expected one frame ({frame_ns} ns) to 1 h");
            return Err(ConfigError::new("pulser.period", self.period, expected));
        }
        within("pulser.adc", self.adc, 1.0, 8000.0)
    }
}

/// Fixed-rate pattern: single samples at full scale, in equal steps of time, channel by channel.
///
/// The mode by which trigger primitive generation is benchmarked. DUNE's generator draws the
/// channel at random; here the channels take turns, so that each has exactly the same rate.
/// Source: DUNE-DAQ/fdreadoutlibs (pattern generator of the emulator).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pattern {
    /// Hits per second and channel; 90,000 are 4 % of all samples.
    pub rate_hz: f64,
}

impl Default for Pattern {
    fn default() -> Self {
        Self { rate_hz: 100.0 }
    }
}

impl Pattern {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("pattern.rate_hz", self.rate_hz, 0.01, PATTERN_HZ_MAX)
    }
}
