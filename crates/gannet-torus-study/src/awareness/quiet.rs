//! A machine without faults: does anybody report one?

use gannet_lattice::Lattice;
use gannet_lofamo::{Mode, Timing};
use gannet_measure::random::Random;
use serde::Serialize;

use super::simulation::Simulation;
use super::surroundings::Surroundings;
use crate::trials::{First, Tally, Trials};

const HOUR_NS: u64 = 3_600_000_000_000;

/// A stretch of time without faults.
///
/// Each hour begins with new phases of all periods and random numbers of its own, so that hours
/// can be shared among threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quiet {
    /// The machine.
    pub lattice: Lattice,
    /// How it is watched.
    pub mode: Mode,
    /// Watchdog period T.
    pub period_ns: u64,
    /// Length in hours; the last may be a part.
    pub hours: f64,
    /// Seed.
    pub seed: u64,
    /// How late things happen.
    pub surroundings: Surroundings,
    /// Threads; the report does not depend on them.
    pub threads: usize,
}

/// What was said of a machine without faults.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuietReport {
    /// The machine, as 4x4x4.
    pub lattice: String,
    /// How it was watched.
    pub mode: Mode,
    /// Watchdog period T.
    pub period_s: f64,
    /// Simulated time.
    pub hours: f64,
    /// How far periods strayed.
    pub jitter: super::Jitter,
    /// Times that anything was called sick or failed: must be 0.
    pub false_reports: u64,
    /// The first of them.
    pub claims: Vec<String>,
    /// Simulated events.
    pub events: u64,
}

/// What was said in some hours.
#[derive(Debug, Default)]
pub struct QuietTally {
    hours: u64,
    false_reports: u64,
    /// Hour, time in it, and what was said.
    claims: First<(u64, u64, String)>,
    events: u64,
}

impl Tally for QuietTally {
    fn trials(&self) -> u64 {
        self.hours
    }

    fn merge(&mut self, other: Self) {
        self.hours += other.hours;
        self.false_reports += other.false_reports;
        self.claims.merge(other.claims);
        self.events += other.events;
    }
}

impl Trials for Quiet {
    type Bench = Simulation;
    type Tally = QuietTally;
    type Report = QuietReport;

    fn count(&self) -> u64 {
        self.hours.max(0.0).ceil() as u64
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn bench(&self) -> Simulation {
        let timing = Timing::new(self.mode, self.period_ns);
        Simulation::new(self.lattice, timing, self.period_ns, self.surroundings)
    }

    fn run(&self, hour: u64, simulation: &mut Simulation, tally: &mut QuietTally) {
        let part = (self.hours - hour as f64).min(1.0);
        simulation.restart(Random::stream(self.seed, hour), Vec::new());
        simulation.run((HOUR_NS as f64 * part) as u64, |_| false);
        for (at_ns, claim) in &simulation.false_claims {
            tally.claims.keep((hour, *at_ns, claim.clone()));
        }
        tally.hours += 1;
        tally.false_reports += simulation.false_claims.len() as u64;
        tally.events += simulation.events();
    }

    fn report(&self, tally: QuietTally) -> QuietReport {
        let claims = tally.claims.into_vec().into_iter();
        let claim =
            |(hour, at_ns, claim)| format!("hour {hour}, {:.6} s: {claim}", at_ns as f64 * 1e-9);
        QuietReport {
            lattice: self.lattice.to_string(),
            mode: self.mode,
            period_s: self.period_ns as f64 * 1e-9,
            hours: self.hours.min(tally.hours as f64),
            jitter: self.surroundings.jitter,
            false_reports: tally.false_reports,
            claims: claims.map(claim).collect(),
            events: tally.events,
        }
    }
}
