//! A driver of links in software: it sleeps until words come or a deadline, and sends in batches.

use std::collections::VecDeque;
use std::sync::Arc;

use gannet_lattice::{Direction, Lattice, Node};
use gannet_lofamo::{Mode, Thresholds, Timing};
use gannet_measure::random::Random;
use gannet_memory::Registration;
use gannet_rdma::{Completion, Put};
use gannet_torus::Routes;
use gannet_torus::link::{Link, State};
use gannet_torus::node::{Configuration, TorusNode};
use gannet_wire::apelink::Word;
use gannet_wire::lofamo::Status;

use crate::node::traffic::Memory;
use crate::node::{Culprit, seeded};

/// From one credit to the next on an idle link: far longer than lines in hardware allow.
const CREDIT_PERIOD_NS: u64 = 200_000;
const DEAD_AFTER_NS: u64 = 8 * CREDIT_PERIOD_NS;
/// From a batch sent to its arrival.
const LATENCY_NS: u64 = 5_000;
const BATCH_WORDS: usize = 64;
const LENGTH: usize = 20_000;
const ADDRESS: u64 = 0x1000_0000;
const PAGE: usize = 4096;

struct Batch {
    arrives_at: u64,
    to: Node,
    direction: Direction,
    words: Vec<Word>,
}

struct Driver {
    lattice: Lattice,
    nodes: Vec<TorusNode<Memory>>,
    /// Oldest first.
    batches: VecDeque<Batch>,
    /// Probability that a batch is lost.
    loss: f64,
    random: Random,
    now: u64,
    words_sent: u64,
    arrived: usize,
    done: usize,
}

impl Driver {
    fn new(lattice: &str, loss: f64, seed: u64) -> Self {
        let lattice: Lattice = lattice.parse().unwrap();
        let routes = Arc::new(Routes::dimension_order(lattice));
        let node = |node| live_node(node, &routes);
        let nodes = lattice.all().map(node).collect();
        let (random, batches) = (Random::new(seed), VecDeque::new());
        Self { lattice, nodes, batches, loss, random, now: 0, words_sent: 0, arrived: 0, done: 0 }
    }

    /// Goes from deadline to deadline and arrival to arrival until `end`.
    fn run_until(&mut self, end: u64) {
        while self.now < end {
            while self.batches.front().is_some_and(|batch| batch.arrives_at <= self.now) {
                let Batch { to, direction, words, .. } = self.batches.pop_front().unwrap();
                self.nodes[to.index()].receive_all(direction, &words, self.now);
            }
            self.lattice.all().for_each(|node| self.look_after(node));
            let deadlines = self.nodes.iter().filter_map(TorusNode::next_deadline);
            let arrival = self.batches.front().map(|batch| batch.arrives_at);
            let next = deadlines.chain(arrival).min().unwrap_or(end);
            assert!(next > self.now, "a driver would spin at {}", self.now);
            self.now = next;
        }
    }

    fn look_after(&mut self, at: Node) {
        let node = &mut self.nodes[at.index()];
        while let Some(completion) = node.engine_mut().poll_completion() {
            match completion {
                Completion::TxDone { outcome, .. } => {
                    assert_eq!(outcome, Ok(()));
                    self.done += 1;
                }
                Completion::RxDone { .. } => self.arrived += 1,
                other => panic!("{other:?}"),
            }
        }
        node.advance(self.now);
        let mut words = [0; BATCH_WORDS];
        for direction in Direction::ALL {
            let (to, arrives_at) = (self.lattice.neighbour(at, direction), self.now + LATENCY_NS);
            loop {
                let count = node.transmit_into(direction, &mut words, self.now);
                self.words_sent += count as u64;
                if count > 0 && !self.random.chance(self.loss) {
                    let words = words[..count].to_vec();
                    let direction = direction.opposite();
                    self.batches.push_back(Batch { arrives_at, to, direction, words });
                }
                if count < BATCH_WORDS {
                    break;
                }
            }
        }
    }
}

/// The byte at `at` of what `node` sends.
fn byte(node: Node, at: usize) -> u8 {
    (at.wrapping_mul(31) >> 3) as u8 ^ node.0 as u8
}

/// A node whose memory holds what it sends and, behind, room for what it is sent.
fn live_node(node: Node, routes: &Arc<Routes>) -> TorusNode<Memory> {
    let mut configuration = Configuration::new(routes.lattice(), node, 8);
    let link = &mut configuration.link;
    (link.credit_period, link.dead_after) = (CREDIT_PERIOD_NS, DEAD_AFTER_NS);
    (link.timeout, link.session) = (100_000, 1 + node.0);
    let half = LENGTH.next_multiple_of(PAGE);
    configuration.engine.limits.pages = half / PAGE;
    let mut memory: Memory = (0..LENGTH).map(|at| byte(node, at)).collect();
    memory.resize(2 * half, 0);
    let mut live = TorusNode::new(configuration, memory, Arc::clone(routes), 1)
        .unwrap()
        .with_monitor(Timing::new(Mode::Push, 1_000_000_000), Thresholds::default());
    let pages: Vec<u64> = (half as u64..2 * half as u64).step_by(PAGE).collect();
    let length = LENGTH as u64;
    let room = Registration { process: 0, start: ADDRESS, length, writable: true, pages: &pages };
    live.engine_mut().register(&room).unwrap();
    live
}

/// Each node sends to the one after it; then all are quiet.
fn drive(loss: f64, seed: u64) -> Driver {
    let mut driver = Driver::new("2x2", loss, seed);
    driver.run_until(DEAD_AFTER_NS);
    for at in 0..4 {
        let now = driver.now;
        let destination = Node((at + 1) % 4);
        let length = LENGTH as u32;
        let put = Put { source: 0, destination, process: 0, address: ADDRESS, length, tag: 0 };
        driver.nodes[at as usize].engine_mut().post_put(now, &put).unwrap();
    }
    driver.run_until(40 * DEAD_AFTER_NS);
    assert_eq!((driver.arrived, driver.done), (4, 4));
    for (at, node) in driver.nodes.iter().enumerate() {
        let from = Node((at as u32 + 3) % 4);
        let room = &node.engine().memory()[LENGTH.next_multiple_of(PAGE)..];
        assert!((0..LENGTH).all(|at| room[at] == byte(from, at)), "node {at}");
    }
    driver
}

fn links(driver: &Driver) -> impl Iterator<Item = &Link> {
    let of = |node| Direction::ALL.into_iter().filter_map(move |way| TorusNode::link(node, way));
    driver.nodes.iter().flat_map(of)
}

#[test]
fn deadlines_and_words_are_all_that_a_driver_needs() {
    let mut driver = drive(0.0, 0);
    assert!(links(&driver).all(|link| link.state() == State::Up && link.counters().downs == 0));
    assert!(links(&driver).all(|link| link.counters().tx_rewinds == 0));
    // A quiet link is given a credit of two words in each period, and nobody takes it for failed.
    let before = driver.words_sent;
    let from = driver.now;
    driver.run_until(from + 100 * CREDIT_PERIOD_NS);
    let words = driver.words_sent - before;
    let quiet = 2 * links(&driver).count() as u64 * 100;
    assert!((quiet - quiet / 50..=quiet + quiet / 50).contains(&words), "{words} of {quiet}");
    for node in &driver.nodes {
        let statuses = node.nic().unwrap().register().links();
        assert_eq!(statuses[..4], [Status::Normal; 4]);
    }
}

#[test]
fn lost_batches_come_again_by_deadlines() {
    let seed = seeded(150);
    let _culprit = Culprit { test: "lost_batches_come_again", seed };
    let driver = drive(0.1, seed);
    assert!(links(&driver).any(|link| link.counters().tx_rewinds > 0), "nothing was lost");
}
