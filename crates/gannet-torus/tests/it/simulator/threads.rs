//! The result does not depend on the number of threads.

use gannet_lattice::Node;
use gannet_torus::simulator::{
    Arbitration, Event, FlowControl, Pattern, Report, Setup, Simulation, Totals, WarmUp, Windows,
};

use crate::simulator::setup;

/// A run in which a node dies and a cable is flaky, and routes change.
fn with_faults(setup: &Setup, pattern: Pattern) -> (Report, Totals, u64) {
    let mut simulation = Simulation::new(setup, pattern, 0.4).unwrap();
    simulation.advance(300);
    simulation.apply(Event::NodeDown(Node(17)));
    simulation.apply(Event::CableFlaky(setup.lattice.cables().nth(8).unwrap(), 0.2));
    let waiting = simulation.waiting_again();
    simulation.advance(300);
    simulation.reroute().unwrap();
    let windows = Windows { warm_up: WarmUp::Steady, measure: 1000, drain: 3000 };
    let report = simulation.measure(&windows);
    (report, simulation.totals(), waiting)
}

/// Compares two and three threads with one.
fn assert_equal(setup: &Setup, pattern: &Pattern) {
    let run = |threads| with_faults(&Setup { threads, ..setup.clone() }, pattern.clone());
    let alone = run(1);
    assert!(alone.1.replayed > 0, "{:?}", alone.1);
    for threads in [2, 3] {
        assert_eq!(run(threads), alone, "{threads} threads, {pattern:?}, {setup:?}");
    }
}

#[test]
fn no_traffic_tells_the_number_of_threads() {
    let setup = Setup { replay_after: Some(500), seed: 7, ..setup("4x3x5") };
    for pattern in [Pattern::Uniform, Pattern::Tornado, Pattern::HotSpot { fraction: 0.1 }] {
        assert_equal(&setup, &pattern);
    }
}

/// Lost packets may be due again sooner than anything passes from one node to another.
#[test]
fn no_delay_tells_the_number_of_threads() {
    for (router_delay, link_delay) in [(3, 1), (4, 1), (6, 7), (4, 100)] {
        for replay_after in [1, 2, 20, 300] {
            let replay_after = Some(replay_after);
            let setup = Setup { router_delay, link_delay, replay_after, ..setup("4x3x2") };
            assert_equal(&setup, &Pattern::Uniform);
        }
    }
}

#[test]
fn no_rule_tells_the_number_of_threads() {
    use FlowControl::{Bubble, VirtualCutThrough, Wormhole};
    for flow_control in [Wormhole, VirtualCutThrough, Bubble] {
        for arbitration in [Arbitration::EqualShares, Arbitration::Turns] {
            let setup = Setup {
                flow_control,
                arbitration,
                packet_flits: 3,
                link_delay: 9,
                replay_after: Some(5),
                ..setup("4x3x2")
            };
            assert_equal(&setup, &Pattern::Uniform);
        }
    }
}
