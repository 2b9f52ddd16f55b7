//! Sets of faults against the planner of routes.

use gannet_torus::lattice::Lattice;
use gannet_torus::simulator::Setup;

use super::draw::FaultCounts;
use super::limit::{Error, check, check_cycles};
use super::routing_report::{RoutingReport, Sums};
use super::routing_trial::run_routing_trial;
use super::trials::over_trials;

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
    /// every source busy. That is the traffic which finds a cycle soonest where there is one: on
    /// routes of one class it gets stuck within 500 cycles in most cases, while packets of many
    /// flits or deeper channels may pass for thousands.
    pub fn new(lattice: Lattice) -> Self {
        Self {
            setup: Setup { packet_flits: 1, vc_depth: 1, ..Setup::new(lattice) },
            load: 1.0,
            cycles: 500,
            counts: FaultCounts { nodes: (0, 8), cables: (0, 16) },
            trials: 1000,
        }
    }

    /// Checks the values against each other.
    ///
    /// # Errors
    /// [`Error`], naming the value and what it may be.
    pub fn check(&self) -> Result<(), Error> {
        check(&self.setup, self.load, &self.counts, self.trials)?;
        check_cycles("the overload", u64::from(self.cycles), OVERLOAD_MAX, "")
    }
}

/// Runs all trials; `progress` is told how many are done. The report does not depend on threads.
///
/// # Errors
/// When the campaign cannot be run.
pub fn run_routing(
    campaign: &RoutingCampaign,
    progress: &mut dyn FnMut(u64),
) -> Result<RoutingReport, Error> {
    campaign.check()?;
    let threads = campaign.setup.threads.max(1);
    let run = |index, sums: &mut Sums| {
        sums.add(campaign, index, &run_routing_trial(campaign, index));
    };
    let sums = over_trials(campaign.trials, threads, progress, run);
    Ok(RoutingReport::new(campaign, sums))
}
