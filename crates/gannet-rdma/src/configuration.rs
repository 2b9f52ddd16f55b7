//! The sizes, patience and costs of an engine.

use std::ops::RangeInclusive;

use gannet_lattice::{MAX_NODES, Node};
use gannet_memory::tlb::TLB_ENTRIES_MAX;
use gannet_memory::{PageSize, Replacement};
use gannet_wire::rdma::{DATA_LEN, DATA_LEN_MAX, SELECTIVE};
use serde::Serialize;
use thiserror::Error;

use super::memory::WHOLE_PAGES;
use super::receive_window::WINDOW_MAX;

/// Most DMA engines of one direction.
pub const ENGINES_MAX: usize = 4;
/// Most posts, and most replies, of an engine.
pub const OPERATIONS_MAX: usize = (1 << 15) - 1;
/// How far the epoch of a node goes on when the node starts anew.
const EPOCHS_PER_RESTART: u16 = 64;
/// Most entries of any other queue or table of an engine.
pub const ENTRIES_MAX: usize = 1 << 24;

/// A rate in bytes per second at which copying takes no time.
pub const UNLIMITED: u64 = u64::MAX;

/// All that an engine is made from.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The node that the engine belongs to.
    pub node: Node,
    /// First epoch of the sequence numbers, 1 to 255; another one after each
    /// [restart](Self::restarted).
    pub epoch: u8,
    /// How much is kept.
    pub limits: Limits,
    /// When packets are acknowledged and sent again.
    pub replay: Replay,
    /// What each step costs.
    pub timing: Timing,
    /// The cache of address translations.
    pub translation: TranslationCache,
    /// What happens to an arriving PUT whose completion finds no room.
    pub overflow: Overflow,
}

impl Configuration {
    /// Default sizes and patience; no step takes time.
    pub fn new(node: Node) -> Self {
        Self {
            node,
            epoch: 1,
            limits: Limits::default(),
            replay: Replay::default(),
            timing: Timing::IMMEDIATE,
            translation: TranslationCache::default(),
            overflow: Overflow::Hold,
        }
    }

    /// The same for the node after it has started anew: with an epoch 64 further on.
    ///
    /// Each far node that starts anew takes the epoch of the packets to it one further. A node must
    /// not begin in one that it has used: far nodes would take its packets for those they have had,
    /// and tell that they arrived. In one more than 127 further on, they take them for old ones, and
    /// its first requests fail as unreachable.
    pub fn restarted(self) -> Self {
        let epoch = (u16::from(self.epoch.max(1)) + EPOCHS_PER_RESTART - 1) % 255 + 1;
        Self { epoch: epoch as u8, ..self }
    }

    /// Tests whether an engine can be made from it.
    ///
    /// # Errors
    /// The first parameter that is out of its range.
    pub fn check(&self) -> Result<(), ConfigurationError> {
        let (limits, timing) = (&self.limits, &self.timing);
        let entries = 1..=ENTRIES_MAX;
        let ranges = [
            ("nodes", limits.nodes, 1..=MAX_NODES),
            ("posts", limits.posts, 0..=OPERATIONS_MAX),
            ("replies", limits.replies, 0..=OPERATIONS_MAX),
            ("completions", limits.completions, limits.posts.saturating_add(1)..=ENTRIES_MAX),
            ("receive_queue", limits.receive_queue, entries.clone()),
            ("transmit_queue", limits.transmit_queue, entries),
            ("data_bytes", limits.data_bytes, 1..=self.data_bytes_max()),
            ("window", limits.window as usize, 1..=WINDOW_MAX as usize),
            ("buffers", limits.buffers, 0..=ENTRIES_MAX),
            ("pages", limits.pages, 0..=ENTRIES_MAX),
            ("entries of the TLB", self.translation.entries, 0..=TLB_ENTRIES_MAX),
            ("read_engines", timing.read_engines, 1..=ENGINES_MAX),
            ("write_engines", timing.write_engines, 1..=ENGINES_MAX),
        ];
        for (parameter, got, range) in ranges {
            within(parameter, got, range)?;
        }
        if timing.read_bytes_per_s == 0 || timing.write_bytes_per_s == 0 {
            return Err(ConfigurationError::Rate);
        }
        if self.node.index() >= limits.nodes {
            return Err(ConfigurationError::NoSuchNode(self.node, limits.nodes));
        }
        Ok(())
    }
}

impl Configuration {
    /// Most bytes of data in a packet.
    pub(crate) fn data_bytes_max(&self) -> usize {
        DATA_LEN_MAX.min(WHOLE_PAGES * self.translation.page_size.bytes() as usize)
    }
}

fn within(
    parameter: &'static str,
    got: usize,
    range: RangeInclusive<usize>,
) -> Result<(), ConfigurationError> {
    let (min, max) = (*range.start(), *range.end());
    match range.contains(&got) {
        true => Ok(()),
        false => Err(ConfigurationError::Range { parameter, got, min, max }),
    }
}

/// Why an engine cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// A number is too small or too large.
    #[error("{parameter} of the RDMA engine: {got} is not from {min} to {max}")]
    Range {
        /// Name of the parameter.
        parameter: &'static str,
        /// What it is.
        got: usize,
        /// The smallest it may be.
        min: usize,
        /// The largest it may be.
        max: usize,
    },
    /// A bus of the engine moves nothing.
    #[error("a bus of the RDMA engine moves 0 bytes per second: give both of them a rate")]
    Rate,
    /// The node is not one of the machine.
    #[error("{0} has no RDMA engine in a machine of {1} nodes")]
    NoSuchNode(Node, usize),
}

/// How much an engine keeps. All of it is allocated when the engine is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes of the machine, at most [`MAX_NODES`]; there are no others. About 3 KiB of address
    /// space are reserved for each, and used when it first sends or is sent something.
    pub nodes: usize,
    /// PUTs and GETs posted and not completed, at most [`OPERATIONS_MAX`].
    pub posts: usize,
    /// GETs of other nodes that are being answered, at most [`OPERATIONS_MAX`].
    pub replies: usize,
    /// Completions not yet polled; one for each post, and at least one more for what arrives.
    pub completions: usize,
    /// Packets that are being written to memory. More are dropped, and come again.
    pub receive_queue: usize,
    /// Packets read from memory, or being read, and not yet taken by the link.
    pub transmit_queue: usize,
    /// Bytes of data in a packet, at most [`DATA_LEN_MAX`], and four pages. The default leaves room for the end-to-end header
    /// in a link packet of 4096 bytes.
    pub data_bytes: usize,
    /// Packets under way to one node, at most [`WINDOW_MAX`]. By default as many as one acknowledgement can speak of; of more of them
    /// the later ones are told by the next.
    pub window: u32,
    /// Registered buffers.
    pub buffers: usize,
    /// Pages of all registered buffers together.
    pub pages: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            nodes: 64,
            posts: 256,
            replies: 256,
            completions: 1024,
            receive_queue: 64,
            transmit_queue: 4,
            data_bytes: DATA_LEN,
            window: SELECTIVE,
            buffers: 256,
            pages: 1 << 16,
        }
    }
}

/// When packets are acknowledged and sent again. Times are in nanoseconds.
///
/// How long an answer is waited for follows from the round trips to each node (RFC 6298): their mean and four times their
/// deviation, and twice as long each time that nothing was answered. It counts from when the packet was sent, or when the node was last
/// heard of another one, whichever is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// How long an answer is waited for before a round trip was measured; and how long a GET waits that finds the other node busy,
    /// then twice, four times and so on.
    pub timeout_ns: u64,
    /// The shortest time that is waited once round trips are measured: longer than both ends may keep an answer for reasons that
    /// no earlier round trip has shown. As long as [`timeout_max_ns`](Self::timeout_max_ns) it makes all times equal.
    pub timeout_min_ns: u64,
    /// The longest of these times, so that a node that comes back is found soon.
    pub timeout_max_ns: u64,
    /// How often a packet is sent before its destination is given up.
    pub attempts: u8,
    /// A packet is sent again at once when one that was sent so many packets later has arrived.
    pub reorder: u32,
    /// An acknowledgement is sent after so many packets, and after the last one of a message.
    pub ack_packets: u8,
    /// An acknowledgement waits no longer than this for more packets, or for one to ride on.
    pub ack_delay_ns: u64,
    /// A GET fails when no packet of its answer came for this time after the request had arrived,
    /// or had found the other node busy for the first time.
    pub get_timeout_ns: u64,
}

impl Replay {
    /// For round trips of microseconds: at least five times as long as an acknowledgement waits.
    pub const DEFAULT: Self = Self {
        timeout_ns: 200_000,
        timeout_min_ns: 50_000,
        timeout_max_ns: 20_000_000,
        attempts: 16,
        reorder: 8,
        ack_packets: 4,
        ack_delay_ns: 10_000,
        get_timeout_ns: 1_000_000_000,
    };

    /// A time to wait after it has doubled so often, ns.
    pub(super) fn backed_off(&self, once: u64, doublings: u8) -> u64 {
        let grown = u128::from(once) << doublings.min(64);
        grown.min(u128::from(self.timeout_max_ns)) as u64
    }
}

impl Default for Replay {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What the steps of an engine cost. Times are in nanoseconds, rates in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// DMA engines that read memory to send, at most [`ENGINES_MAX`](super::ENGINES_MAX). They
    /// share the bus but wait at the same time.
    pub read_engines: usize,
    /// From the start of a DMA read to its first byte.
    pub read_latency_ns: u64,
    /// Whether commands are fetched ahead. Otherwise each message waits once more for
    /// `read_latency_ns`, while its command is read from host memory.
    pub prefetch: bool,
    /// Rate of reads over the bus.
    pub read_bytes_per_s: u64,
    /// DMA controllers that write what arrives, at most [`ENGINES_MAX`](super::ENGINES_MAX).
    pub write_engines: usize,
    /// From the translated address to the first byte written.
    pub write_setup_ns: u64,
    /// Rate of writes over the bus.
    pub write_bytes_per_s: u64,
    /// Asking the TLB for a page.
    pub tlb_ns: u64,
    /// Finding a page in the table of buffers; one page at a time.
    pub walk_ns: u64,
}

impl Timing {
    /// Nothing takes time: the engine as software.
    pub const IMMEDIATE: Self = Self {
        read_engines: 1,
        read_latency_ns: 0,
        prefetch: true,
        read_bytes_per_s: UNLIMITED,
        write_engines: 1,
        write_setup_ns: 0,
        write_bytes_per_s: UNLIMITED,
        tlb_ns: 0,
        walk_ns: 0,
    };
}

/// The cache of address translations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationCache {
    /// Translations kept; with 0 every page is looked for in the table of buffers.
    pub entries: usize,
    /// Size of the pages.
    pub page_size: PageSize,
    /// Which translation makes room for a new one.
    pub replacement: Replacement,
}

impl Default for TranslationCache {
    fn default() -> Self {
        Self { entries: 128, page_size: PageSize::KiB4, replacement: Replacement::LeastRecent }
    }
}

/// What happens to an arriving PUT whose completion finds the queue full.
///
/// Completions of PUTs and GETs of this node always find room: it is kept when they are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Its sender waits until the host has polled: nothing is lost, but all that this sender has
    /// posted to the node stands still.
    Hold,
    /// The data are kept, the completion is dropped and counted.
    Drop,
}
