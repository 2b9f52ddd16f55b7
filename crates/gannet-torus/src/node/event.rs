//! What a node tells beside completions, and what it counts.

use gannet_lattice::{Direction, Node};
use gannet_wire::apelink::Header;
use serde::Serialize;

use crate::link;

/// Most events, signals and notices each that wait to be taken.
pub const EVENTS_MAX: usize = 64;

/// Why a packet was dropped. What an engine has sent comes again by its replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Its source or destination is no node of the lattice.
    NoSuchNode,
    /// The routes lead nowhere from here.
    NoRoute,
    /// It was sent by routes that this node does not follow, or not yet.
    OtherRoutes,
    /// It has made as many hops as are allowed.
    HopLimit,
    /// Its next link is down.
    LinkDown,
    /// Its next link cannot carry a packet of its size.
    LinkRefuses,
    /// It is a signal, and there was no room for it: signals have no flow control.
    SignalQueue,
}

/// Number of [`Reason`]s.
const REASONS: usize = 7;

/// What has happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A link went up or down, or its other end began anew.
    Link(Direction, link::Event),
    /// A packet was dropped.
    Dropped {
        /// Why.
        reason: Reason,
        /// Number of the node that sent it.
        source: u32,
        /// Its header as it came.
        header: Header,
    },
}

/// A packet of a header only that arrived: it was not acknowledged and others may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Node that sent it.
    pub source: Node,
    /// What it says.
    pub bits: u32,
}

/// Counts of a node since it was made. Packets of the engine and signals are counted apart.
///
/// Of a node that is quiet, `injected + taken = delivered + forwarded + dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets taken from the engine.
    pub injected: u64,
    /// Packets taken from links.
    pub taken: u64,
    /// Packets given to links.
    pub forwarded: u64,
    /// Packets given to the engine.
    pub delivered: u64,
    /// Hops of these together.
    pub delivered_hops: u64,
    /// Time from source to here of these together, ns; of two clocks where they have several.
    pub latency_ns: u64,
    /// The longest of these times, ns.
    pub latency_max_ns: u64,
    /// Packets and signals dropped, by [`Reason`] in its order.
    dropped: [u64; REASONS],
    /// Signals sent by this node.
    pub signals_sent: u64,
    /// Signals that arrived for this node.
    pub signals_received: u64,
    /// Signals passed on.
    pub signals_forwarded: u64,
    /// Signals dropped, for any reason.
    pub signals_dropped: u64,
    /// Events, signals and notices of which the host was not told because it had not taken the
    /// ones before.
    pub untold: u64,
}

impl Counters {
    /// Packets and signals dropped for `reason`.
    pub fn dropped(&self, reason: Reason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Packets dropped for any reason, without signals.
    pub fn packets_dropped(&self) -> u64 {
        self.dropped.iter().sum::<u64>() - self.signals_dropped
    }

    pub(super) fn drop_one(&mut self, reason: Reason, is_signal: bool) {
        self.dropped[reason as usize] += 1;
        self.signals_dropped += u64::from(is_signal);
    }
}
