//! The whole trigger: primitives of many streams in, decisions out.
//!
//! [`TriggerChain`] composes the merger, the activity and candidate stages, the candidate sources
//! and the module-level trigger. It advances by events in data time: the primitives, the ends of
//! windows, and the candidates of sources, each in its order. So decisions follow from the data
//! alone, however the streams interleave, however often the chain is advanced and however long
//! data pause, as long as nothing is late and no record is in flight too long.

mod config;
mod counters;

use std::fmt;
use std::sync::Arc;

use gannet_wire::TriggerPrimitive;
use gannet_wire::daq_ethernet::CLOCK;

pub use config::{ACTIVITIES_MAX, SOURCES_MAX, TriggerConfig};
pub use counters::{DataTime, TriggerCounters};

use crate::activity::{Activity, ActivityConfig, ActivityStage};
use crate::candidate::{CandidateConfig, CandidateStage};
use crate::sampling::Sampling;
use gannet_trigger::candidate::Candidate;
use gannet_trigger::error::Result;
use gannet_trigger::merge::{Merged, Merger};
use gannet_trigger::module_level::{Decided, ModuleLevelTrigger};
use gannet_trigger::source::CandidateSource;

/// Farthest that data time may go in one step without a source skipping the candidates between:
/// 10 s.
const LEAP_MAX_TICKS: u64 = 10 * CLOCK.per_s();

/// What the chain gives out. The caller owns it, so that nothing is allocated once the vectors
/// have grown; it reads and [`clear`](Self::clear)s it after each call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerOutput {
    /// Primitives in order, and late ones.
    pub primitives: Merged<TriggerPrimitive>,
    /// Activities that the prescale kept.
    pub activities: Vec<Activity>,
    /// Decisions and busy times.
    pub decided: Decided,
    /// Data time goes on from a point in the past, behind all that is in here.
    pub began_anew: bool,
}

impl TriggerOutput {
    /// Empties all vectors and keeps their memory.
    pub fn clear(&mut self) {
        self.primitives.ordered.clear();
        self.primitives.late.clear();
        self.activities.clear();
        self.decided.decisions.clear();
        self.decided.busy.clear();
        self.began_anew = false;
    }
}

/// One activity algorithm and the candidate algorithm that takes its activities.
#[derive(Debug)]
struct Path {
    activity: ActivityStage,
    candidate: CandidateStage,
}

/// Something that happens at a tick of data time without a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A window of the path with this index ends.
    Close(usize),
    /// The source with this index gives a candidate.
    Fire(usize),
}

/// Runs the trigger on the primitives of many streams.
pub struct TriggerChain {
    merger: Merger<TriggerPrimitive>,
    paths: Vec<Path>,
    sources: Vec<CandidateSource>,
    module_level: ModuleLevelTrigger,
    /// The next event and its tick.
    next: Option<(u64, Event)>,
    begun: bool,
    /// To where the streams had been searched when all that was left was given out.
    drained_to: Option<u64>,
    data_time: Arc<DataTime>,
    /// Candidates on their way from the stages to the module-level trigger.
    candidates: Vec<Candidate>,
}

impl TriggerChain {
    /// A chain for `streams` streams, numbered from 0, in `run`.
    ///
    /// # Errors
    /// As [`TriggerConfig::check`].
    pub fn new(
        config: &TriggerConfig,
        streams: usize,
        run: u32,
        sampling: Sampling,
    ) -> Result<Self> {
        config.check()?;
        let path = |activity: &ActivityConfig| -> Result<Path> {
            let named = |candidate: &&CandidateConfig| {
                candidate.activity_algorithm() == activity.algorithm()
            };
            let candidate = config.candidate.iter().find(named).cloned();
            let candidate = candidate.unwrap_or_else(|| CandidateConfig::mirror(activity));
            Ok(Path {
                activity: ActivityStage::new(activity, sampling)?,
                candidate: CandidateStage::new(&candidate)?,
            })
        };
        Ok(Self {
            merger: Merger::new(&config.merge, streams, CLOCK)?,
            paths: config.activity.iter().map(path).collect::<Result<_>>()?,
            sources: config
                .source
                .iter()
                .cloned()
                .map(CandidateSource::new)
                .collect::<Result<_>>()?,
            module_level: ModuleLevelTrigger::new(&config.module_level, run)?,
            next: None,
            begun: false,
            drained_to: None,
            data_time: Arc::default(),
            candidates: Vec::new(),
        })
    }

    /// Takes the primitives of the hits of `stream` that ended before tick `processed_to`, since
    /// the last call for this stream; see [`Merger::push`].
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn push(
        &mut self,
        stream: usize,
        tps: &[TriggerPrimitive],
        processed_to: u64,
        now_ns: u64,
        out: &mut TriggerOutput,
    ) {
        let from = out.primitives.ordered.len();
        self.merger.push(stream, tps, processed_to, &mut out.primitives);
        self.follow(from, now_ns, out);
    }

    /// Whether the last claim of `stream` is near the time that most streams agree on.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn agrees(&self, stream: usize) -> bool {
        self.merger.agrees(stream)
    }

    /// Lets the streams agree only on times near that of the host; see
    /// [`Merger::refer_to_host`].
    pub fn refer_to_host(&mut self, epoch_ns: u64) {
        self.merger.refer_to_host(epoch_ns);
    }

    /// Goes on as far as all streams allow, at wall time `now_ns`.
    ///
    /// Call it after the pushes of each turn, and at least every few milliseconds, because it is
    /// here that late streams and standing data are noticed. Read what it gave out before the next
    /// call if [`TriggerOutput::began_anew`] is set.
    pub fn advance(&mut self, now_ns: u64, out: &mut TriggerOutput) {
        let from = out.primitives.ordered.len();
        let anew = self.merger.release(now_ns, &mut out.primitives);
        self.follow(from, now_ns, out);
        if anew {
            self.begin_anew(now_ns, out);
        }
        let tick = self.merger.released_to();
        if tick > 0 {
            self.settle(tick, now_ns, out);
            if self.module_level.stands_still(now_ns) {
                self.module_level.issue_settled(self.candidates_from(), &mut out.decided);
            }
        }
    }

    /// Takes primitives that were merged before, in their order: what a run has recorded.
    pub fn push_merged(&mut self, tps: &[TriggerPrimitive], now_ns: u64, out: &mut TriggerOutput) {
        let from = out.primitives.ordered.len();
        out.primitives.ordered.extend_from_slice(tps);
        self.follow(from, now_ns, out);
    }

    /// Moves data time on to `tick` where no merger does: no primitive starts before it any more.
    pub fn advance_to(&mut self, tick: u64, now_ns: u64, out: &mut TriggerOutput) {
        self.settle(tick, now_ns, out);
    }

    /// Gives out all that is left, at the end of a run: nothing that was pushed stays behind.
    ///
    /// After it, primitives are late.
    pub fn drain(&mut self, now_ns: u64, out: &mut TriggerOutput) {
        let from = out.primitives.ordered.len();
        self.drained_to = Some(self.merger.searched_to(now_ns));
        self.merger.drain(&mut out.primitives);
        self.follow(from, now_ns, out);
        self.close_paths(now_ns, out);
        self.module_level.finish(&mut out.decided);
    }

    /// The tick before which nothing starts that is still to come: all primitives and activities
    /// that start before it were given out.
    pub fn complete_to(&self) -> u64 {
        let tick = self.module_level.data_time();
        match self.drained_to {
            Some(drained_to) => tick.max(drained_to),
            None => {
                let open = self.paths.iter().map(|path| path.activity.open_from(tick));
                open.min().unwrap_or(tick)
            }
        }
    }

    /// The tick before which no candidate starts that is still to come.
    fn candidates_from(&self) -> u64 {
        let tick = self.module_level.data_time();
        let open = self.paths.iter().map(|path| {
            let activities_from = path.activity.open_from(tick);
            path.candidate.open_from(activities_from)
        });
        // Sources have given all their candidates up to here.
        open.fold(tick, u64::min)
    }

    /// Makes all that is complete of what came so far, and forgets the rest: data time goes on
    /// from a point in the past. [`advance`](Self::advance) does it by itself.
    pub fn begin_anew(&mut self, now_ns: u64, out: &mut TriggerOutput) {
        self.close_paths(now_ns, out);
        self.module_level.begin_anew(&mut out.decided);
        self.paths.iter_mut().for_each(|path| path.activity.begin_anew());
        self.paths.iter_mut().for_each(|path| path.candidate.begin_anew());
        self.begun = false;
        self.next = None;
        out.began_anew = true;
    }

    /// Makes the activities and candidates that are still open.
    fn close_paths(&mut self, now_ns: u64, out: &mut TriggerOutput) {
        // Sources go on for ever; only what came from primitives is still open.
        self.sources.iter_mut().for_each(CandidateSource::stop);
        self.find_next();
        self.play_events(u64::MAX, now_ns, out);
        for path in &mut self.paths {
            path.candidate.finish(&mut self.candidates);
        }
        self.hand_over_candidates(out);
    }

    /// Stops issuing decisions.
    pub fn pause(&mut self) {
        self.module_level.pause();
    }

    /// Issues decisions again.
    pub fn resume(&mut self, out: &mut TriggerOutput) {
        self.module_level.resume(&mut out.decided);
    }

    /// Notes that `records` of the decisions issued have been written, or given up, downstream.
    pub fn records_done(&mut self, records: usize, out: &mut TriggerOutput) {
        self.module_level.records_done(records, &mut out.decided);
    }

    /// Whether the trigger goes on without `stream` because it is late; see [`Merger::is_late`].
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn is_late(&self, stream: usize, now_ns: u64) -> bool {
        self.merger.is_late(stream, now_ns)
    }

    /// The counters of all stages.
    pub fn counters(&self) -> TriggerCounters {
        TriggerCounters {
            merge: self.merger.counters().clone(),
            activities: self.paths.iter().map(|path| path.activity.counters().clone()).collect(),
            candidates: self.paths.iter().map(|path| path.candidate.counters().clone()).collect(),
            module_level: self.module_level.counters().clone(),
            data_time: Arc::clone(&self.data_time),
        }
    }

    /// Runs the primitives in `out` from index `from` on through the algorithms.
    fn follow(&mut self, from: usize, now_ns: u64, out: &mut TriggerOutput) {
        for index in from..out.primitives.ordered.len() {
            let tp = out.primitives.ordered[index];
            self.settle(tp.time_start(), now_ns, out);
            let from = out.activities.len();
            for (path, index) in self.paths.iter_mut().zip(0..) {
                let made = out.activities.len();
                path.activity.push(&tp, &mut out.activities);
                for activity in &out.activities[made..] {
                    path.candidate.push(activity, &mut self.candidates);
                }
                let close = path.activity.due().map(|tick| (tick, Event::Close(index)));
                self.next = earlier(self.next, close);
            }
            if out.activities.len() > from {
                self.hand_over_candidates(out);
                self.find_next();
            }
        }
    }

    /// Plays all events up to `tick` and moves data time there.
    #[inline]
    fn settle(&mut self, tick: u64, now_ns: u64, out: &mut TriggerOutput) {
        if !self.begun {
            self.begun = true;
            if self.data_time.begin.get() == 0 {
                self.data_time.begin.set(tick);
            }
            self.data_time.end.set(tick);
            self.sources.iter_mut().for_each(|source| source.begin(tick));
            self.find_next();
        }
        self.data_time.span.add(tick.saturating_sub(self.data_time.end.get()));
        self.data_time.end.set(tick.max(self.data_time.end.get()));
        self.play_events(tick, now_ns, out);
        self.module_level.release(tick, now_ns, &mut out.decided);
    }

    fn play_events(&mut self, tick: u64, now_ns: u64, out: &mut TriggerOutput) {
        while let Some((due, event)) = self.next.filter(|(due, _)| *due <= tick) {
            self.module_level.release(due, now_ns, &mut out.decided);
            match event {
                Event::Close(index) => self.close(index, out),
                Event::Fire(index) if tick - due > LEAP_MAX_TICKS => {
                    self.sources[index].begin(tick);
                }
                Event::Fire(index) => self.candidates.extend(self.sources[index].fire()),
            }
            self.hand_over_candidates(out);
            self.find_next();
        }
    }

    fn close(&mut self, index: usize, out: &mut TriggerOutput) {
        let path = &mut self.paths[index];
        let made = out.activities.len();
        path.activity.close(&mut out.activities);
        for activity in &out.activities[made..] {
            path.candidate.push(activity, &mut self.candidates);
        }
    }

    fn hand_over_candidates(&mut self, out: &mut TriggerOutput) {
        for candidate in self.candidates.drain(..) {
            self.module_level.push(candidate, &mut out.decided);
        }
    }

    /// Finds the next event anew, because the one that was next may be gone.
    fn find_next(&mut self) {
        let closes = self.paths.iter().zip(0..).filter_map(|(path, index)| {
            path.activity.due().map(|tick| (tick, Event::Close(index)))
        });
        let fires = self
            .sources
            .iter()
            .zip(0..)
            .filter_map(|(source, index)| source.due().map(|tick| (tick, Event::Fire(index))));
        self.next = closes.chain(fires).min();
    }
}

/// The earlier of two events that may be there.
fn earlier(a: Option<(u64, Event)>, b: Option<(u64, Event)>) -> Option<(u64, Event)> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Shows how far the chain is, not all that it holds.
impl fmt::Debug for TriggerChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TriggerChain")
            .field("paths", &self.paths.len())
            .field("sources", &self.sources.len())
            .field("released_to", &self.merger.released_to())
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
