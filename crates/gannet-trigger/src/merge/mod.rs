//! Trigger primitives of many streams, brought into one order of time.
//!
//! A stream gives its primitives in the order in which hits *end*, and streams run ahead of one
//! another. [`TpMerger`] holds primitives back until no earlier one can come, and gives them out
//! by (start time, channel). What it gives out does not depend on how the streams interleave, as
//! long as none is late and there is room.
//!
//! A stream that is late by more than a bounded wait no longer holds the others. Its primitives
//! are then handed over beside the order, and counted.

mod clock;
mod leader;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use gannet_measure::counter::Counter;
use gannet_measure::ledger::{Account, Statement};
use gannet_measure::quantity::Span;
use gannet_wire::TriggerPrimitive;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Result, require};
use clock::StreamClock;
use leader::Leader;

/// How primitives of many streams are merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MergeConfig {
    /// Longest hit, in ticks, that still finds its place in the order. Every primitive waits this
    /// long in data time, because a hit that ends later may have begun earlier.
    pub hold_ticks: u64,
    /// How long a stream may be behind the leading one before the others go on without it.
    pub late_after: Span,
    /// Most primitives that may wait; beyond it the oldest go on, as if the streams that are
    /// still to bring older ones were late.
    pub waiting_max: usize,
}

impl MergeConfig {
    /// Largest `waiting_max` that is accepted: 1.6 GB of primitives.
    pub const WAITING_LIMIT: usize = 1 << 26;

    /// Tests the values against each other and their bounds.
    ///
    /// # Errors
    /// Names the field and what it must be.
    pub fn check(&self) -> Result<()> {
        let room = 1..=Self::WAITING_LIMIT;
        require(room.contains(&self.waiting_max), "waiting_max", "it must be 1 to 67108864")?;
        require(self.late_after.ns() > 0, "late_after", "it must be longer than 0")
    }
}

impl Default for MergeConfig {
    /// A hold as long as the longest hit that the activity makers accept, 100 ms of patience, and
    /// room for half a second at 2 million primitives a second.
    fn default() -> Self {
        Self { hold_ticks: 10_000, late_after: Span::ms(100), waiting_max: 1 << 20 }
    }
}

gannet_measure::drop_reasons! {
    /// Why a primitive is not part of the merged order; it is handed over as late all the same.
    pub enum MergeDrop {
        /// Its stream was behind by more than the bounded wait.
        Late => "late",
        /// The hit lasted longer than the hold, so its start had been passed when it ended.
        TooLong => "too_long",
        /// Its time does not fit the clock of its stream.
        OutOfTime => "out_of_time",
    }
}

/// Counters of a merger, which any thread may read.
#[derive(Debug, Default)]
pub struct MergeCounters {
    /// Primitives offered, merged, and handed over as late.
    pub primitives: Account<MergeDrop>,
    /// Primitives that wait for others, now.
    pub waiting: Counter,
    /// Primitives that had to go on early because `waiting_max` others waited.
    pub overflows: Counter,
}

impl MergeCounters {
    /// Snapshot of the account; waiting primitives are unexplained until they are released.
    pub fn statement(&self) -> Statement {
        self.primitives.statement("merge")
    }
}

/// What a merger gives out; the caller owns, reads and clears it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Primitives in the order of start time and channel, over all calls.
    pub ordered: Vec<TriggerPrimitive>,
    /// Primitives that came too late for the order.
    pub late: Vec<TriggerPrimitive>,
}

/// A primitive in the heap: the greatest is the one to be given out next.
#[derive(Debug, PartialEq, Eq)]
struct Waiting(TriggerPrimitive);

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        // All words take part, so that the order is total and the output deterministic.
        let rest = |tp: &TriggerPrimitive| (tp.channel(), tp.words[0], tp.words[2]);
        let (mine, theirs) = (&self.0, &other.0);
        theirs.time_start().cmp(&mine.time_start()).then_with(|| rest(theirs).cmp(&rest(mine)))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Merges the primitives of many streams into one order of time.
#[derive(Debug)]
pub struct TpMerger {
    hold_ticks: u64,
    waiting_max: usize,
    waiting: BinaryHeap<Waiting>,
    streams: Vec<StreamClock>,
    leader: Leader,
    /// Every primitive that starts before this tick was released.
    released_to: u64,
    counters: Arc<MergeCounters>,
}

impl TpMerger {
    /// A merger of `streams` streams, numbered from 0.
    ///
    /// # Errors
    /// As [`MergeConfig::check`].
    pub fn new(config: &MergeConfig, streams: usize) -> Result<Self> {
        config.check()?;
        Ok(Self {
            hold_ticks: config.hold_ticks,
            waiting_max: config.waiting_max,
            waiting: BinaryHeap::new(),
            streams: vec![StreamClock::default(); streams],
            leader: Leader::new(config.late_after.ns()),
            released_to: 0,
            counters: Arc::default(),
        })
    }

    /// Takes the primitives of the hits of `stream` that ended before tick `processed_to`, since
    /// the last call for this stream; `tps` may be empty.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn push(
        &mut self,
        stream: usize,
        tps: &[TriggerPrimitive],
        processed_to: u64,
        out: &mut Merged,
    ) {
        self.counters.primitives.offer(tps.len() as u64);
        let clock = &mut self.streams[stream];
        let before = clock.processed_to();
        let believed = clock.advance(processed_to);
        for tp in tps {
            let start = tp.time_start();
            if !believed || start >= processed_to {
                self.refuse(MergeDrop::OutOfTime, *tp, out);
            } else if start >= self.released_to {
                self.waiting.push(Waiting(*tp));
            } else if start.saturating_add(self.hold_ticks) < before {
                self.refuse(MergeDrop::TooLong, *tp, out);
            } else {
                self.refuse(MergeDrop::Late, *tp, out);
            }
        }
        self.make_room(out);
        self.counters.waiting.set(self.waiting.len() as u64);
    }

    /// Gives out what no stream can still come before, at wall time `now_ns`.
    pub fn release(&mut self, now_ns: u64, out: &mut Merged) {
        let clocks = || self.streams.iter().map(StreamClock::processed_to);
        let (slowest, fastest) = (clocks().min().unwrap_or(0), clocks().max().unwrap_or(0));
        self.leader.observe(fastest, now_ns);
        let complete = slowest.max(self.leader.due(now_ns)).saturating_sub(self.hold_ticks);
        if complete > self.released_to {
            self.release_to(complete, out);
        }
    }

    /// Gives out all that waits, at the end of a run.
    pub fn drain(&mut self, out: &mut Merged) {
        self.release_to(u64::MAX, out);
    }

    /// Every primitive that starts before this tick was given out; none such comes any more.
    pub fn released_to(&self) -> u64 {
        self.released_to
    }

    /// Whether `stream` was behind by more than the bounded wait at wall time `now_ns`, so that
    /// the others go on without it.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn is_late(&self, stream: usize, now_ns: u64) -> bool {
        self.streams[stream].processed_to() < self.leader.due(now_ns)
    }

    /// The counters.
    pub fn counters(&self) -> &Arc<MergeCounters> {
        &self.counters
    }

    fn refuse(&self, reason: MergeDrop, tp: TriggerPrimitive, out: &mut Merged) {
        self.counters.primitives.discard(reason, 1);
        out.late.push(tp);
    }

    /// Lets the oldest go on until no more than `waiting_max` wait.
    fn make_room(&mut self, out: &mut Merged) {
        while self.waiting.len() > self.waiting_max {
            let Some(Waiting(oldest)) = self.waiting.peek() else { return };
            let before = self.waiting.len();
            self.release_to(oldest.time_start().saturating_add(1), out);
            self.counters.overflows.add((before - self.waiting.len()) as u64);
        }
    }

    fn release_to(&mut self, tick: u64, out: &mut Merged) {
        let before = out.ordered.len();
        while let Some(next) = self.waiting.peek_mut() {
            // The last tick of all has no successor, so a drain takes it too.
            if next.0.time_start() >= tick && tick != u64::MAX {
                break;
            }
            out.ordered.push(std::collections::binary_heap::PeekMut::pop(next).0);
        }
        self.counters.primitives.deliver((out.ordered.len() - before) as u64);
        self.counters.waiting.set(self.waiting.len() as u64);
        self.released_to = tick;
    }
}

#[cfg(test)]
mod tests;
