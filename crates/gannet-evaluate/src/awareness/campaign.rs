//! Many trials.

use std::collections::BTreeMap;
use std::sync::mpsc;

use gannet_torus::lattice::Lattice;
use gannet_torus::lofamo::Mode;
use serde::Serialize;

use super::distribution::{Distribution, Limits};
use super::fault::FaultKind;
use super::surroundings::Surroundings;
use super::trial::{Trial, TrialResult};

/// Most trials of a campaign.
pub const TRIALS_MAX: u64 = 100_000_000;
/// Failures that are kept, of each thread and in the report.
const FAILURES_KEPT: usize = 16;
/// Trials after which a thread hands over what it has.
const TALLY_TRIALS: u64 = 16;

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
    /// Number of trials that were run.
    pub trials: u64,
    /// Most faults of a trial.
    pub faults_per_trial: u32,
    /// Seed.
    pub seed: u64,
    /// Faults of all trials.
    pub faults: u64,
    /// Faults that became known as the rule of reachability asks.
    pub known: u64,
    /// Faults of things already held for broken, be it for another cause, see
    /// [`TrialResult::known_before`].
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
    /// Whether mean and worst are within the limits, for each kind of fault, too; nothing where no
    /// fault became known, or nodes have no neighbours to watch them.
    pub within_limits: Option<bool>,
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

    /// Whether all that became known did so in the time promised.
    pub fn is_in_time(&self) -> bool {
        self.within_limits.is_none_or(|kept| kept && self.late == 0)
    }
}

/// Sums over some trials of a campaign.
#[derive(Debug, Default)]
pub struct Tally {
    trials: u64,
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
    /// Number of trials in it.
    pub fn trials(&self) -> u64 {
        self.trials
    }

    fn add(&mut self, trial: u64, result: TrialResult) {
        self.trials += 1;
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

    /// Adds other trials of the same campaign.
    pub fn merge(&mut self, other: Self) {
        self.trials += other.trials;
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
        // By trial alone, so that each keeps its order of finding.
        self.failures.sort_by_key(|failure| failure.trial);
        self.failures.truncate(FAILURES_KEPT);
    }
}

impl Campaign {
    /// The trial of this number.
    pub fn trial(&self, index: u64) -> Trial {
        let Self { lattice, mode, period_ns, faults, seed, surroundings, .. } = *self;
        Trial { lattice, mode, period_ns, faults, seed, index, surroundings }
    }

    /// Trials `first`, `first + step` and so on.
    fn work(&self, first: u64, step: u64, tallies: &mpsc::Sender<Tally>) {
        let mut tally = Tally::default();
        let mut simulation = self.trial(0).simulation();
        for index in (first..self.trials).step_by(step as usize) {
            tally.add(index, self.trial(index).run_in(&mut simulation));
            if tally.trials == TALLY_TRIALS {
                // It is heard until all threads have ended.
                let _ = tallies.send(std::mem::take(&mut tally));
            }
        }
        if tally.trials > 0 {
            let _ = tallies.send(tally);
        }
    }

    /// The report of these trials of the campaign, all or a part.
    pub fn report(&self, mut tally: Tally) -> CampaignReport {
        let mut all: Vec<u64> = tally.times_ns.values().flatten().copied().collect();
        let awareness = Distribution::new(&mut all);
        let limits = Limits::of(self.mode, self.period_ns);
        let kinds = tally
            .times_ns
            .iter_mut()
            .map(|(&kind, times_ns)| KindReport { kind, awareness: Distribution::new(times_ns) });
        let kinds: Vec<KindReport> = kinds.collect();
        let is_judged = Limits::hold_for(self.lattice) && awareness.count > 0;
        let within_limits = is_judged.then(|| {
            let mut all = kinds.iter().map(|kind| &kind.awareness).chain([&awareness]);
            all.all(|times| limits.are_kept_by(times))
        });
        CampaignReport {
            lattice: self.lattice.to_string(),
            mode: self.mode,
            period_s: self.period_ns as f64 * 1e-9,
            trials: tally.trials,
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

/// Runs all trials of a campaign, and hands over the sums of a few at a time.
pub fn run_trials(campaign: &Campaign, hear: &mut dyn FnMut(Tally)) {
    let threads = campaign.threads.max(1) as u64;
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for first in 0..threads {
            let sender = sender.clone();
            scope.spawn(move || campaign.work(first, threads, &sender));
        }
        drop(sender);
        receiver.into_iter().for_each(hear);
    });
}

/// Runs all trials of a campaign; `progress` is told how many are done.
pub fn run_campaign(campaign: &Campaign, progress: &mut dyn FnMut(u64)) -> CampaignReport {
    let mut all = Tally::default();
    run_trials(campaign, &mut |tally| {
        all.merge(tally);
        progress(all.trials);
    });
    campaign.report(all)
}
