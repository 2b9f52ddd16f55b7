//! Growing a lattice from one of its hosts.

use std::collections::BTreeMap;

use super::mend::mends;
use super::{Cabling, End, Recognised};
use crate::lattice::{Direction, LINKS, Lattice, Node};

/// Hosts from which a lattice is grown, at most.
const SEEDS: usize = 6;

/// The cables of hosts by who is at the other end.
pub(super) struct Neighbours {
    /// Of each host: each neighbour with the number of cables to it.
    of: Vec<BTreeMap<usize, usize>>,
}

impl Neighbours {
    pub(super) fn of(cabling: &Cabling) -> Self {
        let mut of = vec![BTreeMap::new(); cabling.ports.len()];
        for [a, b] in &cabling.cables {
            if a.host != b.host {
                *of[a.host].entry(b.host).or_insert(0) += 1;
                *of[b.host].entry(a.host).or_insert(0) += 1;
            }
        }
        Self { of }
    }

    fn cables(&self, a: usize, b: usize) -> usize {
        self.of[a].get(&b).copied().unwrap_or(0)
    }
}

/// Where hosts are, so far.
#[derive(Clone)]
struct Places {
    lattice: Lattice,
    hosts: Vec<Option<usize>>,
    nodes: Vec<Option<Node>>,
    /// Cables between neighbours that are not there.
    lacking: usize,
}

impl Places {
    fn put(&mut self, neighbours: &Neighbours, host: usize, node: Node) {
        let around = self.around(node).filter(|(other, _)| self.hosts[other.index()].is_some());
        let expected: usize = around.map(|(_, cables)| cables).sum();
        self.lacking += expected - self.votes(neighbours, host, node);
        self.hosts[node.index()] = Some(host);
        self.nodes[host] = Some(node);
    }

    /// Who is most likely at a node that is free, of those that are not placed.
    fn choose(&self, neighbours: &Neighbours, node: Node) -> Option<(Choice, usize)> {
        if self.hosts[node.index()].is_some() {
            return None;
        }
        let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
        for (other, cables) in self.around(node) {
            let Some(host) = self.hosts[other.index()] else { continue };
            for (&candidate, &count) in &neighbours.of[host] {
                if self.nodes[candidate].is_none() {
                    *votes.entry(candidate).or_insert(0) += count.min(cables);
                }
            }
        }
        let (&host, &most) =
            votes.iter().max_by_key(|&(&host, &votes)| (votes, usize::MAX - host))?;
        let others = votes.iter().filter(|&(&other, _)| other != host);
        let second = others.map(|(_, &votes)| votes).max().unwrap_or(0);
        Some((Choice { lead: most - second, votes: most }, host))
    }

    /// The nodes around one, each once, with the number of cables that lead there.
    fn around(&self, node: Node) -> impl Iterator<Item = (Node, usize)> {
        let lattice = self.lattice;
        let directions =
            Direction::ALL.into_iter().filter(move |&direction| lattice.has(direction));
        directions.filter_map(move |direction| {
            let is_double = lattice.sizes()[direction.dimension()] == 2;
            let other = lattice.neighbour(node, direction);
            (!is_double || direction.is_plus()).then_some((other, 1 + usize::from(is_double)))
        })
    }

    /// A host to which no cable leads from those that are placed, and a free node for it, next to these: of what is
    /// left, one at an end of it.
    fn begin_anew(&self, neighbours: &Neighbours) -> Option<(usize, Node)> {
        let left = (0..self.nodes.len()).filter(|&host| self.nodes[host].is_none());
        let to_others = |host: &usize| {
            let others =
                neighbours.of[*host].iter().filter(|(other, _)| self.nodes[**other].is_none());
            (others.map(|(_, cables)| cables).sum::<usize>(), *host)
        };
        let free = self.lattice.all().filter(|node| self.hosts[node.index()].is_none());
        let next_to = |node: &Node| {
            self.around(*node).filter(|(other, _)| self.hosts[other.index()].is_some()).count()
        };
        Some((left.min_by_key(to_others)?, free.max_by_key(next_to)?))
    }

    /// Cables between a host, were it at `node`, and those around it.
    fn votes(&self, neighbours: &Neighbours, host: usize, node: Node) -> usize {
        let votes = self.around(node).filter_map(|(other, cables)| {
            Some(neighbours.cables(host, self.hosts[other.index()]?).min(cables))
        });
        votes.sum()
    }

    /// The same with hosts that lack cables exchanged with others, or put into holes, as long as that makes more cables right.
    fn polished(mut self, neighbours: &Neighbours) -> Self {
        if self.lacking == 0 {
            return self;
        }
        let mut is_better = true;
        while std::mem::take(&mut is_better) {
            for host in 0..self.nodes.len() {
                let Some(node) = self.nodes[host] else { continue };
                let have: usize = neighbours.of[host].values().sum();
                if self.votes(neighbours, host, node) == have {
                    continue;
                }
                let near = neighbours.of[host].keys().filter_map(|&other| self.nodes[other]);
                let mut places: Vec<Node> =
                    near.flat_map(|node| self.around(node).map(|(node, _)| node)).collect();
                places.sort_unstable();
                places.dedup();
                let better = places.into_iter().find(|&place| {
                    let before = self.votes_at(neighbours, [node, place]);
                    self.exchange(node, place);
                    let is_better = self.votes_at(neighbours, [node, place]) > before;
                    self.exchange(node, place);
                    is_better
                });
                if let Some(place) = better {
                    self.exchange(node, place);
                    is_better = true;
                }
            }
        }
        let is_taken = |node: Node| self.hosts[node.index()].is_some();
        let around = |node: Node| {
            let taken = self.around(node).filter(|(other, _)| is_taken(*other));
            taken.map(|(_, cables)| cables).sum::<usize>()
        };
        let all = self.nodes.iter().flatten().map(|&node| around(node)).sum::<usize>() / 2;
        self.lacking = all - self.right(neighbours);
        self
    }

    /// Right cables of the hosts at these nodes.
    fn votes_at(&self, neighbours: &Neighbours, nodes: [Node; 2]) -> usize {
        let votes = |node: Node| Some(self.votes(neighbours, self.hosts[node.index()]?, node));
        nodes.into_iter().filter_map(votes).sum()
    }

    fn exchange(&mut self, a: Node, b: Node) {
        self.hosts.swap(a.index(), b.index());
        for node in [a, b] {
            if let Some(host) = self.hosts[node.index()] {
                self.nodes[host] = Some(node);
            }
        }
    }

    /// Cables that join neighbours of the lattice.
    fn right(&self, neighbours: &Neighbours) -> usize {
        let votes =
            |(host, node): (usize, &Option<Node>)| Some(self.votes(neighbours, host, (*node)?));
        self.nodes.iter().enumerate().filter_map(votes).sum::<usize>() / 2
    }
}

/// The way in which the cables of `cabling` are most those of `lattice`; none where it has no room, or more than
/// `lacking` cables are not there. When the `budget` of hosts that may be put somewhere is used up, only one way is tried.
pub(super) fn grow(
    cabling: &Cabling,
    lattice: Lattice,
    lacking: usize,
    budget: &mut usize,
) -> Option<Recognised> {
    let hosts = cabling.ports.len();
    if hosts == 0 || hosts > lattice.nodes() {
        return None;
    }
    let neighbours = Neighbours::of(cabling);
    let links = 2 * lattice.dimensions().count();
    // Those lack nothing that have a cable for each of their links.
    let lacks = |host: usize| neighbours.of[host].values().sum::<usize>().abs_diff(links);
    let mut seeds: Vec<usize> = (0..hosts).collect();
    seeds.sort_by_key(|&host| lacks(host));
    let mut best: Option<Places> = None;
    'seeds: for &seed in seeds.iter().take(SEEDS) {
        for start in starts(&neighbours, lattice, seed, hosts) {
            // Another has to be better.
            let most = best.as_ref().map_or(Some(lacking), |best| best.lacking.checked_sub(1));
            let Some(most) = most else { break 'seeds };
            if *budget == 0 && (best.is_some() || lacking < usize::MAX) {
                break 'seeds;
            }
            let grown =
                spread(&neighbours, start, most, budget).map(|places| places.polished(&neighbours));
            best = grown.or(best);
        }
    }
    let places = best?;
    let right = places.right(&neighbours);
    let ports = ports(cabling, &places);
    let mends = mends(cabling, lattice, &places.hosts, &ports);
    Some(Recognised { lattice, hosts: places.hosts, ports, mends, right })
}

/// Ways in which the neighbours of `seed` may lie around it: one of each that the symmetries of the lattice make
/// alike. A neighbour that is lacking, or one too many, leaves a place to the growth.
fn starts(neighbours: &Neighbours, lattice: Lattice, seed: usize, hosts: usize) -> Vec<Places> {
    let mut empty = Places {
        lattice,
        hosts: vec![None; lattice.nodes()],
        nodes: vec![None; hosts],
        lacking: 0,
    };
    empty.put(neighbours, seed, Node(0));
    let mut starts = Vec::new();
    let around: Vec<(usize, usize)> =
        neighbours.of[seed].iter().map(|(&host, &cables)| (host, cables)).collect();
    let dimensions: Vec<usize> = lattice.dimensions().collect();
    extend(neighbours, &empty, &around, &dimensions, &mut starts);
    starts
}

/// Most ways to begin that are tried from one host.
const STARTS_MAX: usize = 2000;

/// Fills the places before and behind the seed in the first of the `dimensions` in every way, and then in the others.
fn extend(
    neighbours: &Neighbours,
    places: &Places,
    left: &[(usize, usize)],
    dimensions: &[usize],
    starts: &mut Vec<Places>,
) {
    let Some((&dimension, others)) = dimensions.split_first() else {
        starts.push(places.clone());
        return;
    };
    let seed = Node(0);
    let ends =
        [true, false].map(|plus| places.lattice.neighbour(seed, Direction::of(dimension, plus)));
    let is_double = ends[0] == ends[1];
    let without = |taken: &[usize]| -> Vec<(usize, usize)> {
        left.iter().filter(|(host, _)| !taken.contains(host)).copied().collect()
    };
    let before = starts.len();
    for (at, &(first, cables)) in left.iter().enumerate() {
        if starts.len() >= STARTS_MAX {
            return;
        }
        if is_double {
            // A ring of two is known by its two cables.
            if cables >= 2 {
                let mut places = places.clone();
                places.put(neighbours, first, ends[0]);
                extend(neighbours, &places, &without(&[first]), others, starts);
            }
            continue;
        }
        for &(second, _) in &left[at + 1..] {
            let mut places = places.clone();
            places.put(neighbours, first, ends[0]);
            places.put(neighbours, second, ends[1]);
            extend(neighbours, &places, &without(&[first, second]), others, starts);
        }
    }
    if starts.len() == before {
        // One that lacks a cable begins with what it has.
        for &(first, _) in left {
            let mut places = places.clone();
            places.put(neighbours, first, ends[0]);
            extend(neighbours, &places, &without(&[first]), others, starts);
        }
    }
    if starts.len() == before {
        extend(neighbours, places, left, others, starts);
    }
}

/// Puts one host after the other where most of its cables lead, those first of which that is surest; none where more
/// than `most` cables are not there.
fn spread(
    neighbours: &Neighbours,
    mut places: Places,
    most: usize,
    budget: &mut usize,
) -> Option<Places> {
    let lattice = places.lattice;
    let mut choices: Vec<Option<(Choice, usize)>> = vec![None; lattice.nodes()];
    let begin: Vec<Node> = places.nodes.iter().flatten().copied().collect();
    for (node, _) in begin.iter().flat_map(|&node| places.around(node)) {
        choices[node.index()] = places.choose(neighbours, node);
    }
    let best = |choices: &[Option<(Choice, usize)>]| {
        let known = choices.iter().enumerate().filter_map(|(at, choice)| Some((at, (*choice)?)));
        known.max_by_key(|&(at, (choice, _))| (choice, usize::MAX - at))
    };
    loop {
        let next = best(&choices).map(|(at, (_, host))| (host, Node(at as u32)));
        let Some((host, node)) = next.or_else(|| places.begin_anew(neighbours)) else { break };
        *budget = budget.saturating_sub(1);
        places.put(neighbours, host, node);
        if places.lacking > most {
            return None;
        }
        for (at, choice) in choices.iter_mut().enumerate() {
            let node = Node(at as u32);
            if choice.is_some_and(|(_, chosen)| chosen == host) {
                *choice = places.choose(neighbours, node);
            }
        }
        for (other, _) in places.around(node) {
            choices[other.index()] = places.choose(neighbours, other);
        }
    }
    (places.lacking <= most).then_some(places)
}

/// How sure it is who is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Choice {
    /// Cables of the first candidate beyond those of the second.
    lead: usize,
    /// Cables of the first candidate.
    votes: usize,
}

/// The port of each node in each direction. Of the two cables of a ring of two, that of the lesser port at the node with
/// the lesser coordinate leads on from there, the other one back.
fn ports(cabling: &Cabling, places: &Places) -> Vec<[Option<u8>; LINKS]> {
    let lattice = places.lattice;
    let mut ports = vec![[None; LINKS]; lattice.nodes()];
    for &[a, b] in &cabling.cables {
        let Some((at, there)) = places.nodes[a.host].zip(places.nodes[b.host]) else { continue };
        // The end at the lesser coordinate of a ring of two comes first.
        let (from, to) = if at <= there { ((a, at), (b, there)) } else { ((b, there), (a, at)) };
        let ((end, node), (other, other_node)): ((End, Node), (End, Node)) = (from, to);
        let free = Direction::ALL.into_iter().find(|&direction| {
            lattice.has(direction)
                && lattice.neighbour(node, direction) == other_node
                && ports[node.index()][direction.index()].is_none()
                && ports[other_node.index()][direction.opposite().index()].is_none()
        });
        if let Some(direction) = free {
            ports[node.index()][direction.index()] = Some(end.port);
            ports[other_node.index()][direction.opposite().index()] = Some(other.port);
        }
    }
    ports
}
