//! Faults against a machine under load that finds other routes.

use gannet_measure::histogram::Summary;
use gannet_torus::lattice::Lattice;
use gannet_torus::simulator::Setup;

use super::draw::FaultCounts;
use super::limit::{Error, check, check_cycles};
use super::reroute_report::{RerouteReport, Sums};
use super::reroute_trial::Course;
use super::story::Story;
use super::trials::over_trials;
use super::warning::Warning;

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

    /// Checks the values against each other, and prepares what all trials have in common.
    pub(super) fn course(&self) -> Result<Course<'_>, Error> {
        check(&self.setup, self.load, &self.counts, self.trials)?;
        if self.counts.nodes.0 + self.counts.cables.0 == 0 {
            return Err(Error::NoFault);
        }
        if let Some(wait) = self.setup.replay_after {
            check_cycles("waiting for a replay", u64::from(wait), REPLAY_MAX, "")?;
        }
        let delays = self.warning.delays(self.setup.lattice, self.setup.seed)?;
        Ok(Course { campaign: self, delays })
    }
}

/// Runs all trials; `progress` is told how many are done. The report does not depend on threads.
///
/// Beside it stands the wall time that the planning of routes took, in nanoseconds: it alone
/// differs from run to run.
///
/// # Errors
/// When the campaign cannot be run.
pub fn run_reroute(
    campaign: &RerouteCampaign,
    progress: &mut dyn FnMut(u64),
) -> Result<(RerouteReport, Summary), Error> {
    let course = campaign.course()?;
    let threads = campaign.setup.threads.max(1);
    let run = |index, sums: &mut Sums| sums.add(index, course.run(index, &mut Story::default()));
    let sums = over_trials(campaign.trials, threads, progress, run);
    let planning = sums.planning_ns.summary();
    Ok((RerouteReport::new(campaign, sums), planning))
}
