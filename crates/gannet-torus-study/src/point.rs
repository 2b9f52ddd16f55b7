//! What was measured at one load.

use gannet_lattice::{Direction, LINKS, Lattice, Node};
use gannet_torus::simulator::{Pattern, Report, Totals};
use serde::Serialize;

use super::limits::Limits;
use super::machine::Machine;

/// Part of the offered load that a network which keeps up may miss, as in BookSim.
const MISSING_MOST: f64 = 0.02;
/// The same in standard deviations of what sources make in the window, where that is more.
const DEVIATIONS: f64 = 3.0;
/// Mean latencies after which the last packets of a network that keeps up have arrived.
const LONG_DRAIN: f64 = 10.0;
/// Links that are listed as the busiest.
const BUSIEST: usize = 10;

/// What was measured at one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Flits per node and cycle that sources make.
    pub load: f64,
    /// Those of them whose destination can be reached.
    pub offered: f64,
    /// Flits per node and cycle that arrived in whole packets; of a whole trace, over all cycles until its last
    /// packet arrived.
    pub accepted: f64,
    /// Flits per cycle of the node that got the least into the network; absent where some cannot
    /// send.
    pub accepted_least: Option<f64>,
    /// Whether the network fell behind what was offered: latencies then tell how long the
    /// simulation lasted, and little else. A trace is saturated where packets are stuck.
    pub saturated: bool,
    /// Cycles from the making of a packet to the arrival of its last flit; absent where none of the
    /// packets that were followed has arrived.
    pub latency_mean_cycles: Option<f64>,
    /// Median of the same.
    pub latency_p50_cycles: Option<u64>,
    /// 99th percentile of the same.
    pub latency_p99_cycles: Option<u64>,
    /// 99.9th percentile of the same.
    pub latency_p999_cycles: Option<u64>,
    /// Largest of the same.
    pub latency_max_cycles: Option<u64>,
    /// Packets that were followed.
    pub packets: u64,
    /// Those of them that had not arrived when the simulation ended.
    pub unfinished: u64,
    /// Flits per node and cycle that faults of the script took in the window: lost and not sent
    /// again, or refused for want of a way. They do not make the network saturated.
    pub taken_by_faults: f64,
    /// Packets lost to faults, over all cycles.
    pub lost: u64,
    /// Lost packets that were sent again, over all cycles.
    pub replayed: u64,
    /// Flits per cycle on a link, mean over all links.
    pub link_load_mean: f64,
    /// Flits per cycle on the busiest link.
    pub link_load_max: f64,
    /// Whether latency and throughput had settled before the window; absent where the length of the
    /// warm-up was given.
    pub steady: Option<bool>,
    /// Cycles before the window.
    pub warm_up_cycles: u32,
    /// Cycles of the window.
    pub window_cycles: u32,
    /// Cycles in all.
    pub cycles: u32,
    /// Flits that passed a router, over all cycles.
    pub flit_visits: u64,
    /// Seconds that the simulation took.
    pub wall_s: f64,
    /// Simulated cycles per second.
    pub cycles_per_s: f64,
    /// Flits passing a router per second.
    pub flit_visits_per_s: f64,
    /// Bytes of memory per node.
    pub bytes_per_node: usize,
    /// By node and link: flits within the window.
    #[serde(skip)]
    pub links: Vec<[u32; LINKS]>,
    /// Flits per node and cycle that had to arrive.
    #[serde(skip)]
    needed: f64,
}

/// What became of packets by the end of a simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    /// Of all packets.
    pub totals: Totals,
    /// Lost packets that wait to be sent again.
    pub waiting_again: u64,
}

/// What a simulation takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Seconds.
    pub wall_s: f64,
    /// Bytes of memory per node.
    pub bytes_per_node: usize,
}

impl Point {
    /// The point of a report, of a machine with these limits, at this load and with so many cycles
    /// to wait for the packets of the window.
    pub(super) fn new(
        report: Report,
        (load, drain): (f64, u32),
        fate: Fate,
        cost: Cost,
        limits: &Limits,
        machine: &Machine,
    ) -> Self {
        let offered = load * limits.reachable;
        let taken = taken_by_faults(&report, load - offered, machine);
        let needed = needed(&report, offered, machine) - taken;
        // Packets that are just under way at the end of a short drain say nothing, nor do those
        // that faults keep from arriving.
        let is_long = f64::from(drain) > LONG_DRAIN * report.latency.mean;
        let is_stuck = report.unfinished > 0 && is_long && fate.waiting_again == 0;
        let saturated = report.accepted < needed || is_stuck;
        let some = report.latency.count > 0;
        Self {
            load,
            offered,
            accepted: report.accepted,
            accepted_least: machine.faults.is_empty().then_some(report.accepted_least),
            saturated,
            latency_mean_cycles: some.then_some(report.latency.mean),
            latency_p50_cycles: some.then_some(report.latency.p50),
            latency_p99_cycles: some.then_some(report.latency.p99),
            latency_p999_cycles: some.then_some(report.latency.p999),
            latency_max_cycles: some.then_some(report.latency.max),
            packets: report.packets,
            unfinished: report.unfinished,
            taken_by_faults: taken,
            lost: fate.totals.lost,
            replayed: fate.totals.replayed,
            link_load_mean: report.link_load.mean,
            link_load_max: report.link_load.max,
            steady: report.steady,
            warm_up_cycles: report.warm_up_cycles,
            window_cycles: report.window_cycles,
            cycles: report.cycles,
            flit_visits: report.flit_visits,
            wall_s: cost.wall_s,
            cycles_per_s: f64::from(report.cycles) / cost.wall_s,
            flit_visits_per_s: report.flit_visits as f64 / cost.wall_s,
            bytes_per_node: cost.bytes_per_node,
            links: report.links,
            needed,
        }
    }

    /// Whether the network takes what it is offered, but for 2 % or what chance may make of it in a
    /// short window.
    pub fn keeps_up(&self) -> bool {
        self.accepted >= self.needed
    }

    /// How the load spreads over the links.
    pub fn link_table(&self, lattice: Lattice) -> LinkTable {
        let cycles = f64::from(self.window_cycles.max(1));
        let mut links: Vec<LoadedLink> = Vec::with_capacity(self.links.len() * LINKS);
        for (node, flits) in lattice.all().zip(&self.links) {
            for direction in Direction::ALL.into_iter().filter(|&d| lattice.has(d)) {
                let load = f64::from(flits[direction.index()]) / cycles;
                links.push(LoadedLink::new(lattice, node, direction, load));
            }
        }
        let directions = Direction::ALL.into_iter().filter(|&d| lattice.has(d)).map(|direction| {
            let loads = links.iter().filter(|link| link.direction == direction.name());
            let (mut sum, mut max, mut count) = (0.0, 0.0_f64, 0_usize);
            for link in loads {
                (sum, max, count) = (sum + link.load, max.max(link.load), count + 1);
            }
            DirectionLoad { direction: direction.name(), mean: sum / count.max(1) as f64, max }
        });
        let directions = directions.collect();
        let mut busiest = links.clone();
        busiest.sort_by(|a, b| b.load.total_cmp(&a.load));
        busiest.truncate(BUSIEST);
        let (mean, max) = (self.link_load_mean, self.link_load_max);
        LinkTable { mean, max, directions, busiest, links }
    }
}

/// Flits per node and cycle that faults of the script took in a window, beside the `refused` ones
/// that the faults from the start cost.
fn taken_by_faults(report: &Report, refused: f64, machine: &Machine) -> f64 {
    if machine.script.is_empty() {
        return 0.0;
    }
    report.lost + (report.refused - refused).max(0.0)
}

/// Flits per node and cycle that a network which keeps up accepts at least in a window.
fn needed(report: &Report, offered: f64, machine: &Machine) -> f64 {
    if matches!(machine.pattern, Pattern::Trace(_)) {
        return 0.0;
    }
    let flits = f64::from(machine.setup.packet_flits);
    let unit =
        flits / machine.setup.lattice.nodes() as f64 / f64::from(report.window_cycles.max(1));
    // Bursts, and sources that die, may leave the window with less than the load.
    let is_all = report.unfinished == 0;
    let made = if is_all { report.packets as f64 * unit } else { offered };
    let offered = offered.min(made);
    let chance = DEVIATIONS * (offered * unit).sqrt();
    offered - chance.max(MISSING_MOST * offered)
}

/// Flits per cycle on links.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkTable {
    /// Mean over all links.
    pub mean: f64,
    /// The busiest link.
    pub max: f64,
    /// By direction.
    pub directions: Vec<DirectionLoad>,
    /// The busiest links, from the top.
    pub busiest: Vec<LoadedLink>,
    /// All links, by node and direction.
    pub links: Vec<LoadedLink>,
}

/// Flits per cycle on the links of a direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionLoad {
    /// `X+` to `Z-`.
    pub direction: &'static str,
    /// Mean over its links.
    pub mean: f64,
    /// The busiest of them.
    pub max: f64,
}

/// Flits per cycle on one link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadedLink {
    /// The node that sends.
    pub node: Node,
    /// Its coordinates.
    pub at: [u16; 3],
    /// The link: `X+` to `Z-`.
    pub direction: &'static str,
    /// Flits per cycle.
    pub load: f64,
}

impl LoadedLink {
    fn new(lattice: Lattice, node: Node, direction: Direction, load: f64) -> Self {
        Self { node, at: lattice.coordinates(node), direction: direction.name(), load }
    }
}
