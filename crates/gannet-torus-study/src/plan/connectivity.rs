//! How much holds a machine together.

use gannet_lattice::{Direction, Faults, LINKS, Node};
use gannet_torus::routes::MAX_CHECKED_NODES;

/// Fewest cables whose loss separates working nodes; `None` for a large machine with faults.
pub fn separating_cables(faults: &Faults) -> Option<usize> {
    let lattice = faults.lattice();
    if faults.is_empty() {
        // All cables of a node, or those between two halves of a machine that is one node wide.
        let halves =
            lattice.dimensions().map(|d| 2 * lattice.nodes() / usize::from(lattice.sizes()[d]));
        return halves.chain([2 * lattice.dimensions().count()]).min();
    }
    if lattice.nodes() > MAX_CHECKED_NODES {
        return None;
    }
    let mut working = lattice.all().filter(|&node| faults.node_works(node));
    let first = working.next()?;
    let mut flow = Flow::new(faults);
    working.map(|node| flow.most(first, node)).min()
}

/// Disjoint ways between two nodes, as a flow of one unit at most over each cable (L. R. Ford and
/// D. R. Fulkerson, "Maximal flow through a network", 1956).
struct Flow<'a> {
    faults: &'a Faults,
    /// By node and link: units that leave there, less those that come in.
    units: Vec<[i8; LINKS]>,
    /// By node: the link that leads back, in the search under way.
    back: Vec<Option<Direction>>,
}

impl<'a> Flow<'a> {
    fn new(faults: &'a Faults) -> Self {
        let nodes = faults.lattice().nodes();
        Self { faults, units: vec![[0; LINKS]; nodes], back: vec![None; nodes] }
    }

    /// The largest flow from one node to another.
    fn most(&mut self, from: Node, to: Node) -> usize {
        self.units.fill([0; LINKS]);
        let mut ways = 0;
        while self.find(from, to) {
            let mut at = to;
            while at != from {
                let back = self.back[at.index()].expect("the search passed here");
                let previous = self.faults.lattice().neighbour(at, back);
                self.units[previous.index()][back.opposite().index()] += 1;
                self.units[at.index()][back.index()] -= 1;
                at = previous;
            }
            ways += 1;
        }
        ways
    }

    /// Searches one more way.
    fn find(&mut self, from: Node, to: Node) -> bool {
        let lattice = self.faults.lattice();
        self.back.fill(None);
        let mut open = std::collections::VecDeque::from([from]);
        while let Some(node) = open.pop_front() {
            for direction in Direction::ALL {
                let next = lattice.neighbour(node, direction);
                let is_new = next != from && self.back[next.index()].is_none();
                let is_free = self.units[node.index()][direction.index()] < 1;
                if !is_new || !is_free || !self.faults.link_works(node, direction) {
                    continue;
                }
                self.back[next.index()] = Some(direction.opposite());
                if next == to {
                    return true;
                }
                open.push_back(next);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_lattice::Lattice;

    #[test]
    fn without_faults_the_rule_is_what_the_flow_finds() {
        for text in ["4x4x4", "5x3x2", "6", "2", "2x2x1", "7x2", "3x3"] {
            let lattice: Lattice = text.parse().unwrap();
            let faults = Faults::none(lattice);
            let mut flow = Flow::new(&faults);
            let found = lattice.all().skip(1).map(|node| flow.most(Node(0), node)).min();
            assert_eq!(separating_cables(&faults), found, "{text}");
        }
    }

    #[test]
    fn a_broken_ring_hangs_by_one_cable() {
        let lattice: Lattice = "6".parse().unwrap();
        let mut faults = Faults::none(lattice);
        faults.kill_node(Node(3));
        assert_eq!(separating_cables(&faults), Some(1));
    }
}
