//! A packet as the simulator carries it, and places packed into one word.

use gannet_lattice::{Coordinates, DIMENSIONS, Lattice};

/// Most flits of a packet.
pub const PACKET_FLITS_MAX: u16 = 4096;

/// Coordinates packed into one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u32);

/// How the coordinates of a lattice are packed: as many bits for each as its size needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    shift: [u32; DIMENSIONS],
    mask: [u32; DIMENSIONS],
}

impl Packing {
    pub(super) fn new(lattice: Lattice) -> Self {
        let mut next = 0;
        let mut packing = Self { shift: [0; DIMENSIONS], mask: [0; DIMENSIONS] };
        for (dimension, &size) in lattice.sizes().iter().enumerate() {
            let bits = u32::BITS - u32::from(size - 1).leading_zeros();
            packing.shift[dimension] = next;
            packing.mask[dimension] = (1 << bits) - 1;
            next += bits;
        }
        debug_assert!(next <= u32::BITS);
        packing
    }

    #[inline]
    pub(super) fn pack(&self, place: Coordinates) -> Place {
        let [x, y, z] = place.map(u32::from);
        Place(x | y << self.shift[1] | z << self.shift[2])
    }

    #[inline]
    pub(super) fn unpack(&self, place: Place) -> Coordinates {
        std::array::from_fn(|d| self.coordinate(place, d))
    }

    #[inline]
    pub(super) fn coordinate(&self, place: Place, dimension: usize) -> u16 {
        (place.0 >> self.shift[dimension] & self.mask[dimension]) as u16
    }
}

/// A packet, wherever in the network its head is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packet {
    /// Where it goes.
    pub destination: Place,
    /// The node it passes on the way, or its destination.
    pub via: Place,
    /// Where it was sent from.
    pub source: Place,
    /// Cycle at which it was made, before it waited at its source.
    pub born: u32,
    /// Length in flits.
    pub flits: u16,
    /// How often it was sent before and lost.
    pub replays: u8,
    /// A part of it was lost: it travels on, and is thrown away at its destination.
    pub damaged: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_lattice_packs_and_unpacks() {
        for text in ["46x46x46", "5x3x2", "1x1x9", "1000", "2x1x3"] {
            let lattice: Lattice = text.parse().unwrap();
            let packing = Packing::new(lattice);
            for place in lattice.all().map(|node| lattice.coordinates(node)) {
                assert_eq!(packing.unpack(packing.pack(place)), place, "{text}");
            }
        }
    }
}
