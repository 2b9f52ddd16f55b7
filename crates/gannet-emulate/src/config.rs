//! What is emulated: the `[emulate]` table of a configuration.

mod content;
mod faults;

use gannet_measure::quantity::Span;
use gannet_wire::{GeoId, TpcFormat};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use content::{Deposits, Noise, Pattern, Pulser, Tracks};
pub use faults::{Faults, Outage, WrongClock};

/// Most streams of one emulator: 68 vertical-drift or 102 horizontal-drift modules.
pub const STREAMS_MAX: usize = 4096;

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
    pub streams: Streams,
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

/// Front-end streams, numbered as on the real boards.
///
/// A WIB has eight streams, 0 to 3 on its first link and 64 to 67 on its second; a crate has five
/// WIBs, or six on the bottom of a vertical-drift detector. A TDE card has the one stream 0; a
/// crate has ten cards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Streams {
    /// Number of streams, 1 to 4096.
    pub count: usize,
    /// TpcFormat of the frames.
    pub format: TpcFormat,
    /// Detector number; when absent 3 (HD_TPC) for `wibeth` and 11 (VD top TPC) for `tdeeth`.
    pub detector: Option<u16>,
    /// Crate of the first stream.
    #[serde(rename = "crate")]
    pub crate_id: u16,
    /// Slot of the first stream.
    pub slot: u16,
}

impl Default for Streams {
    fn default() -> Self {
        Self { count: 4, format: TpcFormat::WibEth, detector: None, crate_id: 1, slot: 0 }
    }
}

/// Detector number of the bottom of a vertical-drift detector, whose crates have six WIBs.
const VD_BOTTOM: u16 = 10;

impl Streams {
    /// Detector number of every stream.
    pub fn detector(&self) -> u16 {
        self.detector.unwrap_or(self.format.detector().number())
    }

    /// Streams of a board and boards of a crate.
    fn layout(&self) -> (usize, usize) {
        match (self.format, self.detector()) {
            (TpcFormat::WibEth, VD_BOTTOM) => (8, 6),
            (TpcFormat::WibEth, _) => (8, 5),
            (TpcFormat::TdeEth, _) => (1, 10),
        }
    }

    /// Identifiers of all streams in their order.
    pub fn geo_ids(&self) -> Vec<GeoId> {
        let (per_board, per_crate) = self.layout();
        let first_board = usize::from(self.crate_id) * per_crate + usize::from(self.slot);
        let geo_id = |index: usize| {
            let board = first_board + index / per_board;
            let (link, block) = (index % per_board / 4, index % per_board % 4);
            GeoId::new(
                self.detector(),
                (board / per_crate) as u16,
                (board % per_crate) as u16,
                (link << 6 | block) as u16,
            )
        };
        (0..self.count.min(STREAMS_MAX)).map(geo_id).collect()
    }

    /// Refuses streams that the format of the identifiers has no room for.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn check(&self) -> Result<(), ConfigError> {
        within("streams.count", self.count as f64, 1.0, STREAMS_MAX as f64)?;
        within("streams.detector", f64::from(self.detector()), 0.0, 63.0)?;
        let (_, per_crate) = self.layout();
        within("streams.slot", f64::from(self.slot), 0.0, (per_crate - 1) as f64)?;
        let last_crate = self.geo_ids().last().map_or(0, |geo| geo.crate_id);
        if self.crate_id > 1023 || last_crate > 1023 {
            let expected = format!("{} streams from here go beyond crate 1023", self.count);
            return Err(ConfigError::new("streams.crate", self.crate_id, expected));
        }
        Ok(())
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

    fn streams(text: &str) -> Vec<String> {
        let config: Config = toml::from_str(text).unwrap();
        config.check().unwrap();
        config.streams.geo_ids().iter().map(GeoId::to_string).collect()
    }

    #[test]
    fn an_empty_table_is_a_valid_configuration() {
        let config: Config = toml::from_str("").unwrap();
        assert_eq!(config, Config::default());
        config.check().unwrap();
    }

    #[test]
    fn streams_are_numbered_as_on_the_boards() {
        assert_eq!(
            streams("[streams]\ncount = 9\ncrate = 1\nslot = 4"),
            ["3/1/4/0", "3/1/4/1", "3/1/4/2", "3/1/4/3", "3/1/4/64", "3/1/4/65", "3/1/4/66"]
                .into_iter()
                .chain(["3/1/4/67", "3/2/0/0"])
                .collect::<Vec<_>>()
        );
        let tde = streams("[streams]\ncount = 11\nformat = \"tdeeth\"\ncrate = 0");
        assert_eq!((tde[0].as_str(), tde[10].as_str()), ("11/0/0/0", "11/1/0/0"));
        let bottom = streams("[streams]\ncount = 48\ndetector = 10\ncrate = 10");
        assert_eq!(bottom[47], "10/10/5/67");
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
