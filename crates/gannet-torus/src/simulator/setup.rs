//! What is simulated.

use gannet_lattice::Lattice;
use serde::Serialize;
use thiserror::Error;

use super::traffic::Pattern;
use crate::router::Arbitration;

/// When a packet may take a virtual channel of its next link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowControl {
    /// As soon as the channel is free; a packet that is blocked may lie across many routers.
    #[default]
    Wormhole,
    /// When there is room for the whole packet; a packet that is blocked lies in at most two.
    VirtualCutThrough,
    /// As virtual cut-through, and a packet enters a ring only where room for one more packet is
    /// left behind it. Rings then need no dateline, and all channels serve all packets.
    Bubble,
}

/// A machine, and how it is simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setup {
    /// The shape of the machine.
    pub lattice: Lattice,
    /// Flits of a packet.
    pub packet_flits: u16,
    /// Virtual channels of a link, 1 to 8.
    pub vcs: u8,
    /// Flits that a virtual channel can hold.
    pub vc_depth: u16,
    /// Cycles of a hop over a link of one cycle, that cycle included.
    pub router_delay: u32,
    /// Cycles on a link.
    pub link_delay: u32,
    /// When packets move on.
    pub flow_control: FlowControl,
    /// Who goes first where packets compete.
    pub arbitration: Arbitration,
    /// Cycles after which a source sends a lost packet again, at least 1, twice as many each time up
    /// to 64 times as many; `None` leaves it lost.
    pub replay_after: Option<u32>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Threads; the result does not depend on them.
    pub threads: usize,
}

/// What is wrong with a setup.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SetupError {
    /// A value is outside its range.
    #[error("{name} is {value}: it must be {range}")]
    Range {
        /// The value.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        range: String,
    },
}

/// Most virtual channels of a link.
pub(super) const MAX_VCS: u8 = 8;

impl Setup {
    /// A lattice with the defaults of everything else: packets of one flit, 4 channels of 16
    /// flits, hops of 4 cycles.
    pub fn new(lattice: Lattice) -> Self {
        Self {
            lattice,
            packet_flits: 1,
            vcs: 4,
            vc_depth: 16,
            router_delay: 4,
            link_delay: 1,
            flow_control: FlowControl::default(),
            arbitration: Arbitration::default(),
            replay_after: None,
            seed: 1,
            threads: 1,
        }
    }

    /// Packets that a virtual channel holds at most behind the first two, those that are only partly
    /// in it included.
    pub(super) fn places(&self, pattern: &Pattern) -> u16 {
        match pattern {
            Pattern::Trace(_) => (self.vc_depth - 1).max(1),
            _ => (self.vc_depth - 1).div_ceil(self.packet_flits).max(2) - 1,
        }
    }
}
