//! What came of many faults in machines under load.

use gannet_measure::histogram::{Histogram, Summary};
use gannet_torus::routes::Means;
use gannet_torus::simulator::Totals;
use serde::Serialize;

use super::draw::FaultCounts;
use super::reroute::RerouteCampaign;
use super::reroute_trial::Ran;
use super::routing_report::Refusal;
use super::series::{Bins, Series};
use super::warning::Warning;
use crate::trials::{Failure, First, Tally};

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

impl RerouteReport {
    pub(super) fn new(campaign: &RerouteCampaign, sums: RerouteTally) -> Self {
        let RerouteCampaign { setup, load, counts, warning, .. } = campaign;
        let [latency_before, latency_during, latency_after] =
            sums.latency.each_ref().map(Histogram::summary);
        let [long_way, early_turn, tree] = sums.means;
        let outage = (sums.aware.sum() + sums.drain.sum()).max(1);
        Self {
            lattice: setup.lattice.to_string(),
            vcs: setup.vcs,
            vc_depth: setup.vc_depth,
            packet_flits: setup.packet_flits,
            load: *load,
            counts: *counts,
            warning: *warning,
            replay_after_cycles: setup.replay_after,
            trials: sums.trials,
            seed: setup.seed,
            long_way,
            early_turn,
            tree,
            refused: sums.refused,
            aware_cycles: sums.aware.summary(),
            drain_cycles: sums.drain.summary(),
            replay_cycles: sums.replay.summary(),
            lost_packets: sums.lost.summary(),
            lost_per_kilocycle: 1000.0 * sums.lost.sum() as f64 / outage as f64,
            packets: sums.packets,
            gone: sums.gone,
            latency_before,
            latency_during,
            latency_after,
            series: sums.bins.series(setup.packet_flits, setup.lattice.nodes()),
            failed: sums.failed,
            failures: sums.failures.into_vec(),
            refusals: sums.refusals.into_vec(),
        }
    }
}

/// RerouteTally over trials, in whole numbers: they do not depend on the order of trials.
#[derive(Debug, Default)]
pub struct RerouteTally {
    trials: u64,
    means: [u64; 3],
    refused: u64,
    aware: Histogram,
    drain: Histogram,
    replay: Histogram,
    lost: Histogram,
    pub(super) planning_ns: Histogram,
    packets: Totals,
    gone: u64,
    latency: [Histogram; 3],
    bins: Bins,
    failed: u64,
    failures: First<Failure>,
    refusals: First<Refusal>,
}

impl RerouteTally {
    /// Adds a trial.
    pub(super) fn add(&mut self, trial: u64, ran: Ran) {
        self.trials += 1;
        let Ran { result, latency, bins, planning_ns } = ran;
        match result.means {
            Some(Means::LongWay) => self.means[0] += 1,
            Some(Means::EarlyTurn) => self.means[1] += 1,
            Some(Means::Tree) => self.means[2] += 1,
            None => {}
        }
        self.aware.record(u64::from(result.aware_cycles));
        self.planning_ns.record(planning_ns);
        self.lost.record(result.totals.lost);
        if result.means.is_some() {
            self.drain.record(u64::from(result.drain_cycles));
            self.replay.record(u64::from(result.replay_cycles));
        }
        self.add_packets(&result.totals);
        self.gone += result.gone;
        self.latency.iter().zip(&latency).for_each(|(mine, theirs)| mine.absorb(theirs));
        self.bins.merge(&bins);
        if let Some(why) = result.refused {
            self.refused += 1;
            self.refusals.keep(Refusal { trial, why });
        }
        if let Some(what) = result.failure {
            self.failed += 1;
            self.failures.keep(Failure { trial, what });
        }
    }

    fn add_packets(&mut self, more: &Totals) {
        let all = &mut self.packets;
        all.made += more.made;
        all.delivered += more.delivered;
        all.refused += more.refused;
        all.lost += more.lost;
        all.replayed += more.replayed;
    }
}

impl Tally for RerouteTally {
    fn trials(&self) -> u64 {
        self.trials
    }

    fn merge(&mut self, other: Self) {
        self.trials += other.trials;
        self.means.iter_mut().zip(other.means).for_each(|(mine, theirs)| *mine += theirs);
        self.refused += other.refused;
        self.aware.absorb(&other.aware);
        self.drain.absorb(&other.drain);
        self.replay.absorb(&other.replay);
        self.lost.absorb(&other.lost);
        self.planning_ns.absorb(&other.planning_ns);
        self.add_packets(&other.packets);
        self.gone += other.gone;
        self.latency.iter().zip(&other.latency).for_each(|(mine, theirs)| mine.absorb(theirs));
        if !other.bins.is_empty() {
            self.bins.merge(&other.bins);
        }
        self.failed += other.failed;
        self.failures.merge(other.failures);
        self.refusals.merge(other.refusals);
    }
}
