//! The next hop by destination alone, for routers that know nothing else of a packet: the kernels of hosts.
//!
//! [`Routes`](super::Routes) may send packets past a node on the way, or up a tree, and give each the class of its channels; what
//! forwards IP has no place for either, and needs none, since it drops what it has no room for and so cannot deadlock. Here
//! each node sends a packet to a neighbour that is nearer to its destination, so that no packet goes round in circles.

use std::collections::VecDeque;

use gannet_lattice::{DIMENSIONS, Direction, Faults, Lattice, Node};

use super::check::{Proven, Unfit};
use super::plan::{MAX_CHECKED_NODES, Refused};
use super::ring::Rings;
use super::{Journey, evenly};

/// The next hop of each node to each other one.
///
/// All routes are as short as the faults allow. Of several shortest ones a node takes the one in the first dimension, and there
/// the shorter way round a ring without faults: without faults that is the first hop of
/// [`Routes::dimension_order`](super::Routes::dimension_order). Whoever knows the same faults finds the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHops {
    lattice: Lattice,
    /// Links to the destination, by destination, then node; `NONE` where there is no way.
    hops: Vec<u16>,
    /// Number of the direction of the next link, in the same order; of no meaning at the destination, and without a way.
    links: Vec<u8>,
}

const NONE: u16 = u16::MAX;

impl NextHops {
    /// The next hops of a machine with these faults, and the proof that every pair of connected nodes has a route.
    ///
    /// # Errors
    /// [`Refused`], with the reason.
    pub fn around(faults: &Faults) -> Result<(Self, Proven), Refused> {
        let lattice = faults.lattice();
        let nodes = lattice.nodes();
        if nodes > MAX_CHECKED_NODES {
            return Err(Refused::TooLarge(nodes));
        }
        let mut table =
            Self { lattice, hops: vec![NONE; nodes * nodes], links: vec![0; nodes * nodes] };
        let rings = Rings::new(&Faults::none(lattice));
        for to in lattice.all().filter(|&node| faults.node_works(node)) {
            table.measure(faults, to);
            table.choose(faults, &rings, to);
        }
        let proven = table.check(faults).map_err(Refused::Unfit)?;
        Ok((table, proven))
    }

    /// The link by which `from` sends what is for `to`; none where there is no way, and to itself.
    pub fn next(&self, from: Node, to: Node) -> Option<Direction> {
        let at = self.at(from, to);
        let is_way = from != to && self.hops[at] != NONE;
        is_way.then(|| Direction::ALL[usize::from(self.links[at])])
    }

    /// Links from `from` to `to`; none where there is no way.
    pub fn hops(&self, from: Node, to: Node) -> Option<u32> {
        let hops = self.hops[self.at(from, to)];
        (hops != NONE).then(|| hops.into())
    }

    /// The links of the route from `from` to `to`, each with the node that it leaves; none where there is no way.
    pub fn walk(&self, from: Node, to: Node) -> impl Iterator<Item = (Node, Direction)> {
        let step = move |at: Node| Some((at, self.next(at, to)?));
        std::iter::successors(step(from), move |&(at, link)| step(self.lattice.neighbour(at, link)))
    }

    fn at(&self, from: Node, to: Node) -> usize {
        to.index() * self.lattice.nodes() + from.index()
    }

    /// Counts the links from every node to `to`.
    fn measure(&mut self, faults: &Faults, to: Node) {
        let row = self.at(Node(0), to);
        self.hops[row + to.index()] = 0;
        let mut open = VecDeque::from([to]);
        while let Some(node) = open.pop_front() {
            for direction in Direction::ALL {
                let other = self.lattice.neighbour(node, direction);
                if faults.link_works(node, direction) && self.hops[row + other.index()] == NONE {
                    self.hops[row + other.index()] = self.hops[row + node.index()] + 1;
                    open.push_back(other);
                }
            }
        }
    }

    /// Chooses the links that lead nearer to `to`.
    fn choose(&mut self, faults: &Faults, rings: &Rings, to: Node) {
        for from in self.lattice.all().filter(|&from| from != to) {
            let at = self.at(from, to);
            let leads_nearer = |&link: &Direction| {
                let next = self.at(self.lattice.neighbour(from, link), to);
                faults.link_works(from, link) && self.hops[next] < self.hops[at]
            };
            let link = self.preferred(rings, from, to).find(leads_nearer);
            if let Some(link) = link {
                self.links[at] = link as u8;
            }
        }
    }

    /// All directions, those first by which `from` would rather send what is for `to`.
    fn preferred(&self, rings: &Rings, from: Node, to: Node) -> impl Iterator<Item = Direction> {
        let [here, there] = [from, to].map(|node| self.lattice.coordinates(node));
        let journey = Journey { source: here, destination: there, via: there };
        (0..DIMENSIONS).flat_map(move |dimension| {
            let shorter = (here[dimension] != there[dimension])
                .then(|| {
                    let even = || evenly(&journey, dimension);
                    rings.enter(here, dimension, there[dimension], even)
                })
                .flatten();
            let first = shorter.map_or(Direction::of(dimension, true), |entry| entry.direction);
            [first, first.opposite()]
        })
    }

    /// Walks the route of every pair of connected nodes.
    fn check(&self, faults: &Faults) -> Result<Proven, Unfit> {
        let parts = faults.parts();
        let mut proven = Proven { pairs: 0, hops: 0, longest: 0 };
        for from in self.lattice.all().filter(|&node| faults.node_works(node)) {
            let is_connected = |&to: &Node| to != from && parts[to.index()] == parts[from.index()];
            for to in self.lattice.all().filter(is_connected) {
                let hops = self.hops(from, to).ok_or(Unfit::Unreachable { from, to })?;
                let mut end = from;
                for (at, link) in self.walk(from, to).take(hops as usize) {
                    if !faults.link_works(at, link) {
                        return Err(Unfit::Broken { from, to, at, link });
                    }
                    end = self.lattice.neighbour(at, link);
                }
                if end != to {
                    return Err(Unfit::Endless { from, to, hops });
                }
                proven.pairs += 1;
                proven.hops += u64::from(hops);
                proven.longest = proven.longest.max(hops);
            }
        }
        Ok(proven)
    }
}

#[cfg(test)]
mod tests {
    use gannet_measure::random::Random;
    use proptest::prelude::*;

    use super::*;
    use crate::routes::Routes;

    fn lattice() -> impl Strategy<Value = Lattice> {
        [1u16..7, 1u16..5, 1u16..4].prop_map(|sizes| Lattice::new(sizes).unwrap())
    }

    /// Links from `from` to all nodes, by a search that knows nothing of tables.
    fn distances(faults: &Faults, from: Node) -> Vec<Option<u32>> {
        let lattice = faults.lattice();
        let mut distance = vec![None; lattice.nodes()];
        let mut reached = vec![from];
        for hops in 0.. {
            reached.retain(|node| distance[node.index()].is_none());
            reached.iter().for_each(|node| distance[node.index()] = Some(hops));
            if reached.is_empty() {
                break;
            }
            reached = reached
                .iter()
                .flat_map(|&node| Direction::ALL.map(|link| (node, link)))
                .filter(|&(node, link)| faults.link_works(node, link))
                .map(|(node, link)| lattice.neighbour(node, link))
                .collect();
        }
        distance
    }

    proptest! {
        #[test]
        fn without_faults_each_hop_is_the_first_one_of_dimension_order(lattice in lattice()) {
            let (table, proven) = NextHops::around(&Faults::none(lattice)).unwrap();
            let nodes = lattice.nodes() as u64;
            prop_assert_eq!((proven.pairs, proven.longest), (nodes * (nodes - 1), lattice.diameter()));
            let routes = Routes::dimension_order(lattice);
            for (from, to) in lattice.all().flat_map(|from| lattice.all().map(move |to| (from, to))) {
                let first = routes.walk(from, to).unwrap().links().next().map(|(_, link)| link);
                prop_assert_eq!(table.next(from, to), first, "{} to {}", from, to);
                prop_assert_eq!(table.hops(from, to), Some(lattice.distance(from, to)));
            }
        }

        #[test]
        fn round_faults_each_reachable_pair_has_a_shortest_route(
            lattice in lattice(), seed: u64, nodes in 0usize..6, cables in 0usize..30,
        ) {
            let faults = Faults::random(lattice, nodes, cables, &mut Random::new(seed));
            let (table, _) = NextHops::around(&faults).unwrap();
            for from in lattice.all() {
                let works = faults.node_works(from);
                let expected = if works { distances(&faults, from) } else { vec![None; lattice.nodes()] };
                for to in lattice.all() {
                    prop_assert_eq!(table.hops(from, to), expected[to.index()], "{} to {}", from, to);
                    let (mut at, mut links) = (from, 0);
                    for (node, link) in table.walk(from, to) {
                        prop_assert_eq!(node, at);
                        prop_assert!(faults.link_works(node, link));
                        (at, links) = (lattice.neighbour(node, link), links + 1);
                    }
                    match expected[to.index()] {
                        Some(hops) => prop_assert_eq!((at, links), (to, hops)),
                        None => prop_assert_eq!((links, table.next(from, to)), (0, None)),
                    }
                }
            }
        }
    }

    #[test]
    fn a_route_turns_where_its_ring_is_cut_and_only_there() {
        let lattice: Lattice = "4x4".parse().unwrap();
        let mut faults = Faults::none(lattice);
        faults.kill_cable(lattice.cable(Node(0), Direction::XPlus));
        let (table, proven) = NextHops::around(&faults).unwrap();
        // To the next node in x, three round the ring or three by the row beside: x goes first.
        let links: Vec<_> = table.walk(Node(0), Node(1)).map(|(_, link)| link).collect();
        assert_eq!(links, [Direction::XMinus; 3]);
        // What only would have begun by that cable takes its turn before.
        let links: Vec<_> = table.walk(Node(0), Node(5)).map(|(_, link)| link).collect();
        assert_eq!(links, [Direction::YPlus, Direction::XPlus]);
        assert_eq!((proven.pairs, proven.longest), (16 * 15, 4));
    }

    #[test]
    fn a_machine_too_large_to_walk_is_refused() {
        let refused = NextHops::around(&Faults::none("17x16x16".parse().unwrap())).unwrap_err();
        assert_eq!(refused, Refused::TooLarge(4352));
    }
}
