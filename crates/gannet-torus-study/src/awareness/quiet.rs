//! A machine without faults: does anybody report one?

use gannet_lofamo::Mode;
use gannet_measure::random::Random;
use serde::Serialize;

use super::machine::{Jitter, Watched};
use super::simulation::Simulation;
use crate::trials::{Trace, Trials, keep};

const HOUR_NS: u64 = 3_600_000_000_000;

/// A stretch of time without faults.
///
/// Each hour is a trial: it begins with new phases of all periods and random numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quiet {
    /// The machine.
    pub machine: Watched,
    /// Length in hours; the last may be a part.
    pub hours: f64,
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
    pub jitter: Jitter,
    /// Times that anything was called sick or failed: must be 0.
    pub false_reports: u64,
    /// The first of them.
    pub claims: Vec<String>,
    /// Simulated events.
    pub events: u64,
}

/// What was said in some hours.
#[derive(Debug, Default)]
pub struct QuietSums {
    hours: u64,
    false_reports: u64,
    /// Hour, time in it, and what was said.
    claims: Vec<(u64, u64, String)>,
    events: u64,
}

impl Trials for Quiet {
    type Bench = Simulation;
    /// What was said and when, and simulated events.
    type Outcome = (Vec<(u64, String)>, u64);
    type Sums = QuietSums;
    type Report = QuietReport;

    fn count(&self) -> u64 {
        self.hours.max(0.0).ceil() as u64
    }

    fn threads(&self) -> usize {
        self.machine.threads
    }

    fn bench(&self) -> Simulation {
        Simulation::new(&self.machine)
    }

    fn run(&self, hour: u64, simulation: &mut Simulation, _: &mut Trace) -> Self::Outcome {
        let part = (self.hours - hour as f64).min(1.0);
        simulation.restart(Random::stream(self.machine.seed, hour), Vec::new(), false);
        simulation.run((HOUR_NS as f64 * part) as u64, |_| false);
        (simulation.false_claims.clone(), simulation.events())
    }

    fn none(&self) -> QuietSums {
        QuietSums::default()
    }

    fn add(&self, sums: &mut QuietSums, hour: u64, (claims, events): Self::Outcome) {
        sums.hours += 1;
        sums.false_reports += claims.len() as u64;
        sums.events += events;
        claims.into_iter().for_each(|(at_ns, it)| keep(&mut sums.claims, (hour, at_ns, it)));
    }

    fn report(&self, sums: QuietSums) -> QuietReport {
        let claim = |(hour, at_ns, it)| format!("hour {hour}, {:.6} s: {it}", at_ns as f64 * 1e-9);
        QuietReport {
            lattice: self.machine.lattice.to_string(),
            mode: self.machine.mode,
            period_s: self.machine.period_ns as f64 * 1e-9,
            hours: self.hours.min(sums.hours as f64),
            jitter: self.machine.surroundings.jitter,
            false_reports: sums.false_reports,
            claims: sums.claims.into_iter().map(claim).collect(),
            events: sums.events,
        }
    }
}
