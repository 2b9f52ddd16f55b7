//! Many trials of random faults, and what the master makes of them.

use std::collections::BTreeMap;

use gannet_lofamo::{Mode, Timing};
use gannet_measure::random::Random;
use serde::Serialize;

use super::distribution::{Distribution, Limits, Times};
use super::fault::{Fault, FaultKind, random_faults};
use super::hardship::Hardship;
use super::machine::{Surroundings, Watched};
use super::simulation::{Case, Fate, Simulation};
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
    /// How much harder faults are than the published ones.
    pub hardship: Hardship,
}

/// What came of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialResult {
    /// Kind of each fault that became known, and how long after it began, in nanoseconds.
    pub known: Vec<(FaultKind, u64)>,
    /// The same of faults that a master has yet to hear of that took over meanwhile, or had to hear
    /// of again.
    pub known_by_next: Vec<u64>,
    /// Faults of things that the master already held for broken, be it for another cause: a picture
    /// says that a host is sick, and not of what.
    pub known_before: u64,
    /// Faults that became known although, by the rule of reachability, they need not have: later
    /// faults cut off who could tell, too late or in vain.
    pub known_beyond_rule: u64,
    /// Faults that did not become known and, by the rule of reachability, could not.
    pub unreachable: u64,
    /// Faults that healed before they became known, sooner than they had to.
    pub healed: u64,
    /// Masters that took over.
    pub takeovers: u32,
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
    /// How much harder they were than the published ones.
    pub hardship: Hardship,
    /// Surroundings.
    pub surroundings: Surroundings,
    /// Beats in a watchdog period.
    pub beats_per_period: f64,
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
    /// Faults that healed before they became known, sooner than they had to.
    pub healed: u64,
    /// Masters that took over.
    pub takeovers: u64,
    /// Faults that did not become known although they could: must be 0.
    pub undetected: u64,
    /// What was said of healthy things: must be 0.
    pub false_reports: u64,
    /// Faults known later than promised: must be 0.
    pub late: u64,
    /// Time from fault to knowledge, over these but for the next.
    pub awareness: Distribution,
    /// The same of faults that became known while there was no master, or soon after one took
    /// over: their longest may be longer by that.
    pub awareness_of_next: Distribution,
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
    times_of_next: Times,
}

impl Campaign {
    /// Trials of faults that are like the published ones.
    pub fn new(machine: Watched, trials: u64, faults: u32) -> Self {
        Self { machine, trials, faults, hardship: Hardship::default() }
    }

    /// What came of the faults of a simulation that has run.
    fn result(&self, simulation: &Simulation, worst_ns: u64) -> TrialResult {
        let lattice = self.machine.lattice;
        let mut result = TrialResult { events: simulation.events(), ..TrialResult::default() };
        for case in &simulation.faults {
            let Case { fault, fate, since_ns, .. } = case;
            let must = || must_be_known(lattice, &simulation.ever, fault);
            let known_at_end = || case.has_healed || simulation.is_known_at_end(case, worst_ns);
            match *fate {
                Fate::Known { .. } | Fate::KnownBefore if must() && !known_at_end() => {
                    result.undetected.push(format!("{fault}, which a master knew before"));
                }
                Fate::Known { after_ns } if must() => {
                    let since_ns = since_ns.unwrap_or(fault.at_ns);
                    let delay_ns = simulation.delay_ns(since_ns, since_ns + after_ns, worst_ns);
                    match delay_ns {
                        0 => result.known.push((fault.kind, after_ns)),
                        _ => result.known_by_next.push(after_ns),
                    }
                    if after_ns > worst_ns + delay_ns && Limits::hold_for(lattice) {
                        let after_s = after_ns as f64 * 1e-9;
                        result.late.push(format!("{fault}: known after {after_s:.6} s"));
                    }
                }
                Fate::Known { .. } => result.known_beyond_rule += 1,
                Fate::KnownBefore => result.known_before += 1,
                Fate::Open if !must() => result.unreachable += 1,
                Fate::Open if Self::had_no_time(simulation, case, worst_ns) => result.healed += 1,
                Fate::Open => result.undetected.push(fault.to_string()),
            }
        }
        result.takeovers = simulation.takeovers();
        result.false_reports =
            simulation.false_claims.iter().map(|claim| claim.1.clone()).collect();
        result
    }
}

impl Campaign {
    /// Whether a fault healed before it had to be known.
    fn had_no_time(simulation: &Simulation, case: &Case, worst_ns: u64) -> bool {
        let since_ns = case.since_ns.unwrap_or(u64::MAX);
        case.fault.until_ns.is_some_and(|until_ns| {
            let delay_ns = simulation.delay_ns(since_ns, until_ns, worst_ns);
            until_ns < since_ns.saturating_add(worst_ns + delay_ns)
        })
    }

    /// When the last comes of a fault, and how long after it all must be known.
    fn settles(&self, faults: &[Fault], worst_ns: u64) -> (u64, u64) {
        let last_ns = faults.iter().map(Fault::last_ns).max().unwrap_or(0);
        let Watched { period_ns, .. } = self.machine;
        // A master may die with the last fault, and another with the host that took over.
        let masters = u64::from(self.hardship.mortal_master);
        let heals = u64::from(self.hardship.heal > 0.0);
        (last_ns, worst_ns + (masters * 4 + heals) * (worst_ns + period_ns))
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
        let mut faults = random_faults(lattice, period_ns, self.faults, &mut random);
        let limits = Limits::of(mode, period_ns);
        self.hardship.harden(&mut faults, (lattice, limits), &mut random);
        let worst_ns = limits.worst_ns();
        let (last_ns, settling_ns) = self.settles(&faults, worst_ns);
        simulation.restart(random, faults, self.hardship.mortal_master);
        // Past this, what is not known never will be, and what is false has been said: every watch
        // has looked once more.
        let settled_ns = last_ns + settling_ns - 10_000_000;
        std::mem::swap(trace, &mut simulation.trace);
        simulation.run(last_ns + settling_ns + period_ns, |it| {
            it.open == 0 && it.all_begun() && it.now_ns() > settled_ns
        });
        if self.hardship.is_any() {
            simulation.judge_end();
        }
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
            hardship: self.hardship,
            surroundings: self.machine.surroundings,
            beats_per_period: period_ns as f64 / Timing::new(mode, period_ns).beat_ns as f64,
            seed,
            faults: 0,
            known: 0,
            known_before: 0,
            known_beyond_rule: 0,
            unreachable: 0,
            healed: 0,
            takeovers: 0,
            undetected: 0,
            false_reports: 0,
            late: 0,
            awareness: Distribution::default(),
            awareness_of_next: Distribution::default(),
            limits: Limits::of(mode, period_ns),
            within_limits: None,
            kinds: Vec::new(),
            failures: Vec::new(),
            events: 0,
        };
        Sums { report, times: BTreeMap::new(), times_of_next: Times::default() }
    }

    fn add(&self, sums: &mut Sums, trial: u64, result: TrialResult) {
        let Sums { report, times, times_of_next } = sums;
        report.trials += 1;
        report.known += (result.known.len() + result.known_by_next.len()) as u64;
        for after_ns in result.known_by_next {
            times_of_next.add(after_ns, self.machine.period_ns);
        }
        for (kind, after_ns) in result.known {
            times.entry(kind).or_default().add(after_ns, self.machine.period_ns);
        }
        report.known_before += result.known_before;
        report.known_beyond_rule += result.known_beyond_rule;
        report.unreachable += result.unreachable;
        report.healed += result.healed;
        report.takeovers += u64::from(result.takeovers);
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

    fn report(&self, Sums { mut report, times, times_of_next }: Sums) -> CampaignReport {
        let mut all = Times::default();
        times.values().for_each(|times| all.merge(times));
        let distribution = |times: &Times| Distribution::new(times, self.machine.period_ns);
        report.awareness = distribution(&all);
        report.awareness_of_next = distribution(&times_of_next);
        let kind = |(&kind, times)| KindReport { kind, awareness: distribution(times) };
        report.kinds = times.iter().map(kind).collect();
        report.faults = report.known
            + report.known_before
            + report.known_beyond_rule
            + report.unreachable
            + report.healed
            + report.undetected;
        let is_judged = Limits::hold_for(self.machine.lattice) && report.known > 0;
        report.within_limits = is_judged.then(|| {
            let kinds = report.kinds.iter().map(|kind| &kind.awareness);
            kinds.chain([&report.awareness]).all(|times| report.limits.are_kept_by(times))
        });
        report
    }
}
