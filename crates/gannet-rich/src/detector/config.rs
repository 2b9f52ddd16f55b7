//! The tables of a configuration for the RICH.

use std::net::SocketAddr;
use std::path::PathBuf;

use gannet_control::config::{StreamPlace, Tables};
use gannet_emulate::rich::{self, Packets};
use gannet_measure::quantity::{Bytes, Span};
use gannet_wire::StreamKey;
use gannet_wire::na62::{Source, mgp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::search::SearchConfig;

/// The tables of the RICH.
#[derive(Debug)]
pub struct RichTables;

impl Tables for RichTables {
    type Streams = RichStreams;
    type Pipeline = PipelineConfig;
    type Emulate = rich::Config;

    fn at(streams: &RichStreams, places: &[StreamPlace]) -> RichStreams {
        let places = places.iter().map(|place| place.stream as u8).collect();
        RichStreams { links: places, ..streams.clone() }
    }
}

/// Streams of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RichStreams {
    /// What their datagrams hold: `boards` for the hits of one board, `merged` for events of all.
    pub packets: Packets,
    /// Numbers of the links, 0 to 255: the sub-source in the header of each datagram. With `boards` a link
    /// reads the board of its number modulo 4.
    pub links: Vec<u8>,
    /// The source in the header of each datagram.
    pub source: u8,
    /// Longest datagram, up to 8972 bytes.
    pub longest: Bytes,
}

impl Default for RichStreams {
    fn default() -> Self {
        Self {
            packets: Packets::Boards,
            links: vec![0, 1, 2, 3],
            source: Source::Rich.number(),
            longest: Bytes(1472),
        }
    }
}

impl RichStreams {
    /// The keys of the streams.
    pub fn keys(&self) -> impl Iterator<Item = StreamKey> {
        self.links.iter().map(|link| mgp::stream_key(self.format_byte(), self.source, *link))
    }

    /// The format that the datagrams name.
    pub fn format_byte(&self) -> u8 {
        match self.packets {
            Packets::Boards => mgp::BOARD_EVENTS,
            Packets::Merged => mgp::MERGED_EVENTS,
        }
    }

    /// How the datagrams look.
    pub fn format(&self) -> mgp::MgpFormat {
        mgp::MgpFormat { len_max: self.longest.bytes() as usize, ..Default::default() }
    }
}

/// Which detector it is, and what becomes of its datagrams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PipelineConfig {
    /// Name of the detector: `na62-rich`.
    pub detector: String,
    /// Table of the cabling: a geo id for each channel. When absent, channels are numbered through
    /// the boards, as those of the emulator are.
    pub cabling: Option<PathBuf>,
    /// How hits of several boards become events.
    pub merge: MergeConfig,
    /// Where events wait for the search.
    pub buffers: BufferConfig,
    /// How rings are found.
    pub rings: SearchConfig,
    /// What is answered.
    pub answer: AnswerConfig,
}

/// How hits of several boards become events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MergeConfig {
    /// Longest time from the first hit of an event to its last, in units of 1/256 of 24.95 ns.
    pub window_fine: u64,
    /// How far a link may be behind most others, in time of the detector, before these go on without
    /// it.
    pub hold: Span,
    /// How far the time of a link may be from the time that most agree on; one that is farther away is
    /// set apart.
    pub agree_within: Span,
    /// Most items of 25 hits that wait to be merged.
    pub waiting_max: usize,
}

impl Default for MergeConfig {
    fn default() -> Self {
        Self {
            window_fine: 128,
            hold: Span(200_000),
            agree_within: Span::ms(250),
            waiting_max: 1 << 20,
        }
    }
}

/// Where events wait for the search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BufferConfig {
    /// Buffers, which are filled in turn.
    pub count: u32,
    /// Bytes of a buffer.
    pub size: Bytes,
    /// Events after which a buffer is closed and searched.
    pub events: u32,
    /// Time after its first event at which it is closed.
    pub timeout: Span,
    /// Threads that search closed buffers. With 0 the thread that fills them does, which costs least
    /// where there are few processors.
    pub workers: u32,
}

impl Default for BufferConfig {
    fn default() -> Self {
        Self { count: 32, size: Bytes(128 << 10), events: 1024, timeout: Span(100_000), workers: 0 }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerConfig {
    /// Where the packets of primitives go, one for each 6.4 us; absent: nowhere.
    pub to: Option<SocketAddr>,
    /// Source that they name.
    pub source: u8,
    /// Sub-source that they name.
    pub sub_source: u8,
    /// Time from an event until its answer is late. It is counted from the event's own time, as the
    /// data that come fastest tell it.
    pub budget: Span,
    /// Least radius of a ring that may be of a muon, in mm.
    pub muon_mm: f32,
    /// Least radius of a ring that may be of an electron, in mm.
    pub electron_mm: f32,
}

impl Default for AnswerConfig {
    fn default() -> Self {
        Self {
            to: None,
            source: Source::Rich.number(),
            sub_source: 0,
            budget: Span::ms(1),
            muon_mm: 160.0,
            electron_mm: 186.0,
        }
    }
}
