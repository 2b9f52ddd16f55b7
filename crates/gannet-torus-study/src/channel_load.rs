//! What flows load: links, classes of their channels, and nodes.

use gannet_lattice::{Direction, LINKS, Lattice, Node};
use gannet_torus::Routes;
use gannet_torus::simulator::channels_of_class;

use super::flows::Flow;
use super::limits::LEAST;
use super::ring_load::RingLoad;

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
