//! The `[emulate]` table of TPC front ends: which streams, and what their frames hold.

use gannet_measure::quantity::Span;
use gannet_wire::tpc_streams::StreamsError;
use gannet_wire::{FrameFormat, TpcFormat, TpcStreams, adc14};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, Faults, Pace, Settings, within};

impl From<StreamsError> for ConfigError {
    fn from(error: StreamsError) -> Self {
        Self { key: error.key, value: error.value, expected: error.expected }
    }
}

/// Largest rate of tracks per second: 20 in the 2 ms that are prepared at a time.
const TRACKS_HZ_MAX: f64 = 10_000.0;
/// Largest rate of deposits per second.
const DEPOSITS_HZ_MAX: f64 = 1_000_000.0;
/// Largest rate of pattern hits per channel: a hit every 7.8 samples.
const PATTERN_HZ_MAX: f64 = 250_000.0;

/// Front-end emulator: which streams, what is in them, how fast, and what goes wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The streams and their identifiers.
    pub streams: TpcStreams,
    /// Seed of all content and all faults: the same seed gives the same bytes.
    pub seed: u64,
    /// Timestamp of the first frame, in ticks of 16 ns since 1970; the time of day when absent.
    pub start_timestamp: Option<u64>,
    /// How fast frames are sent.
    pub pace: Pace,
    /// Pedestals and noise.
    pub noise: Noise,
    /// Cosmic tracks.
    pub tracks: Tracks,
    /// Point-like deposits of low energy.
    pub deposits: Deposits,
    /// Calibration pulses on all channels; off when absent.
    pub pulser: Option<Pulser>,
    /// Fixed-rate pattern of single-sample hits; off when absent.
    pub pattern: Option<Pattern>,
    /// Faults put in on purpose.
    pub faults: Faults,
}

impl Config {
    /// What is set for any detector.
    pub fn settings(&self) -> Settings {
        Settings {
            seed: self.seed,
            start_timestamp: self.start_timestamp,
            pace: self.pace.clone(),
            faults: self.faults.clone(),
        }
    }

    /// Refuses values that cannot be emulated.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.streams.check()?;
        self.pace.check()?;
        self.noise.check()?;
        self.tracks.check()?;
        self.deposits.check()?;
        self.pulser.iter().try_for_each(|pulser| pulser.check(self.streams.format))?;
        self.pattern.iter().try_for_each(Pattern::check)?;
        self.faults.check(self.streams.count, &self.streams.format.rhythm())
    }
}

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

    fn check(&self) -> Result<(), ConfigError> {
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
    fn check(&self) -> Result<(), ConfigError> {
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
    fn check(&self) -> Result<(), ConfigError> {
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
    fn check(&self, format: TpcFormat) -> Result<(), ConfigError> {
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
    fn check(&self) -> Result<(), ConfigError> {
        within("pattern.rate_hz", self.rate_hz, 0.01, PATTERN_HZ_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Outage;

    #[test]
    fn an_empty_table_is_a_valid_configuration() {
        let config: Config = toml::from_str("").unwrap();
        assert_eq!(config, Config::default());
        config.check().unwrap();
    }

    #[test]
    fn unknown_keys_are_refused() {
        for text in ["sed = 1", "[streams]\ncounts = 1", "[pulser]\nperiod_s = 1"] {
            let error = toml::from_str::<Config>(text).unwrap_err().to_string();
            assert!(error.contains("unknown field"), "{text}: {error}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused_by_key() {
        for (text, key) in [
            ("[streams]\ncount = 0", "streams.count"),
            ("[streams]\ncount = 5000", "streams.count"),
            ("[streams]\ndetector = 64", "streams.detector"),
            ("[streams]\nslot = 5", "streams.slot"),
            ("[streams]\ncrate = 1023\ncount = 41", "streams.crate"),
            ("[pace]\nrate_scale = 0.0", "pace.rate_scale"),
            ("[pace]\nrate_scale = nan", "pace.rate_scale"),
            ("[pace]\nburst = 10", "pace.burst"),
            ("[noise]\ncollection_pedestal = 100.0", "noise.collection_pedestal"),
            ("[noise]\nblocks = 0", "noise.blocks"),
            ("[tracks]\nrate_hz = 1e9", "tracks.rate_hz"),
            ("[tracks]\nchannels_min = 500", "tracks.channels_max"),
            ("[deposits]\nrate_hz = -1.0", "deposits.rate_hz"),
            ("[pulser]\nperiod = \"10 us\"", "pulser.period"),
            ("[pattern]\nrate_hz = 1e6", "pattern.rate_hz"),
            ("[faults]\nloss = 0.6\nduplicate = 0.6", "faults"),
            ("[faults]\nreorder_distance = 0", "faults.reorder_distance"),
            ("[[faults.outages]]\nstream = 4\nstop = \"1 s\"", "faults.outages.stream"),
            (
                "[[faults.outages]]\nstream = 0\nstop = \"1 s\"\nrestart = \"1 s\"",
                "faults.outages.restart",
            ),
        ] {
            let config: Config = toml::from_str(text).unwrap();
            assert_eq!(config.check().unwrap_err().key, key, "{text}");
        }
    }

    #[test]
    fn a_resolved_configuration_is_read_back() {
        let mut config = Config { pulser: Some(Pulser::default()), ..Config::default() };
        config.faults.outages.push(Outage {
            stream: 0,
            stop: Span::s(1),
            restart: Some(Span::s(2)),
        });
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
    }
}
