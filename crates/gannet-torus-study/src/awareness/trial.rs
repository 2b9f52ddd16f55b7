//! One trial: random faults, and what the master makes of them.

use gannet_lattice::Lattice;
use gannet_lofamo::{Mode, Timing};
use gannet_measure::random::Random;

use super::distribution::Limits;
use super::fault::{FaultKind, random_faults};
use super::simulation::{Fate, Simulation};
use super::surroundings::Surroundings;
use super::verdict::must_be_known;

/// What a trial is made from; equal trials have equal results, bit for bit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The machine.
    pub lattice: Lattice,
    /// How it is watched.
    pub mode: Mode,
    /// Watchdog period T.
    pub period_ns: u64,
    /// Most faults, see [`random_faults`].
    pub faults: u32,
    /// Seed of the campaign.
    pub seed: u64,
    /// Number of the trial in it.
    pub index: u64,
    /// How late things happen.
    pub surroundings: Surroundings,
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

impl Trial {
    pub(super) fn simulation(&self) -> Simulation {
        let timing = Timing::new(self.mode, self.period_ns);
        Simulation::new(self.lattice, timing, self.period_ns, self.surroundings)
    }

    /// Runs in a simulation made by [`simulation`](Self::simulation) of an equal trial, but for the
    /// index.
    pub(super) fn run_in(&self, simulation: &mut Simulation) -> TrialResult {
        let mut random = Random::stream(self.seed, self.index);
        let faults = random_faults(self.lattice, self.period_ns, self.faults, &mut random);
        let last_ns = faults.iter().map(|fault| fault.at_ns).max().unwrap_or(0);
        simulation.restart(random, faults);
        let worst_ns = Limits::worst_ns(&simulation.timing, self.period_ns);
        // Past this, what is not known never will be, and what is false has been said: every watch
        // has looked once more.
        let settled_ns = last_ns + worst_ns - 10_000_000;
        simulation.run(last_ns + worst_ns + self.period_ns, |it| {
            it.open == 0 && it.all_begun() && it.now_ns() > settled_ns
        });
        self.result(simulation, worst_ns)
    }

    fn result(&self, simulation: &Simulation, worst_ns: u64) -> TrialResult {
        let mut result = TrialResult { events: simulation.events(), ..TrialResult::default() };
        for (fault, fate) in &simulation.faults {
            let must = || must_be_known(self.lattice, &simulation.truth, fault);
            match *fate {
                Fate::Known { after_ns } if must() => {
                    result.known.push((fault.kind, after_ns));
                    if after_ns > worst_ns && Limits::hold_for(self.lattice) {
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

/// Runs one trial.
pub fn run_trial(trial: &Trial) -> TrialResult {
    trial.run_in(&mut trial.simulation())
}

/// Runs one trial and tells what happens in it: times in nanoseconds, and a line each.
pub fn tell_trial(trial: &Trial) -> (TrialResult, Vec<(u64, String)>) {
    let mut simulation = trial.simulation();
    simulation.story = Some(Vec::new());
    let result = trial.run_in(&mut simulation);
    (result, simulation.story.unwrap_or_default())
}
