//! Trigger primitives of many streams, brought into one order of time.
//!
//! A stream gives its primitives in the order in which hits *end*, and streams run ahead of one
//! another. [`Merger`] holds primitives back until no earlier one can come, and gives them out
//! by start time, and among equal times by channel, or by stream ([`InOrder`]). What it gives out does not depend on how the streams interleave, as
//! long as none is late and there is room.
//!
//! A stream that is late by more than a bounded wait no longer holds the others. Its primitives
//! are then handed over beside the order, and counted.
//!
//! No stream is believed alone: the time of the run is the one that most streams agree on. A
//! stream whose time is far from it is set apart until it agrees again. When most streams go on
//! from a point in the past, so does the order.

mod agreement;
mod leader;
mod waiting;

use std::sync::Arc;

use gannet_measure::counter::Counter;
use gannet_measure::ledger::{Account, Statement};
use gannet_measure::quantity::Span;
use gannet_measure::ticks::TickRate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Result, require};
use crate::item::Item;
use agreement::{Agreement, Look, Standing};
pub use waiting::{AnyOrder, Batched, InOrder, Waiting};

/// How primitives of many streams are merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MergeConfig {
    /// Longest hit, in ticks, that still finds its place in the order. Every primitive waits this
    /// long in data time, because a hit that ends later may have begun earlier.
    pub hold_ticks: u64,
    /// How long a stream may be behind the others before they go on without it.
    pub late_after: Span,
    /// How far the time of a stream may be from the time that most streams agree on. A stream that
    /// is farther ahead or behind is set apart: its primitives are dropped as `set_apart` and it
    /// holds nobody up, until it agrees again. At least `late_after`.
    pub agree_within: Span,
    /// What the time of the streams has to agree with.
    pub reference: TimeReference,
    /// Most primitives that may wait; beyond it the oldest go on, as if the streams that are
    /// still to bring older ones were late.
    pub waiting_max: usize,
}

/// What the time of the streams has to agree with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeReference {
    /// That of most other streams; among equals, that of those that agreed before.
    #[default]
    Streams,
    /// The clock of this host, within `agree_within`: for a detector whose time stamps count ticks
    /// of 62.5 MHz since 1970, and a host whose clock is kept in step. Not for recordings.
    Host,
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
        require(self.late_after.ns() > 0, "late_after", "it must be longer than 0")?;
        let wide = self.agree_within.ns() >= self.late_after.ns();
        require(wide, "agree_within", "it must be no shorter than late_after")
    }
}

impl Default for MergeConfig {
    /// A hold as long as the longest hit that the activity makers accept, 100 ms of patience, a
    /// quarter of a second of agreement, and room for half a second at 2 million primitives a
    /// second.
    fn default() -> Self {
        Self {
            hold_ticks: 10_000,
            late_after: Span::ms(100),
            agree_within: Span::ms(250),
            reference: TimeReference::default(),
            waiting_max: 1 << 20,
        }
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
        /// The time of its stream was far from the time that most streams agree on.
        SetApart => "set_apart",
    }
}

/// How the time of one stream stands to the agreed time; any thread may read it.
#[derive(Debug, Default)]
pub struct StreamTime {
    set_apart: Counter,
    offset_ticks: Counter,
}

impl StreamTime {
    /// Whether the stream is set apart.
    pub fn is_set_apart(&self) -> bool {
        self.set_apart.get() == 1
    }

    /// Ticks by which the stream is ahead of the agreed time; negative when it is behind.
    pub fn offset_ticks(&self) -> i64 {
        self.offset_ticks.get() as i64
    }
}

/// Counters of a merger, which any thread may read.
#[derive(Debug, Default)]
pub struct MergeCounters {
    /// Primitives offered, merged, and handed over as late.
    pub primitives: Account<MergeDrop>,
    /// Primitives that wait for others, or for an agreement, now.
    pub waiting: Counter,
    /// Primitives that had to go on early because `waiting_max` others waited.
    pub overflows: Counter,
    /// Times that the order went on from a point in the past.
    pub restarts: Counter,
    /// The time of each stream.
    pub streams: Vec<StreamTime>,
}

impl MergeCounters {
    /// Snapshot of the account; waiting primitives are unexplained until they are released.
    pub fn statement(&self) -> Statement {
        self.primitives.statement("merge")
    }
}

/// What a merger gives out; the caller owns, reads and clears it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged<I> {
    /// Primitives in the order of start time, over all calls.
    pub ordered: Vec<I>,
    /// Primitives that are not part of the order: too late for it, or of a wrong time.
    pub late: Vec<I>,
}

impl<I> Default for Merged<I> {
    fn default() -> Self {
        Self { ordered: Vec::new(), late: Vec::new() }
    }
}

/// How far the streams of a merger have come.
#[derive(Debug)]
#[must_use = "what may go on is given out by `release_each`"]
pub struct Looked {
    look: Look,
    /// The tick before which nothing comes any more.
    complete: u64,
}

impl Looked {
    /// Whether time goes on from a point in the past.
    pub fn began_anew(&self) -> bool {
        self.look == Look::Anew
    }
}

/// Merges the primitives of many streams into one order of time. `W` is how they wait for it:
/// [`AnyOrder`], [`InOrder`] where each of a few streams brings its own in the order of time, or
/// [`Batched`] where many streams bring many at a time.
#[derive(Debug)]
pub struct Merger<I, W = AnyOrder<I>> {
    clock: TickRate,
    hold_ticks: u64,
    waiting_max: usize,
    waiting: W,
    /// Primitives of doubted streams, until these agree or are set apart.
    held: Vec<(usize, I)>,
    time: Agreement,
    /// Time of the host at wall time 0, in nanoseconds since 1970, if the streams have to agree
    /// with it.
    host_epoch_ns: Option<u64>,
    /// Every primitive that starts before this tick was released.
    released_to: u64,
    counters: Arc<MergeCounters>,
}

impl<I: Item> Merger<I> {
    /// A merger of `streams` streams, numbered from 0.
    ///
    /// # Errors
    /// As [`MergeConfig::check`].
    pub fn new(config: &MergeConfig, streams: usize, clock: TickRate) -> Result<Self> {
        Self::of(config, streams, clock)
    }
}

impl<I: Item> Merger<I, InOrder<I>> {
    /// A merger of a few streams, numbered from 0, each of which brings its own in the order of time.
    ///
    /// # Errors
    /// As [`MergeConfig::check`].
    pub fn in_order(config: &MergeConfig, streams: usize, clock: TickRate) -> Result<Self> {
        Self::of(config, streams, clock)
    }
}

impl<I: Item> Merger<I, Batched<I>> {
    /// A merger of many streams, numbered from 0, which bring many items at a time.
    ///
    /// # Errors
    /// As [`MergeConfig::check`].
    pub fn batched(config: &MergeConfig, streams: usize, clock: TickRate) -> Result<Self> {
        Self::of(config, streams, clock)
    }
}

impl<I: Item, W: Waiting<I>> Merger<I, W> {
    fn of(config: &MergeConfig, streams: usize, clock: TickRate) -> Result<Self> {
        config.check()?;
        let within = clock.ticks(config.agree_within.ns());
        let times = (0..streams).map(|_| StreamTime::default()).collect();
        Ok(Self {
            clock,
            hold_ticks: config.hold_ticks,
            waiting_max: config.waiting_max,
            waiting: W::new(streams),
            held: Vec::new(),
            time: Agreement::new(streams, within, config.late_after.ns()),
            host_epoch_ns: None,
            released_to: 0,
            counters: Arc::new(MergeCounters { streams: times, ..MergeCounters::default() }),
        })
    }

    /// Lets the others go on without a stream that is behind most of them by more than `ticks` of
    /// data time, however short that is in wall time.
    pub fn go_on_after(&mut self, ticks: u64) {
        self.time.go_on_after(ticks);
    }

    /// Lets the streams agree only on times near that of the host, whose clock shows `epoch_ns`
    /// nanoseconds since 1970 at wall time 0.
    pub fn refer_to_host(&mut self, epoch_ns: u64) {
        self.host_epoch_ns = Some(epoch_ns);
    }

    /// Takes the primitives of the hits of `stream` that ended before tick `processed_to`, since
    /// the last call for this stream; `tps` may be empty.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn push(&mut self, stream: usize, tps: &[I], processed_to: u64, out: &mut Merged<I>) {
        self.counters.primitives.offer(tps.len() as u64);
        let before = self.time.settled(stream);
        let standing = self.time.claim(stream, processed_to);
        let in_time = self.released_to..processed_to;
        if standing == Standing::Agrees && tps.iter().all(|tp| in_time.contains(&tp.time())) {
            self.waiting.extend(stream, tps);
            self.make_room(out);
            return self.count_waiting();
        }
        for tp in tps {
            match standing {
                _ if tp.time() >= processed_to => {
                    self.refuse(MergeDrop::OutOfTime, *tp, &mut out.late);
                }
                Standing::Agrees => self.admit(stream, *tp, before, &mut out.late),
                Standing::Doubted if self.held.len() < self.waiting_max => {
                    self.held.push((stream, *tp));
                }
                Standing::Doubted | Standing::Apart => {
                    self.refuse(MergeDrop::SetApart, *tp, &mut out.late);
                }
            }
        }
        self.make_room(out);
        self.count_waiting();
    }

    /// Gives out what no stream can still come before, at wall time `now_ns`. To be called every
    /// few milliseconds.
    ///
    /// True when time goes on from a point in the past: what was appended to `out` is the rest of
    /// the old order, and the next call begins a new one.
    pub fn release(&mut self, now_ns: u64, out: &mut Merged<I>) -> bool {
        let looked = self.look(now_ns);
        let Merged { ordered, late } = out;
        self.release_each(&looked, late, |item| ordered.push(*item));
        looked.began_anew()
    }

    /// Looks how far the streams have come at wall time `now_ns`. To be followed by
    /// [`release_each`](Self::release_each).
    pub fn look(&mut self, now_ns: u64) -> Looked {
        let tick_of = |epoch_ns: u64| self.clock.ticks(epoch_ns.saturating_add(now_ns));
        let look = self.time.look(now_ns, self.host_epoch_ns.map(tick_of));
        Looked { look, complete: self.searched_to(now_ns).saturating_sub(self.hold_ticks) }
    }

    /// As [`release`](Self::release) after this look, but gives each item of the order to `give` where
    /// it lies.
    pub fn release_each(&mut self, looked: &Looked, late: &mut Vec<I>, mut give: impl FnMut(&I)) {
        if looked.began_anew() {
            self.release_to(u64::MAX, &mut give);
            self.released_to = 0;
            self.counters.restarts.add(1);
        }
        if looked.look != Look::Skipped {
            self.sort_held(late);
            self.publish();
        }
        if !looked.began_anew() && looked.complete > self.released_to {
            self.release_to(looked.complete, &mut give);
        }
        self.count_waiting();
    }

    /// Gives out all that waits, at the end of a run.
    pub fn drain(&mut self, out: &mut Merged<I>) {
        for (stream, tp) in std::mem::take(&mut self.held) {
            let agrees = self.time.standing(stream) == Standing::Agrees;
            match agrees || !self.time.is_reached() {
                true => self.admit(stream, tp, 0, &mut out.late),
                false => self.refuse(MergeDrop::SetApart, tp, &mut out.late),
            }
        }
        self.release_to(u64::MAX, &mut |item| out.ordered.push(*item));
        self.count_waiting();
    }

    /// Every primitive that starts before this tick was given out; none such comes any more.
    pub fn released_to(&self) -> u64 {
        self.released_to
    }

    /// The tick up to which no stream holds the others up at wall time `now_ns`: they were searched
    /// to there, or are late.
    pub fn searched_to(&self, now_ns: u64) -> u64 {
        self.time.complete_to(now_ns)
    }

    /// Whether the last claim of `stream` is near the time that most streams agree on.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn agrees(&self, stream: usize) -> bool {
        self.time.standing(stream) == Standing::Agrees
    }

    /// The tick up to which `stream` was searched, as far as it agrees; 0 before.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn searched(&self, stream: usize) -> u64 {
        self.time.settled(stream)
    }

    /// Whether the others go on without `stream` at wall time `now_ns`: it was behind by more than
    /// the bounded wait, or is set apart.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn is_late(&self, stream: usize, now_ns: u64) -> bool {
        self.time.is_late(stream, now_ns)
    }

    /// The counters.
    pub fn counters(&self) -> &Arc<MergeCounters> {
        &self.counters
    }

    /// Takes a primitive of a stream that agrees and whose clock was at `before`.
    fn admit(&mut self, stream: usize, tp: I, before: u64, late: &mut Vec<I>) {
        let start = tp.time();
        if start >= self.released_to {
            self.waiting.push(stream, tp);
        } else if start.saturating_add(self.hold_ticks) < before {
            self.refuse(MergeDrop::TooLong, tp, late);
        } else {
            self.refuse(MergeDrop::Late, tp, late);
        }
    }

    /// Takes or refuses what is held back of the streams that are no longer doubted.
    fn sort_held(&mut self, late: &mut Vec<I>) {
        let mut held = std::mem::take(&mut self.held);
        held.retain(|&(stream, tp)| {
            match self.time.standing(stream) {
                Standing::Doubted => return true,
                Standing::Apart => self.refuse(MergeDrop::SetApart, tp, late),
                // It came with a time that the stream has gone back from.
                Standing::Agrees if tp.time() >= self.time.claimed(stream) => {
                    self.refuse(MergeDrop::OutOfTime, tp, late);
                }
                Standing::Agrees => self.admit(stream, tp, 0, late),
            }
            false
        });
        self.held = held;
    }

    fn publish(&self) {
        for (stream, time) in self.counters.streams.iter().enumerate() {
            time.set_apart.set(u64::from(self.time.standing(stream) == Standing::Apart));
            time.offset_ticks.set(self.time.offset(stream) as u64);
        }
    }

    fn count_waiting(&self) {
        self.counters.waiting.set((self.waiting.len() + self.held.len()) as u64);
    }

    fn refuse(&self, reason: MergeDrop, tp: I, late: &mut Vec<I>) {
        self.counters.primitives.discard(reason, 1);
        late.push(tp);
    }

    /// Lets the oldest go on until no more than `waiting_max` wait.
    fn make_room(&mut self, out: &mut Merged<I>) {
        while self.waiting.len() > self.waiting_max {
            let Some(oldest) = self.waiting.first_time() else { return };
            let before = self.waiting.len();
            self.release_to(oldest.saturating_add(1), &mut |item| out.ordered.push(*item));
            self.counters.overflows.add((before - self.waiting.len()) as u64);
        }
    }

    fn release_to(&mut self, tick: u64, give: &mut impl FnMut(&I)) {
        let given = self.waiting.release(tick, give);
        self.counters.primitives.deliver(given as u64);
        self.released_to = tick;
    }
}

#[cfg(test)]
mod tests;
