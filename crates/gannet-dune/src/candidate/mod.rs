//! Candidates: activities that ask for a readout.
//!
//! Every activity algorithm has a candidate maker of its name. Prescale and ADCSimpleWindow make
//! a candidate of each activity; HorizontalMuon and ChannelAdjacency look at a window of
//! activities; ChannelDistance and Bundle collect them.
//!
//! Where the published makers refuse to run or leave something undone, these have a meaning:
//! a window without a condition makes a candidate of each activity; a collection that is complete
//! is given out at once, not when the next activity comes, and what is left at the end of a run
//! is given out too.
//!
//! Source: DUNE-DAQ/triggeralgs `TriggerCandidateMaker.hpp` and the file each module names.

mod activity_window;
mod collection;
mod config;
mod each;
mod stage;

use std::fmt;

use gannet_measure::ledger::Account;
use gannet_trigger::candidate::Candidate;

pub use config::{
    ActivityWindow, BundleCandidate, CandidateConfig, DistanceCandidate, EachActivity,
};
pub use stage::{CandidateCounters, CandidateStage};

use crate::activity::{Activity, MadeDrop};
use gannet_trigger::prescale::Prescaler;

/// An algorithm that makes candidates of activities.
trait CandidateMaker: fmt::Debug + Send {
    /// Takes the next activity.
    fn push(&mut self, activity: &Activity, outlet: &mut Outlet);

    /// The tick from which on candidates start that are still to be made, when activities that are
    /// still to come start from tick `activities_from` on.
    fn open_from(&self, activities_from: u64) -> u64 {
        activities_from
    }

    /// Makes what is left at the end of a run.
    fn finish(&mut self, _outlet: &mut Outlet) {}
}

/// Where a maker puts its candidates: they are counted, prescaled and kept.
#[derive(Debug)]
struct Outlet<'a> {
    prescaler: &'a mut Prescaler,
    made: &'a Account<MadeDrop>,
    kept: &'a mut Vec<Candidate>,
}

impl Outlet<'_> {
    /// Offers a candidate, which is built only when the prescale keeps it.
    fn offer(&mut self, build: impl FnOnce() -> Candidate) {
        self.made.offer(1);
        if self.prescaler.keeps_next() {
            self.kept.push(build());
            self.made.deliver(1);
        } else {
            self.made.discard(MadeDrop::Prescaled, 1);
        }
    }
}

#[cfg(test)]
mod tests;
