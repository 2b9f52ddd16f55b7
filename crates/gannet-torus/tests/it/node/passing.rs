//! Packets that come in frames and need not wait.

use std::sync::Arc;

use gannet_lattice::{Direction, Lattice, Node};
use gannet_memory::Registration;
use gannet_rdma::{Completion, Put};
use gannet_torus::Routes;
use gannet_torus::link::{Config, Form, State};
use gannet_torus::node::{Configuration, TorusNode};

const BYTES: usize = 8192;
const FRAME_BYTES: usize = 8972;
/// Longer than any acknowledgement waits for another.
const LONG_NS: u64 = 1 << 30;

/// Three nodes in a ring, joined by cables that take no time.
struct Ring {
    nodes: Vec<TorusNode<Vec<u8>>>,
    now: u64,
}

impl Ring {
    fn new() -> Self {
        let lattice: Lattice = "3".parse().unwrap();
        let routes = Arc::new(Routes::dimension_order(lattice));
        let node = |node: Node| {
            let mut configuration = Configuration::new(lattice, node, 1);
            let form = Form::Frames { bytes: FRAME_BYTES };
            configuration.link = Config {
                form,
                session: 1 + node.0,
                timeout: 4 * LONG_NS,
                credit_period: 4 * LONG_NS,
                dead_after: 8 * LONG_NS,
                ..configuration.link
            };
            let memory = (0..BYTES).map(|at| (at / 16) as u8 ^ node.0 as u8).collect();
            let mut node = TorusNode::new(configuration, memory, Arc::clone(&routes), 1).unwrap();
            let place = Registration {
                process: 0,
                start: 0,
                length: BYTES as u64,
                writable: true,
                pages: &[0, 4096],
            };
            node.engine_mut().register(&place).unwrap();
            node
        };
        let mut ring = Self { nodes: lattice.all().map(node).collect(), now: 0 };
        let is_up = |node: &TorusNode<_>| {
            let ways = [Direction::XPlus, Direction::XMinus];
            ways.iter().all(|&way| node.link(way).unwrap().state() == State::Up)
        };
        while !ring.nodes.iter().all(is_up) {
            (0..3).for_each(|node| ring.speak(node));
        }
        ring
    }

    /// Lets a node send all that is due, which its neighbours take.
    fn speak(&mut self, from: usize) {
        self.now += 1000;
        let now = self.now;
        self.nodes[from].advance(now);
        for (way, to) in [(Direction::XPlus, (from + 1) % 3), (Direction::XMinus, (from + 2) % 3)] {
            let mut frame = [0; FRAME_BYTES];
            loop {
                let length = self.nodes[from].emit(way, &mut frame, now);
                if length == 0 {
                    break;
                }
                self.nodes[to].accept(way.opposite(), &frame[..length], now).unwrap();
            }
        }
    }

    /// Posts a PUT of a few bytes.
    fn put(&mut self, from: usize, to: usize) {
        let put = Put {
            source: 32,
            destination: Node(to as u32),
            process: 0,
            address: 4096,
            length: 999,
            tag: 5,
        };
        self.nodes[from].engine_mut().post_put(self.now, &put).unwrap();
    }

    fn has_arrived(&mut self, at: usize) -> bool {
        let completion = self.nodes[at].engine_mut().poll_completion();
        matches!(completion, Some(Completion::RxDone { address: 4096, length: 999, tag: 5, .. }))
    }
}

#[test]
fn a_packet_goes_to_memory_from_the_frame_it_came_in() {
    let mut ring = Ring::new();
    ring.put(0, 1);
    ring.speak(0);
    assert_eq!(ring.nodes[1].counters().delivered, 1, "without a step of that node");
    assert!(ring.has_arrived(1));
    let written = &ring.nodes[1].engine().memory()[4096..5095];
    assert_eq!(written, &ring.nodes[0].engine().memory()[32..1031]);
}

#[test]
fn an_answer_goes_before_a_bare_acknowledgement() {
    let mut ring = Ring::new();
    ring.put(0, 1);
    ring.speak(0);
    // A driver asks for completions before it sends.
    assert!(ring.has_arrived(1));
    ring.put(1, 0);
    ring.speak(1);
    assert_eq!(ring.nodes[1].counters().injected, 1, "the answer acknowledges");
    let done = ring.nodes[0].engine_mut().poll_completion();
    assert!(matches!(done, Some(Completion::TxDone { outcome: Ok(()), .. })), "{done:?}");
    assert!(ring.has_arrived(0));
}

#[test]
fn packets_that_have_to_wait_are_not_overtaken() {
    let mut ring = Ring::new();
    // The engine of the far node takes no packets while its completions are full.
    let mut expected = 0;
    for _ in 0..200 {
        let put = Put {
            source: 0,
            destination: Node(1),
            process: 0,
            address: 0,
            length: 64,
            tag: expected,
        };
        if ring.nodes[0].engine_mut().post_put(ring.now, &put).is_ok() {
            expected += 1;
        }
        ring.speak(0);
    }
    let mut tags = Vec::new();
    for _ in 0..2000 {
        while let Some(completion) = ring.nodes[1].engine_mut().poll_completion() {
            if let Completion::RxDone { tag, .. } = completion {
                tags.push(tag);
            }
        }
        (0..3).for_each(|node| ring.speak(node));
        while ring.nodes[0].engine_mut().poll_completion().is_some() {}
    }
    assert!(expected > 10, "{expected}");
    assert_eq!(tags, Vec::from_iter(0..expected));
}
