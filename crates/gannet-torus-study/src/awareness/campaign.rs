//! Many trials.

use std::collections::BTreeMap;

use gannet_lattice::Lattice;
use gannet_lofamo::Mode;
use serde::Serialize;

use super::distribution::{Distribution, Limits, Times};
use super::fault::FaultKind;
use super::simulation::Simulation;
use super::surroundings::Surroundings;
use super::trial::{Trial, TrialResult};
use crate::trials::{self, Failure, First, Trials};

/// Trials of random faults on one machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Campaign {
    /// The machine.
    pub lattice: Lattice,
    /// How it is watched.
    pub mode: Mode,
    /// Watchdog period T.
    pub period_ns: u64,
    /// Number of trials, at most [`TRIALS_MAX`](trials::TRIALS_MAX).
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
    times: BTreeMap<FaultKind, Times>,
    known_before: u64,
    known_beyond_rule: u64,
    unreachable: u64,
    undetected: u64,
    late: u64,
    false_reports: u64,
    events: u64,
    failures: First<Failure>,
}

impl Tally {
    fn add(&mut self, trial: u64, result: TrialResult, period_ns: u64) {
        self.trials += 1;
        for (kind, after_ns) in result.known {
            self.times.entry(kind).or_default().add(after_ns, period_ns);
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
        failures.for_each(|what| self.failures.keep(Failure { trial, what }));
    }
}

impl trials::Tally for Tally {
    fn trials(&self) -> u64 {
        self.trials
    }

    fn merge(&mut self, other: Self) {
        self.trials += other.trials;
        for (kind, times) in other.times {
            self.times.entry(kind).or_default().merge(&times);
        }
        self.known_before += other.known_before;
        self.known_beyond_rule += other.known_beyond_rule;
        self.unreachable += other.unreachable;
        self.undetected += other.undetected;
        self.late += other.late;
        self.false_reports += other.false_reports;
        self.events += other.events;
        self.failures.merge(other.failures);
    }
}

impl Campaign {
    /// The trial of this number.
    pub fn trial(&self, index: u64) -> Trial {
        let Self { lattice, mode, period_ns, faults, seed, surroundings, .. } = *self;
        Trial { lattice, mode, period_ns, faults, seed, index, surroundings }
    }
}

impl Trials for Campaign {
    type Bench = Simulation;
    type Tally = Tally;
    type Report = CampaignReport;

    fn count(&self) -> u64 {
        self.trials
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn bench(&self) -> Simulation {
        self.trial(0).simulation()
    }

    fn run(&self, index: u64, simulation: &mut Simulation, tally: &mut Tally) {
        tally.add(index, self.trial(index).run_in(simulation), self.period_ns);
    }

    fn report(&self, tally: Tally) -> CampaignReport {
        let mut all = Times::default();
        tally.times.values().for_each(|times| all.merge(times));
        let distribution = |times: &Times| Distribution::new(times, self.period_ns);
        let awareness = distribution(&all);
        let limits = Limits::of(self.mode, self.period_ns);
        let kinds = tally.times.iter();
        let kinds: Vec<KindReport> = kinds
            .map(|(&kind, times)| KindReport { kind, awareness: distribution(times) })
            .collect();
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
            failures: tally.failures.into_vec(),
            events: tally.events,
        }
    }
}
