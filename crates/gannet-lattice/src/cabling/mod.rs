//! Which lattice hosts make by the cables between them, and what is wrong with the cables.
//!
//! [`recognise`] is given hosts with numbered ports, whose order means nothing, and the cables between them. It
//! finds the lattice that lacks the least, the place of every host in it, and the direction of every port. What the cables
//! have otherwise it says as [`Mend`]s, in the order in which they are to be done: behind the last of them the cables
//! are those of the lattice, but for what needs a host or a free port that is not there.
//!
//! The lattice that lacks the least is found by growing: a host is put in a corner, its neighbours in each way around it,
//! and then always the host that has the most cables to those around its place, until no host is left. Wrong cables
//! then stand out as those that join no neighbours. This is done for each shape that has room for all hosts, from the
//! hosts whose own cables lack nothing.
//!
//! What it cannot tell: an exchange of cables after which they make another torus of the same shape; which of
//! several shapes was meant where they lack equally much; and where a dead host was, if nothing tells a hole in the
//! lattice from a smaller one. A `wanted` lattice settles all but the first.

mod grow;
mod mend;

use crate::lattice::{LINKS, Lattice, Node};

pub use mend::Mend;

/// Holes that a lattice may have, beyond a sixteenth of its nodes.
const HOLES_MAX: usize = 4;

/// So often a host is put somewhere, in all tries together, before no more ways are looked for: cables that make nothing
/// like a lattice must not keep whoever asks.
const PLACED_MAX: usize = 200_000;

/// So many cables may be lacking, in one try after the other.
const LACKING: [usize; 4] = [0, 4, 16, usize::MAX];

/// An end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The host, by its place among all.
    pub host: usize,
    /// The port.
    pub port: u8,
}

/// Hosts and the cables between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cabling {
    /// Ports of each host, at most 255.
    pub ports: Vec<u8>,
    /// The two ends of each cable. No end may be in two cables.
    pub cables: Vec<[End; 2]>,
}

/// The lattice that hosts make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// The lattice; its sizes fall from x to z, unless another was wanted.
    pub lattice: Lattice,
    /// The host of each node; none where one is missing.
    pub hosts: Vec<Option<usize>>,
    /// The port of each node in each direction; none where no cable leads to the neighbour.
    pub ports: Vec<[Option<u8>; LINKS]>,
    /// What is to be done so that the cables are those of the lattice.
    pub mends: Vec<Mend>,
    /// Cables that join neighbours of the lattice.
    pub right: usize,
}

impl Recognised {
    /// Nodes without a host.
    pub fn holes(&self) -> impl Iterator<Item = Node> {
        self.lattice.all().filter(|node| self.hosts[node.index()].is_none())
    }

    /// How far the cables are from those of the lattice: holes and mends.
    pub fn distance(&self) -> usize {
        self.holes().count() + self.mends.len()
    }
}

/// The lattice from which hosts and cables differ the least, or how they differ from the `wanted` one; none where there
/// is no lattice with so many nodes, or there are no hosts. The same cabling always gives the same answer, in
/// whatever order the cables are.
pub fn recognise(cabling: &Cabling, wanted: Option<Lattice>) -> Option<Recognised> {
    let mut cabling = cabling.clone();
    cabling.cables.iter_mut().for_each(|ends| ends.sort_unstable());
    cabling.cables.sort_unstable();
    let cabling = &cabling;
    let shapes = match wanted {
        Some(lattice) => vec![lattice],
        None => shapes(cabling),
    };
    let mut budget = PLACED_MAX;
    // What lacks little is found soonest by giving up soon whatever lacks more.
    for lacking in LACKING {
        let holes = |lattice: &&Lattice| lattice.nodes().saturating_sub(cabling.ports.len());
        let fit = shapes.iter().filter(|lattice| holes(lattice) <= lacking);
        let found = fit.filter_map(|&lattice| grow::grow(cabling, lattice, lacking, &mut budget));
        let best = found.min_by_key(|found| (found.distance(), usize::MAX - found.right));
        if let Some(best) = best.filter(|best| best.distance() <= lacking) {
            return Some(best);
        }
    }
    None
}

/// Lattices that have room for all hosts and not much more, whose nodes have about as many links as most hosts have
/// cables, those without holes first.
fn shapes(cabling: &Cabling) -> Vec<Lattice> {
    let hosts = cabling.ports.len();
    let mut degrees = vec![0; hosts];
    cabling.cables.iter().flatten().for_each(|end| degrees[end.host] += 1);
    degrees.sort_unstable();
    // Most hosts have all of their cables.
    let usual = degrees.get(hosts / 2).copied().unwrap_or(0);
    let of_links = |off: usize| {
        let all = (hosts.max(1)..=hosts + HOLES_MAX + hosts / 16).flat_map(shapes_of);
        let links = |lattice: &Lattice| 2 * lattice.dimensions().count();
        all.filter(move |lattice| links(lattice).abs_diff(usual) <= off).collect::<Vec<_>>()
    };
    (2..).map(of_links).find(|shapes| !shapes.is_empty()).unwrap_or_default()
}

/// Lattices of so many nodes whose sizes fall, those with the longest sides first.
fn shapes_of(nodes: usize) -> impl Iterator<Item = Lattice> {
    let divisors = |of: usize| (1..=of).rev().filter(move |size| of.is_multiple_of(*size));
    divisors(nodes).flat_map(move |x| {
        let fits = move |&y: &usize| y <= x && nodes / x / y <= y;
        divisors(nodes / x).filter(fits).filter_map(move |y| {
            let [Ok(x), Ok(y), Ok(z)] = [x, y, nodes / x / y].map(u16::try_from) else {
                return None;
            };
            Lattice::new([x, y, z]).ok()
        })
    })
}

#[cfg(test)]
mod tests;
