//! Routes up a tree and down again, which exist on any connected graph.
//!
//! Every link is *up* if it leads to a node nearer to the root of its part, or to one equally near
//! with a smaller number. A route climbs first and never climbs again, so its channels cannot wait
//! for each other in a cycle (Schroeder et al., "Autonet: a high-speed, self-configuring local area
//! network using point-to-point links", 1991, the up*/down* rule).

use std::collections::VecDeque;

use gannet_lattice::{Direction, Faults, LINKS, Lattice, Node};

use super::{Hop, LOCAL};

/// The next port for each node and destination.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: usize,
    /// By destination, then node.
    ports: Vec<u8>,
}

const NONE: u8 = u8::MAX;

impl Tree {
    /// Shortest up*/down* routes among all nodes that are connected.
    pub fn new(faults: &Faults) -> Self {
        let order = Order::new(faults);
        let lattice = faults.lattice();
        let nodes = lattice.nodes();
        let mut ports = vec![NONE; nodes * nodes];
        for to in lattice.all().filter(|&node| faults.node_works(node)) {
            let row = &mut ports[to.index() * nodes..][..nodes];
            order.fill(to, row);
        }
        Self { nodes, ports }
    }

    /// The next step from `at` to `to`.
    #[inline]
    pub fn hop(&self, at: Node, to: Node) -> Option<Hop> {
        let port = self.ports[to.index() * self.nodes + at.index()];
        (port != NONE).then_some(Hop { port, class: 0 })
    }
}

/// The nodes in the order in which a search from the roots meets them.
struct Order {
    lattice: Lattice,
    /// Rank of each node; a link is up if it leads to a smaller rank.
    rank: Vec<u32>,
    /// Nodes by rank.
    by_rank: Vec<Node>,
    /// Working links of each node, bit by direction.
    links: Vec<u8>,
}

impl Order {
    fn new(faults: &Faults) -> Self {
        let lattice = faults.lattice();
        let works = |node: Node| {
            (0..LINKS)
                .filter(|&d| faults.link_works(node, Direction::ALL[d]))
                .fold(0, |m, d| m | 1 << d)
        };
        let links: Vec<u8> = lattice.all().map(works).collect();
        let mut order =
            Self { lattice, rank: vec![u32::MAX; lattice.nodes()], by_rank: Vec::new(), links };
        for start in lattice.all().filter(|&node| faults.node_works(node)) {
            if order.rank[start.index()] == u32::MAX {
                let root = order.centre_of_part(start);
                order.rank_from(root);
            }
        }
        order
    }

    fn neighbours(&self, node: Node) -> impl Iterator<Item = (u8, Node)> + '_ {
        let links = self.links[node.index()];
        (0..LINKS as u8)
            .filter(move |d| links >> d & 1 == 1)
            .map(move |d| (d, self.lattice.neighbour(node, Direction::ALL[usize::from(d)])))
    }

    /// A node in the middle of its part: the root that keeps routes short.
    ///
    /// A torus looks the same from everywhere, so one with most working links is as good as any.
    fn centre_of_part(&self, start: Node) -> Node {
        let mut seen = vec![false; self.rank.len()];
        let mut open = VecDeque::from([start]);
        seen[start.index()] = true;
        let mut best = start;
        while let Some(node) = open.pop_front() {
            if self.links[node.index()].count_ones() > self.links[best.index()].count_ones() {
                best = node;
            }
            for (_, other) in self.neighbours(node) {
                if !std::mem::replace(&mut seen[other.index()], true) {
                    open.push_back(other);
                }
            }
        }
        best
    }

    fn rank_from(&mut self, root: Node) {
        let mut open = VecDeque::from([root]);
        self.rank[root.index()] = self.by_rank.len() as u32;
        self.by_rank.push(root);
        while let Some(node) = open.pop_front() {
            let others: Vec<Node> = self.neighbours(node).map(|(_, other)| other).collect();
            for other in others {
                if self.rank[other.index()] == u32::MAX {
                    self.rank[other.index()] = self.by_rank.len() as u32;
                    self.by_rank.push(other);
                    open.push_back(other);
                }
            }
        }
    }

    /// Ports towards `to` for all nodes: down where a way down exists, else up along the shortest.
    fn fill(&self, to: Node, ports: &mut [u8]) {
        let mut length = vec![u32::MAX; self.rank.len()];
        length[to.index()] = 0;
        ports[to.index()] = LOCAL;
        // Backwards along ways down: from the destination to nodes of smaller rank.
        let mut open = VecDeque::from([to]);
        while let Some(node) = open.pop_front() {
            for (direction, above) in self.neighbours(node) {
                if self.rank[above.index()] < self.rank[node.index()]
                    && length[above.index()] == u32::MAX
                {
                    length[above.index()] = length[node.index()] + 1;
                    ports[above.index()] = direction ^ 1;
                    open.push_back(above);
                }
            }
        }
        // Every link up leads to a smaller rank, whose way is known by the time it is asked for.
        for &node in &self.by_rank {
            if ports[node.index()] != NONE {
                continue;
            }
            let up = |&(_, other): &(u8, Node)| {
                self.rank[other.index()] < self.rank[node.index()]
                    && length[other.index()] != u32::MAX
            };
            let shortest =
                self.neighbours(node).filter(up).min_by_key(|(_, other)| length[other.index()]);
            if let Some((direction, other)) = shortest {
                length[node.index()] = length[other.index()] + 1;
                ports[node.index()] = direction;
            }
        }
    }
}
