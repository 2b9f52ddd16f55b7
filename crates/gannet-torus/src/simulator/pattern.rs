//! Who sends to whom.

use std::sync::Arc;

use gannet_lattice::{Lattice, Node};

use super::traffic::Trace;

/// Traffic patterns.
///
/// Tornado, neighbour and bit complement are the usual ones (Dally and Towles, "Principles and
/// practices of interconnection networks", 2004), taken per coordinate, so that they are defined
/// for every lattice.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Any node, the sender included.
    Uniform,
    /// The next node in every dimension at once.
    Neighbour,
    /// `ceil(k / 2) - 1` nodes on in every ring of k.
    Tornado,
    /// The node at the mirrored coordinates.
    BitComplement,
    /// One node in the middle for a part of all packets, any node for the rest.
    HotSpot {
        /// Part of the packets that go to it, 0 to 1.
        fraction: f64,
    },
    /// Bursts of one packet to each neighbour, all nodes at once: a sweep over a divided volume.
    Halo,
    /// Bursts of one packet to every other node, all nodes at once.
    AllToAll,
    /// The packets of a file.
    Trace(Arc<Trace>),
}

impl Pattern {
    /// Where all packets of a node go, for patterns in which that is one place.
    pub fn fixed_destination(&self, lattice: Lattice, node: Node) -> Option<Node> {
        let step: fn(u32, u32) -> u32 = match self {
            Self::Neighbour => |x, k| (x + 1) % k,
            Self::Tornado => |x, k| (x + k.div_ceil(2) - 1) % k,
            Self::BitComplement => |x, k| k - 1 - x,
            _ => return None,
        };
        let (place, sizes) = (lattice.coordinates(node), lattice.sizes());
        let moved = |d: usize| step(u32::from(place[d]), u32::from(sizes[d])) as u16;
        Some(lattice.node(std::array::from_fn(moved)))
    }

    /// The node that [`Pattern::HotSpot`] favours.
    pub fn hot_spot(lattice: Lattice) -> Node {
        lattice.node(lattice.sizes().map(|size| size / 2))
    }

    /// Packets that a node makes at once; 0 where a pattern of bursts has nobody to send to.
    pub fn burst(&self, lattice: Lattice) -> usize {
        match self {
            Self::Halo => 2 * lattice.dimensions().count(),
            Self::AllToAll => lattice.nodes() - 1,
            _ => 1,
        }
    }
}
