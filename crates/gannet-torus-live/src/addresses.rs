//! Addresses of the hosts of a machine, by which programs that know nothing of a torus reach them.
//!
//! Each node has one by its place: node x,y,z is 10.(x+1).(y+1).(z+1), if 10 is what all addresses begin with.

use std::net::Ipv4Addr;

use gannet_lattice::{Lattice, Node};

/// Addresses of nodes: all begin with one byte, and end in the coordinates, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The first byte.
    pub first: u8,
    /// The machine.
    pub lattice: Lattice,
}

impl Addresses {
    /// The address of a node; none in a lattice of more than 254 in a row.
    pub fn of(&self, node: Node) -> Option<Ipv4Addr> {
        let mut octets = [self.first, 0, 0, 0];
        for (octet, at) in octets[1..].iter_mut().zip(self.lattice.coordinates(node)) {
            *octet = u8::try_from(at + 1).ok().filter(|octet| *octet < u8::MAX)?;
        }
        Some(octets.into())
    }

    /// The node that has an address.
    pub fn node(&self, address: Ipv4Addr) -> Option<Node> {
        let [first, place @ ..] = address.octets();
        let coordinates = place.map(|octet| u16::from(octet).wrapping_sub(1));
        let is_inside = coordinates.iter().zip(self.lattice.sizes()).all(|(at, size)| *at < size);
        (first == self.first && is_inside).then(|| self.lattice.node(coordinates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_the_coordinates() {
        let addresses = Addresses { first: 10, lattice: "4x3x2".parse().unwrap() };
        assert_eq!(addresses.of(Node(0)), Some([10, 1, 1, 1].into()));
        assert_eq!(addresses.of(Node(23)), Some([10, 4, 3, 2].into()));
        for node in addresses.lattice.all() {
            assert_eq!(addresses.node(addresses.of(node).unwrap()), Some(node));
        }
        for none in
            [[10, 0, 1, 1], [10, 5, 1, 1], [10, 1, 1, 3], [11, 1, 1, 1], [10, 255, 255, 255]]
        {
            assert_eq!(addresses.node(none.into()), None, "{none:?}");
        }
    }
}
