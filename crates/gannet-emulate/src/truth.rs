//! The truth: what was made, what was sent, and what was done to it on purpose.

use std::collections::BTreeMap;

use gannet_measure::ledger::{Drop, Statement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Frames by the fault that they suffered; every frame is counted at most once, but for the wrong
/// clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultCounts {
    /// Not sent, by the fault of this name.
    pub lost: u64,
    /// Not sent, because the stream had stopped.
    pub stopped: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Sent after later frames.
    pub reordered: u64,
    /// Sent cut.
    pub truncated: u64,
    /// Sent with one bit inverted in the header.
    pub flipped_header: u64,
    /// Sent with one bit inverted after the header.
    pub flipped_body: u64,
    /// Sent with an identifier that no stream has.
    pub wrong_id: u64,
    /// First frames after a jump of the sequence number.
    pub sequence_jumped: u64,
    /// First frames after a jump of the timestamp.
    pub timestamp_jumped: u64,
    /// Sent with the timestamp of a wrong clock, whatever else happened to them.
    #[serde(default)]
    pub wrong_clock: u64,
    /// Sent with a hit that no particle made.
    #[serde(default)]
    pub noisy: u64,
}

impl FaultCounts {
    /// Adds all counts of `other`.
    pub fn absorb(&mut self, other: &Self) {
        self.lost += other.lost;
        self.stopped += other.stopped;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.truncated += other.truncated;
        self.flipped_header += other.flipped_header;
        self.flipped_body += other.flipped_body;
        self.wrong_id += other.wrong_id;
        self.sequence_jumped += other.sequence_jumped;
        self.timestamp_jumped += other.timestamp_jumped;
        self.wrong_clock += other.wrong_clock;
        self.noisy += other.noisy;
    }

    /// Frames that suffered any fault.
    pub fn total(&self) -> u64 {
        self.lost
            + self.stopped
            + self.duplicated
            + self.reordered
            + self.truncated
            + self.flipped_header
            + self.flipped_body
            + self.wrong_id
            + self.sequence_jumped
            + self.timestamp_jumped
            + self.noisy
    }
}

/// The truth about one stream, or about several added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamTruth {
    /// Name of the stream; empty in a sum.
    pub stream: String,
    /// Frames that the front end made.
    pub frames_made: u64,
    /// Datagrams handed to the sender.
    pub datagrams_sent: u64,
    /// Reordered frames that wait for later frames, not yet sent.
    pub held_back: u64,
    /// Frames by the fault that they suffered.
    pub faults: FaultCounts,
    /// Timestamp of the first frame made, in ticks, jumps left out.
    pub first_timestamp: Option<u64>,
    /// Timestamp of the last frame made, in ticks, jumps left out.
    pub last_timestamp: Option<u64>,
    /// Sum of all timestamp jumps, in ticks.
    pub ticks_jumped: u64,
}

impl StreamTruth {
    fn absorb(&mut self, other: &Self) {
        self.frames_made += other.frames_made;
        self.datagrams_sent += other.datagrams_sent;
        self.held_back += other.held_back;
        self.faults.absorb(&other.faults);
        self.ticks_jumped += other.ticks_jumped;
        self.first_timestamp = self.first_timestamp.into_iter().chain(other.first_timestamp).min();
        self.last_timestamp = self.last_timestamp.max(other.last_timestamp);
    }

    /// The account of the emulator: frames made and copied on one side, datagrams sent and the
    /// reasons why others were not on the other.
    pub fn statement(&self) -> Statement {
        let drop = |reason: &str, count| Drop::named(reason, count);
        Statement {
            stage: "emulator".to_owned(),
            offered: self.frames_made + self.faults.duplicated,
            delivered: self.datagrams_sent,
            under_way: 0,
            dropped: vec![
                drop("lost", self.faults.lost),
                drop("stopped", self.faults.stopped),
                drop("held_back", self.held_back),
            ],
        }
    }
}

/// The truth about all streams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Truth {
    /// Seed of content and faults.
    pub seed: u64,
    /// Ticks from one frame of a stream to the next, at most.
    pub ticks_per_frame: u64,
    /// Injected events reported so far, of each kind.
    pub events: BTreeMap<String, u64>,
    /// Each stream, in the order of the emulator.
    pub streams: Vec<StreamTruth>,
}

impl Truth {
    /// All streams added up.
    pub fn total(&self) -> StreamTruth {
        let mut total = StreamTruth::default();
        self.streams.iter().for_each(|stream| total.absorb(stream));
        total
    }
}
