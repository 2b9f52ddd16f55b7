//! What the patterns of the simulator load: links, classes of their channels, and nodes.

use gannet_lattice::{Coordinates, Direction, LINKS, Lattice, Node};
use gannet_torus::Routes;
use gannet_torus::simulator::{Pattern, channels_of_class};

/// What goes from one node to another, or from each to all, in a cycle at a load of 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub flits: f64,
    pub packets: f64,
}

impl Flow {
    /// So many flits in packets of this length.
    pub fn new(flits: f64, packet_flits: u16) -> Self {
        Self { flits, packets: flits / f64::from(packet_flits) }
    }

    pub fn times(self, factor: f64) -> Self {
        Self { flits: factor * self.flits, packets: factor * self.packets }
    }
}

/// Calls `visit` with source, destination and flow for all that a pattern sends but for what it
/// [spreads](spread) evenly over all nodes; packets that are not of a trace have `packet_flits`.
pub(super) fn each(
    lattice: Lattice,
    pattern: &Pattern,
    packet_flits: u16,
    visit: &mut dyn FnMut(Node, Node, Flow),
) {
    let mut all = |to: &dyn Fn(Node) -> Node, flits: f64| {
        lattice.all().for_each(|from| visit(from, to(from), Flow::new(flits, packet_flits)));
    };
    match pattern {
        Pattern::Uniform => {}
        Pattern::Neighbour | Pattern::Tornado | Pattern::BitComplement => {
            all(&|from| pattern.fixed_destination(lattice, from).unwrap_or(from), 1.0);
        }
        Pattern::HotSpot { fraction } => all(&|_| Pattern::hot_spot(lattice), *fraction),
        Pattern::Halo => {
            let links: Vec<_> = Direction::ALL.into_iter().filter(|&d| lattice.has(d)).collect();
            for &link in &links {
                all(&|from| lattice.neighbour(from, link), 1.0 / links.len() as f64);
            }
        }
        Pattern::AllToAll => {
            // What is spread reaches the sender, too; the pattern does not.
            let others = lattice.nodes() as f64 - 1.0;
            if others > 0.0 {
                all(&|from| from, -1.0 / others);
            }
        }
        Pattern::Trace(trace) => {
            let flits: u64 = trace.packets().map(|(_, packet)| u64::from(packet.flits)).sum();
            let unit = lattice.nodes() as f64 / flits.max(1) as f64;
            for (from, packet) in trace.packets() {
                let flow = Flow::new(f64::from(packet.flits) * unit, packet.flits);
                visit(from, packet.destination, flow);
            }
        }
    }
}

/// Flits per node and cycle that go evenly to all nodes, the sender included, at a load of 1.
pub(super) fn spread(lattice: Lattice, pattern: &Pattern) -> f64 {
    let nodes = lattice.nodes() as f64;
    match pattern {
        Pattern::Uniform => 1.0,
        Pattern::HotSpot { fraction } => 1.0 - fraction,
        Pattern::AllToAll if nodes > 1.0 => nodes / (nodes - 1.0),
        _ => 0.0,
    }
}

/// The links of one direction, where packets go the shorter way round.
///
/// In dimension order, what passes a link is what its ring alone decides, but for packets that go
/// just half way round: which way they take depends on the sum of all coordinates of both ends.
struct RingLoad {
    dimension: usize,
    is_plus: bool,
    size: i64,
    /// Pairs of nodes, among those that differ in other dimensions alone, by which those that go
    /// half way round by plus outnumber the others or the other way round, as a part of all.
    odds: f64,
}

impl RingLoad {
    /// The links of a direction.
    pub fn new(lattice: Lattice, direction: Direction) -> Self {
        let (sizes, dimension) = (lattice.sizes(), direction.dimension());
        let others = (0..sizes.len()).filter(|&other| other != dimension);
        let others: i64 = others.map(|other| i64::from(sizes[other])).product();
        // With an even size among them, odd sums are as many as even ones.
        let odds = if others % 2 == 1 { 1.0 / others as f64 } else { 0.0 };
        let size = i64::from(sizes[dimension]);
        Self { dimension, is_plus: direction.is_plus(), size, odds }
    }

    /// Flits per cycle on the link of a node, for one from every node in each cycle: in packets that
    /// do not pass the dateline of the ring, and in those that do.
    pub fn at(&self, node: Coordinates) -> [f64; 2] {
        let here = i64::from(node[self.dimension]);
        // The minus links are the plus links of the ring seen in a mirror.
        let link = if self.is_plus { here } else { self.size - 1 - here };
        let others: i64 = node.iter().map(|&c| i64::from(c)).sum::<i64>() - here;
        // Pairs of ways shorter than half the ring.
        let longest = (self.size - 1) / 2;
        let behind = sum_to(longest - (self.size - 1 - link)) + sum_to(longest - link - 1);
        let first = sum_to(longest) - behind;
        let [half_first, half_behind] = self.half_way(link, others);
        [first + half_first, behind + half_behind].map(|pairs| pairs / self.size as f64)
    }

    /// As [`at`](Self::at), of the packets that go half way round, in pairs of coordinates.
    fn half_way(&self, link: i64, others: i64) -> [f64; 2] {
        if self.size % 2 == 1 {
            return [0.0; 2];
        }
        let half = self.size / 2;
        let pairs = |first: i64, last: i64| self.pairs(first, last, others);
        // Those that begin in the second half of the ring pass the dateline.
        if link < half {
            [pairs(0, link), pairs(link + half + 1, self.size - 1)]
        } else {
            [pairs(link - half + 1, half - 1), pairs(half, link)]
        }
    }

    /// Of the nodes from `first` to `last` of the ring, those that send half way round by plus.
    fn pairs(&self, first: i64, last: i64, others: i64) -> f64 {
        let count = (last - first + 1).max(0);
        let more = match (count % 2, (first + others) % 2) {
            (0, _) => 0.0,
            (_, 0) => self.odds,
            _ => -self.odds,
        };
        (count as f64 + more) / 2.0
    }
}

/// 1 + 2 + ... + `last`.
fn sum_to(last: i64) -> f64 {
    let last = last.max(0);
    (last * (last + 1) / 2) as f64
}

/// Load below which sums are nothing but what rounding left of them.
pub(super) const LEAST: f64 = 1e-9;

/// What flows load, at a load of 1.
pub(super) struct ChannelLoad {
    lattice: Lattice,
    classes: usize,
    /// By node and link: flits per cycle.
    links: Vec<[f64; LINKS]>,
    /// By node, link and class: channels that are taken, each for the cycles of its flits and one
    /// more of every packet.
    taken: Vec<f64>,
    /// By node: flits per cycle that arrive for it.
    received: Vec<f64>,
    /// By node: flits per cycle from it that arrive.
    sent: Vec<f64>,
    /// Flits per cycle.
    pub offered: f64,
    /// Those of them that arrive.
    pub reached: Flow,
    /// Links times packets per cycle.
    pub hops: f64,
    /// Links of the longest route.
    pub longest: u32,
}

impl ChannelLoad {
    pub fn new(lattice: Lattice, classes: u8) -> Self {
        let (nodes, classes) = (lattice.nodes(), usize::from(classes));
        Self {
            lattice,
            classes,
            links: vec![[0.0; LINKS]; nodes],
            taken: vec![0.0; nodes * LINKS * classes],
            received: vec![0.0; nodes],
            sent: vec![0.0; nodes],
            offered: 0.0,
            reached: Flow { flits: 0.0, packets: 0.0 },
            hops: 0.0,
            longest: 0,
        }
    }

    /// Adds a flow along its route.
    pub fn add(&mut self, routes: &Routes, from: Node, to: Node, flow: Flow) {
        self.offered += flow.flits;
        let Some(walk) = routes.walk(from, to) else { return };
        let mut hops = 0;
        for (at, hop) in walk {
            let Some(link) = hop.link() else { break };
            self.load(at, link, hop.class, flow);
            hops += 1;
        }
        self.end(from, to, flow);
        self.hops += f64::from(hops) * flow.packets;
        self.longest = self.longest.max(hops);
    }

    fn load(&mut self, at: Node, link: Direction, class: u8, flow: Flow) {
        self.links[at.index()][link.index()] += flow.flits;
        let place = (at.index() * LINKS + link.index()) * self.classes + usize::from(class);
        self.taken[place] += flow.flits + flow.packets;
    }

    fn end(&mut self, from: Node, to: Node, flow: Flow) {
        self.received[to.index()] += flow.flits;
        self.sent[from.index()] += flow.flits;
        self.reached.flits += flow.flits;
        self.reached.packets += flow.packets;
    }

    /// Adds `flow` from each node, evenly to all nodes, on a machine without faults.
    pub fn spread(&mut self, flow: Flow) {
        let lattice = self.lattice;
        for direction in Direction::ALL.into_iter().filter(|&d| lattice.has(d)) {
            let ring = RingLoad::new(lattice, direction);
            for node in lattice.all() {
                let [first, behind] = ring.at(lattice.coordinates(node));
                self.load(node, direction, 0, flow.times(first));
                // Bubbles make do with one class.
                self.load(node, direction, (self.classes > 1).into(), flow.times(behind));
            }
        }
        lattice.all().for_each(|node| self.end(node, node, flow));
        let all = flow.times(lattice.nodes() as f64);
        self.offered += all.flits;
        self.hops += all.packets * lattice.mean_distance();
        self.longest = self.longest.max(lattice.diameter());
    }

    /// Flits per cycle on the busiest link.
    pub fn busiest_link(&self) -> f64 {
        self.links.as_flattened().iter().copied().fold(0.0, f64::max)
    }

    /// Channels taken of the class that has the fewest left on its link, in terms of those that it
    /// has.
    pub fn busiest_class(&self, vcs: u8) -> f64 {
        let classes = self.classes as u8;
        let channels = (0..classes).map(|class| channels_of_class(class, vcs, classes).count());
        let channels: Vec<f64> = channels.map(|count| count as f64).collect();
        let links = self.taken.chunks(self.classes);
        let shares = links.flat_map(|taken| taken.iter().zip(&channels).map(|(t, n)| t / n));
        shares.fold(0.0, f64::max)
    }

    /// Flits per cycle for the node that receives most.
    pub fn busiest_receiver(&self) -> f64 {
        self.received.iter().copied().fold(0.0, f64::max)
    }

    /// Flits per cycle that arrive from a node, mean over those from which any do.
    pub fn sent_by_senders(&self) -> Option<f64> {
        let senders = self.sent.iter().filter(|sent| **sent > LEAST);
        let (count, sum) = senders.fold((0, 0.0), |(count, sum), sent| (count + 1, sum + sent));
        (count > 0).then(|| sum / f64::from(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;
    use gannet_torus::simulator::{FlowControl, Pattern, Setup};

    fn assert_close(text: &str, walked: &[f64], known: &[f64]) {
        for (walked, known) in walked.iter().zip(known) {
            assert!((walked - known).abs() < 1e-9, "{text}: {walked} and {known}");
        }
    }

    #[test]
    fn what_is_spread_evenly_is_known_without_a_walk() {
        let lattices = ["4x4x4", "6x8", "7x5x3", "2x2x2", "16x4x1", "9x6x4", "2", "6", "7", "8"];
        for text in lattices.into_iter().chain(["9x6", "7x2x3", "1x10x3", "5x5x6", "1"]) {
            for flow_control in [FlowControl::Wormhole, FlowControl::Bubble] {
                let mut machine = Machine::new(Setup::new(text.parse().unwrap()), Pattern::Uniform);
                machine.setup.flow_control = flow_control;
                let routes = machine.routes().unwrap().0;
                let lattice = machine.setup.lattice;
                let new = || ChannelLoad::new(lattice, routes.classes());
                let (mut walked, mut known) = (new(), new());
                let flow = Flow::new(1.0, 3);
                let share = flow.times(1.0 / lattice.nodes() as f64);
                for from in lattice.all() {
                    lattice.all().for_each(|to| walked.add(&routes, from, to, share));
                }
                known.spread(flow);
                assert_close(text, walked.links.as_flattened(), known.links.as_flattened());
                assert_close(text, &walked.taken, &known.taken);
                assert_close(text, &walked.received, &known.received);
                assert!((walked.hops - known.hops).abs() < 1e-6);
                assert_eq!(walked.longest, known.longest);
            }
        }
    }
}
