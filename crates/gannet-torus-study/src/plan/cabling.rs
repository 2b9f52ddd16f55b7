//! Which port is joined to which, and in which order nodes stand so that no cable is long.

use std::fmt::Write;

use gannet_lattice::{Cable, Direction, Faults, Node};
use serde::Serialize;

/// A cable between two ports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wire {
    /// The node whose port is a plus direction.
    pub from: Node,
    /// Its port: `X+`, `Y+` or `Z+`.
    pub from_port: &'static str,
    /// The node at the other end.
    pub to: Node,
    /// Its port: `X-`, `Y-` or `Z-`.
    pub to_port: &'static str,
    /// Coordinates of `from`.
    pub from_at: [u16; 3],
    /// Coordinates of `to`.
    pub to_at: [u16; 3],
    /// Where `from` stands.
    pub from_place: [u16; 3],
    /// Where `to` stands.
    pub to_place: [u16; 3],
    /// Places between the two along their ring: 1 or 2.
    pub places: u16,
}

/// All cables between nodes that are there.
///
/// Rings are folded: a row holds nodes 0, k-1, 1, k-2 and so on, so that no cable passes over more
/// than one node.
pub fn cabling(faults: &Faults) -> Vec<Wire> {
    let lattice = faults.lattice();
    let works = |cable: &Cable| faults.link_works(cable.from, plus(cable));
    lattice.cables().filter(works).map(|cable| wire(faults, &cable)).collect()
}

fn plus(cable: &Cable) -> Direction {
    Direction::of(cable.dimension, true)
}

fn wire(faults: &Faults, cable: &Cable) -> Wire {
    let (lattice, port, from) = (faults.lattice(), plus(cable), cable.from);
    let to = lattice.neighbour(from, port);
    let at = |node| lattice.coordinates(node);
    let place = |node| {
        let (at, sizes) = (at(node), lattice.sizes());
        std::array::from_fn(|dimension| folded(at[dimension], sizes[dimension]))
    };
    let (from_place, to_place): ([u16; 3], [u16; 3]) = (place(from), place(to));
    Wire {
        from,
        from_port: port.name(),
        to,
        to_port: port.opposite().name(),
        from_at: at(from),
        to_at: at(to),
        from_place,
        to_place,
        places: from_place[cable.dimension].abs_diff(to_place[cable.dimension]),
    }
}

/// Where node `index` of a folded ring of `size` stands.
fn folded(index: u16, size: u16) -> u16 {
    if 2 * u32::from(index) < u32::from(size) { 2 * index } else { 2 * (size - index) - 1 }
}

/// Cables of the node that has most.
pub(super) fn most_of_a_node(wires: &[Wire], nodes: usize) -> usize {
    let mut cables = vec![0; nodes];
    for wire in wires {
        cables[wire.from.index()] += 1;
        cables[wire.to.index()] += 1;
    }
    cables.into_iter().max().unwrap_or(0)
}

/// The cables as a table with a line of names.
pub fn csv(wires: &[Wire]) -> String {
    let mut text = String::from(
        "cable,from,from_x,from_y,from_z,from_port,to,to_x,to_y,to_z,to_port,from_place,to_place,\
         places\n",
    );
    for (number, wire) in (1..).zip(wires) {
        let Wire { from: Node(from), from_port, to: Node(to), to_port, places, .. } = wire;
        let ([fx, fy, fz], [tx, ty, tz]) = (wire.from_at, wire.to_at);
        let place = |[x, y, z]: [u16; 3]| format!("{x}/{y}/{z}");
        let (stands, other) = (place(wire.from_place), place(wire.to_place));
        writeln!(
            text,
            "{number},{from},{fx},{fy},{fz},{from_port},{to},{tx},{ty},{tz},{to_port},{stands},\
             {other},{places}"
        )
        .expect("a string takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_folded_ring_is_an_order_of_its_nodes_without_long_cables() {
        for size in 1..40 {
            let mut places: Vec<u16> = (0..size).map(|index| folded(index, size)).collect();
            for index in 0..size {
                let next = folded((index + 1) % size, size);
                assert!(folded(index, size).abs_diff(next) <= 2, "{index} of {size}");
            }
            places.sort_unstable();
            assert!(places.into_iter().eq(0..size), "{size}");
        }
    }

    #[test]
    fn every_port_has_one_cable() {
        for (text, ports) in [("4x4x4", 384), ("5x2x1", 40), ("3", 6)] {
            let wires = cabling(&Faults::none(text.parse().unwrap()));
            let ends = wires
                .iter()
                .flat_map(|wire| [(wire.from, wire.from_port), (wire.to, wire.to_port)]);
            assert_eq!(ends.clone().count(), ports);
            assert_eq!(ends.collect::<HashSet<_>>().len(), ports, "{text}");
        }
    }

    #[test]
    fn the_table_has_a_line_for_each_cable() {
        let text = csv(&cabling(&Faults::none("3".parse().unwrap())));
        let last = text.lines().last().unwrap();
        assert_eq!((text.lines().count(), last), (4, "3,2,2,0,0,X+,0,0,0,0,X-,1/0/0,0/0/0,1"));
    }
}
