//! The proof that a set of routes reaches every node and cannot deadlock.
//!
//! Packets hold the channel they are in while they wait for the next. If no chain of such waits
//! closes to a cycle, the network cannot deadlock (Dally and Seitz, "Deadlock-free message routing
//! in multiprocessor interconnection networks", 1987).

use gannet_lattice::{Direction, Faults, LINKS, Lattice, Node};
use thiserror::Error;

use super::{Hop, MAX_CLASSES, Routes};

/// What a set of routes was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proven {
    /// Pairs of different nodes that are connected and routed.
    pub pairs: u64,
    /// Links of all their routes together.
    pub hops: u64,
    /// Links of the longest route.
    pub longest: u32,
}

/// Why routes must not be installed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unfit {
    /// Two connected nodes have no route.
    #[error("{from} is connected to {to} but has no route to it")]
    Unreachable {
        /// The source.
        from: Node,
        /// The destination.
        to: Node,
    },
    /// A route uses a link that does not work.
    #[error("the route from {from} to {to} uses the broken link {link} of {at}")]
    Broken {
        /// The source.
        from: Node,
        /// The destination.
        to: Node,
        /// The node at the link.
        at: Node,
        /// The link.
        link: Direction,
    },
    /// A route does not end.
    #[error("the route from {from} to {to} does not end after {hops} links")]
    Endless {
        /// The source.
        from: Node,
        /// The destination.
        to: Node,
        /// Links after which the walk was given up.
        hops: u32,
    },
    /// Channels wait for each other in a cycle.
    #[error(
        "the channels wait for each other in a cycle, of which one is link {link} of {at}, class \
         {class}"
    )]
    Cycle {
        /// The node at one link of the cycle.
        at: Node,
        /// The link.
        link: Direction,
        /// Its class of virtual channels.
        class: u8,
    },
}

/// Channels of a node: every link in every class.
const CHANNELS: usize = LINKS * MAX_CLASSES as usize;

/// Walks the route of every pair of connected nodes.
///
/// # Errors
///
/// [`Unfit`], when a pair has no route over working links, or the channels of all routes together
/// wait for each other in a cycle.
pub fn check(routes: &Routes, faults: &Faults) -> Result<Proven, Unfit> {
    let lattice = routes.lattice();
    let parts = faults.parts();
    let mut graph = ChannelGraph::new(lattice);
    let mut proven = Proven { pairs: 0, hops: 0, longest: 0 };
    for from in lattice.all().filter(|&node| faults.node_works(node)) {
        for to in lattice.all().filter(|&to| to != from && parts[to.index()] == parts[from.index()])
        {
            let hops = walk(routes, faults, from, to, &mut graph)?;
            proven.pairs += 1;
            proven.hops += u64::from(hops);
            proven.longest = proven.longest.max(hops);
        }
    }
    match graph.cycle() {
        None => Ok(proven),
        Some((at, hop)) => {
            Err(Unfit::Cycle { at, link: Direction::ALL[usize::from(hop.port)], class: hop.class })
        }
    }
}

/// Follows one route, adds its channels to `graph`, and counts its links.
fn walk(
    routes: &Routes,
    faults: &Faults,
    from: Node,
    to: Node,
    graph: &mut ChannelGraph,
) -> Result<u32, Unfit> {
    let mut last = None;
    let mut hops = 0;
    for (at, hop) in routes.walk(from, to).ok_or(Unfit::Unreachable { from, to })? {
        let Some(link) = hop.link() else {
            return if at == to { Ok(hops) } else { Err(Unfit::Unreachable { from, to }) };
        };
        if !faults.link_works(at, link) {
            return Err(Unfit::Broken { from, to, at, link });
        }
        graph.add(last.replace((at, hop)), (at, hop));
        hops += 1;
    }
    if hops == routes.links_max() {
        Err(Unfit::Endless { from, to, hops })
    } else {
        Err(Unfit::Unreachable { from, to })
    }
}

/// Which channel waits for which: channel = node, link, class.
struct ChannelGraph {
    lattice: Lattice,
    /// For each channel the channels of the next node that follow it, bit by `slot`.
    next: Vec<u32>,
}

/// The place of a hop among the channels of its node.
fn slot(hop: Hop) -> usize {
    usize::from(hop.port) * usize::from(MAX_CLASSES) + usize::from(hop.class)
}

/// The hop at a place among the channels of a node.
fn hop_at(slot: usize) -> Hop {
    Hop {
        port: (slot / usize::from(MAX_CLASSES)) as u8,
        class: (slot % usize::from(MAX_CLASSES)) as u8,
    }
}

impl ChannelGraph {
    fn new(lattice: Lattice) -> Self {
        Self { lattice, next: vec![0; lattice.nodes() * CHANNELS] }
    }

    fn add(&mut self, held: Option<(Node, Hop)>, wanted: (Node, Hop)) {
        if let Some((node, hop)) = held {
            self.next[node.index() * CHANNELS + slot(hop)] |= 1 << slot(wanted.1);
        }
    }

    /// One channel of a cycle, if there is any.
    fn cycle(&self) -> Option<(Node, Hop)> {
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        let mut state = vec![0u8; self.next.len()];
        let mut path: Vec<(usize, u32)> = Vec::new();
        for start in 0..self.next.len() {
            if self.next[start] == 0 || state[start] != 0 {
                continue;
            }
            state[start] = OPEN;
            path.push((start, self.next[start]));
            while let Some((channel, left)) = path.last_mut() {
                if *left == 0 {
                    state[*channel] = DONE;
                    path.pop();
                    continue;
                }
                let wanted = left.trailing_zeros() as usize;
                *left &= *left - 1;
                let next = self.end(*channel) * CHANNELS + wanted;
                match state[next] {
                    0 => {
                        state[next] = OPEN;
                        path.push((next, self.next[next]));
                    }
                    OPEN => {
                        return Some((Node((next / CHANNELS) as u32), hop_at(next % CHANNELS)));
                    }
                    _ => {}
                }
            }
        }
        None
    }

    /// The node at the far end of a channel.
    fn end(&self, channel: usize) -> usize {
        let hop = hop_at(channel % CHANNELS);
        let node = Node((channel / CHANNELS) as u32);
        self.lattice.neighbour(node, Direction::ALL[usize::from(hop.port)]).index()
    }
}
