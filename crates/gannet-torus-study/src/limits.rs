//! What a machine could do at best, from its routes alone.

use gannet_torus::Routes;
use serde::Serialize;

use super::channel_load::{self, ChannelLoad, Flow, LEAST};
use super::machine::Machine;

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
    /// Load at which the virtual channels that a link has for some class of packets are all taken:
    /// a channel is free for the next packet a cycle after the last flit of the one before. Absent
    /// where no link carries anything.
    pub class_bound: Option<f64>,
    /// Load at which the node that receives most gets a flit in each cycle; absent where none
    /// receives any.
    pub ejection_bound: Option<f64>,
    /// Highest load of which everything can be accepted: the least of these bounds and 1. Beyond,
    /// nodes whose packets meet no busy link may still get more through.
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
        let mut loads = ChannelLoad::new(lattice, routes.classes());
        let spread = Flow::new(channel_load::spread(lattice, pattern), setup.packet_flits);
        if spread.flits > 0.0 && machine.faults.is_empty() {
            loads.spread(spread);
        } else if spread.flits > 0.0 {
            let share = spread.times(1.0 / lattice.nodes() as f64);
            for from in lattice.all() {
                lattice.all().for_each(|to| loads.add(routes, from, to, share));
            }
        }
        channel_load::each(lattice, pattern, setup.packet_flits, &mut |from, to, flow| {
            loads.add(routes, from, to, flow);
        });
        let hop = f64::from(setup.router_delay + setup.link_delay - 1);
        // Two cycles from the source into the first router, a router delay out of the last one.
        let ends = f64::from(2 + setup.router_delay);
        let burst = pattern.burst(lattice).saturating_sub(1) as f64;
        let waits = burst * f64::from(setup.packet_flits) / 2.0;
        let arrived = (loads.reached.packets > LEAST).then_some(loads.reached);
        let mean_hops = arrived.map(|arrived| loads.hops / arrived.packets);
        let alone = |arrived: Flow| {
            ends + (hop * loads.hops + arrived.flits) / arrived.packets - 1.0 + waits
        };
        let bound = |load: f64| (load > LEAST).then(|| 1.0 / load);
        let max_channel_load = loads.busiest_link();
        let channel_bound = bound(max_channel_load);
        let class_bound = bound(loads.busiest_class(setup.vcs));
        let ejection_bound = bound(loads.busiest_receiver());
        let bounds = [channel_bound, class_bound, ejection_bound];
        Self {
            mean_hops,
            max_hops: loads.longest,
            zero_load_latency_cycles: arrived.map(alone),
            max_channel_load,
            channel_bound,
            class_bound,
            ejection_bound,
            saturation_bound: bounds.into_iter().flatten().fold(1.0, f64::min),
            reachable: if loads.offered > LEAST {
                loads.reached.flits / loads.offered
            } else {
                1.0
            },
            sent: loads.sent_by_senders(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Timing};
    use gannet_lattice::Lattice;
    use gannet_torus::simulator::{
        Arbitration, FlowControl, Pattern, Setup, Simulation, WarmUp, Windows,
    };

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
            // Packets of a trace differ, so that their mean way is not that of their flits.
            let is_trace = matches!(pattern, Pattern::Trace(_));
            let mean = limits.mean_hops.unwrap() * load / 6.0;
            let close = is_trace || (measured.mean / mean - 1.0).abs() < 0.05;
            assert!(close, "{pattern:?}: {} measured, {mean} expected", measured.mean);
        }
    }

    #[test]
    fn every_packet_of_a_trace_counts_alike_whatever_its_length() {
        let lattice: Lattice = "4x4".parse().unwrap();
        let trace = "0,0,5,4\n3,1,2,1\n10,3,3,1\n";
        let trace = gannet_torus::simulator::Trace::parse(trace, lattice).unwrap();
        let pattern = Pattern::Trace(trace.into());
        let expected = limits("4x4", pattern.clone());
        assert_eq!(expected.mean_hops, Some(1.0));
        assert_eq!(expected.zero_load_latency_cycles, Some((17.0 + 10.0 + 6.0) / 3.0));
        let mut simulation = Simulation::new(&Setup::new(lattice), pattern, 0.0).unwrap();
        let windows = Windows { warm_up: WarmUp::Cycles(0), measure: 11, drain: 100 };
        assert_eq!(
            Some(simulation.measure(&windows).latency.mean),
            expected.zero_load_latency_cycles
        );
    }

    /// Bound, and accepted at a load, in terms of what can be reached.
    fn bound_and_measured(machine: &Machine, load: f64) -> (f64, f64) {
        let (routes, _) = machine.routes().unwrap();
        let limits = Limits::new(machine, &routes);
        let timing = Timing { warm_up: Some(WarmUp::Cycles(500)), window: Some(2000), drain: 0 };
        let measured = Experiment::new(machine.clone(), timing).unwrap().measure(load).unwrap();
        (limits.saturation_bound, measured.accepted / limits.reachable)
    }

    #[test]
    fn a_class_of_few_channels_bounds_what_a_link_carries() {
        for (text, vcs, flits, pattern, expected) in [
            // One channel for each side of the dateline takes a packet of one flit in two cycles.
            ("4x4x4", 2, 1, Pattern::Neighbour, 0.5),
            ("4x4x4", 2, 3, Pattern::Neighbour, 0.75),
            ("4x4x4", 4, 1, Pattern::Neighbour, 1.0),
            ("8", 2, 1, Pattern::Tornado, 1.0 / 6.0),
        ] {
            let mut machine = machine(text, pattern);
            (machine.setup.vcs, machine.setup.packet_flits) = (vcs, flits);
            // With turns, tornado collapses beyond what it can reach.
            machine.setup.arbitration = Arbitration::EqualShares;
            let load = f64::min(1.2 * expected, 1.0);
            let (bound, measured) = bound_and_measured(&machine, load);
            assert!((bound - expected).abs() < 1e-9, "{text}, {vcs} channels: {bound}");
            let reached = measured / bound;
            assert!((0.8..1.01).contains(&reached), "{text}, {vcs}: {measured} of {bound}");
        }
    }

    #[test]
    fn three_channels_leave_one_to_packets_that_pass_a_dateline() {
        let mut machine = machine("4x4x4", Pattern::Neighbour);
        machine.setup.vcs = 3;
        assert!((bound_and_measured(&machine, 0.48).1 - 0.48).abs() < 0.01);
        let (bound, measured) = bound_and_measured(&machine, 0.6);
        assert_eq!(bound, 0.5);
        assert!((0.5..0.58).contains(&measured), "others get all they ask for: {measured}");
    }

    #[test]
    fn a_machine_with_bubbles_has_all_channels_in_one_class() {
        for (vcs, expected) in [(1, 0.5), (2, 1.0)] {
            let mut machine = machine("4x4", Pattern::Neighbour);
            (machine.setup.vcs, machine.setup.flow_control) = (vcs, FlowControl::Bubble);
            let (bound, measured) = bound_and_measured(&machine, 1.0);
            assert!((bound - expected).abs() < 1e-9, "{vcs} channels: {bound}");
            assert!(measured <= 1.01 * bound, "{vcs} channels: {measured} of {bound}");
        }
    }

    #[test]
    fn routes_round_a_dead_node_are_bound_by_their_classes() {
        for (text, most) in [("8x8", 0.35), ("16x4", 0.15)] {
            let mut machine = machine(text, Pattern::Uniform);
            machine.kill_node(5).unwrap();
            let timing = Timing { warm_up: Some(WarmUp::Cycles(500)), ..Timing::default() };
            let experiment = Experiment::new(machine, timing).unwrap();
            let bound = experiment.limits().saturation_bound;
            assert!(bound < most, "{text}: {bound}");
            assert!(experiment.measure(0.8 * bound).unwrap().keeps_up(), "{text}: {bound}");
            assert!(!experiment.measure(1.2 * bound).unwrap().keeps_up(), "{text}: {bound}");
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
        assert_eq!((empty.class_bound, empty.reachable), (None, 1.0), "nothing is refused");
        assert_eq!(empty.sent, None);
    }
}
