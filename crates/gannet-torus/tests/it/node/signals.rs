//! Packets of a header only.

use std::sync::Arc;

use gannet_lattice::{Lattice, Node};
use gannet_torus::Routes;
use gannet_torus::link::line::Noise;
use gannet_torus::node::{
    Configuration, Network, Reason, SIGNAL_BITS, Signal, SignalRefused, TorusNode,
};

use crate::node::QUIET;
use crate::node::traffic::WORD_NS;

fn network(noise: Noise) -> Network<Vec<u8>> {
    let lattice: Lattice = "4x3".parse().unwrap();
    let routes = Arc::new(Routes::dimension_order(lattice));
    let node = |node: Node| {
        let mut configuration = Configuration::new(lattice, node, WORD_NS);
        configuration.link.session = 1 + node.0 as u8;
        TorusNode::new(configuration, Vec::new(), Arc::clone(&routes), 1)
    };
    let mut network = Network::new(lattice, node, WORD_NS, (4, noise, 3)).unwrap();
    (0..2000).for_each(|_| network.step());
    network
}

#[test]
fn signals_cross_the_lattice_with_source_and_content() {
    let mut network = network(QUIET);
    let nodes = network.lattice().nodes() as u32;
    for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
        let bits = (from << 12 | to) ^ 0x0f00_0000;
        network.node_mut(Node(from)).send_signal(Node(to), bits).unwrap();
        (0..100).for_each(|_| network.step());
        let signal = Signal { source: Node(from), bits };
        assert_eq!(network.node_mut(Node(to)).next_signal(), Some(signal));
    }
    let forwarded: u64 = network.nodes().iter().map(|it| it.counters().signals_forwarded).sum();
    assert!(forwarded > 0);
}

#[test]
fn signals_that_find_no_room_are_counted() {
    let mut network = network(QUIET);
    // Nodes 0 and 2 send to node 1 neighbour 5 by the same link, faster than it takes.
    let mut refused = 0;
    for _ in 0..400 {
        for from in [0, 2] {
            let sent = network.node_mut(Node(from)).send_signal(Node(5), 1);
            refused += u64::from(sent.is_err());
        }
        network.step();
    }
    (0..500).for_each(|_| network.step());
    let sum = |of: fn(&TorusNode<Vec<u8>>) -> u64| network.nodes().iter().map(of).sum::<u64>();
    let sent = sum(|node| node.counters().signals_sent);
    let received = sum(|node| node.counters().signals_received);
    let dropped = sum(|node| node.counters().signals_dropped);
    assert_eq!((sent, sent + refused), (received + dropped, 800));
    assert_eq!(dropped, sum(|node| node.counters().dropped(Reason::SignalQueue)));
    assert!(dropped > 0 && refused > 0, "{dropped} {refused}");
    assert!(sum(|node| node.counters().untold) > 0, "nobody took the signals");
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let mut network = network(QUIET);
    let node = network.node_mut(Node(0));
    let large = 1 << SIGNAL_BITS;
    assert_eq!(node.send_signal(Node(1), large), Err(SignalRefused::TooLarge(large)));
    let nowhere = node.send_signal(Node(12), 1);
    assert_eq!(nowhere, Err(SignalRefused::NoWay(Node(12), Reason::NoSuchNode)));
}
