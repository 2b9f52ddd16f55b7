//! The module-level trigger (MLT): candidates become decisions.
//!
//! Each candidate asks for a readout window. Candidates whose windows overlap become one
//! decision. A decision is issued when no candidate can overlap it any more, as far as can be
//! known: when data time has passed the end of its window by `merge_wait_ticks`. It is issued
//! early when its window or its list of candidates reaches its limit. When data time stands still
//! for `buffer_timeout`, the decisions are issued whose windows no candidate to come can touch,
//! whatever data come next; so a pause in the data changes no decisions.
//!
//! When a decision is issued it is judged: a paused trigger, too many records in flight or dead
//! time drop it. Every candidate leaves in a decision or is dropped for a reason, and the times
//! at which the trigger could not issue decisions are given out as data.
//!
//! Source: DUNE-DAQ/trigger `TCProcessor.cpp`, `MLTModule.cpp`, `LivetimeCounter.cpp`; there the
//! wait is in wall time, so that what is merged depends on the load of the machine.

mod busy;
mod config;
mod pending;

use std::sync::Arc;

use gannet_measure::counter::Counter;
use gannet_measure::ledger::{Account, Statement};

pub use busy::{BusyCause, BusyInterval};
pub use config::{ModuleLevelConfig, Overlap, ReadoutWindow};

use crate::candidate::Candidate;
use crate::error::Result;
use busy::BusyLog;
use pending::Pending;

/// Most candidates of one decision; a decision that has so many is issued at once.
pub const DECISION_CANDIDATES_MAX: usize = 256;

/// Most decisions that wait for further candidates; with more, the one that ends first is issued.
pub const PENDING_DECISIONS_MAX: usize = 64;

gannet_measure::drop_reasons! {
    /// Why a candidate is in no decision.
    pub enum CandidateDrop {
        /// Its type is to be ignored.
        Ignored => "ignored",
        /// It overlaps a decision that waits, and such candidates are to be dropped.
        Overlap => "overlap",
        /// The trigger was paused.
        Paused => "paused",
        /// Too many records were in flight.
        Busy => "busy",
        /// The decision would have come too soon after the last.
        DeadTime => "dead_time",
    }
}

/// An order to read out a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Number in the run, from 1.
    pub trigger_number: u64,
    /// Run.
    pub run: u32,
    /// Time of the earliest candidate, ticks.
    pub timestamp: u64,
    /// Types of the candidates: bit `n` is set for type number `n`.
    pub trigger_type: u64,
    /// First tick to read out.
    pub window_begin: u64,
    /// First tick not to read out.
    pub window_end: u64,
    /// The candidates, at most [`DECISION_CANDIDATES_MAX`].
    pub candidates: Vec<Candidate>,
}

/// What the trigger gives out; the caller owns, reads and clears it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// Decisions in the order of issue. There are never more than records may be in flight.
    pub decisions: Vec<Decision>,
    /// Times during which no decision could be issued; given out when they end, or for dead time
    /// when it begins.
    pub busy: Vec<BusyInterval>,
}

/// Counters of the module-level trigger, which any thread may read.
#[derive(Debug, Default)]
pub struct ModuleLevelCounters {
    /// Candidates offered, delivered in decisions, and dropped. Those in decisions that wait are
    /// unexplained until these are issued.
    pub candidates: Account<CandidateDrop>,
    /// Decisions issued.
    pub decisions: Counter,
    /// Records in flight now.
    pub in_flight: Counter,
    /// Ticks of data time of the intervals that were given out, by cause.
    pub busy_ticks: [Counter; BusyCause::ALL.len()],
}

impl ModuleLevelCounters {
    /// Snapshot of the account of candidates.
    pub fn statement(&self) -> Statement {
        self.candidates.statement("module_level")
    }
}

/// Merges candidates and issues decisions.
#[derive(Debug)]
pub struct ModuleLevelTrigger {
    config: ModuleLevelConfig,
    run: u32,
    pending: Vec<Pending>,
    /// Data time.
    tick: u64,
    /// Wall time at which data time last moved.
    moved_ns: u64,
    /// Data time at which the next pending decision is to be issued.
    due: u64,
    paused: bool,
    in_flight: usize,
    last_timestamp: Option<u64>,
    busy: BusyLog,
    counters: Arc<ModuleLevelCounters>,
}

impl ModuleLevelTrigger {
    /// A trigger for `run`, not paused.
    ///
    /// # Errors
    /// As [`ModuleLevelConfig::check`].
    pub fn new(config: &ModuleLevelConfig, run: u32) -> Result<Self> {
        config.check()?;
        Ok(Self {
            config: config.clone(),
            run,
            pending: Vec::with_capacity(PENDING_DECISIONS_MAX + 1),
            tick: 0,
            moved_ns: 0,
            due: u64::MAX,
            paused: false,
            in_flight: 0,
            last_timestamp: None,
            busy: BusyLog::default(),
            counters: Arc::default(),
        })
    }

    /// Takes a candidate.
    pub fn push(&mut self, candidate: Candidate, out: &mut Decided) {
        self.counters.candidates.offer(1);
        if self.config.ignores(&candidate) {
            return self.counters.candidates.discard(CandidateDrop::Ignored, 1);
        }
        let mut pending = Pending::new(self.config.window(&candidate), candidate);
        match self.config.overlap {
            Overlap::Separate => {}
            Overlap::Drop if self.pending.iter().any(|other| other.overlaps(&pending)) => {
                return self.counters.candidates.discard(CandidateDrop::Overlap, 1);
            }
            Overlap::Drop => {}
            Overlap::Merge => self.absorb_overlapping(&mut pending),
        }
        if pending.is_full() || pending.length() >= self.config.td_readout_limit {
            self.judge(pending, out);
        } else {
            self.pending.push(pending);
        }
        if self.pending.len() > PENDING_DECISIONS_MAX {
            self.issue_first(u64::MAX, 0, out);
        }
        self.update_due();
    }

    /// Moves data time to `tick` at wall time `now_ns` and issues the decisions that are due.
    ///
    /// A tick that is not beyond the last one leaves data time as it is.
    #[inline]
    pub fn release(&mut self, tick: u64, now_ns: u64, out: &mut Decided) {
        if tick > self.tick {
            if self.tick == 0 {
                self.busy.data_begin(tick);
            }
            self.tick = tick;
            self.moved_ns = now_ns;
            if tick >= self.due {
                self.issue(tick, self.config.merge_wait_ticks, out);
            }
        }
    }

    /// Whether data time has stood still for `buffer_timeout` at wall time `now_ns`.
    pub fn stands_still(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.moved_ns) >= self.config.buffer_timeout.ns()
    }

    /// Issues the decisions that end before the window of any candidate that is still to come, if
    /// none of these starts before tick `candidates_from`.
    pub fn issue_settled(&mut self, candidates_from: u64, out: &mut Decided) {
        // Windows that touch overlap.
        self.issue(candidates_from, self.config.lead_ticks().saturating_add(1), out);
    }

    /// Data time, in ticks; 0 before it has begun.
    pub fn data_time(&self) -> u64 {
        self.tick
    }

    /// Issues all decisions that wait.
    pub fn drain(&mut self, out: &mut Decided) {
        self.issue(u64::MAX, 0, out);
    }

    /// Drains, and gives out the intervals that have not ended: the end of a run.
    pub fn finish(&mut self, out: &mut Decided) {
        self.drain(out);
        for cause in BusyCause::ALL {
            self.end_busy(cause, out);
        }
    }

    /// Finishes, and lets data time go on from any tick: dead time does not reach there.
    pub fn begin_anew(&mut self, out: &mut Decided) {
        self.finish(out);
        (self.tick, self.last_timestamp) = (0, None);
        if self.paused {
            self.busy.begin(BusyCause::Paused, self.tick);
        }
        if self.in_flight >= self.config.records_in_flight_max {
            self.busy.begin(BusyCause::RecordsInFlight, self.tick);
        }
    }

    /// Stops issuing decisions; candidates are dropped from now on.
    pub fn pause(&mut self) {
        self.paused = true;
        self.busy.begin(BusyCause::Paused, self.tick);
    }

    /// Issues decisions again.
    pub fn resume(&mut self, out: &mut Decided) {
        self.paused = false;
        self.end_busy(BusyCause::Paused, out);
    }

    /// Notes that `records` of the decisions issued have been written, or given up, downstream.
    pub fn records_done(&mut self, records: usize, out: &mut Decided) {
        self.set_in_flight(self.in_flight.saturating_sub(records));
        if self.in_flight < self.config.records_in_flight_max {
            self.end_busy(BusyCause::RecordsInFlight, out);
        }
    }

    /// The counters.
    pub fn counters(&self) -> &Arc<ModuleLevelCounters> {
        &self.counters
    }

    /// Takes all pending decisions that overlap `pending` into it, also those that come to
    /// overlap by that.
    fn absorb_overlapping(&mut self, pending: &mut Pending) {
        while let Some(index) = self.pending.iter().position(|other| pending.can_absorb(other)) {
            pending.absorb(self.pending.remove(index));
        }
    }

    /// Issues the pending decisions that end `wait` or more before `tick`.
    fn issue(&mut self, tick: u64, wait: u64, out: &mut Decided) {
        while self.issue_first(tick, wait, out) {}
        self.update_due();
    }

    /// Issues the pending decision that ends first, if that is `wait` or more before `tick`.
    fn issue_first(&mut self, tick: u64, wait: u64, out: &mut Decided) -> bool {
        let first = self.pending.iter().enumerate().min_by_key(|(_, pending)| pending.end());
        match first {
            Some((index, pending)) if pending.end().saturating_add(wait) <= tick => {
                let pending = self.pending.remove(index);
                self.judge(pending, out);
                true
            }
            _ => false,
        }
    }

    fn update_due(&mut self) {
        let first = self.pending.iter().map(Pending::end).min();
        let wait = self.config.merge_wait_ticks;
        self.due = first.map_or(u64::MAX, |end| end.saturating_add(wait));
    }

    /// Issues a decision, or drops its candidates.
    fn judge(&mut self, pending: Pending, out: &mut Decided) {
        let timestamp = pending.timestamp();
        let candidates = pending.candidates().len() as u64;
        if let Some(reason) = self.veto(timestamp) {
            return self.counters.candidates.discard(reason, candidates);
        }
        self.counters.candidates.deliver(candidates);
        self.counters.decisions.add(1);
        out.decisions.push(pending.decide(self.counters.decisions.get(), self.run));
        self.last_timestamp = Some(timestamp);
        self.set_in_flight(self.in_flight + 1);
        if self.in_flight >= self.config.records_in_flight_max {
            self.busy.begin(BusyCause::RecordsInFlight, self.tick);
        }
        if self.config.dead_time_ticks > 0 {
            let end = timestamp.saturating_add(self.config.dead_time_ticks);
            self.give_busy(BusyInterval { begin: timestamp, end, cause: BusyCause::DeadTime }, out);
        }
    }

    /// Why a decision at `timestamp` cannot be issued now.
    fn veto(&self, timestamp: u64) -> Option<CandidateDrop> {
        let near = |last: u64| timestamp.abs_diff(last) < self.config.dead_time_ticks;
        if self.paused {
            Some(CandidateDrop::Paused)
        } else if self.in_flight >= self.config.records_in_flight_max {
            Some(CandidateDrop::Busy)
        } else if self.last_timestamp.is_some_and(near) {
            Some(CandidateDrop::DeadTime)
        } else {
            None
        }
    }

    fn set_in_flight(&mut self, records: usize) {
        self.in_flight = records;
        self.counters.in_flight.set(records as u64);
    }

    fn end_busy(&mut self, cause: BusyCause, out: &mut Decided) {
        if let Some(interval) = self.busy.end(cause, self.tick) {
            self.give_busy(interval, out);
        }
    }

    fn give_busy(&self, interval: BusyInterval, out: &mut Decided) {
        self.counters.busy_ticks[interval.cause as usize].add(interval.ticks());
        out.busy.push(interval);
    }
}

#[cfg(test)]
mod tests;
