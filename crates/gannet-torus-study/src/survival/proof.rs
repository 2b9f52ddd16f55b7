//! Another proof that routes reach every node and cannot deadlock.
//!
//! It shares nothing with [`routes::check`](gannet_torus::routes::check) but the question: parts and
//! distances come from breadth-first searches, and the channel-dependency graph is free of cycles if
//! it can be taken apart from its ends (Kahn, "Topological sorting of large networks", 1962).

use std::collections::VecDeque;

use gannet_lattice::{Direction, Faults, LINKS, Lattice, Node};
use gannet_torus::routes::{Journey, LOCAL, MAX_CLASSES, Position, Routes};

/// What was found of routes that are fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Connected parts of the machine.
    pub parts: u32,
    /// Pairs of a working node and a node that it is connected to, itself included.
    pub reachable: u64,
    /// Pairs of different nodes that are connected.
    pub pairs: u64,
    /// Links of the routes of all pairs.
    pub hops: u64,
    /// Links of the shortest ways that the faults leave.
    pub shortest: u64,
    /// Links of the shortest ways in a machine without faults.
    pub distance: u64,
    /// Links of the longest route.
    pub longest: u32,
    /// Channels that routes use.
    pub channels: u64,
}

/// Proves that routes lead from each working node to each node that it is connected to, over
/// working links only and to no other, and that their channels cannot wait for each other.
///
/// # Errors
/// What is wrong with them.
pub(super) fn prove(routes: &Routes, faults: &Faults) -> Result<Proof, String> {
    let lattice = faults.lattice();
    let mut proof = Proof::default();
    let mut waits = Waits::new(lattice);
    let mut is_in_a_part = vec![false; lattice.nodes()];
    for from in lattice.all() {
        let shortest = distances(faults, from);
        if faults.node_works(from) && !is_in_a_part[from.index()] {
            proof.parts += 1;
            let members = lattice.all().filter(|node| shortest[node.index()].is_some());
            members.for_each(|node| is_in_a_part[node.index()] = true);
        }
        for to in lattice.all() {
            match shortest[to.index()] {
                Some(0) => proof.reachable += 1,
                Some(shortest) => {
                    let hops = walk(routes, faults, from, to, &mut waits)?;
                    proof.reachable += 1;
                    proof.pairs += 1;
                    proof.hops += u64::from(hops);
                    proof.shortest += u64::from(shortest);
                    proof.distance += u64::from(lattice.distance(from, to));
                    proof.longest = proof.longest.max(hops);
                }
                None if routes.way(from, to).is_none() => {}
                None => return Err(format!("{from} has a way to {to}, which is not connected")),
            }
        }
    }
    proof.channels = waits.take_apart()?;
    Ok(proof)
}

/// Whether packets can pass from `node` over this link, and where to.
fn across(faults: &Faults, node: Node, direction: Direction) -> Option<Node> {
    let lattice = faults.lattice();
    let other = lattice.neighbour(node, direction);
    let works = lattice.sizes()[direction.dimension()] > 1
        && faults.node_works(node)
        && faults.node_works(other)
        && faults.cable_works(lattice.cable(node, direction));
    works.then_some(other)
}

/// Links of the shortest way from `from` to each node; none to nodes that it is not connected to.
fn distances(faults: &Faults, from: Node) -> Vec<Option<u32>> {
    let mut distances = vec![None; faults.lattice().nodes()];
    if !faults.node_works(from) {
        return distances;
    }
    distances[from.index()] = Some(0);
    let mut open = VecDeque::from([(from, 0)]);
    while let Some((node, distance)) = open.pop_front() {
        for other in Direction::ALL.into_iter().filter_map(|link| across(faults, node, link)) {
            if distances[other.index()].is_none() {
                distances[other.index()] = Some(distance + 1);
                open.push_back((other, distance + 1));
            }
        }
    }
    distances
}

/// Follows a route to its end: its links.
fn walk(
    routes: &Routes,
    faults: &Faults,
    from: Node,
    to: Node,
    waits: &mut Waits,
) -> Result<u32, String> {
    let lattice = faults.lattice();
    let wrong = |what: String| Err(format!("the route from {from} to {to} {what}"));
    let Some(via) = routes.way(from, to) else {
        return wrong("is missing, though the nodes are connected".to_owned());
    };
    let place = |node| lattice.coordinates(node);
    let journey = Journey { source: place(from), destination: place(to), via: place(via) };
    let (mut at, mut port, mut class) = (from, LOCAL, 0);
    let mut held = None;
    // A route that is in a channel twice waits for itself, so none is longer than this.
    for hops in 0..=(lattice.nodes() * LINKS * usize::from(MAX_CLASSES)) as u32 {
        let Some(hop) = routes.hop(Position { at: place(at), port, class }, &journey) else {
            return wrong(format!("ends at {at}"));
        };
        if hop.port == LOCAL {
            return if at == to { Ok(hops) } else { wrong(format!("delivers at {at}")) };
        }
        let direction = Direction::ALL[usize::from(hop.port)];
        if hop.class >= routes.classes() {
            return wrong(format!("uses class {} of {}", hop.class, routes.classes()));
        }
        let Some(next) = across(faults, at, direction) else {
            return wrong(format!("uses link {direction} of {at}, which does not work"));
        };
        let wanted = channel(at, hop.port, hop.class);
        if let Some(held) = held.replace(wanted) {
            waits.add(held, wanted);
        }
        (at, port, class) = (next, direction.opposite() as u8, hop.class);
    }
    wrong("does not end".to_owned())
}

/// The number of a channel.
fn channel(node: Node, port: u8, class: u8) -> u32 {
    (node.0 * LINKS as u32 + u32::from(port)) * u32::from(MAX_CLASSES) + u32::from(class)
}

/// Which channel waits for which.
struct Waits {
    /// By channel: those that it waits for.
    wanted: Vec<Vec<u32>>,
}

impl Waits {
    fn new(lattice: Lattice) -> Self {
        Self { wanted: vec![Vec::new(); lattice.nodes() * LINKS * usize::from(MAX_CLASSES)] }
    }

    fn add(&mut self, held: u32, wanted: u32) {
        let all = &mut self.wanted[held as usize];
        if !all.contains(&wanted) {
            all.push(wanted);
        }
    }

    /// Takes away channels that nothing waits for, until none is left: their number.
    fn take_apart(&self) -> Result<u64, String> {
        let mut waiting = vec![0u32; self.wanted.len()];
        let mut is_used: Vec<bool> = self.wanted.iter().map(|wanted| !wanted.is_empty()).collect();
        for &wanted in self.wanted.iter().flatten() {
            waiting[wanted as usize] += 1;
            is_used[wanted as usize] = true;
        }
        let used = is_used.iter().filter(|&&used| used).count();
        let mut free: Vec<usize> =
            (0..waiting.len()).filter(|&it| is_used[it] && waiting[it] == 0).collect();
        let mut taken = 0;
        while let Some(channel) = free.pop() {
            taken += 1;
            for &wanted in &self.wanted[channel] {
                waiting[wanted as usize] -= 1;
                if waiting[wanted as usize] == 0 {
                    free.push(wanted as usize);
                }
            }
        }
        if taken == used {
            return Ok(taken as u64);
        }
        Err(format!(
            "{} of {used} channels wait for each other in a cycle or behind one",
            used - taken
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_without_faults_are_as_long_as_the_distance() {
        for text in ["4x4x4", "5x3x2", "7"] {
            let lattice: Lattice = text.parse().unwrap();
            let nodes = lattice.nodes() as u64;
            let faults = Faults::none(lattice);
            let proof = prove(&Routes::dimension_order(lattice), &faults).unwrap();
            assert_eq!((proof.parts, proof.reachable), (1, nodes * nodes));
            assert_eq!(proof.hops, proof.distance);
            assert_eq!(proof.shortest, proof.distance);
            assert_eq!(
                proof.distance,
                (nodes as f64 * nodes as f64 * lattice.mean_distance()).round() as u64
            );
            assert_eq!(proof.longest, lattice.diameter());
        }
    }

    #[test]
    fn a_cycle_is_found() {
        let lattice: Lattice = "4x4".parse().unwrap();
        let what = prove(&Routes::bubble(lattice), &Faults::none(lattice)).unwrap_err();
        assert!(what.contains("wait for each other"), "{what}");
    }

    #[test]
    fn routes_over_what_is_broken_are_found() {
        let lattice: Lattice = "5x4".parse().unwrap();
        let routes = Routes::dimension_order(lattice);
        let mut faults = Faults::none(lattice);
        faults.kill_cable(lattice.cable(Node(3), Direction::XPlus));
        let what = prove(&routes, &faults).unwrap_err();
        assert!(what.contains("does not work"), "{what}");
        let mut faults = Faults::none(lattice);
        faults.kill_node(Node(0));
        let what = prove(&routes, &faults).unwrap_err();
        assert!(what.contains("node 0 has a way to node 0, which"), "{what}");
    }

    #[test]
    fn parts_are_counted_and_nodes_of_other_parts_left_alone() {
        let lattice: Lattice = "6".parse().unwrap();
        let mut faults = Faults::none(lattice);
        faults.kill_cable(lattice.cable(Node(1), Direction::XPlus));
        faults.kill_node(Node(4));
        let (routes, ..) = Routes::around(&faults, 2).unwrap();
        let proof = prove(&routes, &faults).unwrap();
        assert_eq!((proof.parts, proof.pairs, proof.reachable), (2, 8, 13));
        let refuses_too_little = prove(&Routes::dimension_order(lattice), &faults).unwrap_err();
        assert!(refuses_too_little.contains("node"), "{refuses_too_little}");
    }
}
