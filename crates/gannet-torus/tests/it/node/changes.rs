//! Cables that are cut, and routes that change while packets are under way.

use std::sync::Arc;

use super::network::Network;
use crate::line::Noise;
use gannet_lattice::{Direction, Faults, Lattice, Node};
use gannet_torus::Routes;
use gannet_torus::link;
use gannet_torus::node::{Configuration, Event, Reason};

use crate::node::traffic::{Memory, Plan, Traffic, WORD_NS};
use crate::node::{Culprit, QUIET, assert_ledger, hasty, plain, seeded};

/// When a cable is cut, and when the first node hears of new routes.
const CUT_NS: u64 = 700 * WORD_NS;
const CHANGE_NS: u64 = 6000 * WORD_NS;

fn patient(configuration: &mut Configuration) {
    hasty(configuration);
    configuration.link.virtual_channels = 4;
    configuration.link.dead_after = 2000 * WORD_NS;
}

/// Cuts `cables`, and lets one node after another follow routes round them.
fn cut_and_change(lattice: &'static str, cables: usize, noise: Noise, seed: u64) {
    let shape: Lattice = lattice.parse().unwrap();
    let mut random = gannet_measure::random::Random::new(seed);
    let faults = Faults::random(shape, 0, cables, &mut random);
    let (around, means, _) = Routes::around(&faults, 4).unwrap();
    let around = Arc::new(around);
    let plan = Plan { lattice, messages: 500, noise, control_words: false, seed };
    let mut traffic = Traffic::new(&plan, None, patient, plain);
    let mut downs = 0;
    traffic.run(|network| {
        let now = network.now();
        if now == CUT_NS {
            let dead = shape.cables().filter(|&cable| !faults.cable_works(cable));
            dead.for_each(|cable| network.cut(cable));
        }
        let nodes = shape.all().filter(|node| now == CHANGE_NS + u64::from(node.0) * 500 * WORD_NS);
        for node in nodes {
            network.node_mut(node).set_routes(Arc::clone(&around), 2).unwrap();
        }
        downs += count_downs(network, shape);
    });
    assert_eq!(downs, 2 * cables, "both ends of each cable tell, {means:?}");
    assert_ledger(&traffic);
    let dropped = |reason| traffic.sum(|node| node.counters().dropped(reason));
    assert!(dropped(Reason::LinkDown) + dropped(Reason::OtherRoutes) > 0, "nothing was cut");
    assert_eq!(dropped(Reason::HopLimit) + dropped(Reason::NoRoute), 0);
}

fn count_downs(network: &mut Network<Memory>, lattice: Lattice) -> usize {
    let down = |event: Event| usize::from(matches!(event, Event::Link(_, link::Event::Down)));
    let of =
        |node| std::iter::from_fn(|| network.node_mut(node).next_event()).map(down).sum::<usize>();
    lattice.all().map(of).sum()
}

#[test]
fn a_cable_cut_in_mid_run_loses_nothing() {
    for (number, (lattice, cables)) in
        [("4x2", 1), ("3x3", 1), ("2x2x2", 2), ("4x3", 3)].into_iter().enumerate()
    {
        let seed = seeded(100 + number as u64);
        let _culprit = Culprit { test: "a_cable_cut_in_mid_run", seed };
        cut_and_change(lattice, cables, QUIET, seed);
    }
}

#[test]
fn a_cable_cut_among_bit_errors_loses_nothing() {
    let seed = seeded(110);
    let _culprit = Culprit { test: "a_cable_cut_among_bit_errors", seed };
    let noise = Noise { bit_error_rate: 1e-6, packet_loss: 0.02, ..QUIET };
    cut_and_change("3x3", 2, noise, seed);
}

#[test]
fn a_cable_that_comes_back_is_used_again() {
    let seed = seeded(120);
    let _culprit = Culprit { test: "a_cable_that_comes_back", seed };
    let plan = Plan { lattice: "4", messages: 400, noise: QUIET, control_words: false, seed };
    let mut traffic = Traffic::new(&plan, None, patient, plain);
    let cable = traffic.network.lattice().cable(Node(1), Direction::XPlus);
    traffic.run(|network| {
        if network.now() == CUT_NS {
            network.cut(cable);
        }
        if network.now() == CHANGE_NS {
            network.repair(cable);
        }
    });
    assert!(traffic.sum(|node| node.counters().dropped(Reason::LinkDown)) > 0);
    let state = traffic.network.node(Node(1)).link(Direction::XPlus).unwrap().state();
    assert_eq!(state, link::State::Up);
}

#[test]
fn a_change_with_a_pause_drops_nothing() {
    let seed = seeded(130);
    let _culprit = Culprit { test: "a_change_with_a_pause", seed };
    let plan = Plan { lattice: "3x3", messages: 400, noise: QUIET, control_words: false, seed };
    let configure = |configuration: &mut Configuration| {
        configuration.link.virtual_channels = 4;
        configuration.engine.replay.timeout_ns = 5_000_000;
    };
    let mut traffic = Traffic::new(&plan, None, configure, plain);
    let lattice = traffic.network.lattice();
    let mut faults = Faults::none(lattice);
    faults.kill_cable(lattice.cable(Node(4), Direction::XPlus));
    let around = Arc::new(Routes::around(&faults, 4).unwrap().0);
    traffic.run(|network| {
        if network.now() == CUT_NS {
            lattice.all().for_each(|node| network.node_mut(node).pause());
        }
        let is_drained = network.nodes().iter().all(|node| node.is_drained());
        if network.now() > CUT_NS && is_drained && network.node(Node(0)).epoch() == 1 {
            network.set_routes(&around, 2).unwrap();
            lattice.all().for_each(|node| network.node_mut(node).resume());
        }
    });
    assert!(traffic.network.nodes().iter().all(|node| node.epoch() == 2));
    assert_ledger(&traffic);
    assert_eq!(traffic.sum(|node| node.counters().packets_dropped()), 0);
    assert_eq!(traffic.sum(|node| node.engine().counters().timeouts), 0);
}

#[test]
fn nodes_drain_past_a_cut_cable_and_the_change_drops_nothing() {
    let seed = seeded(140);
    let _culprit = Culprit { test: "nodes_drain_past_a_cut_cable", seed };
    let plan = Plan { lattice: "3x3", messages: 400, noise: QUIET, control_words: false, seed };
    let mut traffic = Traffic::new(&plan, None, patient, plain);
    let lattice = traffic.network.lattice();
    let cable = lattice.cable(Node(4), Direction::XPlus);
    let mut faults = Faults::none(lattice);
    faults.kill_cable(cable);
    let around = Arc::new(Routes::around(&faults, 4).unwrap().0);
    traffic.run(|network| {
        if network.now() == CUT_NS {
            network.cut(cable);
            lattice.all().for_each(|node| network.node_mut(node).pause());
        }
        let is_drained = network.nodes().iter().all(|node| node.is_drained());
        if network.now() > CUT_NS && is_drained && network.node(Node(0)).epoch() == 1 {
            network.set_routes(&around, 2).unwrap();
            lattice.all().for_each(|node| network.node_mut(node).resume());
        }
    });
    assert!(traffic.network.nodes().iter().all(|node| node.epoch() == 2), "never drained");
    assert_ledger(&traffic);
    let dropped = |reason| traffic.sum(|node| node.counters().dropped(reason));
    assert!(dropped(Reason::LinkDown) > 0, "nothing was cut");
    assert_eq!(dropped(Reason::OtherRoutes), 0);
}
