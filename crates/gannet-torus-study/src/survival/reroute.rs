//! Faults against a machine under load that finds other routes.

mod trial;

use gannet_lattice::Lattice;
use gannet_measure::histogram::{Histogram, Summary};
use gannet_torus::routes::Means;
use gannet_torus::simulator::{Setup, Totals};
use serde::Serialize;

pub use trial::{Ran, RerouteResult};

use super::series::{Bins, Series};
use super::warning::{Delays, Warning};
use super::{Error, FaultCounts, Refusal, check, check_cycles};
use crate::trials::{Failure, Trace, Trials, keep};

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

/// What came of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RerouteReport {
    /// The machine, as 4x4x4.
    pub lattice: String,
    /// Virtual channels of a link.
    pub vcs: u8,
    /// Flits that a virtual channel holds.
    pub vc_depth: u16,
    /// Flits of a packet.
    pub packet_flits: u16,
    /// Flits that each node offered in a cycle.
    pub load: f64,
    /// How many nodes and cables failed.
    pub counts: FaultCounts,
    /// When the master knew.
    pub warning: Warning,
    /// Cycles after which a lost packet was sent again, if it was.
    pub replay_after_cycles: Option<u32>,
    /// Number of trials.
    pub trials: u64,
    /// Seed.
    pub seed: u64,
    /// Trials routed the long way round broken rings, or without any need of it.
    pub long_way: u64,
    /// Trials routed with early turns.
    pub early_turn: u64,
    /// Trials routed up a tree and down again.
    pub tree: u64,
    /// Trials in which new routes were refused.
    pub refused: u64,
    /// Cycles from the fault until the master knew, over trials.
    pub aware_cycles: Summary,
    /// Cycles from then until new routes were in use: sources wait, the network drains.
    pub drain_cycles: Summary,
    /// Cycles from then until no lost packet waited any more to be sent again.
    pub replay_cycles: Summary,
    /// Losses of a trial, over trials.
    pub lost_packets: Summary,
    /// Losses per 1000 cycles between fault and new routes.
    pub lost_per_kilocycle: f64,
    /// What became of all packets.
    pub packets: Totals,
    /// Packets that neither arrived nor were refused: their source died with them, or nothing is
    /// sent again.
    pub gone: u64,
    /// Cycles from the making of a packet to the arrival of its last flit, over packets that arrived
    /// before the fault. Waits at the source count, and so do losses before the packet arrived.
    pub latency_before: Summary,
    /// The same from the fault until new routes were in use.
    pub latency_during: Summary,
    /// The same from then on.
    pub latency_after: Summary,
    /// Throughput, losses and latency over time.
    pub series: Series,
    /// Trials that went wrong: must be 0.
    pub failed: u64,
    /// First of them in the order of trials.
    pub failures: Vec<Failure>,
    /// First refusals of new routes, in the order of trials.
    pub refusals: Vec<Refusal>,
}

/// What the summaries of a report are made from.
#[derive(Debug, Default)]
pub struct Samples {
    aware: Histogram,
    drain: Histogram,
    replay: Histogram,
    lost: Histogram,
    planning_ns: Histogram,
    latency: [Histogram; 3],
    bins: Bins,
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
    campaign: RerouteCampaign,
    delays: Delays,
}

impl RerouteTrials {
    /// The campaign.
    pub fn campaign(&self) -> &RerouteCampaign {
        &self.campaign
    }
}

impl Trials for RerouteTrials {
    type Bench = ();
    type Outcome = Ran;
    type Sums = (RerouteReport, Samples);
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

    fn run(&self, index: u64, (): &mut (), trace: &mut Trace) -> Ran {
        trial::run(self, index, trace)
    }

    fn none(&self) -> Self::Sums {
        let RerouteCampaign { setup, load, counts, warning, .. } = &self.campaign;
        let none = Summary::default();
        let report = RerouteReport {
            lattice: setup.lattice.to_string(),
            vcs: setup.vcs,
            vc_depth: setup.vc_depth,
            packet_flits: setup.packet_flits,
            load: *load,
            counts: *counts,
            warning: *warning,
            replay_after_cycles: setup.replay_after,
            trials: 0,
            seed: setup.seed,
            long_way: 0,
            early_turn: 0,
            tree: 0,
            refused: 0,
            aware_cycles: none,
            drain_cycles: none,
            replay_cycles: none,
            lost_packets: none,
            lost_per_kilocycle: 0.0,
            packets: Totals::default(),
            gone: 0,
            latency_before: none,
            latency_during: none,
            latency_after: none,
            series: Series::default(),
            failed: 0,
            failures: Vec::new(),
            refusals: Vec::new(),
        };
        (report, Samples::default())
    }

    fn add(&self, (report, sums): &mut Self::Sums, trial: u64, ran: Ran) {
        let Ran { result, latency, bins, planning_ns } = ran;
        report.trials += 1;
        match result.means {
            Some(Means::LongWay) => report.long_way += 1,
            Some(Means::EarlyTurn) => report.early_turn += 1,
            Some(Means::Tree) => report.tree += 1,
            None => {}
        }
        sums.aware.record(u64::from(result.aware_cycles));
        sums.planning_ns.record(planning_ns);
        sums.lost.record(result.totals.lost);
        if result.means.is_some() {
            sums.drain.record(u64::from(result.drain_cycles));
            sums.replay.record(u64::from(result.replay_cycles));
        }
        let (all, more) = (&mut report.packets, &result.totals);
        all.made += more.made;
        all.delivered += more.delivered;
        all.refused += more.refused;
        all.lost += more.lost;
        all.replayed += more.replayed;
        report.gone += result.gone;
        sums.latency.iter().zip(&latency).for_each(|(mine, theirs)| mine.absorb(theirs));
        sums.bins.merge(&bins);
        if let Some(why) = result.refused {
            report.refused += 1;
            keep(&mut report.refusals, Refusal { trial, why });
        }
        if let Some(what) = result.failure {
            report.failed += 1;
            keep(&mut report.failures, Failure { trial, what });
        }
    }

    fn report(&self, (report, sums): Self::Sums) -> (RerouteReport, Summary) {
        let Setup { packet_flits, lattice, .. } = self.campaign.setup;
        let [latency_before, latency_during, latency_after] =
            sums.latency.each_ref().map(Histogram::summary);
        let outage = (sums.aware.sum() + sums.drain.sum()).max(1);
        let report = RerouteReport {
            aware_cycles: sums.aware.summary(),
            drain_cycles: sums.drain.summary(),
            replay_cycles: sums.replay.summary(),
            lost_packets: sums.lost.summary(),
            lost_per_kilocycle: 1000.0 * sums.lost.sum() as f64 / outage as f64,
            latency_before,
            latency_during,
            latency_after,
            series: sums.bins.series(packet_flits, lattice.nodes()),
            ..report
        };
        (report, sums.planning_ns.summary())
    }
}
