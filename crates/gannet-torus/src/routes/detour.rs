//! Nodes to pass on the way where the direct way of dimension order is broken.

use std::collections::HashMap;

use gannet_lattice::{Faults, Lattice, Node};

use super::Routes;

/// For each pair of nodes without a direct way: the node between them.
///
/// A packet turns off early, before the fault, and starts dimension order anew at that node.
#[derive(Clone, Debug)]
pub struct Detours {
    via: HashMap<(Node, Node), Node>,
}

impl Detours {
    /// Finds a node on the way for every pair of connected nodes that has no direct way, so that
    /// the whole way is short; `direct` are routes in dimension order. Pairs for which one such node does not suffice get none.
    ///
    /// `None` when every pair has a direct way.
    pub fn find(faults: &Faults, direct: &Routes) -> Option<Self> {
        let lattice = faults.lattice();
        let lengths = Lengths::measure(faults, direct);
        let mut via = HashMap::new();
        for from in lattice.all().filter(|&node| faults.node_works(node)) {
            for to in lattice.all().filter(|&node| faults.node_works(node)) {
                if lengths.get(from, to).is_none()
                    && let Some(between) = lengths.shortest_between(from, to)
                {
                    via.insert((from, to), between);
                }
            }
        }
        (!lengths.are_complete(faults)).then_some(Self { via })
    }

    /// The node to pass between two nodes, if their direct way is broken.
    #[inline]
    pub fn via(&self, from: Node, to: Node) -> Option<Node> {
        self.via.get(&(from, to)).copied()
    }
}

/// Lengths of all direct ways.
struct Lengths {
    lattice: Lattice,
    /// By source, then destination; `NONE` where the way is broken.
    hops: Vec<u16>,
}

const NONE: u16 = u16::MAX;

impl Lengths {
    fn measure(faults: &Faults, direct: &Routes) -> Self {
        let lattice = faults.lattice();
        let nodes = lattice.nodes();
        let mut hops = vec![NONE; nodes * nodes];
        for from in lattice.all().filter(|&node| faults.node_works(node)) {
            for to in lattice.all().filter(|&node| faults.node_works(node)) {
                if let Some(length) = direct_length(direct, faults, from, to) {
                    hops[from.index() * nodes + to.index()] = length;
                }
            }
        }
        Self { lattice, hops }
    }

    fn get(&self, from: Node, to: Node) -> Option<u16> {
        let length = self.hops[from.index() * self.lattice.nodes() + to.index()];
        (length != NONE).then_some(length)
    }

    fn shortest_between(&self, from: Node, to: Node) -> Option<Node> {
        let length = |between| Some(self.get(from, between)? + self.get(between, to)?);
        let ways = self.lattice.all().filter_map(|between| Some((length(between)?, between)));
        ways.min().map(|(_, between)| between)
    }

    fn are_complete(&self, faults: &Faults) -> bool {
        let nodes = self.lattice.nodes();
        let alive = nodes - faults.dead_node_count();
        self.hops.iter().filter(|&&length| length != NONE).count() == alive * alive
    }
}

/// Links of the direct way, if every one of them works.
fn direct_length(direct: &Routes, faults: &Faults, from: Node, to: Node) -> Option<u16> {
    let mut length = 0;
    for (at, hop) in direct.walk(from, to)? {
        match hop.link() {
            None => return Some(length),
            Some(link) if faults.link_works(at, link) => length += 1,
            Some(_) => return None,
        }
    }
    None
}
