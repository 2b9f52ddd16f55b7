//! The list against a model of it, and what the model does not show.

use std::collections::VecDeque;
use std::thread;

use super::*;
use crate::Region;
use proptest::prelude::*;

const RULES: Rules = Rules { units_max: 3, timeout_ns: 100, overflow: Overflow::DropNewest };

fn list(buffers: usize, rules: Rules) -> (ListWriter<Vec<u8>>, Consumer<Vec<u8>>) {
    receive_list(vec![vec![0; 16]; buffers], rules)
}

fn buffer<B>(taken: Option<Taken<B>>) -> Option<Hold<B>> {
    match taken {
        Some(Taken::Buffer(hold)) => Some(hold),
        _ => None,
    }
}

/// A buffer as the model sees it.
#[derive(Clone, Debug, Default)]
struct Buf {
    units: Vec<Vec<u8>>,
    completion: Completion,
}

/// The list with every buffer there ever was, and nothing shared.
struct Model {
    slots: usize,
    rules: Rules,
    open: Option<Buf>,
    /// Closed and not taken, with their numbers in `completion`.
    ready: VecDeque<Buf>,
    /// Numbers of those held.
    held: Vec<u64>,
    next: u64,
    dropped: u32,
    offered: u64,
    delivered: u64,
    lost: u64,
    bytes_lost: u64,
    waits: u64,
}

impl Model {
    const CAPACITY: usize = 16;

    fn close(&mut self, reason: CloseReason, close_ns: u64) {
        if let Some(mut buf) = self.open.take() {
            buf.completion = Completion { reason, close_ns, ..buf.completion };
            self.ready.push_back(buf);
            self.next += 1;
        }
    }

    fn lose(&mut self, units: usize, bytes: usize) {
        self.lost += units as u64;
        self.bytes_lost += bytes as u64;
    }

    fn expire(&mut self, now_ns: u64) {
        let first_ns = self.open.as_ref().map(|buf| buf.completion.first_ns);
        if first_ns.is_some_and(|first_ns| now_ns - first_ns >= self.rules.timeout_ns) {
            self.close(CloseReason::Timeout, now_ns);
        }
    }

    /// Whether the slot of the next buffer can be had.
    fn can_open(&mut self) -> bool {
        let Some(before) = self.next.checked_sub(self.slots as u64) else { return true };
        if self.held.contains(&before) {
            return false;
        }
        let Some(place) = self.ready.iter().position(|buf| buf.completion.seq == before) else {
            return true;
        };
        if self.ready[place].completion.is_lost {
            return true;
        }
        if self.rules.overflow != Overflow::OverwriteOldest {
            return false;
        }
        self.ready[place].completion.is_lost = true;
        let (units, bytes) =
            (self.ready[place].units.len(), self.ready[place].units.concat().len());
        self.lose(units, bytes);
        true
    }

    fn append(&mut self, unit: &[u8], time: u64, now_ns: u64) -> Result<(), Refused> {
        self.expire(now_ns);
        if unit.len() > Self::CAPACITY {
            self.offered += 1;
            self.lose(1, unit.len());
            return Err(Refused::TooLong);
        }
        let bytes = self.open.as_ref().map_or(0, |buf| buf.units.concat().len());
        if bytes + unit.len() > Self::CAPACITY {
            self.close(CloseReason::Full, now_ns);
        }
        if self.open.is_none() && !self.can_open() {
            if self.rules.overflow == Overflow::Backpressure {
                self.waits += 1;
                return Err(Refused::Wait);
            }
            self.offered += 1;
            self.dropped += 1;
            self.lose(1, unit.len());
            return Err(Refused::NoBuffer);
        }
        let fresh = Completion {
            seq: self.next,
            slot: (self.next % self.slots as u64) as u32,
            first_time: time,
            first_ns: now_ns,
            dropped_before: if self.open.is_none() { std::mem::take(&mut self.dropped) } else { 0 },
            ..Completion::default()
        };
        let buf = self.open.get_or_insert(Buf { units: Vec::new(), completion: fresh });
        buf.units.push(unit.to_vec());
        buf.completion.last_time = time;
        buf.completion.units += 1;
        buf.completion.bytes += unit.len() as u32;
        self.offered += 1;
        if buf.completion.units == self.rules.units_max {
            self.close(CloseReason::Count, now_ns);
        }
        Ok(())
    }

    fn take(&mut self) -> Option<Buf> {
        // A record is gone once the slot has been filled again.
        let oldest = self.next.saturating_sub(self.slots as u64);
        while self.ready.front().is_some_and(|buf| buf.completion.seq < oldest) {
            self.ready.pop_front();
        }
        let buf = self.ready.pop_front()?;
        if !buf.completion.is_lost {
            self.held.push(buf.completion.seq);
            self.delivered += buf.units.len() as u64;
        }
        Some(buf)
    }

    /// Units that are neither delivered nor lost.
    fn waiting(&self) -> u64 {
        let kept = self.ready.iter().filter(|buf| !buf.completion.is_lost);
        kept.chain(&self.open).map(|buf| buf.units.len() as u64).sum()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Pass(u64),
    EndSlice,
    Flush,
    Take,
    Share(usize),
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0usize..20).prop_map(Step::Append),
        2 => (0u64..60).prop_map(Step::Pass),
        1 => Just(Step::EndSlice),
        1 => Just(Step::Flush),
        3 => Just(Step::Take),
        1 => any::<usize>().prop_map(Step::Share),
        3 => any::<usize>().prop_map(Step::Release),
    ]
}

proptest! {
    #[test]
    fn it_does_as_the_model(
        slots in 1usize..5,
        units_max in 1u32..6,
        overflow in prop_oneof![
            Just(Overflow::DropNewest),
            Just(Overflow::OverwriteOldest),
            Just(Overflow::Backpressure),
        ],
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let rules = Rules { units_max, overflow, ..RULES };
        let (mut writer, consumer) = list(slots, rules);
        let mut model = Model {
            slots, rules, open: None, ready: VecDeque::new(), held: Vec::new(), next: 0,
            dropped: 0, offered: 0, delivered: 0, lost: 0, bytes_lost: 0, waits: 0,
        };
        let mut holds: Vec<(Hold<Vec<u8>>, Buf)> = Vec::new();
        let (mut now_ns, mut value) = (0, 0u8);
        for step in steps {
            match step {
                Step::Append(len) => {
                    now_ns += 1;
                    value = value.wrapping_add(1);
                    let (unit, time) = (vec![value; len], 1000 + now_ns);
                    let expected = model.append(&unit, time, now_ns);
                    prop_assert_eq!(writer.append(&unit, time, now_ns), expected);
                }
                Step::Pass(ns) => {
                    now_ns += ns;
                    model.expire(now_ns);
                    writer.expire(now_ns);
                }
                Step::EndSlice => {
                    model.close(CloseReason::Boundary, now_ns);
                    writer.end_slice(now_ns);
                }
                Step::Flush => {
                    model.close(CloseReason::Flush, now_ns);
                    writer.flush(now_ns);
                }
                Step::Take => match (consumer.take(), model.take()) {
                    (None, None) => {}
                    (Some(Taken::Lost(found)), Some(buf)) => {
                        prop_assert_eq!(found, buf.completion);
                        prop_assert!(found.is_lost);
                    }
                    (Some(Taken::Buffer(hold)), Some(buf)) => holds.push((hold, buf)),
                    (found, expected) => prop_assert!(false, "{found:?}, not {expected:?}"),
                },
                Step::Share(at) if !holds.is_empty() => {
                    let shared = holds[at % holds.len()].clone();
                    holds.push(shared);
                }
                Step::Release(at) if !holds.is_empty() => {
                    let (_, buf) = holds.swap_remove(at % holds.len());
                    let seq = buf.completion.seq;
                    if holds.iter().all(|(_, other)| other.completion.seq != seq) {
                        model.held.retain(|held| *held != seq);
                    }
                }
                Step::Share(_) | Step::Release(_) => {}
            }
            // What is held stays as it was, whatever is written meanwhile.
            for (hold, buf) in &holds {
                prop_assert_eq!(hold.completion(), &buf.completion);
                prop_assert_eq!(hold.bytes(), &buf.units.concat()[..]);
            }
            let statement = writer.account().statement("list");
            prop_assert_eq!(statement.offered, model.offered);
            prop_assert_eq!(statement.delivered, model.delivered);
            prop_assert_eq!(statement.dropped_total(), model.lost);
            prop_assert_eq!(model.offered, model.delivered + model.lost + model.waiting());
            prop_assert_eq!((writer.dropped_bytes(), writer.waits()), (model.bytes_lost, model.waits));
        }
    }
}

#[test]
fn numbers_of_buffers_wrap() {
    let (mut writer, consumer) = list(3, RULES);
    {
        let mut state = writer.shared.lock();
        (state.next.0, state.taken) = (u64::MAX - 1, u64::MAX - 1);
    }
    for expected in [u64::MAX - 1, u64::MAX, 0, 1, 2] {
        writer.append(b"unit", 0, 0).unwrap();
        writer.flush(0);
        let hold = buffer(consumer.take()).unwrap();
        assert_eq!((hold.completion().seq, hold.bytes()), (expected, &b"unit"[..]));
    }
    assert!(consumer.take().is_none());
}

#[test]
fn what_is_in_hand_is_closed_when_the_writer_goes() {
    let (mut writer, consumer) = list(2, RULES);
    writer.append(b"last", 7, 5).unwrap();
    drop(writer);
    let hold = buffer(consumer.take()).unwrap();
    let completion = hold.completion();
    assert_eq!((completion.reason, completion.close_ns), (CloseReason::Flush, 5));
    assert_eq!((completion.first_time, completion.last_time), (7, 7));
}

#[test]
fn a_consumer_that_panics_gives_its_buffers_back() {
    let (mut writer, consumer) = list(1, RULES);
    writer.append(b"unit", 0, 0).unwrap();
    writer.flush(0);
    let other = consumer.clone();
    let crashed = thread::spawn(move || {
        let _hold = buffer(other.take()).unwrap();
        std::panic::resume_unwind(Box::new("crashed"));
    });
    assert!(crashed.join().is_err());
    writer.append(b"next", 0, 0).unwrap();
    writer.flush(0);
    assert_eq!(buffer(consumer.take()).unwrap().bytes(), b"next");
}

#[test]
fn every_unit_passes_between_threads_once_and_in_order() {
    // Miri is slower by five orders of magnitude.
    let units: u32 = if cfg!(miri) { 200 } else { 200_000 };
    let buffers = Region::map(1).unwrap().split(1 << 19);
    assert_eq!(buffers.len(), 4);
    let rules = Rules { units_max: 64, timeout_ns: u64::MAX, overflow: Overflow::Backpressure };
    let (mut writer, consumer) = receive_list(buffers, rules);
    let reading = thread::spawn(move || {
        let mut expected = 0;
        while expected < units {
            let Some(hold) = buffer(consumer.take_within(Duration::from_secs(10))) else {
                return expected;
            };
            for unit in hold.bytes().chunks_exact(4) {
                assert_eq!(unit, expected.to_le_bytes());
                expected += 1;
            }
        }
        expected
    });
    for unit in 0..units {
        while writer.append(&unit.to_le_bytes(), unit.into(), 0) == Err(Refused::Wait) {
            thread::yield_now();
        }
    }
    let account = writer.account().statement("list");
    assert_eq!((account.offered, account.dropped_total()), (units.into(), 0));
    drop(writer);
    assert_eq!(reading.join().unwrap(), units);
}
