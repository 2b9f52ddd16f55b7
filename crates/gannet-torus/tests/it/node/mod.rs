//! Nodes joined by lines that lose and damage words: every PUT and GET arrives once and intact.

mod changes;
mod live;
mod network;
mod passing;
mod refusals;
mod traffic;

use crate::line::Noise;
use gannet_lattice::{Direction, Node};
use gannet_lofamo::{Host, Mode, Thresholds, Timing};
use gannet_torus::node::{Configuration, Reason, TorusNode};
use gannet_torus::router::Arbitration;
use gannet_wire::lofamo::Status;

use traffic::{Memory, Plan, Traffic, WORD_NS};

/// Prints how to repeat a trial that fails.
struct Culprit {
    test: &'static str,
    seed: u64,
}

impl Drop for Culprit {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { test, seed } = self;
            eprintln!("GANNET_SEED={seed} cargo test -p gannet-torus --test it node::{test}");
        }
    }
}

/// The seed of a trial: as given, or `GANNET_SEED`.
fn seeded(given: u64) -> u64 {
    let seed = std::env::var("GANNET_SEED").ok();
    seed.and_then(|seed| seed.parse().ok()).unwrap_or(given)
}

const QUIET: Noise =
    Noise { bit_error_rate: 0.0, word_loss: 0.0, credit_loss: 0.0, packet_loss: 0.0 };

/// Patience that fits words of 8 ns and a handful of hops, so that a test need not wait long.
fn hasty(configuration: &mut Configuration) {
    let replay = &mut configuration.engine.replay;
    (replay.timeout_ns, replay.timeout_max_ns, replay.attempts) = (60_000, 500_000, 60);
    configuration.link.timeout = 1000 * WORD_NS;
}

fn plain(node: TorusNode<Memory>) -> TorusNode<Memory> {
    node
}

/// Of a network at rest every packet is accounted for, node by node.
fn assert_ledger(traffic: &Traffic) {
    for node in traffic.network.nodes() {
        let counters = node.counters();
        let out = counters.delivered + counters.forwarded + counters.packets_dropped();
        assert_eq!(counters.injected + counters.taken, out, "{} {counters:?}", node.node());
    }
}

/// Runs messages over perfect lines, on which nothing may be lost, overtaken or sent twice.
fn run_on_perfect_lines(virtual_channels: usize, arbitration: Arbitration) {
    let plan =
        Plan { lattice: "4x3", messages: 150, noise: QUIET, control_words: false, seed: seeded(1) };
    let configure = |configuration: &mut Configuration| {
        configuration.link.virtual_channels = virtual_channels;
        configuration.arbitration = arbitration;
    };
    let mut traffic = Traffic::new(&plan, None, configure, plain);
    traffic.run(|_| ());
    assert_ledger(&traffic);
    assert_eq!(traffic.sum(|node| node.counters().packets_dropped()), 0);
    let again = traffic.sum(|node| node.engine().counters().timeouts);
    assert_eq!(again + traffic.sum(|node| node.engine().counters().overtaken), 0);
    // Each hop hands a packet to a link once.
    let forwarded = traffic.sum(|node| node.counters().forwarded);
    assert_eq!(forwarded, traffic.sum(|node| node.counters().delivered_hops));
    let injected = traffic.sum(|node| node.counters().injected);
    assert_eq!(injected, traffic.sum(|node| node.counters().delivered));
    assert!(forwarded < 3 * injected, "the diameter is 3");
    // No packet was faster than light: 4 words of line, and its own words.
    let delivered = traffic.network.node(Node(0)).counters();
    assert!(delivered.latency_max_ns > 8 * WORD_NS && delivered.latency_max_ns < 1_000_000);
}

#[test]
fn perfect_lines_need_nothing_twice_and_only_the_shortest_ways() {
    let _culprit = Culprit { test: "perfect_lines", seed: seeded(1) };
    for arbitration in [Arbitration::Turns, Arbitration::EqualShares] {
        for virtual_channels in [2, 4] {
            run_on_perfect_lines(virtual_channels, arbitration);
        }
    }
}

#[test]
fn bit_errors_and_lost_packets_lose_nothing() {
    let (mut damaged, mut replayed) = (0, 0);
    for (number, lattice) in ["2x2x2", "4x2", "3x3"].into_iter().enumerate() {
        for packet_loss in [0.0, 0.02, 0.05] {
            let seed = seeded(10 + number as u64);
            let _culprit = Culprit { test: "bit_errors_and_lost_packets", seed };
            let noise = Noise { bit_error_rate: 1e-6, packet_loss, ..QUIET };
            for retransmit in [true, false] {
                let plan = Plan { lattice, messages: 60, noise, control_words: false, seed };
                let configure = |configuration: &mut Configuration| {
                    hasty(configuration);
                    configuration.link.retransmit = retransmit;
                };
                let mut traffic = Traffic::new(&plan, None, configure, plain);
                traffic.run(|_| ());
                assert_ledger(&traffic);
                damaged += traffic.sum(|node| links(node, |link| link.counters().crc_errors));
                let timeouts = traffic.sum(|node| node.engine().counters().timeouts);
                replayed += timeouts;
                let lost = traffic.sum(|node| links(node, |link| link.counters().tx_given_up));
                assert!(!retransmit || lost == 0, "a link with retransmission gives up nothing");
                let end_to_end = timeouts + traffic.sum(|node| node.engine().counters().overtaken);
                assert!(retransmit || packet_loss == 0.0 || end_to_end > 0);
            }
        }
    }
    let is_one = std::env::var_os("GANNET_SEED").is_some();
    assert!(
        is_one || damaged > 10 && replayed > 10,
        "{damaged} damaged and {replayed} replayed prove little"
    );
}

fn links(node: &TorusNode<Memory>, of: impl Fn(&gannet_torus::link::Link) -> u64) -> u64 {
    Direction::ALL.into_iter().filter_map(|direction| node.link(direction)).map(of).sum()
}

#[test]
fn payloads_of_control_words_pass_every_hop() {
    let seed = seeded(30);
    let _culprit = Culprit { test: "payloads_of_control_words", seed };
    let noise = Noise { bit_error_rate: 1e-6, packet_loss: 0.01, ..QUIET };
    let plan = Plan { lattice: "3x3", messages: 80, noise, control_words: true, seed };
    let mut traffic = Traffic::new(&plan, None, hasty, plain);
    traffic.run(|_| ());
    let escapes = traffic.sum(|node| links(node, |link| link.counters().tx_escapes));
    assert!(escapes > 1000, "{escapes}");
}

#[test]
fn one_packet_of_room_in_each_fifo_is_enough() {
    for lattice in ["4x2", "5", "2x2x2"] {
        let seed = seeded(40);
        let _culprit = Culprit { test: "one_packet_of_room", seed };
        let plan = Plan { lattice, messages: 120, noise: QUIET, control_words: false, seed };
        let configure = |configuration: &mut Configuration| {
            let link = &mut configuration.link;
            (link.fifo_words, link.fifo_headers) = (256, 1);
            (link.window_packets, link.window_words) = (2, 256);
            configuration.injection_packets = 1;
            configuration.engine.limits.receive_queue = 1;
            configuration.engine.replay.timeout_ns = 5_000_000;
        };
        let mut traffic = Traffic::new(&plan, None, configure, plain);
        traffic.run(|_| ());
        assert_ledger(&traffic);
        assert_eq!(traffic.sum(|node| node.engine().counters().timeouts), 0, "{lattice}");
        assert_eq!(traffic.sum(|node| node.engine().counters().overruns), 0, "{lattice}");
    }
}

#[test]
fn deadlines_move_on_while_an_engine_is_busy() {
    let seed = seeded(45);
    let _culprit = Culprit { test: "deadlines_move_on", seed };
    let plan = Plan { lattice: "3", messages: 60, noise: QUIET, control_words: false, seed };
    let configure = |configuration: &mut Configuration| {
        let engine = &mut configuration.engine;
        (engine.limits.receive_queue, engine.timing.write_bytes_per_s) = (1, 200_000_000);
        engine.replay.timeout_ns = 5_000_000;
    };
    let mut traffic = Traffic::new(&plan, None, configure, plain);
    let mut was_busy = false;
    traffic.run(|network| {
        let now = network.now();
        for node in network.lattice().all() {
            let node = network.node_mut(node);
            was_busy |= !node.engine().can_receive();
            node.advance(now);
            assert!(node.next_deadline() > Some(now), "a driver would spin at {now}");
        }
    });
    assert!(was_busy);
}

/// As words are, with or without a fault monitor.
fn with_or_without_monitor(has_monitor: bool) -> (u64, Vec<u64>, Traffic) {
    let plan =
        Plan { lattice: "3x3", messages: 60, noise: QUIET, control_words: false, seed: seeded(50) };
    let timing = Timing::new(Mode::Push, 100_000_000);
    let finish = |node: TorusNode<Memory>| {
        if has_monitor { node.with_monitor(timing, Thresholds::default()) } else { node }
    };
    let mut traffic = Traffic::new(&plan, None, hasty, finish);
    let mut hosts: Vec<Host> = (0..9).map(|node| Host::new(Node(node), timing)).collect();
    traffic.run(|network| {
        if network.now() == 8 * WORD_NS && has_monitor {
            for (host, node) in hosts.iter_mut().zip(network.lattice().all()) {
                host.statuses_mut().service_network = Status::Normal;
                let beat = host.beat(8 * WORD_NS, &mut |_| ());
                network.node_mut(node).nic_mut().unwrap().beat(8 * WORD_NS, beat, &mut |_| ());
            }
        }
    });
    let words = traffic.network.nodes().iter().flat_map(|node| {
        let link = |direction| node.link(direction).map(|link| *link.counters());
        let counters = Direction::ALL.into_iter().filter_map(link);
        counters.flat_map(|it| [it.tx_magic, it.tx_start, it.tx_payload_words, it.tx_credits])
    });
    let words = words.collect();
    (traffic.network.now(), words, traffic)
}

#[test]
fn diagnostics_ride_along_without_a_word_more() {
    let _culprit = Culprit { test: "diagnostics_ride_along", seed: seeded(50) };
    let (end, words, mut traffic) = with_or_without_monitor(true);
    let (end_without, words_without, _) = with_or_without_monitor(false);
    assert_eq!((end, words), (end_without, words_without));
    let now = traffic.network.now();
    let lattice = traffic.network.lattice();
    for node in lattice.all() {
        for direction in Direction::ALL.into_iter().filter(|&direction| lattice.has(direction)) {
            let nic = traffic.network.node_mut(node).nic().unwrap();
            let remote = nic.remote(now, direction);
            assert_eq!(remote.origin, lattice.neighbour(node, direction).0, "{node} {direction}");
            assert_eq!((remote.host, remote.nic), (Status::Normal, Status::Normal), "{node}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let noise = Noise { bit_error_rate: 1e-5, packet_loss: 0.02, ..QUIET };
    let plan = Plan { lattice: "4x2", messages: 40, noise, control_words: false, seed: seeded(60) };
    let run = || {
        let mut traffic = Traffic::new(&plan, None, hasty, plain);
        traffic.run(|_| ());
        let counters = traffic.network.nodes().iter().map(|node| *node.counters());
        (traffic.network.now(), counters.collect::<Vec<_>>())
    };
    let (end, counters) = run();
    assert_eq!(run(), (end, counters.clone()));
    assert!(counters.iter().all(|it| it.dropped(Reason::HopLimit) == 0));
}
