//! What came of many sets of faults.

use std::collections::BTreeMap;

use gannet_torus::routes::Means;
use gannet_torus::simulator::FlowControl;
use serde::Serialize;

use super::draw::FaultCounts;
use super::routing::RoutingCampaign;
use super::routing_trial::{Routed, RoutingResult};
use crate::trials::{Failure, First, Tally};

/// Offered traffic in terms of what arrives from which on a trial counts as an overload.
const OVERLOAD: f64 = 1.2;

/// What came of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoutingReport {
    /// The machine, as 4x4x4.
    pub lattice: String,
    /// Virtual channels of a link.
    pub vcs: u8,
    /// Flits that a virtual channel holds.
    pub vc_depth: u16,
    /// Flits of a packet.
    pub packet_flits: u16,
    /// When a packet moves on.
    pub flow_control: FlowControl,
    /// Flits that each node offers in a cycle.
    pub load: f64,
    /// Cycles of the overload.
    pub overload_cycles: u32,
    /// How many nodes and cables were dead.
    pub counts: FaultCounts,
    /// Seed.
    pub seed: u64,
    /// All trials.
    pub total: Figures,
    /// Trials by number of dead nodes and cables together.
    pub by_faults: Vec<Row>,
    /// Trials by number of dead nodes.
    pub by_dead_nodes: Vec<Row>,
    /// Trials that went wrong: must be 0.
    pub failed: u64,
    /// First of them in the order of trials.
    pub failures: Vec<Failure>,
    /// First sets of faults without routes, in the order of trials.
    pub refusals: Vec<Refusal>,
}

/// Trials of one number of faults.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The number.
    pub faults: u32,
    /// What came of them.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A set of faults round which no routes were installed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Refusal {
    /// Number of the trial.
    pub trial: u64,
    /// The reason.
    pub why: String,
}

/// What came of some trials.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Trials.
    pub trials: u64,
    /// Trials routed the long way round broken rings, or without any need of it.
    pub long_way: u64,
    /// Trials routed with early turns.
    pub early_turn: u64,
    /// Trials routed up a tree and down again.
    pub tree: u64,
    /// Trials refused with the reason.
    pub refused: u64,
    /// The same as a part of all.
    pub refused_fraction: f64,
    /// Trials whose machine fell into several parts.
    pub divided: u64,
    /// Links of a route, mean over all pairs.
    pub hops_mean: f64,
    /// Links of the shortest way that the faults leave, mean over the same pairs.
    pub shortest_mean: f64,
    /// Links without faults, mean over the same pairs.
    pub distance_mean: f64,
    /// Links of the longest route, mean over trials.
    pub longest_mean: f64,
    /// Links of the longest route of all.
    pub longest_max: u32,
    /// Flits per node and cycle that were offered and could arrive.
    pub offered: f64,
    /// Flits per node and cycle that arrived, in the second half of the overload.
    pub accepted: f64,
    /// Trials in which at least 1.2 times what arrived was offered. In the others sources had a
    /// packet ready in each cycle all the same, if the load was 1.
    pub overloaded: u64,
    /// Trials that drained, with every packet accounted for.
    pub drained: u64,
    /// Cycles it took, mean.
    pub drain_cycles_mean: f64,
    /// Cycles it took, at most.
    pub drain_cycles_max: u32,
}

impl RoutingReport {
    /// The report of these sums.
    pub(super) fn new(campaign: &RoutingCampaign, sums: RoutingTally) -> Self {
        let RoutingCampaign { setup, load, cycles, counts, .. } = campaign;
        let figures = |sum: &Sum| sum.figures(campaign);
        let rows = |sums: &BTreeMap<u32, Sum>| {
            sums.iter().map(|(&faults, sum)| Row { faults, figures: figures(sum) }).collect()
        };
        let mut total = Sum::default();
        sums.by_faults.values().for_each(|sum| total.merge(sum));
        Self {
            lattice: setup.lattice.to_string(),
            vcs: setup.vcs,
            vc_depth: setup.vc_depth,
            packet_flits: setup.packet_flits,
            flow_control: setup.flow_control,
            load: *load,
            overload_cycles: *cycles,
            counts: *counts,
            seed: setup.seed,
            total: figures(&total),
            by_faults: rows(&sums.by_faults),
            by_dead_nodes: rows(&sums.by_dead_nodes),
            failed: sums.failed,
            failures: sums.failures.into_vec(),
            refusals: sums.refusals.into_vec(),
        }
    }
}

/// RoutingTally over trials, in whole numbers: they do not depend on the order of trials.
#[derive(Debug, Default)]
pub struct RoutingTally {
    trials: u64,
    by_faults: BTreeMap<u32, Sum>,
    by_dead_nodes: BTreeMap<u32, Sum>,
    failed: u64,
    failures: First<Failure>,
    refusals: First<Refusal>,
}

impl RoutingTally {
    /// Adds a trial.
    pub(super) fn add(&mut self, campaign: &RoutingCampaign, trial: u64, result: &RoutingResult) {
        self.trials += 1;
        let faults = result.dead_nodes + result.dead_cables;
        self.by_faults.entry(faults).or_default().add(campaign, result);
        self.by_dead_nodes.entry(result.dead_nodes).or_default().add(campaign, result);
        if let Some(what) = &result.failure {
            self.failed += 1;
            self.failures.keep(Failure { trial, what: what.clone() });
        } else if let Err(why) = &result.routes {
            self.refusals.keep(Refusal { trial, why: why.clone() });
        }
    }
}

impl Tally for RoutingTally {
    fn trials(&self) -> u64 {
        self.trials
    }

    fn merge(&mut self, other: Self) {
        self.trials += other.trials;
        for (mine, theirs) in
            [(&mut self.by_faults, other.by_faults), (&mut self.by_dead_nodes, other.by_dead_nodes)]
        {
            for (faults, sum) in theirs {
                mine.entry(faults).or_default().merge(&sum);
            }
        }
        self.failed += other.failed;
        self.failures.merge(other.failures);
        self.refusals.merge(other.refusals);
    }
}

/// RoutingTally over trials of one number of faults.
#[derive(Debug, Default)]
struct Sum {
    trials: u64,
    means: [u64; 3],
    refused: u64,
    divided: u64,
    reachable: u64,
    pairs: u64,
    hops: u64,
    shortest: u64,
    distance: u64,
    longest: u64,
    longest_max: u32,
    flits: u64,
    overloaded: u64,
    drained: u64,
    drain_cycles: u64,
    drain_cycles_max: u32,
}

impl Sum {
    fn add(&mut self, campaign: &RoutingCampaign, result: &RoutingResult) {
        self.trials += 1;
        match &result.routes {
            Ok(routed) => self.add_routed(campaign, routed),
            Err(_) => self.refused += u64::from(result.failure.is_none()),
        }
    }

    fn add_routed(&mut self, campaign: &RoutingCampaign, routed: &Routed) {
        let means = match routed.means {
            Means::LongWay => 0,
            Means::EarlyTurn => 1,
            Means::Tree => 2,
        };
        let alone = Self {
            means: std::array::from_fn(|it| u64::from(it == means)),
            divided: u64::from(routed.parts > 1),
            reachable: routed.reachable,
            pairs: routed.pairs,
            hops: routed.hops,
            shortest: routed.shortest,
            distance: routed.distance,
            longest: u64::from(routed.longest),
            longest_max: routed.longest,
            flits: routed.flits,
            drained: 1,
            drain_cycles: u64::from(routed.drain_cycles),
            drain_cycles_max: routed.drain_cycles,
            ..Self::default()
        };
        self.overloaded +=
            u64::from(alone.offered(campaign) >= OVERLOAD * alone.accepted(campaign));
        self.merge(&alone);
    }

    fn merge(&mut self, other: &Self) {
        self.trials += other.trials;
        self.means.iter_mut().zip(other.means).for_each(|(mine, theirs)| *mine += theirs);
        self.refused += other.refused;
        self.divided += other.divided;
        self.reachable += other.reachable;
        self.pairs += other.pairs;
        self.hops += other.hops;
        self.shortest += other.shortest;
        self.distance += other.distance;
        self.longest += other.longest;
        self.longest_max = self.longest_max.max(other.longest_max);
        self.flits += other.flits;
        self.overloaded += other.overloaded;
        self.drained += other.drained;
        self.drain_cycles += other.drain_cycles;
        self.drain_cycles_max = self.drain_cycles_max.max(other.drain_cycles_max);
    }

    /// Flits per node and cycle that were offered and could arrive: each node sends to any.
    fn offered(&self, campaign: &RoutingCampaign) -> f64 {
        let nodes = campaign.setup.lattice.nodes() as f64;
        campaign.load * ratio(self.reachable, self.drained) / (nodes * nodes)
    }

    /// Flits per node and cycle that arrived.
    fn accepted(&self, campaign: &RoutingCampaign) -> f64 {
        let cycles = campaign.cycles - campaign.cycles / 2;
        let nodes = campaign.setup.lattice.nodes() as f64;
        ratio(self.flits, self.drained) / f64::from(cycles) / nodes
    }

    fn figures(&self, campaign: &RoutingCampaign) -> Figures {
        let [long_way, early_turn, tree] = self.means;
        Figures {
            trials: self.trials,
            long_way,
            early_turn,
            tree,
            refused: self.refused,
            refused_fraction: ratio(self.refused, self.trials),
            divided: self.divided,
            hops_mean: ratio(self.hops, self.pairs),
            shortest_mean: ratio(self.shortest, self.pairs),
            distance_mean: ratio(self.distance, self.pairs),
            longest_mean: ratio(self.longest, self.drained),
            longest_max: self.longest_max,
            offered: self.offered(campaign),
            accepted: self.accepted(campaign),
            overloaded: self.overloaded,
            drained: self.drained,
            drain_cycles_mean: ratio(self.drain_cycles, self.drained),
            drain_cycles_max: self.drain_cycles_max,
        }
    }
}

/// `a / b`, and 0 of nothing.
fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}
