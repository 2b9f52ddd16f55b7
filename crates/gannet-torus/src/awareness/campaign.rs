//! Many trials.

use std::collections::BTreeMap;
use std::sync::mpsc;

use serde::Serialize;

use super::distribution::{Distribution, Limits};
use super::fault::FaultKind;
use super::surroundings::Surroundings;
use super::trial::{Trial, TrialResult};
use crate::lattice::Lattice;
use crate::lofamo::Mode;

/// Most trials of a campaign.
pub const TRIALS_MAX: u64 = 100_000_000;
/// Failures that are kept, of each thread and in the report.
const FAILURES_KEPT: usize = 16;
/// Trials after which a thread says how far it is.
const PROGRESS_STEP: u64 = 64;

/// Trials of random faults on one machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Campaign {
    /// The machine.
    pub lattice: Lattice,
    /// How it is watched.
    pub mode: Mode,
    /// Watchdog period T.
    pub period_ns: u64,
    /// Number of trials, at most [`TRIALS_MAX`].
    pub trials: u64,
    /// Most faults of a trial.
    pub faults: u32,
    /// Trial `i` depends on this and on `i` alone.
    pub seed: u64,
    /// How late things happen.
    pub surroundings: Surroundings,
    /// Threads; the report does not depend on them.
    pub threads: usize,
}

/// A trial that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Failure {
    /// Number of the trial.
    pub trial: u64,
    /// What went wrong.
    pub what: String,
}

/// Awareness of one kind of faults.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindReport {
    /// The kind.
    pub kind: FaultKind,
    /// Time until the master knew.
    pub awareness: Distribution,
}

/// What came of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CampaignReport {
    /// The machine, as 4x4x4.
    pub lattice: String,
    /// How it was watched.
    pub mode: Mode,
    /// Watchdog period T.
    pub period_s: f64,
    /// Number of trials.
    pub trials: u64,
    /// Most faults of a trial.
    pub faults_per_trial: u32,
    /// Seed.
    pub seed: u64,
    /// Faults of all trials.
    pub faults: u64,
    /// Faults that became known as the rule of reachability asks.
    pub known: u64,
    /// Faults of things already held for broken.
    pub known_before: u64,
    /// Faults that became known although the rule of reachability does not ask for it.
    pub known_beyond_rule: u64,
    /// Faults that nobody could tell the master of.
    pub unreachable: u64,
    /// Faults that did not become known although they could: must be 0.
    pub undetected: u64,
    /// What was said of healthy things: must be 0.
    pub false_reports: u64,
    /// Faults known later than promised: must be 0.
    pub late: u64,
    /// Time from fault to knowledge, over these.
    pub awareness: Distribution,
    /// What the awareness time may be.
    pub limits: Limits,
    /// Whether mean and worst are within the limits, for each kind of fault, too.
    pub within_limits: bool,
    /// Awareness by kind of fault.
    pub kinds: Vec<KindReport>,
    /// First failures in the order of trials.
    pub failures: Vec<Failure>,
    /// Simulated events.
    pub events: u64,
}

impl CampaignReport {
    /// Whether every fault that could become known did, and nothing else was said.
    pub fn is_sound(&self) -> bool {
        self.undetected == 0 && self.false_reports == 0
    }
}

/// Sums over the trials of one thread.
#[derive(Default)]
struct Tally {
    times_ns: BTreeMap<FaultKind, Vec<u64>>,
    known_before: u64,
    known_beyond_rule: u64,
    unreachable: u64,
    undetected: u64,
    late: u64,
    false_reports: u64,
    events: u64,
    failures: Vec<Failure>,
}

impl Tally {
    fn add(&mut self, trial: u64, result: TrialResult) {
        for (kind, after_ns) in result.known {
            self.times_ns.entry(kind).or_default().push(after_ns);
        }
        self.known_before += result.known_before;
        self.known_beyond_rule += result.known_beyond_rule;
        self.unreachable += result.unreachable;
        self.undetected += result.undetected.len() as u64;
        self.late += result.late.len() as u64;
        self.false_reports += result.false_reports.len() as u64;
        self.events += result.events;
        let undetected = result.undetected.into_iter().map(|it| format!("undetected: {it}"));
        let late = result.late.into_iter().map(|it| format!("late: {it}"));
        let false_reports = result.false_reports.into_iter().map(|it| format!("false: {it}"));
        let failures = undetected.chain(false_reports).chain(late);
        let room = FAILURES_KEPT.saturating_sub(self.failures.len());
        self.failures.extend(failures.map(|what| Failure { trial, what }).take(room));
    }

    fn merge(&mut self, other: Self) {
        for (kind, times_ns) in other.times_ns {
            self.times_ns.entry(kind).or_default().extend(times_ns);
        }
        self.known_before += other.known_before;
        self.known_beyond_rule += other.known_beyond_rule;
        self.unreachable += other.unreachable;
        self.undetected += other.undetected;
        self.late += other.late;
        self.false_reports += other.false_reports;
        self.events += other.events;
        self.failures.extend(other.failures);
    }
}

impl Campaign {
    /// The trial of this number.
    pub fn trial(&self, index: u64) -> Trial {
        let Self { lattice, mode, period_ns, faults, seed, surroundings, .. } = *self;
        Trial { lattice, mode, period_ns, faults, seed, index, surroundings }
    }

    /// Trials `first`, `first + step` and so on.
    fn work(&self, first: u64, step: u64, done: &mpsc::Sender<u64>) -> Tally {
        let mut tally = Tally::default();
        let mut simulation = self.trial(0).simulation();
        let mut since = 0;
        for index in (first..self.trials).step_by(step as usize) {
            tally.add(index, self.trial(index).run_in(&mut simulation));
            since += 1;
            if since == PROGRESS_STEP {
                // Whoever listens may have gone; the trials count all the same.
                let _ = done.send(std::mem::take(&mut since));
            }
        }
        let _ = done.send(since);
        tally
    }

    fn report(&self, mut tally: Tally) -> CampaignReport {
        let mut all: Vec<u64> = tally.times_ns.values().flatten().copied().collect();
        let awareness = Distribution::new(&mut all);
        let limits = Limits::of(self.mode, self.period_ns);
        let kinds = tally
            .times_ns
            .iter_mut()
            .map(|(&kind, times_ns)| KindReport { kind, awareness: Distribution::new(times_ns) });
        let kinds: Vec<KindReport> = kinds.collect();
        let distributions = kinds.iter().map(|kind| &kind.awareness).chain([&awareness]);
        let within_limits = distributions
            .into_iter()
            .all(|it| it.mean_s <= limits.mean_s && it.max_s <= limits.worst_s);
        // By trial alone, so that each keeps its order of finding.
        tally.failures.sort_by_key(|failure| failure.trial);
        tally.failures.truncate(FAILURES_KEPT);
        CampaignReport {
            lattice: self.lattice.to_string(),
            mode: self.mode,
            period_s: self.period_ns as f64 * 1e-9,
            trials: self.trials,
            faults_per_trial: self.faults,
            seed: self.seed,
            faults: awareness.count
                + tally.known_before
                + tally.known_beyond_rule
                + tally.unreachable
                + tally.undetected,
            known: awareness.count,
            known_before: tally.known_before,
            known_beyond_rule: tally.known_beyond_rule,
            unreachable: tally.unreachable,
            undetected: tally.undetected,
            false_reports: tally.false_reports,
            late: tally.late,
            within_limits,
            awareness,
            limits,
            kinds,
            failures: tally.failures,
            events: tally.events,
        }
    }
}

/// Runs all trials of a campaign; `progress` is told how many are done.
pub fn run_campaign(campaign: &Campaign, progress: &mut dyn FnMut(u64)) -> CampaignReport {
    let threads = campaign.threads.max(1) as u64;
    let (sender, receiver) = mpsc::channel();
    let tally = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|first| {
                let sender = sender.clone();
                scope.spawn(move || campaign.work(first, threads, &sender))
            })
            .collect();
        drop(sender);
        let mut done = 0;
        for more in receiver {
            done += more;
            progress(done);
        }
        let mut tally = Tally::default();
        for worker in workers {
            match worker.join() {
                Ok(part) => tally.merge(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        tally
    });
    campaign.report(tally)
}
