//! What of a torus does not work.

use gannet_measure::random::Random;

use crate::lattice::{Cable, DIMENSIONS, Direction, Lattice, Node};

/// Dead nodes, which may also be nodes that were never installed, and dead cables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    lattice: Lattice,
    /// By node: bit 0 to 2 dead cable of that dimension, bit 3 dead node.
    dead: Vec<u8>,
    nodes: usize,
    cables: usize,
}

const NODE: u8 = 1 << DIMENSIONS;

impl Faults {
    /// No faults.
    pub fn none(lattice: Lattice) -> Self {
        Self { lattice, dead: vec![0; lattice.nodes()], nodes: 0, cables: 0 }
    }

    /// `nodes` dead nodes and `cables` dead cables drawn at random, all different.
    ///
    /// Fewer where the lattice has no more of them.
    pub fn random(lattice: Lattice, nodes: usize, cables: usize, random: &mut Random) -> Self {
        let mut faults = Self::none(lattice);
        let mut left: Vec<Node> = lattice.all().collect();
        for _ in 0..nodes.min(left.len()) {
            let pick = random.below(left.len() as u64) as usize;
            faults.kill_node(left.swap_remove(pick));
        }
        let mut left: Vec<Cable> = lattice.cables().collect();
        for _ in 0..cables.min(left.len()) {
            let pick = random.below(left.len() as u64) as usize;
            faults.kill_cable(left.swap_remove(pick));
        }
        faults
    }

    /// The lattice that the faults belong to.
    pub fn lattice(&self) -> Lattice {
        self.lattice
    }

    /// Whether there are no faults at all.
    pub fn is_empty(&self) -> bool {
        self.nodes == 0 && self.cables == 0
    }

    /// Number of dead nodes.
    pub fn dead_node_count(&self) -> usize {
        self.nodes
    }

    /// Number of cables that are themselves dead, whatever the nodes at their ends.
    pub fn dead_cable_count(&self) -> usize {
        self.cables
    }

    /// The dead nodes, in the order of their numbers.
    pub fn dead_nodes(&self) -> impl Iterator<Item = Node> {
        self.lattice.all().filter(|&node| !self.node_works(node))
    }

    /// The cables that are themselves dead, in the order of [`Lattice::cables`].
    pub fn dead_cables(&self) -> impl Iterator<Item = Cable> {
        self.lattice.cables().filter(|&cable| !self.cable_works(cable))
    }

    /// Marks a node as dead, and with it all its links.
    pub fn kill_node(&mut self, node: Node) {
        let dead = &mut self.dead[node.index()];
        self.nodes += usize::from(*dead & NODE == 0);
        *dead |= NODE;
    }

    /// Marks a cable as dead, in both ways.
    pub fn kill_cable(&mut self, cable: Cable) {
        let dead = &mut self.dead[cable.from.index()];
        self.cables += usize::from(*dead >> cable.dimension & 1 == 0);
        *dead |= 1 << cable.dimension;
    }

    /// Takes a cable back into service.
    pub fn repair_cable(&mut self, cable: Cable) {
        let dead = &mut self.dead[cable.from.index()];
        self.cables -= usize::from(*dead >> cable.dimension & 1);
        *dead &= !(1 << cable.dimension);
    }

    /// Whether the node works.
    #[inline]
    pub fn node_works(&self, node: Node) -> bool {
        self.dead[node.index()] & NODE == 0
    }

    /// Whether the cable itself works, whatever the nodes at its ends.
    #[inline]
    pub fn cable_works(&self, cable: Cable) -> bool {
        self.dead[cable.from.index()] >> cable.dimension & 1 == 0
    }

    /// Whether packets can leave `node` by this link: the link exists, and the cable and both nodes
    /// work.
    #[inline]
    pub fn link_works(&self, node: Node, direction: Direction) -> bool {
        let other = self.lattice.neighbour(node, direction);
        self.lattice.has(direction)
            && self.node_works(node)
            && self.node_works(other)
            && self.cable_works(self.lattice.cable(node, direction))
    }

    /// For each node the number of its connected part, from 0; `None` for dead nodes.
    pub fn parts(&self) -> Vec<Option<u32>> {
        let mut part = vec![None; self.lattice.nodes()];
        let mut next = 0;
        let mut open = Vec::new();
        for start in self.lattice.all() {
            if !self.node_works(start) || part[start.index()].is_some() {
                continue;
            }
            part[start.index()] = Some(next);
            open.push(start);
            while let Some(node) = open.pop() {
                for direction in Direction::ALL {
                    let other = self.lattice.neighbour(node, direction);
                    if self.link_works(node, direction) && part[other.index()].is_none() {
                        part[other.index()] = Some(next);
                        open.push(other);
                    }
                }
            }
            next += 1;
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_cable_is_dead_from_both_ends_and_a_dead_node_takes_its_links() {
        let lattice: Lattice = "4x4".parse().unwrap();
        let mut faults = Faults::none(lattice);
        let cable = lattice.cable(Node(0), Direction::XMinus);
        faults.kill_cable(cable);
        assert!(!faults.link_works(Node(0), Direction::XMinus));
        assert!(!faults.link_works(Node(3), Direction::XPlus));
        assert!(faults.link_works(Node(0), Direction::XPlus));
        assert!(!faults.link_works(Node(0), Direction::ZPlus));
        faults.kill_node(Node(5));
        assert!(!faults.link_works(Node(4), Direction::XPlus));
        assert_eq!(faults.dead_nodes().collect::<Vec<_>>(), [Node(5)]);
        assert_eq!(faults.dead_cables().collect::<Vec<_>>(), [cable]);
        faults.repair_cable(cable);
        assert_eq!(faults.dead_cable_count(), 0);
    }

    #[test]
    fn a_line_cut_twice_falls_into_two_parts() {
        let lattice: Lattice = "6".parse().unwrap();
        let mut faults = Faults::none(lattice);
        faults.kill_cable(lattice.cable(Node(1), Direction::XPlus));
        faults.kill_node(Node(4));
        let parts = faults.parts();
        assert_eq!(parts, [Some(0), Some(0), Some(1), Some(1), None, Some(0)]);
    }

    #[test]
    fn random_faults_are_as_many_as_asked() {
        let lattice: Lattice = "4x4x4".parse().unwrap();
        let faults = Faults::random(lattice, 3, 7, &mut Random::new(1));
        assert_eq!((faults.dead_node_count(), faults.dead_cable_count()), (3, 7));
        let all = Faults::random(lattice, 1000, 1000, &mut Random::new(1));
        assert_eq!((all.dead_node_count(), all.dead_cable_count()), (64, 192));
    }
}
