//! Sender and receiver as machines, with words between them that take their time.

use std::collections::VecDeque;

use gannet_ingest::SourceDrop;
use proptest::prelude::*;

use super::config::Policy;
use super::greeting::Greeting;
use super::intake::{Intake, Told};
use super::leave::{Leave, Ring};

const RING: Ring = Ring { cell_bytes: 10, cells: 40 };
const AHEAD: u64 = 24;
/// Frames that a poll takes.
const BATCH: usize = 4;

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The sender is offered frames.
    Offer(u64),
    /// Words arrive at the receiver, as many as wait or fewer, and it polls.
    Poll(usize),
    /// Words arrive at the sender.
    Leave(usize),
    /// The sender ends, with a last word or without, and another begins.
    End { with_word: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u64..20).prop_map(Step::Offer),
        4 => (0usize..30).prop_map(Step::Poll),
        3 => (0usize..5).prop_map(Step::Leave),
        1 => any::<bool>().prop_map(|with_word| Step::End { with_word }),
    ]
}

/// Both ends and the cells between them.
struct World {
    intake: Intake,
    leave: Leave,
    /// Number of the frame that each cell holds.
    cells: Vec<u64>,
    /// Cells of the last poll, and what they held.
    arrivals: Vec<(u64, u64)>,
    to_receiver: VecDeque<(u64, u64, u32)>,
    to_sender: VecDeque<u32>,
    /// Number of the next frame.
    frame: u64,
    /// Frames that came, in order.
    delivered: Vec<u64>,
    given_up: u64,
    /// Frames dropped: as the receiver was told, and as the senders know.
    told: u64,
    dropped: u64,
    /// Drops of senders that ended without a word, which nobody could tell.
    untold: u64,
    since_told: u64,
}

impl World {
    fn new(policy: Policy, start: u64) -> Self {
        let mut intake = Intake::new(RING, 5..=10, policy, AHEAD);
        intake.start_at(start);
        let mut world = Self {
            intake,
            leave: Leave::new(RING, 0, 0).unwrap(),
            cells: vec![0; RING.cells as usize],
            arrivals: Vec::new(),
            to_receiver: VecDeque::new(),
            to_sender: VecDeque::new(),
            frame: 0,
            delivered: Vec::new(),
            given_up: 0,
            told: 0,
            dropped: 0,
            untold: 0,
            since_told: 0,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        let next = self.intake.begin();
        self.intake.leave().into_iter().for_each(|end| self.intake.left(end));
        let greeting = Greeting::Welcome { ring: RING, next };
        let low = self.intake.end() as u32;
        self.leave = greeting.leave(RING.cells * RING.cell_bytes, low).unwrap();
    }

    fn offer(&mut self) {
        let Some((offset, count)) = self.leave.next() else {
            self.leave.dropped(1);
            (self.dropped, self.since_told) = (self.dropped + 1, self.since_told + 1);
            return;
        };
        self.frame += 1;
        self.cells[(offset / RING.cell_bytes) as usize] = self.frame;
        self.to_receiver.push_back((offset, 10, count));
        self.leave.sent();
        self.since_told = 0;
        let holds = |cell: u64| self.cells[(cell % RING.cells) as usize];
        assert!(self.arrivals.iter().all(|&(cell, frame)| holds(cell) == frame), "overwritten");
    }

    fn poll(&mut self, words: usize) {
        for _ in 0..words.min(self.to_receiver.len()) {
            let (offset, bytes, count) = self.to_receiver.pop_front().unwrap();
            let Told { dropped, refused } = self.intake.hear(offset, bytes, count);
            assert_eq!(refused, None);
            self.told += dropped;
        }
        self.given_up += self.intake.give_up();
        self.arrivals.clear();
        while self.arrivals.len() < BATCH
            && let Some((cell, len)) = self.intake.take()
        {
            assert_eq!(len, 10);
            let frame = self.cells[(cell % RING.cells) as usize];
            self.arrivals.push((cell, frame));
            self.delivered.push(frame);
        }
        if let Some(end) = self.intake.leave() {
            assert!(end + BATCH as u64 <= self.intake.head() + RING.cells);
            self.intake.left(end);
            self.to_sender.push_back(end as u32);
        }
    }

    fn end(&mut self, with_word: bool) {
        if with_word {
            self.to_receiver.push_back((0, 0, self.leave.count()));
        } else {
            self.untold += self.since_told;
        }
        self.since_told = 0;
        // Whatever was written is heard before the end.
        self.poll(usize::MAX);
        self.to_sender.clear();
        self.begin();
    }

    fn settle(&mut self) {
        self.end(true);
        while self.intake.waiting() > 0 {
            self.poll(0);
        }
    }
}

fn run(policy: Policy, start: u64, steps: &[Step]) -> World {
    let mut world = World::new(policy, start);
    for step in steps {
        match *step {
            Step::Offer(frames) => (0..frames).for_each(|_| world.offer()),
            Step::Poll(words) => world.poll(words),
            Step::Leave(words) => {
                for low in world.to_sender.drain(..words.min(world.to_sender.len())) {
                    assert!(world.leave.extend(low));
                }
            }
            Step::End { with_word } => world.end(with_word),
        }
    }
    world.settle();
    world
}

proptest! {
    /// Whatever is slow and whoever ends: frames come whole and in order, and both ends count the same.
    #[test]
    fn every_frame_is_delivered_or_counted(
        steps in prop::collection::vec(step(), 0..200),
        is_overwriting: bool,
        start in prop_oneof![Just(0u64), (1u64 << 32) - 60..1 << 32],
    ) {
        let policy = if is_overwriting { Policy::OverwriteOldest } else { Policy::CreditStop };
        let world = run(policy, start, &steps);
        prop_assert!(world.delivered.is_sorted_by(|a, b| a < b));
        prop_assert_eq!(world.delivered.len() as u64 + world.given_up, world.frame);
        prop_assert_eq!(world.told + world.untold, world.dropped);
        prop_assert!(is_overwriting || world.given_up == 0);
    }

    /// Words of a sender that keeps to nothing: no cell outside of its leave is ever taken.
    #[test]
    fn whatever_is_told_is_counted(
        words in prop::collection::vec((0u64..500, 0u64..20, 0u32..50), 0..100),
    ) {
        let mut intake = Intake::new(RING, 5..=10, Policy::CreditStop, AHEAD);
        intake.left(AHEAD);
        let (mut offered, mut refused, mut dropped, mut frames) = (0, 0, 0, 0);
        for (offset, bytes, count) in words {
            let told = intake.hear(offset, bytes, count);
            dropped += told.dropped;
            refused += u64::from(told.refused.is_some());
            offered += u64::from(bytes > 0) + told.dropped;
        }
        while let Some((cell, len)) = intake.take() {
            prop_assert!(cell < AHEAD && (5..=10).contains(&len));
            frames += 1;
        }
        prop_assert_eq!(offered, frames + refused + dropped);
    }

    #[test]
    fn no_greeting_gives_more_leave_than_there_is(
        cell_bytes: u64, cells: u64, next: u64, window: u64, low: u32,
    ) {
        for (cell_bytes, cells) in [(cell_bytes, cells), (cell_bytes % 100, cells % 100)] {
            let ring = Ring { cell_bytes, cells };
            let leave = Greeting::Welcome { ring, next }.leave(window, low);
            if let Some(Some((offset, _))) = leave.map(|leave| leave.next()) {
                prop_assert!(offset + cell_bytes <= window);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_told_apart() {
    let mut intake = Intake::new(RING, 5..=10, Policy::CreditStop, AHEAD);
    intake.left(3);
    let mut hear = |offset, bytes, count| {
        let Told { dropped, refused } = intake.hear(offset, bytes, count);
        (dropped, refused)
    };
    assert_eq!(hear(0, 10, 1), (0, None));
    assert_eq!(hear(10, 10, 1), (0, Some(SourceDrop::OutOfTurn)), "counted before");
    assert_eq!(hear(11, 10, 2), (0, Some(SourceDrop::OutsideWindow)), "no cell begins there");
    assert_eq!(hear(10, 3, 5), (2, Some(SourceDrop::WrongLength)), "and two were dropped before");
    assert_eq!(hear(20, 10, 6), (0, None));
    assert_eq!(hear(30, 10, 7), (0, Some(SourceDrop::OutsideWindow)), "without leave");
    assert_eq!(hear(0, 0, 9), (2, None), "only a count");
    assert_eq!(hear(0, 0, 8), (0, None));
    assert_eq!((intake.take(), intake.take()), (Some((0, 10)), Some((2, 10))));
    assert_eq!((intake.take(), intake.head()), (None, 3));
}
