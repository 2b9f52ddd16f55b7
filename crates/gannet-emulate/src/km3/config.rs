//! The `[emulate]` table of optical modules: which modules, and what they see.

use gannet_wire::km3net::detector_file::Lattice;
use gannet_wire::km3net::{CHANNELS, Status, clb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::modules::{HIT_LEN, SLICES_PER_S, windows};
use crate::config::{ConfigError, Faults, Pace, Settings, within};
use crate::front_end::Traffic;

/// Optical modules of KM3NeT: which ones, what they see, how fast, and what goes wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Strings and modules, where no detector file is given.
    pub lattice: Lattice,
    /// Seed of all content and all faults: the same seed gives the same bytes.
    pub seed: u64,
    /// Time of the first slice, in ns since 1970; the time of day when absent. The slice begins at the
    /// multiple of 100 ms before it.
    pub start_timestamp: Option<u64>,
    /// How fast frames are sent.
    pub pace: Pace,
    /// Datagrams.
    pub datagrams: Datagrams,
    /// Hits of the dark.
    pub noise: Noise,
    /// Muons and showers.
    pub light: Light,
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

    /// What a module sends, beside light of muons and showers, if [`check`](Self::check) passes.
    ///
    /// # Errors
    /// When the hits of a slice do not fit into its datagrams.
    pub fn traffic(&self) -> Result<Traffic, ConfigError> {
        let frames_per_s = SLICES_PER_S * windows(self)? as f64;
        let hits = self.noise.hits_per_s() / frames_per_s;
        let head = clb::optical_len(self.datagrams.status_words, 0);
        let frame_bytes = head as f64 + HIT_LEN as f64 * hits;
        Ok(Traffic { frames_per_s, frame_bytes })
    }

    /// Refuses values that cannot be emulated.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let Some((key, value, expected)) = self.lattice.fault() {
            let key = match key {
                "strings" => "lattice.strings",
                "modules" => "lattice.modules",
                "spacing_m" => "lattice.spacing_m",
                "height_m" => "lattice.height_m",
                "t0_max_ns" => "lattice.t0_max_ns",
                other => other,
            };
            return Err(ConfigError::new(key, value, expected));
        }
        self.pace.check()?;
        self.datagrams.check()?;
        self.noise.check()?;
        self.light.check()
    }
}

/// Datagrams of optical modules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Datagrams {
    /// Longest datagram, in bytes of UDP payload, 500 to 8972. Of a slice each module sends as
    /// many as its noise takes.
    pub bytes_max: usize,
    /// Status words of a datagram, 1 to 4. The second tells which datagram of a slice is the last.
    pub status_words: usize,
    /// Number of the run.
    pub run: u32,
}

impl Default for Datagrams {
    fn default() -> Self {
        Self { bytes_max: 1472, status_words: Status::WORDS, run: 1 }
    }
}

impl Datagrams {
    /// Most hits of a datagram.
    pub(super) fn room(&self) -> usize {
        (self.bytes_max - clb::optical_len(self.status_words, 0)) / HIT_LEN
    }

    fn check(&self) -> Result<(), ConfigError> {
        within("datagrams.bytes_max", self.bytes_max as f64, 500.0, 8972.0)?;
        within("datagrams.status_words", self.status_words as f64, 1.0, Status::WORDS as f64)?;
        within("datagrams.run", self.run.into(), 0.0, i32::MAX.into())
    }
}

/// Hits of the dark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Noise {
    /// Least rate of a photomultiplier.
    pub rate_min_hz: f64,
    /// Largest rate of a photomultiplier; they are spread evenly between both.
    pub rate_max_hz: f64,
    /// Decays of potassium 40 that two photomultipliers of a module see; three see 15 % of as
    /// many, four 15 % of these, and so on.
    pub twofold_hz: f64,
    /// Slices of noise made beforehand, one for several modules; more if there are many modules.
    pub slices: usize,
}

impl Default for Noise {
    fn default() -> Self {
        Self { rate_min_hz: 5000.0, rate_max_hz: 8000.0, twofold_hz: 500.0, slices: 16 }
    }
}

impl Noise {
    /// Hits of a module in a second, on average.
    pub fn hits_per_s(&self) -> f64 {
        // A decay has hardly more than 2.2 hits, and there are 1.18 for each that two see.
        CHANNELS as f64 * (self.rate_min_hz + self.rate_max_hz) / 2.0 + 2.6 * self.twofold_hz
    }

    fn check(&self) -> Result<(), ConfigError> {
        within("noise.rate_min_hz", self.rate_min_hz, 0.0, 1e5)?;
        within("noise.rate_max_hz", self.rate_max_hz, self.rate_min_hz, 1e5)?;
        within("noise.twofold_hz", self.twofold_hz, 0.0, 1e5)?;
        within("noise.slices", self.slices as f64, 1.0, 256.0)
    }
}

/// Muons and showers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Light {
    /// Muons through the detector.
    pub muons_hz: f64,
    /// Share of the muons that go up.
    pub upward: f64,
    /// Showers in the detector.
    pub showers_hz: f64,
}

impl Default for Light {
    fn default() -> Self {
        Self { muons_hz: 10.0, upward: 0.1, showers_hz: 2.0 }
    }
}

impl Light {
    fn check(&self) -> Result<(), ConfigError> {
        within("light.muons_hz", self.muons_hz, 0.0, 1e4)?;
        within("light.upward", self.upward, 0.0, 1.0)?;
        within("light.showers_hz", self.showers_hz, 0.0, 1e4)
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
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
    }

    #[test]
    fn values_out_of_range_are_refused_by_key() {
        for (text, key) in [
            ("[lattice]\nstrings = 0", "lattice.strings"),
            ("[lattice]\nmodules = 100", "lattice.modules"),
            ("[lattice]\nspacing_m = 0.0", "lattice.spacing_m"),
            ("[lattice]\nheight_m = nan", "lattice.height_m"),
            ("[lattice]\nt0_max_ns = -1.0", "lattice.t0_max_ns"),
            ("[pace]\nburst = 0", "pace.burst"),
            ("[datagrams]\nbytes_max = 9000", "datagrams.bytes_max"),
            ("[datagrams]\nstatus_words = 0", "datagrams.status_words"),
            ("[datagrams]\nrun = 3000000000", "datagrams.run"),
            ("[noise]\nrate_min_hz = -1.0", "noise.rate_min_hz"),
            ("[noise]\nrate_max_hz = 4000.0", "noise.rate_max_hz"),
            ("[noise]\ntwofold_hz = 1e9", "noise.twofold_hz"),
            ("[noise]\nslices = 0", "noise.slices"),
            ("[light]\nmuons_hz = 1e5", "light.muons_hz"),
            ("[light]\nupward = 2.0", "light.upward"),
            ("[light]\nshowers_hz = -1.0", "light.showers_hz"),
        ] {
            let config: Config = toml::from_str(text).unwrap();
            assert_eq!(config.check().unwrap_err().key, key, "{text}");
        }
    }
}
