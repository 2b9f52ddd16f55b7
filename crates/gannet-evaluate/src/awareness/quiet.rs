//! A machine without faults: does anybody report one?

use gannet_measure::random::Random;
use gannet_torus::lattice::Lattice;
use gannet_torus::lofamo::{Mode, Timing};
use serde::Serialize;

use super::simulation::Simulation;
use super::surroundings::Surroundings;

const HOUR_NS: u64 = 3_600_000_000_000;
const CLAIMS_KEPT: usize = 16;

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

impl Quiet {
    /// Hours `first`, `first + step` and so on: hour, what was said, events.
    fn work(&self, first: u64, step: u64) -> Vec<(u64, Vec<String>, u64)> {
        let timing = Timing::new(self.mode, self.period_ns);
        let mut simulation =
            Simulation::new(self.lattice, timing, self.period_ns, self.surroundings);
        let hours = self.hours.max(0.0).ceil() as u64;
        let mut said = Vec::new();
        for hour in (first..hours).step_by(step as usize) {
            let part = (self.hours - hour as f64).min(1.0);
            simulation.restart(Random::stream(self.seed, hour), Vec::new());
            simulation.run((HOUR_NS as f64 * part) as u64, |_| false);
            let claims = simulation.false_claims.iter();
            let claims = claims.map(|(at_ns, claim)| {
                format!("hour {hour}, {:.6} s: {claim}", *at_ns as f64 * 1e-9)
            });
            said.push((hour, claims.collect(), simulation.events()));
        }
        said
    }
}

/// Runs the machine, hour after hour.
pub fn run_quiet(quiet: &Quiet) -> QuietReport {
    let threads = quiet.threads.max(1) as u64;
    let mut said: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|first| scope.spawn(move || quiet.work(first, threads))).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| match worker.join() {
            Ok(part) => part,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().flat_map(join).collect()
    });
    said.sort_by_key(|(hour, ..)| *hour);
    let events = said.iter().map(|(.., events)| events).sum();
    let claims = said.iter().flat_map(|(_, claims, _)| claims);
    QuietReport {
        lattice: quiet.lattice.to_string(),
        mode: quiet.mode,
        period_s: quiet.period_ns as f64 * 1e-9,
        hours: quiet.hours,
        jitter: quiet.surroundings.jitter,
        false_reports: claims.clone().count() as u64,
        claims: claims.take(CLAIMS_KEPT).cloned().collect(),
        events,
    }
}
