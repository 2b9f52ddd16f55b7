//! What goes wrong on purpose.

use gannet_measure::quantity::Span;
use gannet_wire::Rhythm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, within};

/// Most outages of one configuration.
const OUTAGES_MAX: usize = 1024;
/// Largest distance by which a frame may come late: the emulator keeps that many a stream.
pub(crate) const REORDER_DISTANCE_MAX: usize = 16;

/// Faults and the probability of each per frame; a frame suffers at most one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// The frame is not sent.
    pub loss: f64,
    /// The frame is sent twice in a row.
    pub duplicate: f64,
    /// The frame is sent late, after `reorder_distance` later frames of its stream.
    pub reorder: f64,
    /// Frames by which a reordered frame is late, 1 to 16.
    pub reorder_distance: usize,
    /// The datagram is cut to a random length of at least one byte.
    pub truncation: f64,
    /// One random bit of the datagram is inverted.
    pub bit_flip: f64,
    /// The frame names a stream that does not exist.
    pub wrong_id: f64,
    /// The sequence numbers of the stream jump, from this frame on.
    pub sequence_jump: f64,
    /// Size of a sequence jump, 1 to 4095 for frames of TPC channels.
    pub sequence_jump_size: u16,
    /// The timestamps of the stream jump forward, from this frame on.
    pub timestamp_jump: f64,
    /// Size of a timestamp jump in ticks (2048 are one WIBEth frame).
    pub timestamp_jump_ticks: u64,
    /// Streams that stop, and perhaps start again.
    pub outages: Vec<Outage>,
    /// Streams whose clock is wrong for a while.
    pub clocks: Vec<WrongClock>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_distance: 1,
            truncation: 0.0,
            bit_flip: 0.0,
            wrong_id: 0.0,
            sequence_jump: 0.0,
            sequence_jump_size: 100,
            timestamp_jump: 0.0,
            timestamp_jump_ticks: 204_800,
            outages: Vec::new(),
            clocks: Vec::new(),
        }
    }
}

impl Faults {
    /// Probability of each kind, in the order of [`Fault`](crate::faults::Fault)'s variants.
    pub(crate) fn probabilities(&self) -> [f64; 8] {
        [
            self.loss,
            self.duplicate,
            self.reorder,
            self.truncation,
            self.bit_flip,
            self.wrong_id,
            self.sequence_jump,
            self.timestamp_jump,
        ]
    }

    pub(crate) fn check(&self, streams: usize, rhythm: &Rhythm) -> Result<(), ConfigError> {
        const KEYS: [&str; 8] = [
            "faults.loss",
            "faults.duplicate",
            "faults.reorder",
            "faults.truncation",
            "faults.bit_flip",
            "faults.wrong_id",
            "faults.sequence_jump",
            "faults.timestamp_jump",
        ];
        let probabilities = self.probabilities();
        for (key, probability) in KEYS.into_iter().zip(probabilities) {
            within(key, probability, 0.0, 1.0)?;
        }
        let sum: f64 = probabilities.iter().sum();
        if sum > 1.0 {
            let expected = "the probabilities of all faults add up to more than 1; lower some";
            return Err(ConfigError::new("faults", sum, expected));
        }
        let distance = self.reorder_distance as f64;
        within("faults.reorder_distance", distance, 1.0, REORDER_DISTANCE_MAX as f64)?;
        if self.sequence_jump > 0.0 {
            let (size, most) = (self.sequence_jump_size, rhythm.sequence_modulus - 1);
            within("faults.sequence_jump_size", size.into(), 1.0, most.into())?;
        }
        let ticks = self.timestamp_jump_ticks as f64;
        within("faults.timestamp_jump_ticks", ticks, 1.0, (1u64 << 40) as f64)?;
        within("faults.outages", self.outages.len() as f64, 0.0, OUTAGES_MAX as f64)?;
        self.outages.iter().try_for_each(|outage| outage.check(streams))?;
        within("faults.clocks", self.clocks.len() as f64, 0.0, OUTAGES_MAX as f64)?;
        self.clocks.iter().try_for_each(|clock| clock.check(streams))
    }
}

/// A time in which one stream sends nothing.
///
/// Its front end goes on: after the restart timestamps and sequence numbers are where they would
/// be without the outage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Number of the stream, from 0, in the order of the emulator's streams.
    pub stream: usize,
    /// When it stops, in detector time since the first frame.
    pub stop: Span,
    /// When it starts again, in detector time since the first frame; never when absent.
    #[serde(default)]
    pub restart: Option<Span>,
}

impl Outage {
    fn check(&self, streams: usize) -> Result<(), ConfigError> {
        if self.stream >= streams {
            let expected = format!("there are {streams} streams, numbered from 0");
            return Err(ConfigError::new("faults.outages.stream", self.stream, expected));
        }
        match self.restart {
            Some(restart) if restart <= self.stop => {
                let expected = format!("must be later than stop = {}", self.stop);
                Err(ConfigError::new("faults.outages.restart", restart, expected))
            }
            _ => Ok(()),
        }
    }
}

/// A time in which the clock of one stream is wrong: its timestamps are ahead or behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrongClock {
    /// Number of the stream, from 0, in the order of the emulator's streams.
    pub stream: usize,
    /// When it begins to be wrong, in detector time since the first frame.
    #[serde(default)]
    pub from: Span,
    /// When it is right again, in detector time since the first frame; never when absent.
    #[serde(default)]
    pub until: Option<Span>,
    /// By how much it is ahead.
    #[serde(default)]
    pub ahead: Span,
    /// By how much it is behind.
    #[serde(default)]
    pub behind: Span,
}

impl WrongClock {
    fn check(&self, streams: usize) -> Result<(), ConfigError> {
        if self.stream >= streams {
            let expected = format!("there are {streams} streams, numbered from 0");
            return Err(ConfigError::new("faults.clocks.stream", self.stream, expected));
        }
        if self.ahead == self.behind {
            let expected = "say by how much it is ahead or behind, such as ahead = \"1 s\"";
            return Err(ConfigError::new("faults.clocks.ahead", self.ahead, expected));
        }
        match self.until {
            Some(until) if until <= self.from => {
                let expected = format!("must be later than from = {}", self.from);
                Err(ConfigError::new("faults.clocks.until", until, expected))
            }
            _ => Ok(()),
        }
    }
}
