//! The simulator as its users see it: accuracy, conservation, faults, threads.

mod threads;

use gannet_lattice::{Faults, Lattice, Node};
use gannet_measure::random::Random;
use gannet_torus::Routes;
use gannet_torus::routes::Means;
use gannet_torus::simulator::{
    Arbitration, Event, FlowControl, PACKET_FLITS_MAX, Pattern, Report, Script, Setup, Simulation,
    Switched, Trace, WarmUp, What, Windows,
};

fn setup(lattice: &str) -> Setup {
    Setup::new(lattice.parse().unwrap())
}

fn measured(setup: &Setup, pattern: Pattern, load: f64, cycles: u32) -> Report {
    let windows = Windows { warm_up: WarmUp::Steady, measure: cycles, drain: 2 * cycles };
    Simulation::new(setup, pattern, load).unwrap().measure(&windows)
}

#[track_caller]
fn assert_close(measured: f64, expected: f64, part: f64) {
    let off = measured / expected - 1.0;
    assert!(off.abs() <= part, "{measured} is {:.1} % from {expected}", 100.0 * off);
}

#[test]
fn latency_without_load_is_that_of_the_pipeline() {
    for (lattice, flits) in [("4x4x4", 1), ("5x3", 1), ("8", 4), ("4x4x4", 18), ("2x2x2", 2)] {
        let setup = Setup { packet_flits: flits, vc_depth: 36, ..setup(lattice) };
        let report = measured(&setup, Pattern::Uniform, 0.0005 * f64::from(flits), 200_000);
        let hops = setup.lattice.mean_distance();
        assert_close(report.latency.mean, 6.0 + 4.0 * hops + f64::from(flits - 1), 0.02);
    }
    let slow = Setup { router_delay: 6, link_delay: 3, ..setup("8x8") };
    let report = measured(&slow, Pattern::Neighbour, 0.01, 20_000);
    assert_eq!(report.latency.p50, 2 + 1 + 5 + 2 * 8);
}

/// Measured with BookSim2 (commit 28f43299) in the same two configurations.
#[test]
fn latency_under_load_is_that_of_the_reference() {
    let four = setup("4x4x4");
    let two = Setup { vcs: 2, ..four.clone() };
    let rows = [
        (&four, Pattern::Neighbour, 0.5, 18.0, 0.01),
        (&four, Pattern::Uniform, 0.3, 18.4, 0.01),
        (&four, Pattern::Uniform, 0.5, 19.1, 0.015),
        (&two, Pattern::Neighbour, 0.3, 18.7, 0.01),
        (&two, Pattern::Uniform, 0.3, 19.3, 0.015),
        (&two, Pattern::Uniform, 0.5, 22.7, 0.03),
    ];
    for (setup, pattern, load, latency, part) in rows {
        assert_close(measured(setup, pattern, load, 5000).latency.mean, latency, part);
    }
}

#[test]
fn throughput_in_overload_is_that_of_the_reference() {
    let four = setup("4x4x4");
    let two = Setup { vcs: 2, ..four.clone() };
    let peak = |setup, pattern: Pattern| {
        let loads = [0.5, 0.65, 0.7, 0.9, 1.0];
        let accepted = loads.map(|load| measured(setup, pattern.clone(), load, 2000).accepted);
        accepted.into_iter().fold(0.0, f64::max)
    };
    assert_close(peak(&four, Pattern::Uniform), 0.895, 0.03);
    assert_close(peak(&four, Pattern::Neighbour), 1.0, 0.01);
    assert_close(peak(&two, Pattern::Uniform), 0.657, 0.03);
    assert_close(peak(&two, Pattern::Neighbour), 0.5, 0.01);
}

/// Measured with BookSim2, in which turns starve nodes as well.
#[test]
fn unfair_turns_peak_and_collapse_as_the_reference_does() {
    let (one, many) =
        (setup("8x8"), Setup { packet_flits: 18, vcs: 2, vc_depth: 36, ..setup("8x8") });
    let peak = |setup, pattern: Pattern, loads: [f64; 3]| {
        let accepted = loads.map(|load| measured(setup, pattern.clone(), load, 3000).accepted);
        accepted.into_iter().fold(0.0, f64::max)
    };
    assert_close(peak(&one, Pattern::BitComplement, [0.42, 0.46, 0.5]), 0.422, 0.03);
    assert_close(peak(&many, Pattern::BitComplement, [0.38, 0.4, 0.44]), 0.394, 0.04);
    assert_close(peak(&one, Pattern::Tornado, [0.22, 0.24, 0.26]), 0.237, 0.03);
    assert_close(measured(&one, Pattern::Tornado, 1.0, 3000).accepted, 0.085, 0.03);
}

#[test]
fn with_equal_shares_overload_by_tornado_neither_collapses_nor_starves_a_node() {
    let setup = Setup { arbitration: Arbitration::EqualShares, ..setup("8x8") };
    let peak = measured(&setup, Pattern::Tornado, 0.25, 3000).accepted;
    for load in [0.35, 0.6, 1.0] {
        let report = measured(&setup, Pattern::Tornado, load, 3000);
        assert!(report.accepted < 0.98 * load, "{} at {load}", report.accepted);
        assert!(report.accepted >= 0.9 * peak, "{} of {peak} at {load}", report.accepted);
        assert!(report.accepted_least >= 0.7 * report.accepted, "{}", report.accepted_least);
    }
}

#[test]
fn with_equal_shares_bit_complement_reaches_what_links_can_carry() {
    let setup = Setup { arbitration: Arbitration::EqualShares, ..setup("8x8") };
    let report = measured(&setup, Pattern::BitComplement, 0.7, 3000);
    assert_close(report.accepted, 0.5, 0.01);
    assert_close(report.accepted_least, 0.5, 0.01);
}

/// A script of random faults, with a change of routes after each.
fn survive(setup: &Setup, pattern: Pattern, seed: u64) {
    let random = &mut Random::new(seed);
    let mut simulation = Simulation::new(setup, pattern.clone(), 0.3).unwrap();
    let name = format!("{} {pattern:?} seed {seed}", setup.lattice);
    for _ in 0..1 + random.below(4) {
        simulation.advance(50 + random.below(200) as u32);
        let cables: Vec<_> = setup.lattice.cables().collect();
        let cable = cables[random.below(cables.len() as u64) as usize];
        let node = Node(random.below(setup.lattice.nodes() as u64) as u32);
        simulation.apply(match random.below(5) {
            0 => Event::NodeDown(node),
            1 => Event::CableFlaky(cable, 0.1),
            2 => Event::CableUp(cable),
            _ => Event::CableDown(cable),
        });
        simulation.advance(random.below(100) as u32);
        simulation.reroute().unwrap_or_else(|refused| panic!("{name}: {refused}"));
    }
    simulation.advance(200);
    simulation.drain();
    let totals = simulation.totals();
    assert_eq!(totals.made, totals.delivered + totals.refused + totals.lost, "{name}: {totals:?}");
    assert!(totals.delivered > totals.lost, "{name}: {totals:?}");
}

#[test]
fn every_packet_is_accounted_for_whatever_fails() {
    for seed in 0..60 {
        let flits = [1, 2, 5, 18][seed as usize % 4];
        let base = [setup("4x4x4"), setup("5x3x2"), setup("6x4"), setup("7")]
            [seed as usize / 4 % 4]
            .clone();
        let flow_control =
            [FlowControl::Wormhole, FlowControl::VirtualCutThrough][seed as usize / 16 % 2];
        let setup = Setup { packet_flits: flits, vc_depth: 20, flow_control, seed, ..base };
        survive(&setup, Pattern::Uniform, seed);
    }
}

#[test]
fn lost_packets_are_sent_again_until_they_arrive() {
    let setup = Setup { packet_flits: 3, replay_after: Some(200), ..setup("4x4x4") };
    let mut simulation = Simulation::new(&setup, Pattern::Uniform, 0.2).unwrap();
    simulation.advance(500);
    let cables: Vec<_> = setup.lattice.cables().collect();
    simulation.apply(Event::CableDown(cables[5]));
    simulation.apply(Event::CableFlaky(cables[50], 0.3));
    simulation.apply(Event::HostHung(Node(9)));
    simulation.advance(500);
    assert!(simulation.totals().lost > 0);
    simulation.reroute().unwrap();
    simulation.apply(Event::CableFlaky(cables[50], 0.0));
    // Sources go on for long enough that all replays are due, then the network empties.
    simulation.advance(2000);
    let before = simulation.totals();
    simulation.drain();
    let totals = simulation.totals();
    assert_eq!(before.lost, totals.lost);
    assert_eq!(totals.lost, totals.replayed);
    assert_eq!(totals.made, totals.delivered + totals.refused);
    assert_eq!(totals.refused, 0);
}

#[test]
fn every_flow_control_drains_from_overload() {
    for flow_control in [FlowControl::Wormhole, FlowControl::VirtualCutThrough, FlowControl::Bubble]
    {
        for (lattice, flits, vcs) in [("4x4x4", 1, 2), ("8", 4, 2), ("5x6", 9, 4), ("3x2x4", 2, 8)]
        {
            let setup =
                Setup { packet_flits: flits, vcs, vc_depth: 18, flow_control, ..setup(lattice) };
            for pattern in [Pattern::Uniform, Pattern::Tornado, Pattern::AllToAll, Pattern::Halo] {
                let mut simulation = Simulation::new(&setup, pattern, 1.0).unwrap();
                simulation.advance(1500);
                simulation.drain();
                let totals = simulation.totals();
                assert_eq!(totals.made, totals.delivered, "{flow_control:?} {lattice}");
            }
        }
    }
}

#[test]
fn one_channel_suffices_for_bubbles() {
    let setup = Setup { vcs: 1, flow_control: FlowControl::Bubble, ..setup("8x8") };
    let mut simulation = Simulation::new(&setup, Pattern::Uniform, 1.0).unwrap();
    simulation.advance(3000);
    simulation.drain();
    assert_eq!(simulation.totals().made, simulation.totals().delivered);
}

#[test]
fn routes_round_random_faults_drain_from_overload() {
    for seed in 0..200 {
        let lattice: Lattice =
            ["4x4x4", "5x3x2", "8x3", "2x3x5"][seed as usize % 4].parse().unwrap();
        let random = &mut Random::new(seed);
        let (nodes, cables) = (random.below(8) as usize, random.below(16) as usize);
        let faults = Faults::random(lattice, nodes, cables, random);
        let (routes, means, _) = Routes::around(&faults, 4).unwrap();
        let setup = Setup { seed, ..Setup::new(lattice) };
        let mut simulation =
            Simulation::with_routes(&setup, routes, Pattern::Uniform, 1.0).unwrap();
        simulation.advance(300);
        simulation.drain();
        let totals = simulation.totals();
        assert_eq!(totals.made, totals.delivered + totals.refused, "seed {seed}, {means:?}");
    }
}

#[test]
fn values_out_of_range_are_named() {
    let refused = |setup: Setup, load| {
        Simulation::new(&setup, Pattern::Uniform, load).unwrap_err().to_string()
    };
    let base = || setup("4x4");
    assert!(refused(base(), 1.5).contains("the load is 1.5"));
    assert!(refused(base(), f64::NAN).contains("the load"));
    assert!(
        refused(Setup { vcs: 1, ..base() }, 0.1)
            .contains("virtual channels is 1: it must be 2 to 8")
    );
    assert!(refused(Setup { threads: 17, ..base() }, 0.1).contains("threads"));
    let whole = FlowControl::VirtualCutThrough;
    let deep = Setup { packet_flits: 20, flow_control: whole, ..base() };
    assert!(refused(deep, 0.1).contains("depth of a virtual channel"));
    assert!(refused(Setup { replay_after: Some(0), ..base() }, 0.1).contains("sent again is 0"));
}

#[test]
fn packets_of_traces_are_as_long_as_others() {
    let lattice = "4x4".parse().unwrap();
    assert_eq!(Trace::parse("0,0,1,4096", lattice).unwrap().longest(), PACKET_FLITS_MAX);
    let refused = Trace::parse("0,0,1,4097", lattice).unwrap_err().to_string();
    assert_eq!(refused, "line 1: a packet has 1 to 4096 flits");
}

/// Queues alone take 41 GiB here, and what is on its way another 36 where links are long.
#[test]
fn memory_is_known_before_any_is_taken() {
    let large = Setup { vcs: 8, vc_depth: 40, ..setup("1024x1024") };
    let slow = Setup { router_delay: 200, link_delay: 1000, ..large.clone() };
    let gib = [large, slow].map(|setup| setup.bytes(&Pattern::Uniform) >> 30);
    assert!(gib[0] > 41 && (30..40).contains(&(gib[1] - gib[0])), "{gib:?}");
}

#[test]
fn a_script_of_faults_is_played_and_answered() {
    let setup = Setup { replay_after: Some(300), ..setup("4x4x4") };
    let script = "500,cable-down,0,X+\n900,node-down,21\n901,cable-flaky,3,Y+,0.5\n1500,cut,X,1\n\
                  1500,cut,X,3\n2500,cable-up,1,X+\n2500,cable-up,3,X+\n";
    let played = |threads| {
        let setup = Setup { threads, ..setup.clone() };
        let mut simulation = Simulation::new(&setup, Pattern::Uniform, 0.2).unwrap();
        let script = Script::parse(script, setup.lattice).unwrap();
        simulation.schedule(script, Some(150));
        simulation.advance(6000);
        simulation.drain();
        (simulation.history().to_vec(), simulation.totals())
    };
    let (history, totals) = played(1);
    let switched: Vec<&Switched> = history
        .iter()
        .filter_map(|happening| match &happening.what {
            What::Rerouted(switched) => Some(switched),
            _ => None,
        })
        .collect();
    let means: Vec<Means> = switched.iter().map(|switched| switched.means).collect();
    assert_eq!(means, [Means::LongWay, Means::EarlyTurn, Means::EarlyTurn, Means::EarlyTurn]);
    assert!(totals.lost > 0 && totals.replayed > 0 && totals.refused > 0, "{totals:?}");
    assert!(totals.made >= totals.delivered + totals.refused, "{totals:?}");
    assert_eq!(played(2), (history, totals));
}
