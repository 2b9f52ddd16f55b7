//! Faults against a machine under load that finds other routes.

use gannet_lattice::Lattice;
use gannet_measure::histogram::Summary;
use gannet_torus::simulator::Setup;

use super::draw::FaultCounts;
use super::limit::{Error, check, check_cycles};
use super::reroute_report::{RerouteReport, RerouteTally};
use super::reroute_trial::{RerouteResult, trial};
use super::story::Story;
use super::warning::{Delays, Warning};
use crate::trials::Trials;

/// Longest wait of a source before it sends a lost packet again, in cycles.
const REPLAY_MAX: u32 = 1_000_000;

/// Random faults in a machine under load: awareness, new routes, replay.
#[derive(Clone, Debug, PartialEq)]
pub struct RerouteCampaign {
    /// The machine; its seed is that of the campaign, and its threads share the trials. Lost
    /// packets are sent again if it says so.
    pub setup: Setup,
    /// Flits that each node offers in a cycle.
    pub load: f64,
    /// How many nodes and cables fail, all at once, at a random time.
    pub counts: FaultCounts,
    /// When the master knows of them.
    pub warning: Warning,
    /// Number of trials.
    pub trials: u64,
}

impl RerouteCampaign {
    /// A campaign of 100 trials in each of which one cable fails, at a load of 0.3, known after 2000
    /// cycles; lost packets are sent again after 1000.
    pub fn new(lattice: Lattice) -> Self {
        Self {
            setup: Setup { replay_after: Some(1000), ..Setup::new(lattice) },
            load: 0.3,
            counts: FaultCounts { nodes: (0, 0), cables: (1, 1) },
            warning: Warning::After { cycles: 2000 },
            trials: 100,
        }
    }

    /// The trials of this campaign.
    ///
    /// # Errors
    /// When a value is outside its range, naming it and what it may be.
    pub fn trials(self) -> Result<RerouteTrials, Error> {
        check(&self.setup, self.load, &self.counts, self.trials)?;
        if self.counts.nodes.0 + self.counts.cables.0 == 0 {
            return Err(Error::NoFault);
        }
        if let Some(wait) = self.setup.replay_after {
            check_cycles("waiting for a replay", u64::from(wait), REPLAY_MAX, "")?;
        }
        let delays = self.warning.delays(self.setup.lattice, self.setup.seed)?;
        Ok(RerouteTrials { campaign: self, delays })
    }
}

/// The trials of a campaign that can be run.
#[derive(Clone, Debug)]
pub struct RerouteTrials {
    pub(super) campaign: RerouteCampaign,
    pub(super) delays: Delays,
}

impl RerouteTrials {
    /// The campaign.
    pub fn campaign(&self) -> &RerouteCampaign {
        &self.campaign
    }

    /// Runs trial `index`, and tells what happens in it.
    pub fn tell(&self, index: u64) -> (RerouteResult, Vec<String>) {
        let mut story = Story::told();
        let result = trial(self, index, &mut story).result;
        (result, story.lines())
    }
}

impl Trials for RerouteTrials {
    type Bench = ();
    type Tally = RerouteTally;
    /// Beside the report stands the wall time that the planning of routes took, in nanoseconds: it
    /// alone differs from run to run.
    type Report = (RerouteReport, Summary);

    fn count(&self) -> u64 {
        self.campaign.trials
    }

    fn threads(&self) -> usize {
        self.campaign.setup.threads
    }

    fn bench(&self) {}

    fn run(&self, index: u64, (): &mut (), tally: &mut RerouteTally) {
        tally.add(index, trial(self, index, &mut Story::default()));
    }

    fn report(&self, tally: RerouteTally) -> (RerouteReport, Summary) {
        let planning = tally.planning_ns.summary();
        (RerouteReport::new(&self.campaign, tally), planning)
    }
}
