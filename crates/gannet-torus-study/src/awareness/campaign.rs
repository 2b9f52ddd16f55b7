//! Many trials of random faults, and what the master makes of them.

use std::collections::BTreeMap;

use gannet_lofamo::Mode;
use gannet_measure::random::Random;
use serde::Serialize;

use super::distribution::{Distribution, Limits, Times};
use super::fault::{FaultKind, random_faults};
use super::machine::Watched;
use super::simulation::{Fate, Simulation};
use super::truth::must_be_known;
use crate::trials::{Failure, Trace, Trials, keep};

/// Trials of random faults on one machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Campaign {
    /// The machine.
    pub machine: Watched,
    /// Number of trials, at most [`TRIALS_MAX`](crate::trials::TRIALS_MAX).
    pub trials: u64,
    /// Most faults of a trial, see [`random_faults`].
    pub faults: u32,
}

/// What came of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialResult {
    /// Kind of each fault that became known, and how long after it began, in nanoseconds.
    pub known: Vec<(FaultKind, u64)>,
    /// Faults of things that the master already held for broken, be it for another cause: a picture
    /// says that a host is sick, and not of what.
    pub known_before: u64,
    /// Faults that became known although, by the rule of reachability, they need not have: later
    /// faults cut off who could tell, too late or in vain.
    pub known_beyond_rule: u64,
    /// Faults that did not become known and, by the rule of reachability, could not.
    pub unreachable: u64,
    /// Faults that did not become known although they could.
    pub undetected: Vec<String>,
    /// Faults that became known later than the mode promises.
    pub late: Vec<String>,
    /// What was said of healthy things.
    pub false_reports: Vec<String>,
    /// Simulated events.
    pub events: u64,
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

/// A report without its distributions, and the times that these are made from.
#[derive(Debug)]
pub struct Sums {
    report: CampaignReport,
    times: BTreeMap<FaultKind, Times>,
}

impl Campaign {
    /// What came of the faults of a simulation that has run.
    fn result(&self, simulation: &Simulation, worst_ns: u64) -> TrialResult {
        let lattice = self.machine.lattice;
        let mut result = TrialResult { events: simulation.events(), ..TrialResult::default() };
        for (fault, fate) in &simulation.faults {
            let must = || must_be_known(lattice, &simulation.truth, fault);
            match *fate {
                Fate::Known { after_ns } if must() => {
                    result.known.push((fault.kind, after_ns));
                    if after_ns > worst_ns && Limits::hold_for(lattice) {
                        let after_s = after_ns as f64 * 1e-9;
                        result.late.push(format!("{fault}: known after {after_s:.6} s"));
                    }
                }
                Fate::Known { .. } => result.known_beyond_rule += 1,
                Fate::KnownBefore => result.known_before += 1,
                Fate::Open if must() => result.undetected.push(fault.to_string()),
                Fate::Open => result.unreachable += 1,
            }
        }
        result.false_reports =
            simulation.false_claims.iter().map(|claim| claim.1.clone()).collect();
        result
    }
}

impl Trials for Campaign {
    type Bench = Simulation;
    type Outcome = TrialResult;
    type Sums = Sums;
    type Report = CampaignReport;

    fn count(&self) -> u64 {
        self.trials
    }

    fn threads(&self) -> usize {
        self.machine.threads
    }

    fn bench(&self) -> Simulation {
        Simulation::new(&self.machine)
    }

    fn run(&self, index: u64, simulation: &mut Simulation, trace: &mut Trace) -> TrialResult {
        let Watched { lattice, mode, period_ns, seed, .. } = self.machine;
        let mut random = Random::stream(seed, index);
        let faults = random_faults(lattice, period_ns, self.faults, &mut random);
        let last_ns = faults.iter().map(|fault| fault.at_ns).max().unwrap_or(0);
        simulation.restart(random, faults);
        let worst_ns = Limits::of(mode, period_ns).worst_ns();
        // Past this, what is not known never will be, and what is false has been said: every watch
        // has looked once more.
        let settled_ns = last_ns + worst_ns - 10_000_000;
        std::mem::swap(trace, &mut simulation.trace);
        simulation.run(last_ns + worst_ns + period_ns, |it| {
            it.open == 0 && it.all_begun() && it.now_ns() > settled_ns
        });
        std::mem::swap(trace, &mut simulation.trace);
        self.result(simulation, worst_ns)
    }

    fn none(&self) -> Sums {
        let Watched { lattice, mode, period_ns, seed, .. } = self.machine;
        let report = CampaignReport {
            lattice: lattice.to_string(),
            mode,
            period_s: period_ns as f64 * 1e-9,
            trials: 0,
            faults_per_trial: self.faults,
            seed,
            faults: 0,
            known: 0,
            known_before: 0,
            known_beyond_rule: 0,
            unreachable: 0,
            undetected: 0,
            false_reports: 0,
            late: 0,
            awareness: Distribution::default(),
            limits: Limits::of(mode, period_ns),
            within_limits: None,
            kinds: Vec::new(),
            failures: Vec::new(),
            events: 0,
        };
        Sums { report, times: BTreeMap::new() }
    }

    fn add(&self, Sums { report, times }: &mut Sums, trial: u64, result: TrialResult) {
        report.trials += 1;
        report.known += result.known.len() as u64;
        for (kind, after_ns) in result.known {
            times.entry(kind).or_default().add(after_ns, self.machine.period_ns);
        }
        report.known_before += result.known_before;
        report.known_beyond_rule += result.known_beyond_rule;
        report.unreachable += result.unreachable;
        report.events += result.events;
        for (name, count, found) in [
            ("undetected", &mut report.undetected, result.undetected),
            ("late", &mut report.late, result.late),
            ("false", &mut report.false_reports, result.false_reports),
        ] {
            *count += found.len() as u64;
            for what in found {
                keep(&mut report.failures, Failure { trial, what: format!("{name}: {what}") });
            }
        }
    }

    fn report(&self, Sums { mut report, times }: Sums) -> CampaignReport {
        let mut all = Times::default();
        times.values().for_each(|times| all.merge(times));
        let distribution = |times: &Times| Distribution::new(times, self.machine.period_ns);
        report.awareness = distribution(&all);
        let kind = |(&kind, times)| KindReport { kind, awareness: distribution(times) };
        report.kinds = times.iter().map(kind).collect();
        report.faults = report.known
            + report.known_before
            + report.known_beyond_rule
            + report.unreachable
            + report.undetected;
        let is_judged = Limits::hold_for(self.machine.lattice) && report.known > 0;
        report.within_limits = is_judged.then(|| {
            let kinds = report.kinds.iter().map(|kind| &kind.awareness);
            kinds.chain([&report.awareness]).all(|times| report.limits.are_kept_by(times))
        });
        report
    }
}
