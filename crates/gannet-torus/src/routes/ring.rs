//! The rings of a lattice, whole or broken, and the way through them.

use gannet_lattice::{Coordinates, DIMENSIONS, Direction, Faults, Lattice};

/// Which way packets go round each ring of a lattice.
///
/// A whole ring is travelled the shorter way. In a broken one, a packet whose shorter way is cut
/// goes the long way round; a ring that is cut twice may leave no way at all.
#[derive(Clone, Debug)]
pub struct Rings {
    sizes: [u16; DIMENSIONS],
    /// None while every ring is whole.
    breaks: Option<Breaks>,
}

/// For each node and dimension: the ring of the node, seen from its first node.
#[derive(Clone, Debug)]
struct Breaks {
    lattice: Lattice,
    /// Broken cables between the first node of the ring and this node, going plus.
    before: Vec<[u16; DIMENSIONS]>,
    /// Broken cables of the whole ring.
    total: Vec<[u16; DIMENSIONS]>,
}

/// How a packet enters a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The way it takes.
    pub direction: Direction,
    /// Whether it will pass the cable between the last node and the first of a whole ring, the
    /// dateline.
    pub crosses_dateline: bool,
}

impl Rings {
    /// Rings as `faults` leave them.
    pub fn new(faults: &Faults) -> Self {
        let lattice = faults.lattice();
        let breaks = (!faults.is_empty()).then(|| Breaks::new(faults));
        Self { sizes: lattice.sizes(), breaks }
    }

    /// The way from `from` to coordinate `to` within the ring of `dimension`, where the two differ;
    /// `even` decides where both ways are equally long. `None` when the ring is cut on both ways.
    #[inline]
    pub fn enter(
        &self,
        from: Coordinates,
        dimension: usize,
        to: u16,
        even: impl FnOnce() -> bool,
    ) -> Option<Entry> {
        let (here, size) = (from[dimension], self.sizes[dimension]);
        let forward = if to >= here { to - here } else { to + size - here };
        let shorter_is_plus = match (2 * u32::from(forward)).cmp(&u32::from(size)) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal => even(),
        };
        match &self.breaks {
            None => Some(Entry {
                direction: Direction::of(dimension, shorter_is_plus),
                crosses_dateline: (to < here) == shorter_is_plus,
            }),
            Some(breaks) => breaks.enter(from, dimension, to, shorter_is_plus),
        }
    }
}

impl Breaks {
    fn new(faults: &Faults) -> Self {
        let lattice = faults.lattice();
        let mut before = vec![[0; DIMENSIONS]; lattice.nodes()];
        let mut total = before.clone();
        for dimension in lattice.dimensions() {
            let plus = Direction::of(dimension, true);
            for first in lattice.all().filter(|&node| lattice.coordinates(node)[dimension] == 0) {
                let mut node = first;
                let mut broken = 0;
                loop {
                    before[node.index()][dimension] = broken;
                    broken += u16::from(!faults.link_works(node, plus));
                    node = lattice.neighbour(node, plus);
                    if node == first {
                        break;
                    }
                }
                total[first.index()][dimension] = broken;
            }
        }
        Self { lattice, before, total }
    }

    fn enter(
        &self,
        from: Coordinates,
        dimension: usize,
        to: u16,
        shorter_is_plus: bool,
    ) -> Option<Entry> {
        let here = from[dimension];
        let along = |coordinate: u16| {
            let mut place = from;
            place[dimension] = coordinate;
            self.lattice.node(place).index()
        };
        let total = self.total[along(0)][dimension];
        let broken_before = |coordinate: u16| self.before[along(coordinate)][dimension];
        let (low, high) = (here.min(to), here.max(to));
        let inside = broken_before(high) - broken_before(low);
        let (plus, minus) =
            if to > here { (inside, total - inside) } else { (total - inside, inside) };
        let is_plus = match (plus, minus) {
            (0, 0) => shorter_is_plus,
            (0, _) => true,
            (_, 0) => false,
            _ => return None,
        };
        Some(Entry {
            direction: Direction::of(dimension, is_plus),
            crosses_dateline: total == 0 && (to < here) == is_plus,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_lattice::{Cable, Node};

    fn ring_of_eight(broken: &[u32]) -> Rings {
        let lattice: Lattice = "8".parse().unwrap();
        let mut faults = Faults::none(lattice);
        for &from in broken {
            faults.kill_cable(Cable { from: Node(from), dimension: 0 });
        }
        Rings::new(&faults)
    }

    fn way(rings: &Rings, from: u16, to: u16) -> Option<(bool, bool)> {
        let entry = rings.enter([from, 0, 0], 0, to, || true)?;
        Some((entry.direction.is_plus(), entry.crosses_dateline))
    }

    #[test]
    fn a_whole_ring_is_travelled_the_shorter_way_and_the_dateline_is_seen() {
        let rings = ring_of_eight(&[]);
        assert_eq!(way(&rings, 1, 4), Some((true, false)));
        assert_eq!(way(&rings, 6, 1), Some((true, true)));
        assert_eq!(way(&rings, 1, 6), Some((false, true)));
        assert_eq!(way(&rings, 6, 3), Some((false, false)));
        assert_eq!(way(&rings, 0, 4), Some((true, false)));
        let even = rings.enter([0, 0, 0], 0, 4, || false).unwrap();
        assert_eq!((even.direction, even.crosses_dateline), (Direction::XMinus, true));
    }

    #[test]
    fn a_broken_ring_is_travelled_the_long_way_and_has_no_dateline() {
        let rings = ring_of_eight(&[2]);
        assert_eq!(way(&rings, 1, 4), Some((false, false)));
        assert_eq!(way(&rings, 4, 1), Some((true, false)));
        assert_eq!(way(&rings, 6, 1), Some((true, false)));
        assert_eq!(way(&rings, 3, 5), Some((true, false)));
    }

    #[test]
    fn a_ring_cut_twice_keeps_the_ways_within_its_parts() {
        let rings = ring_of_eight(&[2, 6]);
        assert_eq!(way(&rings, 3, 6), Some((true, false)));
        assert_eq!(way(&rings, 7, 1), Some((true, false)));
        assert_eq!(way(&rings, 1, 4), None);
        assert_eq!(way(&rings, 7, 5), None);
    }
}
