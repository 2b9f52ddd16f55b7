//! The `[emulate]` table of RICH front ends: which streams, and what their events hold.

use gannet_measure::quantity::Span;
use gannet_wire::FrameFormat;
use gannet_wire::na62::mgp::{self, MgpFormat};
use gannet_wire::na62::pm_map;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, Faults, Pace, Settings, within};

/// Most time of a block, so that a silent stream is soon found out.
const BLOCK_MAX_NS: f64 = 100_000.0;
/// Most events of a block.
const BLOCK_EVENTS_MAX: f64 = 512.0;

/// What the datagrams of the RICH hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Packets {
    /// Events of one board, each board on a stream of its own (MGP).
    #[default]
    Boards,
    /// Merged events of all boards (M2EGP).
    Merged,
}

/// Front ends of the RICH: which streams, what is in them, how fast, and what goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What datagrams hold: `boards` for the events of one board, `merged` for those of all.
    pub packets: Packets,
    /// Boards that send, from 0, at most 4; for `packets = "boards"`.
    pub boards: usize,
    /// Streams that share the merged events, at most 64; for `packets = "merged"`.
    pub lanes: usize,
    /// Events in a second, 10,000 to 20,000,000.
    pub rate_hz: f64,
    /// Least time from one event to the next of a stream or board, 13 ns to 1 us.
    pub gap: Span,
    /// Longest datagram, in bytes of UDP payload, 600 to 8972.
    pub bytes_max: usize,
    /// Pad all datagrams to the longest length, so that the receiving kernel can join them.
    pub pad: bool,
    /// Events made beforehand, which come again and again, 64 to 1,048,576.
    pub pool: usize,
    /// Seed of all content and all faults: the same seed gives the same bytes.
    pub seed: u64,
    /// Time of the first event since the start of the burst, in units of 1/256 tick (97.5 ps); 0
    /// when absent.
    pub start_timestamp: Option<u64>,
    /// How fast frames are sent.
    pub pace: Pace,
    /// What is in the events.
    pub events: Content,
    /// Faults put in on purpose.
    pub faults: Faults,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            packets: Packets::Boards,
            boards: pm_map::BOARDS,
            lanes: 1,
            rate_hz: 1e6,
            gap: Span(25),
            bytes_max: 1472,
            pad: false,
            pool: 65_536,
            seed: 0,
            start_timestamp: None,
            pace: Pace::default(),
            events: Content::default(),
            faults: Faults::default(),
        }
    }
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

    /// Number of streams.
    pub fn streams(&self) -> usize {
        match self.packets {
            Packets::Boards => self.boards,
            Packets::Merged => self.lanes,
        }
    }

    /// Events in a second of a stream.
    pub(super) fn stream_rate_hz(&self) -> f64 {
        match self.packets {
            Packets::Boards => self.rate_hz,
            Packets::Merged => self.rate_hz / self.lanes as f64,
        }
    }

    /// Most events of a block.
    pub(super) fn block_max(&self) -> usize {
        (self.stream_rate_hz() * BLOCK_MAX_NS * 1e-9).clamp(1.0, BLOCK_EVENTS_MAX) as usize
    }

    /// Refuses values that cannot be emulated.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn check(&self) -> Result<(), ConfigError> {
        within("boards", self.boards as f64, 1.0, pm_map::BOARDS as f64)?;
        within("lanes", self.lanes as f64, 1.0, 64.0)?;
        within("rate_hz", self.rate_hz, 1e4, 2e7)?;
        within("gap", self.gap.ns() as f64, 13.0, 1000.0)?;
        if self.rate_hz * self.gap.ns() as f64 > 0.8e9 {
            let expected = format!("at {} events a second it must be shorter", self.rate_hz);
            return Err(ConfigError::new("gap", self.gap, expected));
        }
        within("bytes_max", self.bytes_max as f64, 600.0, mgp::LEN_MAX as f64)?;
        within("pool", self.pool as f64, 64.0, (1 << 20) as f64)?;
        if let Some(start) = self.start_timestamp {
            within("start_timestamp", start as f64, 0.0, (1u64 << 40) as f64)?;
        }
        self.pace.check()?;
        self.events.check()?;
        self.faults.check(self.streams(), &MgpFormat::default().rhythm())
    }
}

/// What the events of the RICH hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Content {
    /// How often an event has 0, 1, 2, 3 and 4 rings, as shares of their sum.
    pub rings: [f64; 5],
    /// Photons of a particle at the speed of light that could be detected, if photomultipliers
    /// stood everywhere.
    pub photons: f64,
    /// Hits of noise of an event, on average.
    pub noise: f64,
    /// Probability that all rings of an event have one time.
    pub in_time: f64,
    /// Time within which the rings of the other events are, at most 10 ns.
    pub spread: Span,
}

impl Default for Content {
    fn default() -> Self {
        Self {
            rings: [0.05, 0.5, 0.2, 0.2, 0.05],
            photons: 24.0,
            noise: 1.5,
            in_time: 0.7,
            spread: Span(8),
        }
    }
}

impl Content {
    /// Refuses values that cannot be emulated.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.rings.iter().try_for_each(|&share| within("events.rings", share, 0.0, 1e6))?;
        within("events.rings", self.rings.iter().sum(), 1e-6, 1e7)?;
        within("events.photons", self.photons, 0.0, 60.0)?;
        within("events.noise", self.noise, 0.0, 100.0)?;
        within("events.in_time", self.in_time, 0.0, 1.0)?;
        within("events.spread", self.spread.ns() as f64, 0.0, 10.0)
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
            ("boards = 5", "boards"),
            ("lanes = 0", "lanes"),
            ("rate_hz = 1e3", "rate_hz"),
            ("gap = \"12 ns\"", "gap"),
            ("gap = \"100 ns\"\nrate_hz = 1e7", "gap"),
            ("bytes_max = 500", "bytes_max"),
            ("pool = 1", "pool"),
            ("start_timestamp = 2000000000000", "start_timestamp"),
            ("[pace]\nburst = 10", "pace.burst"),
            ("[events]\nnoise = -1.0", "events.noise"),
            ("[faults]\nloss = 2.0", "faults.loss"),
            ("boards = 2\n[[faults.outages]]\nstream = 2\nstop = \"1 s\"", "faults.outages.stream"),
        ] {
            let config: Config = toml::from_str(text).unwrap();
            assert_eq!(config.check().unwrap_err().key, key, "{text}");
        }
    }

    #[test]
    fn content_out_of_range_is_refused_by_key() {
        Content::default().check().unwrap();
        for (text, key) in [
            ("rings = [0.0, 0.0, 0.0, 0.0, 0.0]", "events.rings"),
            ("rings = [2.0, -1.0, 0.0, 0.0, 0.0]", "events.rings"),
            ("photons = 61.0", "events.photons"),
            ("noise = -1.0", "events.noise"),
            ("in_time = 1.1", "events.in_time"),
            ("spread = \"11 ns\"", "events.spread"),
        ] {
            let content: Content = toml::from_str(text).unwrap();
            assert_eq!(content.check().unwrap_err().key, key, "{text}");
        }
    }
}
