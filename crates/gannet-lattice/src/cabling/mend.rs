//! What is to be done to cables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Cabling, End};
use crate::lattice::{Direction, LINKS, Lattice, Node};

/// Something to be done to a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mend {
    /// The cable at `from` goes to `wrong`, and should go to `right`, where another one is: exchange these two ends.
    Swap {
        /// The end that stays.
        from: End,
        /// Where the cable goes.
        wrong: End,
        /// Where it should go.
        right: End,
    },
    /// The cable at `from` goes to `wrong`, and should go to `right`, which is free.
    Move {
        /// The end that stays.
        from: End,
        /// Where the cable goes.
        wrong: End,
        /// Where it should go.
        right: End,
    },
    /// A cable is missing between these ports, which are free.
    Plug([End; 2]),
    /// A cable is missing between these hosts, and one of them has no port left for it.
    NoPort([usize; 2]),
    /// This cable joins no neighbours, and no neighbours lack one.
    Unplug([End; 2]),
}

/// A [`Mend`] in words, by the names of ports.
struct Words<N> {
    mend: Mend,
    lattice: Lattice,
    name: N,
}

impl Mend {
    /// The mend in words, for hosts that are to make `lattice`, whose ports and hosts have the names that `name` gives.
    pub fn words<D: fmt::Display>(
        self,
        lattice: Lattice,
        name: impl Fn(usize, Option<u8>) -> D,
    ) -> impl fmt::Display {
        Words { mend: self, lattice, name }
    }
}

impl<D: fmt::Display, N: Fn(usize, Option<u8>) -> D> fmt::Display for Words<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = |end: End| (self.name)(end.host, Some(end.port));
        let host = |host| (self.name)(host, None);
        let lattice = self.lattice;
        match self.mend {
            Mend::Swap { from, wrong, right } => write!(
                f,
                "{} goes to {}; for {lattice} it should go to {}: swap it with the cable of {}",
                port(from),
                port(wrong),
                port(right),
                port(right)
            ),
            Mend::Move { from, wrong, right } => write!(
                f,
                "{} goes to {}; for {lattice} it should go to {}, which is free: move it there",
                port(from),
                port(wrong),
                port(right)
            ),
            Mend::Plug([a, b]) => {
                write!(f, "for {lattice} a cable is missing between {} and {}", port(a), port(b))
            }
            Mend::NoPort([a, b]) => write!(
                f,
                "for {lattice} a cable is missing between {} and {}, and one of them has no port left for it",
                host(a),
                host(b)
            ),
            Mend::Unplug([a, b]) => write!(
                f,
                "{} goes to {}, which {lattice} has no cable between: unplug it",
                port(a),
                port(b)
            ),
        }
    }
}

impl Mend {
    /// Does it to the cables.
    pub fn apply(self, cables: &mut Vec<[End; 2]>) {
        let replace = |cables: &mut Vec<[End; 2]>, pairs: &[(End, End)]| {
            for end in cables.iter_mut().flatten() {
                if let Some(&(_, to)) = pairs.iter().find(|(from, _)| from == end) {
                    *end = to;
                }
            }
        };
        match self {
            Self::Swap { wrong, right, .. } => replace(cables, &[(wrong, right), (right, wrong)]),
            Self::Move { wrong, right, .. } => replace(cables, &[(wrong, right)]),
            Self::Plug(ends) => cables.push(ends),
            Self::NoPort(_) => {}
            Self::Unplug([a, b]) => cables.retain(|ends| *ends != [a, b] && *ends != [b, a]),
        }
    }
}

/// What makes the cables of `cabling` those of `lattice`, where `hosts` are its nodes and `ports` those of right cables.
pub(super) fn mends(
    cabling: &Cabling,
    lattice: Lattice,
    hosts: &[Option<usize>],
    ports: &[[Option<u8>; LINKS]],
) -> Vec<Mend> {
    let mut right = BTreeSet::new();
    let mut lacking: Vec<[usize; 2]> = Vec::new();
    for cable in lattice.cables() {
        let direction = Direction::of(cable.dimension, true);
        let other = lattice.neighbour(cable.from, direction);
        let ends = |node: Node, direction: Direction| ports[node.index()][direction.index()];
        let Some((a, b)) = hosts[cable.from.index()].zip(hosts[other.index()]) else { continue };
        match ends(cable.from, direction).zip(ends(other, direction.opposite())) {
            Some((port, other_port)) => {
                right.insert(End { host: a, port });
                right.insert(End { host: b, port: other_port });
            }
            None => lacking.push([a, b]),
        }
    }
    let mut wrong: Vec<[End; 2]> =
        cabling.cables.iter().filter(|[a, _]| !right.contains(a)).copied().collect();
    let mut free: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    for (host, &ports) in cabling.ports.iter().enumerate() {
        let is_used = |port| cabling.cables.iter().flatten().any(|end| *end == End { host, port });
        free.insert(host, (0..ports).rev().filter(|&port| !is_used(port)).collect());
    }
    let mut mends = Vec::new();
    // A cable that has one end at a host that lacks one is brought to where it should go.
    while let Some(Use { cable, stays, lack, to, there }) = find(&wrong, &lacking, &free) {
        lacking.remove(lack);
        let (from, goes) = (wrong[cable][stays], wrong[cable][1 - stays]);
        match there {
            Some((other, end)) => {
                let right = std::mem::replace(&mut wrong[other][end], goes);
                mends.push(Mend::Swap { from, wrong: goes, right });
                settle(&mut wrong, other, &mut lacking);
                wrong.retain(|ends| *ends != [from, goes] && *ends != [goes, from]);
            }
            None => {
                let Some(port) = free.get_mut(&to).and_then(Vec::pop) else { break };
                mends.push(Mend::Move { from, wrong: goes, right: End { host: to, port } });
                free.entry(goes.host).or_default().push(goes.port);
                wrong.remove(cable);
            }
        }
    }
    mends.extend(wrong.into_iter().map(|ends| {
        for end in ends {
            free.entry(end.host).or_default().push(end.port);
        }
        Mend::Unplug(ends)
    }));
    for [a, b] in lacking {
        let ports = [a, b].map(|host| free.get_mut(&host).and_then(Vec::pop));
        mends.push(match ports {
            [Some(port), Some(other)] => {
                Mend::Plug([End { host: a, port }, End { host: b, port: other }])
            }
            _ => Mend::NoPort([a, b]),
        });
    }
    mends
}

/// What one end of a wrong cable is good for.
#[derive(Clone, Copy)]
struct Use {
    /// The cable, and the end that stays.
    cable: usize,
    stays: usize,
    /// What is lacking, and the host where the other end should go.
    lack: usize,
    to: usize,
    /// The end of a wrong cable that is there.
    there: Option<(usize, usize)>,
}

/// The best use of a wrong cable: one by which two are right after an exchange, if there is one.
fn find(
    wrong: &[[End; 2]],
    lacking: &[[usize; 2]],
    free: &BTreeMap<usize, Vec<u8>>,
) -> Option<Use> {
    let ends = || wrong.iter().enumerate().flat_map(|(cable, _)| [(cable, 0), (cable, 1)]);
    let mut second = None;
    for (cable, stays) in ends() {
        let host = wrong[cable][stays].host;
        for (lack, &[a, b]) in lacking.iter().enumerate().filter(|(_, pair)| pair.contains(&host)) {
            let to = if a == host { b } else { a };
            let there =
                || ends().filter(|&(other, end)| other != cable && wrong[other][end].host == to);
            let goes = wrong[cable][1 - stays].host;
            let is_exchange = |&(other, end): &(usize, usize)| {
                let pair = [goes, wrong[other][1 - end].host];
                let is_it = |(at, it): (usize, &[usize; 2])| {
                    at != lack && (*it == pair || *it == [pair[1], pair[0]])
                };
                lacking.iter().enumerate().any(is_it)
            };
            if let Some(exchange) = there().find(is_exchange) {
                return Some(Use { cable, stays, lack, to, there: Some(exchange) });
            }
            // Where more wrong cables end than are lacking, one has to go anyway.
            let wrong_ends = ends().filter(|&(cable, end)| wrong[cable][end].host == to).count();
            let lacks = lacking.iter().filter(|pair| pair.contains(&to)).count();
            let has_free = free.get(&to).is_some_and(|ports| !ports.is_empty());
            let there = if has_free && wrong_ends < lacks { None } else { there().next() };
            if second.is_none() && (has_free || there.is_some()) {
                second = Some(Use { cable, stays, lack, to, there });
            }
        }
    }
    second
}

/// A wrong cable that an exchange has made right is wrong no more.
fn settle(wrong: &mut Vec<[End; 2]>, at: usize, lacking: &mut Vec<[usize; 2]>) {
    let mut hosts = wrong[at].map(|end| end.host);
    hosts.sort_unstable();
    let is_it = |pair: &[usize; 2]| {
        let mut pair = *pair;
        pair.sort_unstable();
        pair == hosts
    };
    if let Some(place) = lacking.iter().position(is_it) {
        lacking.remove(place);
        wrong.remove(at);
    }
}
