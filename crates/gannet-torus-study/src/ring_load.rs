//! What traffic to all nodes alike loads in the rings of a lattice without faults.

use gannet_lattice::{Coordinates, Direction, Lattice};

/// The links of one direction, where packets go the shorter way round.
///
/// In dimension order, what passes a link is what its ring alone decides, but for packets that go
/// just half way round: which way they take depends on the sum of all coordinates of both ends.
pub(super) struct RingLoad {
    dimension: usize,
    is_plus: bool,
    size: i64,
    /// Pairs of nodes, among those that differ in other dimensions alone, by which those that go
    /// half way round by plus outnumber the others or the other way round, as a part of all.
    odds: f64,
}

impl RingLoad {
    /// The links of a direction.
    pub fn new(lattice: Lattice, direction: Direction) -> Self {
        let (sizes, dimension) = (lattice.sizes(), direction.dimension());
        let others = (0..sizes.len()).filter(|&other| other != dimension);
        let others: i64 = others.map(|other| i64::from(sizes[other])).product();
        // With an even size among them, odd sums are as many as even ones.
        let odds = if others % 2 == 1 { 1.0 / others as f64 } else { 0.0 };
        let size = i64::from(sizes[dimension]);
        Self { dimension, is_plus: direction.is_plus(), size, odds }
    }

    /// Flits per cycle on the link of a node, for one from every node in each cycle: in packets that
    /// do not pass the dateline of the ring, and in those that do.
    pub fn at(&self, node: Coordinates) -> [f64; 2] {
        let here = i64::from(node[self.dimension]);
        // The minus links are the plus links of the ring seen in a mirror.
        let link = if self.is_plus { here } else { self.size - 1 - here };
        let others: i64 = node.iter().map(|&c| i64::from(c)).sum::<i64>() - here;
        // Pairs of ways shorter than half the ring.
        let longest = (self.size - 1) / 2;
        let behind = sum_to(longest - (self.size - 1 - link)) + sum_to(longest - link - 1);
        let first = sum_to(longest) - behind;
        let [half_first, half_behind] = self.half_way(link, others);
        [first + half_first, behind + half_behind].map(|pairs| pairs / self.size as f64)
    }

    /// As [`at`](Self::at), of the packets that go half way round, in pairs of coordinates.
    fn half_way(&self, link: i64, others: i64) -> [f64; 2] {
        if self.size % 2 == 1 {
            return [0.0; 2];
        }
        let half = self.size / 2;
        let pairs = |first: i64, last: i64| self.pairs(first, last, others);
        // Those that begin in the second half of the ring pass the dateline.
        if link < half {
            [pairs(0, link), pairs(link + half + 1, self.size - 1)]
        } else {
            [pairs(link - half + 1, half - 1), pairs(half, link)]
        }
    }

    /// Of the nodes from `first` to `last` of the ring, those that send half way round by plus.
    fn pairs(&self, first: i64, last: i64, others: i64) -> f64 {
        let count = (last - first + 1).max(0);
        let more = match (count % 2, (first + others) % 2) {
            (0, _) => 0.0,
            (_, 0) => self.odds,
            _ => -self.odds,
        };
        (count as f64 + more) / 2.0
    }
}

/// 1 + 2 + ... + `last`.
fn sum_to(last: i64) -> f64 {
    let last = last.max(0);
    (last * (last + 1) / 2) as f64
}
