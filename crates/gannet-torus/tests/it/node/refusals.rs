//! What a node does not take, and says so.

use std::sync::Arc;

use super::network::Network;
use gannet_lattice::{Direction, Faults, Lattice, Node};
use gannet_rdma::{Completion, Failure, PostError, Put};
use gannet_torus::Routes;
use gannet_torus::node::{
    Configuration, ConfigurationError, Event, Reason, TorusNode, UnfitRoutes,
};
use gannet_wire::apelink::HOPS_MAX;

use crate::node::traffic::WORD_NS;
use crate::node::{QUIET, hasty};

fn lattice(text: &str) -> Lattice {
    text.parse().unwrap()
}

fn order(text: &str) -> Arc<Routes> {
    Arc::new(Routes::dimension_order(lattice(text)))
}

fn node(
    configure: impl Fn(&mut Configuration),
    routes: Arc<Routes>,
) -> Result<TorusNode<Vec<u8>>, ConfigurationError> {
    let mut configuration = Configuration::new(routes.lattice(), Node(0), WORD_NS);
    configure(&mut configuration);
    TorusNode::new(configuration, vec![0; 4096], routes, 1)
}

#[test]
fn routes_that_do_not_fit_are_refused_with_the_reason() {
    let mut node = node(|_| (), order("3x3")).unwrap();
    let mut faults = Faults::none(lattice("3x3"));
    // Two cables of one ring: an early turn, with escape channels.
    faults.kill_cable(lattice("3x3").cable(Node(0), Direction::XPlus));
    faults.kill_cable(lattice("3x3").cable(Node(1), Direction::XPlus));
    let around = Arc::new(Routes::around(&faults, 4).unwrap().0);
    assert_eq!(around.classes(), 4);
    let refused = node.set_routes(Arc::clone(&around), 2).unwrap_err();
    assert_eq!(refused, UnfitRoutes::Channels { classes: 4, channels: 2 });
    let refused = node.set_routes(order("3x4"), 2).unwrap_err();
    assert!(matches!(refused, UnfitRoutes::Lattice { .. }), "{refused}");
    let bubble = Arc::new(Routes::bubble(lattice("3x3")));
    assert_eq!(node.set_routes(bubble, 2), Err(UnfitRoutes::Bubble));
    assert_eq!(node.epoch(), 1, "it goes on as before");
    let tree = Routes::around(&faults, 1).unwrap().0;
    assert_eq!(node.set_routes(Arc::new(tree), 2), Ok(()));
}

#[test]
fn routes_that_do_not_fit_one_node_are_taken_by_none() {
    let mut network = network("3x3", |configuration| {
        let is_small = configuration.engine.node == Node(5);
        configuration.link.virtual_channels = if is_small { 2 } else { 4 };
    });
    let mut faults = Faults::none(lattice("3x3"));
    faults.kill_cable(lattice("3x3").cable(Node(0), Direction::XPlus));
    faults.kill_cable(lattice("3x3").cable(Node(1), Direction::XPlus));
    let around = Arc::new(Routes::around(&faults, 4).unwrap().0);
    let refused = network.set_routes(&around, 2).unwrap_err();
    assert_eq!(refused, UnfitRoutes::Channels { classes: 4, channels: 2 });
    assert!(network.nodes().iter().all(|node| node.epoch() == 1));
}

#[test]
fn parameters_out_of_range_are_refused() {
    let refused = |configure: fn(&mut Configuration)| node(configure, order("2")).unwrap_err();
    assert_eq!(
        refused(|c| c.engine.node = Node(2)),
        ConfigurationError::NotInLattice(Node(2), lattice("2"))
    );
    assert_eq!(
        refused(|c| c.engine.limits.nodes = 64),
        ConfigurationError::Nodes(64, lattice("2"))
    );
    assert!(matches!(refused(|c| c.engine.limits.posts = 1 << 15), ConfigurationError::Engine(_)));
    assert_eq!(refused(|c| c.injection_packets = 0), ConfigurationError::InjectionPackets(0));
    for refused in [refused(|c| c.hop_limit = 0), refused(|c| c.hop_limit = HOPS_MAX + 1)] {
        assert!(refused.to_string().starts_with("a hop limit of "), "{refused}");
    }
    assert!(matches!(refused(|c| c.link.session = 0), ConfigurationError::Link(_)));
    let small = refused(|c| c.link.fifo_words = 255);
    assert_eq!(small, ConfigurationError::PacketBytes { got: 4096, max: 4080 });
    assert!(matches!(refused(|c| c.link.virtual_channels = 1), ConfigurationError::Routes(_)));
}

fn network(text: &str, configure: impl Fn(&mut Configuration)) -> Network<Vec<u8>> {
    let routes = order(text);
    let node = |node: Node| {
        let mut configuration = Configuration::new(lattice(text), node, WORD_NS);
        configuration.link.session = 1 + node.0;
        configure(&mut configuration);
        TorusNode::new(configuration, vec![0; 4096], Arc::clone(&routes), 1)
    };
    Network::new(lattice(text), node, WORD_NS, (4, QUIET, 1)).unwrap()
}

fn put_to(destination: u32) -> Put {
    Put { source: 0, destination: Node(destination), process: 0, address: 0, length: 10, tag: 0 }
}

/// Runs until node 0 is told what became of its PUT.
fn outcome(network: &mut Network<Vec<u8>>, put: &Put) -> Result<(), Failure> {
    network.node_mut(Node(0)).engine_mut().post_put(0, put).unwrap();
    for _ in 0..2_000_000 {
        network.step();
        let completion = network.node_mut(Node(0)).engine_mut().poll_completion();
        if let Some(Completion::TxDone { outcome, .. }) = completion {
            return outcome;
        }
    }
    panic!("no completion");
}

#[test]
fn a_packet_that_makes_too_many_hops_is_dropped_and_told() {
    let mut network = network("6", |configuration| {
        hasty(configuration);
        configuration.hop_limit = 1;
        configuration.engine.replay.attempts = 3;
    });
    assert!(
        matches!(outcome(&mut network, &put_to(1)), Err(Failure::Refused(_))),
        "one hop passes"
    );
    assert_eq!(outcome(&mut network, &put_to(3)), Err(Failure::Unreachable));
    let dropped: Vec<_> = [1, 5].map(|node| *network.node(Node(node)).counters()).to_vec();
    let hops: u64 = dropped.iter().map(|counters| counters.dropped(Reason::HopLimit)).sum();
    assert!(hops >= 3, "{dropped:?}");
    let told = [1, 5].into_iter().any(|node| {
        std::iter::from_fn(|| network.node_mut(Node(node)).next_event()).any(|event| {
            matches!(event, Event::Dropped { reason: Reason::HopLimit, source: 0, .. })
        })
    });
    assert!(told);
}

#[test]
fn a_node_out_of_the_lattice_is_no_destination() {
    let mut network = network("2x2", |_| ());
    let engine = network.node_mut(Node(0)).engine_mut();
    assert_eq!(engine.post_put(0, &put_to(4)), Err(PostError::NoSuchNode(Node(4))));
    assert!(engine.post_put(0, &put_to(3)).is_ok());
}

#[test]
fn a_cable_that_was_never_there_counts_as_down() {
    let mut network = network("2", |configuration| {
        hasty(configuration);
        configuration.engine.replay.attempts = 12;
    });
    let cables: Vec<_> = network.lattice().cables().collect();
    cables.into_iter().for_each(|cable| network.cut(cable));
    assert_eq!(outcome(&mut network, &put_to(1)), Err(Failure::Unreachable));
    assert!(network.node(Node(0)).counters().dropped(Reason::LinkDown) > 0);
}

/// Fills the way from node 0 to node 2, of which the cable behind node 1 is dead one way, and tells
/// whether a PUT to node 1 still gets its answer.
fn passes_a_cable_dead_one_way(lived: bool, from: u32, direction: Direction) -> bool {
    let mut network = network("5", |configuration| {
        hasty(configuration);
        configuration.link.dead_after = 2000 * WORD_NS;
    });
    (0..if lived { 500 } else { 0 }).for_each(|_| network.step());
    network.cut_one_way(Node(from), direction);
    for _ in 0..30 {
        let (now, put) = (network.now(), Put { length: 4000, ..put_to(2) });
        network.node_mut(Node(0)).engine_mut().post_put(now, &put).unwrap();
    }
    // Until everything on the way is full, or the cable counts as down.
    (0..20_000).for_each(|_| network.step());
    let (now, put) = (network.now(), Put { tag: 1, ..put_to(1) });
    network.node_mut(Node(0)).engine_mut().post_put(now, &put).unwrap();
    (0..40_000).any(|_| {
        network.step();
        let completion = network.node_mut(Node(0)).engine_mut().poll_completion();
        matches!(completion, Some(Completion::TxDone { tag: 1, outcome, .. })
            if outcome != Err(Failure::Unreachable))
    })
}

#[test]
fn a_cable_that_is_dead_one_way_holds_up_no_other_traffic() {
    for lived in [true, false] {
        for (from, direction) in [(1, Direction::XPlus), (2, Direction::XMinus)] {
            assert!(passes_a_cable_dead_one_way(lived, from, direction), "{lived} {direction}");
        }
    }
}
