//! Nodes on threads of their own, joined by cables: PUTs arrive once and intact, whatever happens to cables and
//! threads.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gannet_lattice::{Direction, Lattice, Node};
use gannet_memory::Registration;
use gannet_rdma::{Completion, Put};
use gannet_torus::Routes;
use gannet_torus::link::State;
use gannet_torus::node::{Counters, TorusNode};
use gannet_torus_live::memory::{self, Cut};
use gannet_torus_live::udp::UdpPort;
use gannet_torus_live::{Driver, Patience, Port};

use crate::conformance::addresses;

const PAGE: u64 = 4096;
const ADDRESS: u64 = 1 << 40;
/// Bytes of a PUT.
const LENGTH: u32 = 50_000;
const MEMORY: u64 = (LENGTH as u64).next_multiple_of(PAGE);

type Ports = Vec<(Node, Direction, Box<dyn Port + Send>)>;

/// What nodes and test tell each other.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// PUTs acknowledged, and arrived, of all nodes.
    done: AtomicU32,
    arrived: AtomicU32,
    /// Nodes all of whose links are up.
    up: AtomicU32,
    /// Which node does not run, for so many ms.
    stall: Mutex<Option<(Node, u64)>>,
}

struct Finished {
    counters: Counters,
    downs: u64,
    resent: u64,
    refused: u64,
}

struct Machine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Finished>>,
    nodes: u32,
}

/// The byte at `at` of the `round`th PUT of `node`.
fn byte(node: Node, round: u32, at: usize) -> u8 {
    (at.wrapping_mul(31) >> 3) as u8 ^ node.0 as u8 ^ (round as u8).wrapping_mul(17)
}

impl Machine {
    /// Nodes of which each sends `rounds` PUTs to the one that is `far` numbers after it.
    fn start(lattice: &str, ports: Ports, patience: Patience, far: u32, rounds: u32) -> Self {
        let lattice: Lattice = lattice.parse().unwrap();
        let shared = Arc::new(Shared::default());
        let routes = Arc::new(Routes::dimension_order(lattice));
        let frame_bytes = ports.iter().map(|(.., port)| port.frame_bytes()).min().unwrap();
        let window = ports.iter().map(|(.., port)| port.window_bytes()).min().unwrap();
        let mut drivers: Vec<Driver<TorusNode<Vec<u8>>>> = lattice
            .all()
            .map(|node| {
                let session = 100 + node.0;
                let configuration = patience.configure(lattice, node, frame_bytes, window, session);
                Driver::new(live_node(configuration, &routes), patience.spin_ns)
            })
            .collect();
        for (node, direction, port) in ports {
            drivers[node.index()].plug(direction.index(), port);
        }
        let nodes = lattice.nodes() as u32;
        let threads = drivers.into_iter().map(|driver| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || run(driver, &shared, (nodes, far, rounds)))
        });
        Self { threads: threads.collect(), shared, nodes }
    }

    /// Waits until `done`, or fails.
    fn wait_until(&self, what: &str, done: impl Fn(&Shared) -> bool) {
        let begin = Instant::now();
        while !done(&self.shared) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{what} does not happen");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn wait_for_puts(&self, rounds: u32) {
        let all = rounds * self.nodes;
        let is_done = |shared: &Shared| {
            let count = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
            count(&shared.done) == all && count(&shared.arrived) == all
        };
        self.wait_until("every PUT", is_done);
    }

    fn stop(self) -> Vec<Finished> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

/// A node whose memory holds what it sends and, behind, room for what it is sent.
fn live_node(
    configuration: gannet_torus::node::Configuration,
    routes: &Arc<Routes>,
) -> TorusNode<Vec<u8>> {
    let mut node =
        TorusNode::new(configuration, vec![0; 2 * MEMORY as usize], Arc::clone(routes), 1).unwrap();
    let pages: Vec<u64> = (MEMORY..2 * MEMORY).step_by(PAGE as usize).collect();
    let length = u64::from(LENGTH);
    let room = Registration { process: 0, start: ADDRESS, length, writable: true, pages: &pages };
    node.engine_mut().register(&room).unwrap();
    node
}

/// Runs a node: its next PUT is posted when the last one is acknowledged.
fn run(
    mut driver: Driver<TorusNode<Vec<u8>>>,
    shared: &Shared,
    (nodes, far, rounds): (u32, u32, u32),
) -> Finished {
    let node = driver.node().node();
    let from = Node((node.0 + nodes - far) % nodes);
    let (mut posted, mut done, mut arrived, mut is_up) = (0, 0, 0, false);
    while !shared.stop.load(Ordering::Relaxed) {
        let stalled = {
            let mut stall = shared.stall.lock().unwrap();
            stall.take_if(|(who, _)| *who == node)
        };
        if let Some((_, ms)) = stalled {
            thread::sleep(Duration::from_millis(ms));
        }
        if is_up && posted < rounds && done == posted {
            let memory = driver.node_mut().engine_mut().memory_mut();
            (0..LENGTH as usize).for_each(|at| memory[at] = byte(node, posted, at));
            let destination = Node((node.0 + far) % nodes);
            let (process, address, length, tag) = (0, ADDRESS, LENGTH, posted);
            let put = Put { source: 0, destination, process, address, length, tag };
            let now = driver.now();
            driver.node_mut().engine_mut().post_put(now, &put).unwrap();
            posted += 1;
        }
        if !driver.step() {
            driver.wait(Duration::from_millis(2)).unwrap();
        }
        while let Some(completion) = driver.node_mut().engine_mut().poll_completion() {
            match completion {
                Completion::TxDone { outcome, .. } => {
                    assert_eq!(outcome, Ok(()));
                    done += 1;
                    shared.done.fetch_add(1, Ordering::Relaxed);
                }
                Completion::RxDone { source, tag, .. } => {
                    assert_eq!((source, tag), (from, arrived), "once, and in order");
                    let memory = &driver.node().engine().memory()[MEMORY as usize..];
                    assert!((0..LENGTH as usize).all(|at| memory[at] == byte(from, tag, at)));
                    arrived += 1;
                    shared.arrived.fetch_add(1, Ordering::Relaxed);
                }
                other => panic!("{other:?}"),
            }
        }
        if !is_up {
            is_up = links(driver.node()).all(|link| link.state() == State::Up);
            shared.up.fetch_add(u32::from(is_up), Ordering::Relaxed);
        }
    }
    let refused =
        Direction::ALL.into_iter().filter_map(|direction| driver.counters(direction.index()));
    Finished {
        counters: *driver.node().counters(),
        downs: links(driver.node()).map(|link| link.counters().downs).sum(),
        resent: links(driver.node()).map(|link| link.counters().tx_rewinds).sum(),
        refused: refused.map(|counters| counters.refused).sum(),
    }
}

fn links(node: &TorusNode<Vec<u8>>) -> impl Iterator<Item = &gannet_torus::link::Link> {
    Direction::ALL.into_iter().filter_map(|direction| node.link(direction))
}

/// The cables of a lattice, made by `cable`.
fn cables(
    lattice: &str,
    mut cable: impl FnMut() -> (Box<dyn Port + Send>, Box<dyn Port + Send>),
) -> Ports {
    let lattice: Lattice = lattice.parse().unwrap();
    let mut ports = Vec::new();
    for node in lattice.all() {
        for dimension in 0..3 {
            let plus = Direction::of(dimension, true);
            if lattice.has(plus) {
                let (near, far) = cable();
                ports.push((node, plus, near));
                ports.push((lattice.neighbour(node, plus), plus.opposite(), far));
            }
        }
    }
    ports
}

fn udp() -> (Box<dyn Port + Send>, Box<dyn Port + Send>) {
    let [a, b] = addresses();
    (Box::new(UdpPort::open(a, b).unwrap()), Box::new(UdpPort::open(b, a).unwrap()))
}

/// Of a machine at rest every packet is accounted for, node by node.
fn assert_ledger(finished: &[Finished]) {
    for Finished { counters, .. } in finished {
        let out = counters.delivered + counters.forwarded + counters.packets_dropped();
        assert_eq!(counters.injected + counters.taken, out, "{counters:?}");
    }
}

#[test]
fn frames_that_a_full_cable_refuses_are_sent_later_and_none_is_lost() {
    let cable = || -> (Box<dyn Port + Send>, Box<dyn Port + Send>) {
        let (a, b) = memory::cable(1472, 1).unwrap();
        (Box::new(a), Box::new(b))
    };
    // Nothing is sent again for a thread that is not run for a while.
    let patience = Patience { watchdog_ns: 10_000_000_000, ..Patience::default() };
    let machine = Machine::start("3", cables("3", cable), patience, 1, 20);
    machine.wait_for_puts(20);
    for Finished { resent, downs, .. } in machine.stop() {
        assert_eq!((resent, downs), (0, 0));
    }
}

#[test]
fn puts_cross_sockets_and_nothing_is_dropped() {
    let machine = Machine::start("2x2", cables("2x2", udp), Patience::default(), 3, 40);
    machine.wait_for_puts(40);
    // What acknowledges the last of them is still on its way.
    thread::sleep(Duration::from_millis(100));
    let finished = machine.stop();
    assert_ledger(&finished);
    for Finished { counters, downs, refused, .. } in &finished {
        assert_eq!((counters.packets_dropped(), *downs, *refused), (0, 0, 0));
    }
}

#[test]
fn a_node_that_does_not_run_for_a_while_is_not_given_up_and_gives_up_nobody() {
    let patience = Patience { watchdog_ns: 500_000_000, ..Patience::default() };
    let machine = Machine::start("2x2", cables("2x2", udp), patience, 1, 200);
    machine.wait_until("the links", |shared| shared.up.load(Ordering::Relaxed) == 4);
    for node in 0..4 {
        *machine.shared.stall.lock().unwrap() = Some((Node(node), 100));
        thread::sleep(Duration::from_millis(120));
    }
    machine.wait_for_puts(200);
    thread::sleep(Duration::from_millis(100));
    let finished = machine.stop();
    assert_ledger(&finished);
    assert_eq!(finished.iter().map(|node| node.downs).sum::<u64>(), 0);
}

#[test]
fn a_cable_that_is_cut_and_mended_loses_and_doubles_nothing() {
    let mut ways: Vec<[Cut; 2]> = Vec::new();
    let ports = cables("2x2", || {
        let (a, b) = memory::cable(8972, 64).unwrap();
        ways.push([a.way(), b.way()]);
        (Box::new(a), Box::new(b))
    });
    let patience = Patience { watchdog_ns: 40_000_000, ..Patience::default() };
    let machine = Machine::start("2x2", ports, patience, 1, 300);
    machine.wait_until("the links", |shared| shared.up.load(Ordering::Relaxed) == 4);
    // Both ways for longer than a link lives, or one way for a moment.
    for (round, way) in ways.iter().cycle().take(12).enumerate() {
        let cut = if round % 2 == 0 { &way[..] } else { &way[..1] };
        cut.iter().for_each(|way| way.set(true));
        thread::sleep(Duration::from_millis(if round % 2 == 0 { 60 } else { 5 }));
        cut.iter().for_each(|way| way.set(false));
        thread::sleep(Duration::from_millis(10));
    }
    machine.wait_for_puts(300);
    thread::sleep(Duration::from_millis(200));
    let finished = machine.stop();
    assert_ledger(&finished);
    assert!(finished.iter().map(|node| node.downs).sum::<u64>() > 0, "no link died");
    assert!(finished.iter().map(|node| node.resent).sum::<u64>() > 0, "nothing was lost");
}
