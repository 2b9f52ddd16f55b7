//! What all routers of a simulation have in common.

use std::ops::Range;
use std::sync::Arc;

use gannet_lattice::DIMENSIONS;

use super::packet::Packing;
use super::{Arbitration, FlowControl, Setup};
use crate::router::channels_of_class;
use crate::routes::{LOCAL, MAX_CLASSES, PORTS, Routes};

/// Cycles from the source to the first router, and of a credit on its way back there.
pub(super) const INJECTION_DELAY: u32 = 2;

/// Shared by all routers, and replaced as a whole when routes change.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub routes: Arc<Routes>,
    pub packing: Packing,
    pub flow_control: FlowControl,
    /// Whether sources that have sent less over a link go first.
    pub shares_equally: bool,
    /// Virtual channels of a link.
    pub vcs: u8,
    /// Flits that a virtual channel holds.
    pub depth: u16,
    pub delays: Delays,
    /// Output channels by port and class, see [`Rules::channels`].
    channels: [u64; PORTS * MAX_CLASSES as usize],
}

/// What passes between the grant of the switch and what follows from it, in cycles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    /// To the arrival of the flit at the next router.
    pub flit: u32,
    /// To the arrival of the flit at the node.
    pub ejection: u32,
    /// To the return of its credit upstream.
    pub credit: u32,
}

impl Delays {
    pub fn new(setup: &Setup) -> Self {
        Self {
            flit: setup.router_delay + setup.link_delay - 2,
            ejection: setup.router_delay - 1,
            credit: setup.link_delay + 1,
        }
    }

    /// From the grant of the switch at the port to the node until its credit is back.
    pub fn ejection_loop(&self) -> u32 {
        self.ejection + 2
    }

    /// Longest time ahead at which anything arrives.
    pub fn horizon(&self) -> u32 {
        self.flit.max(self.credit).max(self.ejection_loop()).max(INJECTION_DELAY)
    }

    /// What nothing takes less than on its way from one node to another.
    pub fn lookahead(&self) -> u32 {
        self.flit.min(self.credit)
    }
}

impl Rules {
    /// Rules for routers that number their channels `port * stride + vc`.
    pub fn new(setup: &Setup, routes: Arc<Routes>, stride: usize) -> Self {
        Self {
            packing: Packing::new(routes.lattice()),
            flow_control: setup.flow_control,
            vcs: setup.vcs,
            depth: setup.vc_depth,
            shares_equally: setup.arbitration == Arbitration::EqualShares,
            delays: Delays::new(setup),
            channels: channels(&routes, setup.vcs, stride),
            routes,
        }
    }

    /// Output channels, by bit, for a wish as the router keeps it: port and class.
    #[inline]
    pub fn channels(&self, want: u8) -> u64 {
        self.channels[usize::from(want)]
    }
}

/// The virtual channels of each port by class; all serve packets to the node.
fn channels(routes: &Routes, vcs: u8, stride: usize) -> [u64; PORTS * MAX_CLASSES as usize] {
    let mut channels = [0; PORTS * MAX_CLASSES as usize];
    let classes = routes.classes();
    for port in 0..PORTS {
        for class in 0..classes {
            let Range { start: first, end } = if port == usize::from(LOCAL) {
                0..u32::from(vcs)
            } else {
                channels_of_class(class, vcs, classes)
            };
            let run = (1u64 << end) - (1u64 << first);
            channels[port * usize::from(MAX_CLASSES) + usize::from(class)] = run << (port * stride);
        }
    }
    channels
}

/// Dimensions are looked at in order, so a packet that goes straight on keeps to its ring.
#[inline]
pub(super) fn goes_straight(from: u8, to: u8) -> bool {
    from / 2 == to / 2 && usize::from(to) < 2 * DIMENSIONS
}
