//! The tables of a configuration for the RICH.

use std::net::SocketAddr;
use std::path::PathBuf;

use gannet_control::config::{StreamPlace, Tables};
use gannet_emulate::rich::{self, Packets};
use gannet_measure::quantity::{Bytes, Span};
use gannet_wire::StreamKey;
use gannet_wire::na62::mtp::{self, MtpFormat};
use gannet_wire::na62::{Source, mgp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::RichFormat;
use crate::matching::SlotWidth;
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

/// What the datagrams of a source hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamPackets {
    /// Events of one board, each board on a stream of its own (MGP).
    #[default]
    Boards,
    /// Merged events of all boards (M2EGP).
    Merged,
    /// Primitives that another source sends to the level-0 trigger (MTP).
    Primitives,
}

impl From<Packets> for StreamPackets {
    fn from(packets: Packets) -> Self {
        match packets {
            Packets::Boards => Self::Boards,
            Packets::Merged => Self::Merged,
        }
    }
}

/// Streams of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RichStreams {
    /// What their datagrams hold: `boards` for the hits of one board, `merged` for events of all, `primitives`
    /// for what another source tells the level-0 trigger.
    pub packets: StreamPackets,
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
            packets: StreamPackets::Boards,
            links: vec![0, 1, 2, 3],
            source: Source::Rich.number(),
            longest: Bytes(1472),
        }
    }
}

impl RichStreams {
    /// The keys of the streams.
    pub fn keys(&self) -> impl Iterator<Item = StreamKey> {
        self.links.iter().map(|&link| match self.packets {
            StreamPackets::Boards => mgp::stream_key(mgp::BOARD_EVENTS, self.source, link),
            StreamPackets::Merged => mgp::stream_key(mgp::MERGED_EVENTS, self.source, link),
            StreamPackets::Primitives => mtp::stream_key(self.source, link),
        })
    }

    /// How the datagrams look.
    pub fn format(&self) -> RichFormat {
        let len_max = self.longest.bytes() as usize;
        match self.packets {
            StreamPackets::Primitives => RichFormat::Mtp(MtpFormat),
            StreamPackets::Boards | StreamPackets::Merged => {
                RichFormat::Mgp(mgp::MgpFormat { len_max, ..Default::default() })
            }
        }
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
    /// Which primitives of several sources belong together, and what is read out for them. When absent,
    /// nothing is decided and no records are made.
    pub level0: Option<Level0Config>,
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

/// Which primitives of several sources belong together, and what is read out for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Level0Config {
    /// Source whose primitives others are matched with: the number in its packets. That of `answer.source`
    /// is the RICH itself.
    pub reference: u8,
    /// Other sources: the numbers in their packets, and how near their primitives must be.
    pub sources: Vec<MatchedConfig>,
    /// Width of the slots in which primitives are kept: of those in one slot the last counts, and those of the
    /// slots before and after are looked at.
    pub slot: SlotWidth,
    /// What has to be true of the primitives, up to 16; each mask that passes is a bit of the trigger type.
    pub masks: Vec<MaskConfig>,
    /// Time before a trigger that is read out, from the begin of its 6.4 us on.
    pub before: Span,
    /// Time behind a trigger that is read out.
    pub after: Span,
    /// Decisions that may wait for their records at once, 1 to 65536; triggers beyond are dropped and counted.
    pub records_in_flight_max: u32,
}

impl Default for Level0Config {
    fn default() -> Self {
        Self {
            reference: Source::Rich.number(),
            sources: Vec::new(),
            slot: SlotWidth::default(),
            masks: Vec::new(),
            before: Span(100),
            after: Span(100),
            records_in_flight_max: 64,
        }
    }
}

/// A source whose primitives are matched with the reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MatchedConfig {
    /// Number in its packets.
    pub source: u8,
    /// Time from the reference at which a primitive does not belong to it any more, in units of 1/256 of 24.95 ns.
    pub cut_fine: u16,
}

/// What has to be true of primitives that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MaskConfig {
    /// Conditions, all of which must be true; without any, every reference passes.
    #[serde(default)]
    pub conditions: Vec<ConditionConfig>,
    /// One of so many that pass is a trigger.
    #[serde(default = "every_one")]
    pub downscaling: u32,
}

fn every_one() -> u32 {
    1
}

/// What has to be true of a source. One without a primitive that belongs has the identifier 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConditionConfig {
    /// Number of the source.
    pub source: u8,
    /// Bits of the identifier that matter, of 15.
    pub care: u16,
    /// What these bits have to be.
    pub value: u16,
}
