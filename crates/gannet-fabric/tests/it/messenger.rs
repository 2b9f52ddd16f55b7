//! Messages over every backend.

use std::time::{Duration, Instant};

use gannet_fabric::messenger::{Messenger, Ring};
use gannet_fabric::{Endpoint, Failure, Limits, Peer};
use gannet_measure::random::Random;

use crate::{shm, udp};

const PATIENCE: Duration = Duration::from_secs(20);
const RING: Ring = Ring { slots: 5, slot_bytes: 5000 };

/// Runs a test over each backend, named.
fn over_each(test: impl Fn(&str, Pair)) {
    let (near, far) = shm::joined(shm::limits(), shm::limits());
    test("shm", pair(near, far));
    let limits = Limits { deadline: Duration::from_secs(5), ..shm::limits() };
    let (near, far) = udp::joined(limits.clone(), limits);
    test("udp", pair(near, far));
}

type Pair = (Messenger, Messenger, Instant);

fn pair(
    near: (impl Endpoint + Send + 'static, Peer),
    far: (impl Endpoint + Send + 'static, Peer),
) -> Pair {
    fn messenger((endpoint, peer): (impl Endpoint + Send + 'static, Peer)) -> Messenger {
        Messenger::new(Box::new(endpoint), peer, RING).unwrap()
    }
    (messenger(near), messenger(far), Instant::now())
}

fn step(messenger: &mut Messenger, begin: Instant) -> Result<(), Failure> {
    assert!(begin.elapsed() < PATIENCE);
    messenger.step(begin.elapsed().as_nanos() as u64)
}

/// Message `number`, of a length that differs from one to the next.
fn message(number: usize) -> Vec<u8> {
    let len = [1, 7, 5000, 4999, 64, 1000][number % 6];
    (0..len).map(|at| (at * 31 + number * 7) as u8).collect()
}

#[test]
fn messages_come_whole_and_in_order_both_ways() {
    over_each(|backend, (mut near, mut far, begin)| {
        let (count, mut chance) = (2000, Random::new(5));
        let (mut sent, mut came) = ([0; 2], [0; 2]);
        let mut found = Vec::new();
        while came != [count; 2] {
            for (side, messenger) in [&mut near, &mut far].into_iter().enumerate() {
                step(messenger, begin).unwrap();
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
            step(&mut near, begin).unwrap();
            step(&mut far, begin).unwrap();
        }
    });
}

#[test]
fn no_more_are_under_way_than_there_are_slots() {
    over_each(|backend, (mut near, mut far, begin)| {
        let mut sent = 0;
        let until = Instant::now() + Duration::from_millis(100);
        while Instant::now() < until {
            step(&mut near, begin).unwrap();
            step(&mut far, begin).unwrap();
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
            step(&mut near, begin).unwrap();
            step(&mut far, begin).unwrap();
        }
        assert!(near.send(&message(5)), "{backend}");
    });
}

#[test]
fn what_came_before_the_other_side_left_can_be_taken() {
    over_each(|backend, (mut near, mut far, begin)| {
        while !near.has_room() {
            step(&mut near, begin).unwrap();
            step(&mut far, begin).unwrap();
        }
        (0..3).for_each(|number| assert!(near.send(&message(number))));
        while !far.receive(&mut Vec::new()) {
            step(&mut near, begin).unwrap();
            step(&mut far, begin).unwrap();
        }
        drop(near);
        while step(&mut far, begin).is_ok() {}
        let mut found = Vec::new();
        assert!(far.receive(&mut found) && found == message(1), "{backend}");
        assert!(!far.send(&message(0)), "{backend}");
    });
}
