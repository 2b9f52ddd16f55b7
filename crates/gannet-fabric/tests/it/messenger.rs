//! Messages over every backend.

use std::cell::Cell;
use std::time::{Duration, Instant};

use gannet_fabric::messenger::{Messenger, Ring};
use gannet_fabric::sim::{Network, Path};
use gannet_fabric::{Endpoint, Failure, Limits, Peer};
use gannet_measure::random::Random;

use crate::conformance::PATIENCE;
use crate::{shm, sim, udp};

const RING: Ring = Ring { slots: 5, slot_bytes: 5000 };
/// How long who takes nothing is waited for.
const DEADLINE: Duration = Duration::from_millis(500);
/// Time without anything to happen, ns.
const PAUSE_NS: u64 = 1_000_000;

/// The time of a test, which passes or is a network's.
enum Time {
    Real(Instant),
    Virtual(Network, Cell<u64>),
}

impl Time {
    fn now_ns(&self) -> u64 {
        match self {
            Self::Real(begin) => begin.elapsed().as_nanos() as u64,
            Self::Virtual(_, now) => now.get(),
        }
    }

    /// In virtual time goes on to when something happens next.
    fn go_on(&self) {
        if let Self::Virtual(network, now) = self {
            now.set(network.due_ns().unwrap_or(now.get() + PAUSE_NS));
        }
    }
}

/// Runs a test over each backend, named.
fn over_each(test: impl Fn(&str, Pair)) {
    let real = || Time::Real(Instant::now());
    let (near, far) = shm::joined(shm::limits(), shm::limits());
    test("shm", pair(near, far, real()));
    let limits = Limits { deadline: Duration::from_secs(5), ..shm::limits() };
    let (near, far) = udp::joined(limits.clone(), limits);
    test("udp", pair(near, far, real()));
    test("sim", over_path(1, &Path::new(vec![sim::LINK])));
}

fn over_path(seed: u64, path: &Path) -> Pair {
    let limits = Limits { deadline: Duration::from_secs(5), ..shm::limits() };
    let network = Network::new(seed);
    let [near, far] = sim::joined(&network, &limits, path, path);
    pair(near, far, Time::Virtual(network, Cell::new(0)))
}

type Pair = (Messenger, Messenger, Time);

fn pair(
    near: (impl Endpoint + Send + 'static, Peer),
    far: (impl Endpoint + Send + 'static, Peer),
    time: Time,
) -> Pair {
    fn messenger((endpoint, peer): (impl Endpoint + Send + 'static, Peer)) -> Messenger {
        Messenger::new(Box::new(endpoint), peer, RING, DEADLINE).unwrap()
    }
    (messenger(near), messenger(far), time)
}

fn step(messenger: &mut Messenger, time: &Time) -> Result<(), Failure> {
    assert!(time.now_ns() < PATIENCE.as_nanos() as u64);
    time.go_on();
    messenger.step(time.now_ns())
}

/// Message `number`, of a length that differs from one to the next.
fn message(number: usize) -> Vec<u8> {
    let len = [1, 7, 5000, 4999, 64, 1000][number % 6];
    (0..len).map(|at| (at * 31 + number * 7) as u8).collect()
}

#[test]
fn messages_come_whole_and_in_order_both_ways() {
    over_each(|backend, pair| both_ways(backend, pair, 2000));
}

#[test]
fn messages_come_whole_and_in_order_over_bad_paths() {
    for seed in 0..20 {
        both_ways(&format!("seed {seed}"), over_path(seed, &sim::switched(sim::bad())), 300);
    }
}

fn both_ways(backend: &str, (mut near, mut far, time): Pair, count: usize) {
    let mut chance = Random::new(5);
    let (mut sent, mut came) = ([0; 2], [0; 2]);
    let mut found = Vec::new();
    while came != [count; 2] {
        for (side, messenger) in [&mut near, &mut far].into_iter().enumerate() {
            step(messenger, &time).unwrap();
            for _ in 0..chance.below(8) {
                if sent[side] < count && messenger.send(&message(sent[side])) {
                    sent[side] += 1;
                }
            }
            for _ in 0..chance.below(8) {
                if messenger.receive(&mut found) {
                    assert!(found == message(came[side]), "{backend}: {}", came[side]);
                    came[side] += 1;
                }
            }
        }
    }
    while near.taken_there() + far.taken_there() < 2 * count as u64 {
        step(&mut near, &time).unwrap();
        step(&mut far, &time).unwrap();
    }
}

#[test]
fn no_more_are_under_way_than_there_are_slots() {
    over_each(|backend, (mut near, mut far, time)| {
        let mut sent = 0;
        let until = time.now_ns() + 100_000_000;
        while time.now_ns() < until {
            step(&mut near, &time).unwrap();
            step(&mut far, &time).unwrap();
            sent += usize::from(near.send(&message(sent)));
        }
        assert_eq!((sent, near.sent(), near.taken_there()), (5, 5, 0), "{backend}");
        assert!(!near.has_room());
        let mut found = Vec::new();
        for number in 0..5 {
            assert!(far.receive(&mut found) && found == message(number));
        }
        assert!(!far.receive(&mut found));
        while !near.has_room() {
            step(&mut near, &time).unwrap();
            step(&mut far, &time).unwrap();
        }
        assert!(near.send(&message(5)), "{backend}");
    });
}

#[test]
fn who_lives_and_takes_nothing_is_given_up() {
    over_each(|backend, (mut near, mut far, time)| {
        while !near.send(&message(0)) {
            step(&mut near, &time).unwrap();
            step(&mut far, &time).unwrap();
        }
        let failure = loop {
            if let Err(failure) = step(&mut near, &time) {
                break failure;
            }
            step(&mut far, &time).unwrap();
        };
        assert_eq!(failure, Failure::Unresponsive, "{backend}");
        assert!(!near.has_room(), "{backend}");
    });
}

#[test]
fn what_came_before_the_other_side_left_can_be_taken() {
    over_each(|backend, (mut near, mut far, time)| {
        while !near.has_room() {
            step(&mut near, &time).unwrap();
            step(&mut far, &time).unwrap();
        }
        (0..3).for_each(|number| assert!(near.send(&message(number))));
        while !far.receive(&mut Vec::new()) {
            step(&mut near, &time).unwrap();
            step(&mut far, &time).unwrap();
        }
        drop(near);
        while step(&mut far, &time).is_ok() {}
        let mut found = Vec::new();
        assert!(far.receive(&mut found) && found == message(1), "{backend}");
        assert!(!far.send(&message(0)), "{backend}");
    });
}
