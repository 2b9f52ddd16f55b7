//! Sets of faults against the planner of routes.

mod trial;

use std::collections::BTreeMap;

use gannet_lattice::Lattice;
use gannet_torus::routes::Means;
use gannet_torus::simulator::{FlowControl, Setup};
use serde::Serialize;

pub use trial::{Routed, RoutingResult};

use super::{Error, FaultCounts, Refusal, check, check_cycles};
use crate::trials::{Failure, Trace, Trials, keep};

/// Longest overload, in cycles.
const OVERLOAD_MAX: u32 = 1_000_000;
/// Offered traffic in terms of what arrives from which on a trial counts as an overload.
const OVERLOAD: f64 = 1.2;

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

/// What came of some trials, in whole numbers, from which the means are made.
#[derive(Debug, Default)]
struct Sum {
    /// All but the means.
    figures: Figures,
    reachable: u64,
    pairs: u64,
    hops: u64,
    shortest: u64,
    distance: u64,
    longest: u64,
    flits: u64,
    drain_cycles: u64,
}

/// A report without figures, and the sums that these are made from.
#[derive(Debug)]
pub struct Sums {
    report: RoutingReport,
    total: Sum,
    by_faults: BTreeMap<u32, Sum>,
    by_dead_nodes: BTreeMap<u32, Sum>,
}

impl RoutingCampaign {
    /// A campaign of 1000 trials on packets of one flit in channels of one, at a load that keeps
    /// every source busy, with turns. That is the traffic which finds a cycle soonest where there is
    /// one: on routes of one class it gets stuck within 500 cycles in most cases, while packets of
    /// many flits or deeper channels may pass for thousands.
    pub fn new(lattice: Lattice) -> Self {
        Self {
            setup: Setup { packet_flits: 1, vc_depth: 1, ..Setup::new(lattice) },
            load: 1.0,
            cycles: 500,
            counts: FaultCounts { nodes: (0, 8), cables: (0, 16) },
            trials: 1000,
        }
    }

    /// Checks that the campaign can be run.
    ///
    /// # Errors
    /// When a value is outside its range, naming it and what it may be.
    pub fn check(&self) -> Result<(), Error> {
        check(&self.setup, self.load, &self.counts, self.trials)?;
        check_cycles("the overload", u64::from(self.cycles), OVERLOAD_MAX, "")
    }

    /// Flits per node and cycle that are offered and can arrive where a node reaches so many pairs:
    /// each sends to any.
    fn offered(&self, reachable: f64) -> f64 {
        let nodes = self.setup.lattice.nodes() as f64;
        self.load * reachable / (nodes * nodes)
    }

    /// Flits per node and cycle, of those that arrived in the second half of the overload.
    fn accepted(&self, flits: f64) -> f64 {
        let cycles = self.cycles - self.cycles / 2;
        flits / f64::from(cycles) / self.setup.lattice.nodes() as f64
    }
}

impl Trials for RoutingCampaign {
    type Bench = ();
    type Outcome = RoutingResult;
    type Sums = Sums;
    type Report = RoutingReport;

    fn count(&self) -> u64 {
        self.trials
    }

    fn threads(&self) -> usize {
        self.setup.threads
    }

    fn bench(&self) {}

    fn run(&self, index: u64, (): &mut (), trace: &mut Trace) -> RoutingResult {
        trial::run(self, index, trace)
    }

    fn none(&self) -> Sums {
        let Setup { lattice, vcs, vc_depth, packet_flits, flow_control, seed, .. } = self.setup;
        let report = RoutingReport {
            lattice: lattice.to_string(),
            vcs,
            vc_depth,
            packet_flits,
            flow_control,
            load: self.load,
            overload_cycles: self.cycles,
            counts: self.counts,
            seed,
            total: Figures::default(),
            by_faults: Vec::new(),
            by_dead_nodes: Vec::new(),
            failed: 0,
            failures: Vec::new(),
            refusals: Vec::new(),
        };
        let (by_faults, by_dead_nodes) = Default::default();
        Sums { report, total: Sum::default(), by_faults, by_dead_nodes }
    }

    fn add(&self, sums: &mut Sums, trial: u64, result: RoutingResult) {
        let RoutingResult { dead_nodes, dead_cables, .. } = result;
        let by_faults = sums.by_faults.entry(dead_nodes + dead_cables).or_default();
        let by_dead_nodes = sums.by_dead_nodes.entry(dead_nodes).or_default();
        for sum in [&mut sums.total, by_faults, by_dead_nodes] {
            sum.add(self, &result);
        }
        if let Some(what) = result.failure {
            sums.report.failed += 1;
            keep(&mut sums.report.failures, Failure { trial, what });
        } else if let Err(why) = result.routes {
            keep(&mut sums.report.refusals, Refusal { trial, why });
        }
    }

    fn report(&self, sums: Sums) -> RoutingReport {
        let rows = |sums: BTreeMap<u32, Sum>| {
            let row = |(faults, sum): (u32, Sum)| Row { faults, figures: sum.figures(self) };
            sums.into_iter().map(row).collect()
        };
        RoutingReport {
            total: sums.total.figures(self),
            by_faults: rows(sums.by_faults),
            by_dead_nodes: rows(sums.by_dead_nodes),
            ..sums.report
        }
    }
}

impl Sum {
    fn add(&mut self, campaign: &RoutingCampaign, result: &RoutingResult) {
        let figures = &mut self.figures;
        figures.trials += 1;
        let Routed { means, proof, flits, drain_cycles } = match &result.routes {
            Ok(routed) => routed,
            Err(_) => {
                figures.refused += u64::from(result.failure.is_none());
                return;
            }
        };
        match means {
            Means::LongWay => figures.long_way += 1,
            Means::EarlyTurn => figures.early_turn += 1,
            Means::Tree => figures.tree += 1,
        }
        let offered = campaign.offered(proof.reachable as f64);
        let is_overload = offered >= OVERLOAD * campaign.accepted(*flits as f64);
        figures.divided += u64::from(proof.parts > 1);
        figures.longest_max = figures.longest_max.max(proof.longest);
        figures.overloaded += u64::from(is_overload);
        figures.drained += 1;
        figures.drain_cycles_max = figures.drain_cycles_max.max(*drain_cycles);
        self.reachable += proof.reachable;
        self.pairs += proof.pairs;
        self.hops += proof.hops;
        self.shortest += proof.shortest;
        self.distance += proof.distance;
        self.longest += u64::from(proof.longest);
        self.flits += flits;
        self.drain_cycles += u64::from(*drain_cycles);
    }

    fn figures(self, campaign: &RoutingCampaign) -> Figures {
        let ratio = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
        let Figures { trials, refused, drained, .. } = self.figures;
        Figures {
            refused_fraction: ratio(refused, trials),
            hops_mean: ratio(self.hops, self.pairs),
            shortest_mean: ratio(self.shortest, self.pairs),
            distance_mean: ratio(self.distance, self.pairs),
            longest_mean: ratio(self.longest, drained),
            offered: campaign.offered(ratio(self.reachable, drained)),
            accepted: campaign.accepted(ratio(self.flits, drained)),
            drain_cycles_mean: ratio(self.drain_cycles, drained),
            ..self.figures
        }
    }
}
