//! What a node tells beside completions, and what it counts.

use gannet_lattice::Direction;
use gannet_wire::apelink::Header;
use serde::Serialize;

use crate::link;

/// Most events and notices each that wait to be taken.
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
}

impl Reason {
    /// All.
    pub const ALL: [Self; 6] = [
        Self::NoSuchNode,
        Self::NoRoute,
        Self::OtherRoutes,
        Self::HopLimit,
        Self::LinkDown,
        Self::LinkRefuses,
    ];
}

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

/// Counts of a node since it was made.
///
/// At any time, `injected + taken = delivered + forwarded + dropped +` [`waiting`](super::TorusNode::waiting).
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
    /// Packets dropped, by [`Reason`] in its order.
    dropped: [u64; Reason::ALL.len()],
    /// Events and notices of which the host was not told because it had not taken the
    /// ones before.
    pub untold: u64,
}

impl Counters {
    /// Packets dropped for `reason`.
    pub fn dropped(&self, reason: Reason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Packets dropped for any reason.
    pub fn packets_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    pub(super) fn drop_one(&mut self, reason: Reason) {
        self.dropped[reason as usize] += 1;
    }
}
