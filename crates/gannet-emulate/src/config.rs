//! What is emulated: the `[emulate]` table of a configuration.

mod content;
mod faults;

use gannet_measure::quantity::Span;
use gannet_wire::TpcStreams;
use gannet_wire::tpc_streams::StreamsError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use content::{Deposits, Noise, Pattern, Pulser, Tracks};
pub use faults::{Faults, Outage, WrongClock};

/// A value of the configuration lies outside what can be emulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {expected}")]
pub struct ConfigError {
    /// Path of the key below the emulator's table, for example `tracks.rate_hz`.
    pub key: &'static str,
    /// The value found.
    pub value: String,
    /// What is allowed, and what to do.
    pub expected: String,
}

impl ConfigError {
    /// Error for the value of `key`, with what would be allowed.
    pub(crate) fn new(
        key: &'static str,
        value: impl ToString,
        expected: impl Into<String>,
    ) -> Self {
        Self { key, value: value.to_string(), expected: expected.into() }
    }
}

impl From<StreamsError> for ConfigError {
    fn from(error: StreamsError) -> Self {
        Self { key: error.key, value: error.value, expected: error.expected }
    }
}

/// Refuses a value outside `min..=max`.
pub(crate) fn within(key: &'static str, value: f64, min: f64, max: f64) -> Result<(), ConfigError> {
    if value >= min && value <= max {
        return Ok(());
    }
    Err(ConfigError::new(key, value, format!("expected a number from {min} to {max}")))
}

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
        self.faults.check(self.streams.count)
    }
}

/// How fast frames are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    /// Factor on the true rate of the format: 1 is the rate of the real front end.
    pub rate_scale: f64,
    /// Send as fast as the receiver of the frames takes them; `rate_scale` is then not used.
    pub unpaced: bool,
    /// Frames of one stream sent together, 1 to 9 (9 frames fill one UDP super-datagram).
    pub burst: usize,
    /// How far behind its schedule the sender may be before it gives up catching up.
    pub debt_max: Span,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rate_scale: 1.0, unpaced: false, burst: 9, debt_max: Span::ms(20) }
    }
}

impl Pace {
    fn check(&self) -> Result<(), ConfigError> {
        within("pace.rate_scale", self.rate_scale, 1e-6, 1e3)?;
        within("pace.burst", self.burst as f64, 1.0, crate::datagram::BURST_FRAMES_MAX as f64)?;
        within("pace.debt_max", self.debt_max.ns() as f64 / 1e9, 0.0, 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
