//! Sets of faults against the planner of routes.

use gannet_lattice::Lattice;
use gannet_torus::simulator::{Arbitration, Setup};

use super::draw::FaultCounts;
use super::limit::{Error, check, check_cycles};
use super::routing_report::{RoutingReport, RoutingTally};
use super::routing_trial::{RoutingResult, trial};
use super::story::Story;
use crate::trials::Trials;

/// Longest overload, in cycles.
const OVERLOAD_MAX: u32 = 1_000_000;

/// Random sets of faults, each with routes round it and an overload on them.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutingCampaign {
    /// The machine; its seed is that of the campaign, and its threads share the trials.
    pub setup: Setup,
    /// Flits that each node offers in a cycle. At 1 no node can offer more.
    pub load: f64,
    /// Cycles of the overload, before sources stop and the network has to drain.
    pub cycles: u32,
    /// How many nodes and cables are dead.
    pub counts: FaultCounts,
    /// Number of trials.
    pub trials: u64,
}

impl RoutingCampaign {
    /// A campaign of 1000 trials on packets of one flit in channels of one, at a load that keeps
    /// every source busy, with turns. That is the traffic which finds a cycle soonest where there is
    /// one: on routes of one class it gets stuck within 500 cycles in most cases, while packets of
    /// many flits, deeper channels or equal shares may pass for thousands.
    pub fn new(lattice: Lattice) -> Self {
        Self {
            setup: Setup {
                packet_flits: 1,
                vc_depth: 1,
                arbitration: Arbitration::Turns,
                ..Setup::new(lattice)
            },
            load: 1.0,
            cycles: 500,
            counts: FaultCounts { nodes: (0, 8), cables: (0, 16) },
            trials: 1000,
        }
    }

    /// The trials of this campaign.
    ///
    /// # Errors
    /// When a value is outside its range, naming it and what it may be.
    pub fn trials(self) -> Result<RoutingTrials, Error> {
        check(&self.setup, self.load, &self.counts, self.trials)?;
        check_cycles("the overload", u64::from(self.cycles), OVERLOAD_MAX, "")?;
        Ok(RoutingTrials { campaign: self })
    }
}

/// The trials of a campaign that can be run.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutingTrials {
    campaign: RoutingCampaign,
}

impl RoutingTrials {
    /// The campaign.
    pub fn campaign(&self) -> &RoutingCampaign {
        &self.campaign
    }

    /// Runs trial `index`, and tells what happens in it.
    pub fn tell(&self, index: u64) -> (RoutingResult, Vec<String>) {
        let mut story = Story::told();
        let result = trial(&self.campaign, index, &mut story);
        (result, story.lines())
    }
}

impl Trials for RoutingTrials {
    type Bench = ();
    type Tally = RoutingTally;
    type Report = RoutingReport;

    fn count(&self) -> u64 {
        self.campaign.trials
    }

    fn threads(&self) -> usize {
        self.campaign.setup.threads
    }

    fn bench(&self) {}

    fn run(&self, index: u64, (): &mut (), tally: &mut RoutingTally) {
        let result = trial(&self.campaign, index, &mut Story::default());
        tally.add(&self.campaign, index, &result);
    }

    fn report(&self, tally: RoutingTally) -> RoutingReport {
        RoutingReport::new(&self.campaign, tally)
    }
}
