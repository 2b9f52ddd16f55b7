//! What a machine could do at best, from its routes alone.

use gannet_torus::lattice::LINKS;
use gannet_torus::simulator::Pattern;
use gannet_torus::{Direction, Lattice, Node, Routes};
use serde::Serialize;

use super::flows;
use super::machine::Machine;

/// Pairs of nodes whose routes are walked one by one. Beyond, and only without faults, what is
/// spread evenly is taken to load all links of a dimension equally, which it does to a part in the
/// size of the largest odd ring.
const WALKED_PAIRS_MAX: usize = 1 << 22;
/// Load below which sums are nothing but what rounding left of them.
const LEAST: f64 = 1e-9;

/// The figures that no measurement can surpass.
///
/// Sources: W. J. Dally and B. Towles, "Principles and practices of interconnection networks",
/// 2004, chapters 3 (channel load) and 23 (zero-load latency).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Mean links of a packet; absent where none can arrive.
    pub mean_hops: Option<f64>,
    /// Links of the longest route.
    pub max_hops: u32,
    /// Cycles of a packet that meets no other, on average; where sources send bursts, with the wait
    /// for the packets of the same burst before it; absent where none can arrive.
    pub zero_load_latency_cycles: Option<f64>,
    /// Flits per cycle on the busiest link for each flit per node and cycle offered.
    pub max_channel_load: f64,
    /// Load at which the busiest link is full; absent where no link carries anything.
    pub channel_bound: Option<f64>,
    /// Load at which the node that receives most gets a flit in each cycle; absent where none
    /// receives any.
    pub ejection_bound: Option<f64>,
    /// Load that cannot be surpassed: the least of both bounds and 1.
    pub saturation_bound: f64,
    /// Part of the flits offered whose destination can be reached.
    pub reachable: f64,
    /// Flits per cycle that really enter at a node for each flit per node and cycle offered, mean
    /// over the nodes that can send any: less than 1 where some of their packets are refused.
    pub sent: Option<f64>,
}

impl Limits {
    /// Walks the routes of all packets of the pattern.
    pub fn new(machine: &Machine, routes: &Routes) -> Self {
        let (setup, pattern) = (&machine.setup, &machine.pattern);
        let lattice = setup.lattice;
        let mut loads = Loads::new(lattice);
        let spread = flows::spread(lattice, pattern);
        let nodes = lattice.nodes();
        if spread > 0.0 && machine.faults.is_empty() && nodes > WALKED_PAIRS_MAX / nodes {
            loads.spread(spread);
        } else if spread > 0.0 {
            for from in lattice.all() {
                lattice.all().for_each(|to| loads.add(routes, from, to, spread / nodes as f64));
            }
        }
        flows::each(lattice, pattern, &mut |from, to, weight| {
            loads.add(routes, from, to, weight);
        });
        let hop = f64::from(setup.router_delay + setup.link_delay - 1);
        // Two cycles from the source into the first router, a router delay out of the last one.
        let ends = f64::from(2 + setup.router_delay);
        let flits = flits_of_a_packet(pattern, setup.packet_flits);
        let waits = pattern.burst(lattice).saturating_sub(1) as f64 * flits / 2.0;
        let mean_hops = (loads.reached > LEAST).then(|| loads.hops / loads.reached);
        let bound = |load: f64| (load > LEAST).then(|| 1.0 / load);
        let max_channel_load = loads.links.as_flattened().iter().copied().fold(0.0, f64::max);
        let channel_bound = bound(max_channel_load);
        let ejection_bound = bound(loads.taken.iter().copied().fold(0.0, f64::max));
        Self {
            mean_hops,
            max_hops: loads.longest,
            zero_load_latency_cycles: mean_hops.map(|hops| ends + hop * hops + flits - 1.0 + waits),
            max_channel_load,
            channel_bound,
            ejection_bound,
            saturation_bound: [channel_bound, ejection_bound]
                .into_iter()
                .flatten()
                .fold(1.0, f64::min),
            reachable: loads.reached / loads.offered.max(f64::MIN_POSITIVE),
            sent: loads.sent_by_senders(),
        }
    }
}

fn flits_of_a_packet(pattern: &Pattern, packet_flits: u16) -> f64 {
    match pattern {
        Pattern::Trace(trace) => {
            let flits: u64 = trace.packets().map(|(_, packet)| u64::from(packet.flits)).sum();
            flits as f64 / trace.len().max(1) as f64
        }
        _ => f64::from(packet_flits),
    }
}

/// What flows load, at a load of 1.
struct Loads {
    lattice: Lattice,
    /// By node and link: flits per cycle.
    links: Vec<[f64; LINKS]>,
    /// By node: flits per cycle that arrive for it.
    taken: Vec<f64>,
    /// By node: flits per cycle from it that arrive.
    sent: Vec<f64>,
    offered: f64,
    reached: f64,
    /// Links times flits per cycle.
    hops: f64,
    longest: u32,
}

impl Loads {
    fn new(lattice: Lattice) -> Self {
        let nodes = lattice.nodes();
        let (links, taken, sent) = (vec![[0.0; LINKS]; nodes], vec![0.0; nodes], vec![0.0; nodes]);
        Self { lattice, links, taken, sent, offered: 0.0, reached: 0.0, hops: 0.0, longest: 0 }
    }

    /// Adds a flow along its route.
    fn add(&mut self, routes: &Routes, from: Node, to: Node, weight: f64) {
        self.offered += weight;
        let Some(walk) = routes.walk(from, to) else { return };
        let mut hops = 0;
        for (at, link) in walk.links() {
            self.links[at.index()][link.index()] += weight;
            hops += 1;
        }
        self.taken[to.index()] += weight;
        self.sent[from.index()] += weight;
        self.reached += weight;
        self.hops += f64::from(hops) * weight;
        self.longest = self.longest.max(hops);
    }

    /// Adds `weight` flits per cycle from each node, evenly to all nodes.
    fn spread(&mut self, weight: f64) {
        let nodes = self.lattice.nodes() as f64;
        let mut load = [0.0; LINKS];
        for direction in Direction::ALL {
            let size = self.lattice.sizes()[direction.dimension()];
            let ring = Lattice::new([size, 1, 1]).map_or(0.0, |ring| ring.mean_distance());
            load[direction.index()] = weight * ring / 2.0;
        }
        for links in &mut self.links {
            links.iter_mut().zip(load).for_each(|(sum, load)| *sum += load);
        }
        self.taken.iter_mut().chain(&mut self.sent).for_each(|flits| *flits += weight);
        self.offered += nodes * weight;
        self.reached += nodes * weight;
        self.hops += nodes * weight * self.lattice.mean_distance();
        self.longest = self.longest.max(self.lattice.diameter());
    }

    /// Flits per cycle that arrive from a node, mean over those from which any do.
    fn sent_by_senders(&self) -> Option<f64> {
        let senders = self.sent.iter().filter(|sent| **sent > LEAST);
        let (count, sum) = senders.fold((0, 0.0), |(count, sum), sent| (count + 1, sum + sent));
        (count > 0).then(|| sum / f64::from(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_torus::simulator::{Setup, Simulation, WarmUp, Windows};

    fn machine(lattice: &str, pattern: Pattern) -> Machine {
        Machine::new(Setup::new(lattice.parse().unwrap()), pattern)
    }

    fn limits(lattice: &str, pattern: Pattern) -> Limits {
        let machine = machine(lattice, pattern);
        Limits::new(&machine, &machine.routes().unwrap().0)
    }

    #[test]
    fn bounds_are_those_of_the_literature() {
        let bound = |lattice, pattern| limits(lattice, pattern).saturation_bound;
        assert!((bound("8x8x8", Pattern::Tornado) - 1.0 / 3.0).abs() < 1e-12);
        assert!((bound("8x8x8", Pattern::BitComplement) - 0.5).abs() < 1e-12);
        assert_eq!(bound("8x8x8", Pattern::Neighbour), 1.0);
        assert!((bound("16", Pattern::Uniform) - 0.5).abs() < 1e-9);
        assert!((bound("46x46x46", Pattern::Uniform) - 8.0 / 46.0).abs() < 1e-9);
        let limits = limits("8x8x8", Pattern::Uniform);
        assert!((limits.mean_hops.unwrap() - 6.0).abs() < 1e-9, "{limits:?}");
        assert!((limits.zero_load_latency_cycles.unwrap() - 30.0).abs() < 1e-9, "{limits:?}");
        assert_eq!(limits.max_hops, 12);
    }

    #[test]
    fn a_hot_spot_is_bound_by_what_its_node_takes() {
        let limits = limits("4x4x4", Pattern::HotSpot { fraction: 0.1 });
        assert!((limits.ejection_bound.unwrap() - 1.0 / (6.4 + 0.9)).abs() < 1e-9, "{limits:?}");
    }

    #[test]
    fn what_is_spread_evenly_loads_all_links_of_a_dimension_equally() {
        let cases = [("4x4x4", 1e-9), ("6x8", 1e-9), ("7x5x3", 1e-9), ("2x2x2", 1e-9)];
        for (text, tolerance) in cases.into_iter().chain([("16x4x1", 1e-9), ("9x6x4", 0.06)]) {
            let machine = machine(text, Pattern::Uniform);
            let routes = machine.routes().unwrap().0;
            let lattice = machine.setup.lattice;
            let (mut walked, mut known) = (Loads::new(lattice), Loads::new(lattice));
            let share = 1.0 / lattice.nodes() as f64;
            for from in lattice.all() {
                lattice.all().for_each(|to| walked.add(&routes, from, to, share));
            }
            known.spread(1.0);
            let pairs = walked.links.as_flattened().iter().zip(known.links.as_flattened());
            for (walked, known) in pairs {
                let apart = (walked - known).abs();
                assert!(apart <= tolerance * known, "{text}: {walked} and {known}");
            }
            assert!((walked.hops - known.hops).abs() < 1e-6);
        }
    }

    #[test]
    fn measured_link_loads_are_those_of_the_flows() {
        let lattice: Lattice = "5x4x2".parse().unwrap();
        let trace = "0,0,7,3\n10,4,39,2\n10,5,5,1\n";
        let trace = gannet_torus::simulator::Trace::parse(trace, lattice).unwrap();
        let patterns = [
            (Pattern::Uniform, 0.2),
            (Pattern::Neighbour, 0.2),
            (Pattern::Tornado, 0.2),
            (Pattern::BitComplement, 0.1),
            (Pattern::HotSpot { fraction: 0.3 }, 0.05),
            (Pattern::Halo, 0.2),
            (Pattern::AllToAll, 0.2),
            (Pattern::Trace(trace.into()), 6.0 / 40.0 / 8000.0),
        ];
        for (pattern, load) in patterns {
            let machine = machine("5x4x2", pattern.clone());
            let warm_up = WarmUp::Cycles(0);
            let windows = Windows { warm_up, measure: 8000, drain: 100 };
            let mut simulation = Simulation::new(&machine.setup, pattern.clone(), load).unwrap();
            let measured = simulation.measure(&windows).link_load;
            let limits = Limits::new(&machine, &machine.routes().unwrap().0);
            let expected = limits.max_channel_load * load;
            let close = (measured.max / expected - 1.0).abs() < 0.12;
            assert!(close, "{pattern:?}: {} measured, {expected} expected", measured.max);
            let mean = limits.mean_hops.unwrap() * load / 6.0;
            let close = (measured.mean / mean - 1.0).abs() < 0.05;
            assert!(close, "{pattern:?}: {} measured, {mean} expected", measured.mean);
        }
    }

    #[test]
    fn a_packet_alone_takes_the_latency_at_zero_load() {
        for (router, link, flits) in [(4, 1, 1), (3, 1, 1), (7, 5, 6)] {
            let mut machine = machine("6x6", Pattern::Tornado);
            machine.setup.router_delay = router;
            machine.setup.link_delay = link;
            machine.setup.packet_flits = flits;
            let expected = Limits::new(&machine, &machine.routes().unwrap().0);
            let expected = expected.zero_load_latency_cycles.unwrap();
            let simulation = Simulation::new(&machine.setup, Pattern::Tornado, 0.002);
            let measured = simulation.unwrap().measure(&Windows::default()).latency.mean;
            assert!((measured / expected - 1.0).abs() < 0.03, "{measured}, expected {expected}");
        }
    }

    #[test]
    fn what_cannot_be_reached_is_told() {
        let mut machine = machine("4x4x4", Pattern::Uniform);
        machine.kill_node(5).unwrap();
        let limits = Limits::new(&machine, &machine.routes().unwrap().0);
        assert!((limits.reachable - (63.0 / 64.0_f64).powi(2)).abs() < 1e-9, "{limits:?}");
        assert!((limits.sent.unwrap() - 63.0 / 64.0).abs() < 1e-9, "{limits:?}");
    }

    #[test]
    fn what_no_link_carries_has_no_bound() {
        let alone = limits("1", Pattern::Uniform);
        assert_eq!((alone.channel_bound, alone.saturation_bound), (None, 1.0));
        assert_eq!((alone.mean_hops, alone.zero_load_latency_cycles), (Some(0.0), Some(6.0)));
        for burst in [Pattern::Halo, Pattern::AllToAll] {
            assert_eq!(limits("1", burst).saturation_bound, 1.0);
        }
        let lattice = "4x4".parse().unwrap();
        let empty = gannet_torus::simulator::Trace::parse("", lattice).unwrap();
        let empty = limits("4x4", Pattern::Trace(empty.into()));
        assert_eq!((empty.channel_bound, empty.ejection_bound), (None, None));
        assert_eq!((empty.mean_hops, empty.zero_load_latency_cycles), (None, None));
        assert_eq!(empty.sent, None);
    }
}
