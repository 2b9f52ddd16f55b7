//! A machine that runs beside one that is simulated: the same traffic over the same routes, at one load after the other.
//!
//! The nodes of the first are threads, joined by UDP over loopback. Processors of one computer would bound what its cables carry
//! long before these compete, so each cable has a rate of its own, far below, and so has the bus of each engine:
//! a link carries a flit a cycle, and a node takes and gives one, as in the simulator. What a hop costs is measured at the least
//! load and becomes the delay of the simulated routers.

mod node;
mod paced;

use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use gannet_lattice::{Direction, Lattice, Node};
use gannet_rdma::Failure;
use gannet_torus::Routes;
use gannet_torus::node::{Configuration, ConfigurationError};
use gannet_torus::router::Arbitration;
use gannet_torus::simulator::{FlowControl, Pattern, Setup, Traffic};
use gannet_torus_live::Patience;
use gannet_torus_study::{Experiment, Machine, Timing, pattern_name};
use gannet_wire::apelink::frame::HEAD_LEN;
use gannet_wire::apelink::{FRAMED_LEN_MAX, WORD_LEN};
use gannet_wire::rdma::HEADER_LEN;
use serde::Serialize;

use crate::cores::Cores;
use crate::path::Path;
use node::{Latencies, RunningNode, Taken};
use paced::PacedPort;

/// Flits of a packet.
const PACKET_FLITS: u16 = 16;
/// Packets for which a channel of a link has room.
const CHANNEL_PACKETS: usize = 8;
/// Load at which a hop is measured.
const LEAST_LOAD: f64 = 0.05;
/// The part of the measured time for which the machine runs before.
const WARM_UP: f64 = 0.5;
/// Most cycles a hop of the simulator takes.
const HOP_CYCLES_MAX: u32 = 200;
/// The part of the processors above which nodes wait for each other instead of for cables.
pub const BUSY_MOST: f64 = 0.8;
/// Most nodes.
pub const NODES_MAX: usize = 64;
/// Longest frame of a cable that one packet fills, bytes.
pub const FRAME_BYTES_MAX: usize = HEAD_LEN + FRAMED_LEN_MAX + 2 * WORD_LEN;
/// Shortest one, bytes.
pub const FRAME_BYTES_MIN: usize = 576;

/// What is to run.
#[derive(Clone, Debug)]
pub struct TorusPlan {
    /// The shape, of at most [`NODES_MAX`] nodes.
    pub lattice: Lattice,
    /// Who sends to whom.
    pub pattern: Pattern,
    /// Which of the competing packets goes first.
    pub arbitration: Arbitration,
    /// What a cable carries each way, bit/s.
    pub bit_per_s: f64,
    /// Longest frame, [`FRAME_BYTES_MIN`] to [`FRAME_BYTES_MAX`] bytes.
    pub frame_bytes: usize,
    /// For how long each load is measured.
    pub time: Duration,
    /// What draws the packets.
    pub seed: u64,
}

/// What was measured at one load. Throughput is in flits per node and cycle, latency in cycles from the making of a packet to its
/// arrival.
#[derive(Clone, Debug, Serialize)]
pub struct TorusPoint {
    /// What nodes make.
    pub load: f64,
    /// What has arrived in the machine that runs.
    pub accepted: f64,
    /// The same of the one that is simulated.
    pub simulated: f64,
    /// Mean latency of what arrived in the machine that runs; absent where nothing did.
    pub latency_cycles: Option<f64>,
    /// The same of the one that is simulated.
    pub simulated_latency_cycles: Option<f64>,
    /// Packets that an engine sent again.
    pub resent: u64,
    /// The part of the processors that the nodes took.
    pub busy: f64,
}

/// A machine, running and simulated.
#[derive(Clone, Debug, Serialize)]
pub struct TorusReport {
    /// The shape.
    #[serde(serialize_with = "as_text")]
    pub lattice: Lattice,
    /// Name of the pattern.
    pub pattern: &'static str,
    /// Which of the competing packets goes first.
    pub arbitration: Arbitration,
    /// Flits of a packet.
    pub packet_flits: u16,
    /// Virtual channels of a link.
    pub virtual_channels: usize,
    /// Flits that a channel has room for.
    pub channel_flits: u16,
    /// Time of a cycle, in which a cable carries a flit, ns.
    pub cycle_ns: f64,
    /// What a hop takes, cycles, as it was measured.
    pub hop_cycles: f64,
    /// Processors that there were.
    pub processors: usize,
    /// By load.
    pub points: Vec<TorusPoint>,
}

impl TorusReport {
    /// The most that was accepted, of the machine that runs and of the one that is simulated; none where that is nothing.
    pub fn peaks(&self) -> Option<[f64; 2]> {
        let peak =
            |value: fn(&TorusPoint) -> f64| self.points.iter().map(value).fold(0.0, f64::max);
        let peaks = [peak(|point| point.accepted), peak(|point| point.simulated)];
        peaks.iter().all(|&peak| peak > 0.0).then_some(peaks)
    }
}

fn as_text<S: serde::Serializer>(lattice: &Lattice, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(lattice)
}

/// Why a machine cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No sockets, or one is broken.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// No node can be made so.
    #[error(transparent)]
    Node(#[from] ConfigurationError),
    /// The machine cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] gannet_torus_study::Error),
    /// Links do not come up.
    #[error("a link did not come up: does the loopback interface pass UDP?")]
    Down,
    /// A PUT was not written.
    #[error("a PUT failed: {0}; the processors may be too slow for the rate of the cables")]
    Failed(Failure),
    /// Hops take longer than the simulator allows.
    #[error(
        "a hop takes {0:.0} cycles, and the simulator allows {HOP_CYCLES_MAX}: choose a lower rate, in which a cycle is longer"
    )]
    SlowHops(f64),
    /// Nothing came.
    #[error("no packet came over a link: measure for longer")]
    Nothing,
}

/// Times of a measurement, in cycles from its start.
struct Schedule {
    origin: Instant,
    cycle_ns: f64,
    /// The window.
    begin: f64,
    end: f64,
}

impl Schedule {
    fn cycle(&self) -> f64 {
        self.origin.elapsed().as_nanos() as f64 / self.cycle_ns
    }

    fn time_of(&self, cycles: f64) -> Duration {
        // Packets that are never made are very far away.
        Duration::from_nanos((cycles * self.cycle_ns) as u64)
    }
}

/// A machine that runs at one load after the other, and its simulation.
#[derive(Clone, Debug)]
pub struct Torus {
    plan: TorusPlan,
    routes: Arc<Routes>,
    simulation: Experiment,
    report: TorusReport,
}

impl Torus {
    /// Measures what a hop takes, and prepares the simulation.
    ///
    /// # Errors
    /// When there are no sockets, nothing comes over links, or the machine cannot be simulated.
    ///
    /// # Panics
    /// When the plan is not within its bounds.
    pub fn new(plan: TorusPlan) -> Result<Self, Error> {
        assert!((2..=NODES_MAX).contains(&plan.lattice.nodes()), "{}", plan.lattice);
        assert!((FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&plan.frame_bytes));
        let routes = Arc::new(Routes::dimension_order(plan.lattice));
        let configuration = configuration(&plan, Node(0));
        let packet = packet_bytes(&configuration);
        let flit = packet as f64 / f64::from(PACKET_FLITS);
        let words = configuration.link.fifo_words * WORD_LEN;
        let mut report = TorusReport {
            lattice: plan.lattice,
            pattern: pattern_name(&plan.pattern),
            arbitration: plan.arbitration,
            packet_flits: PACKET_FLITS,
            virtual_channels: configuration.link.virtual_channels,
            channel_flits: (words as f64 / flit) as u16,
            cycle_ns: 8e9 * flit / plan.bit_per_s,
            hop_cycles: 0.0,
            processors: Cores::usable().count(),
            points: Vec::new(),
        };
        // Any node sends to any other one, so that there are ways of different lengths.
        let uniform = TorusPlan { pattern: Pattern::Uniform, ..plan.clone() };
        let (_, by_hops) = run(&uniform, &routes, &report, LEAST_LOAD)?;
        report.hop_cycles = hop_cycles(&by_hops).ok_or(Error::Nothing)?;
        let router_delay = report.hop_cycles.round().max(3.0);
        if router_delay > f64::from(HOP_CYCLES_MAX) {
            return Err(Error::SlowHops(report.hop_cycles));
        }
        let setup = Setup {
            packet_flits: PACKET_FLITS,
            vcs: report.virtual_channels as u8,
            vc_depth: report.channel_flits,
            router_delay: router_delay as u32,
            flow_control: FlowControl::VirtualCutThrough,
            arbitration: plan.arbitration,
            seed: plan.seed,
            ..Setup::new(plan.lattice)
        };
        let machine = Machine::new(setup, plan.pattern.clone());
        let simulation = Experiment::new(machine, Timing::default())?;
        Ok(Self { plan, routes, simulation, report })
    }

    /// Measures a load, 0 to 1 flit per node and cycle.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn measure(&mut self, load: f64) -> Result<(), Error> {
        let simulated = self.simulation.measure(load)?;
        let (point, _) = run(&self.plan, &self.routes, &self.report, load)?;
        self.report.points.push(TorusPoint {
            simulated: simulated.accepted,
            simulated_latency_cycles: simulated.latency_mean_cycles,
            ..point
        });
        Ok(())
    }

    /// What was measured.
    pub fn report(&self) -> &TorusReport {
        &self.report
    }
}

/// How a node of the machine is made.
fn configuration(plan: &TorusPlan, node: Node) -> Configuration {
    // Nobody is to be given up because all nodes share the processors.
    let patience = Patience { watchdog_ns: 10_000_000_000, ..Patience::default() };
    let window = CHANNEL_PACKETS * plan.frame_bytes;
    let mut configuration =
        patience.configure(plan.lattice, node, plan.frame_bytes, window, 1 + node.0);
    let bytes_per_s = (plan.bit_per_s / 8.0) as u64;
    let timing = &mut configuration.engine.timing;
    (timing.read_bytes_per_s, timing.write_bytes_per_s) = (bytes_per_s, bytes_per_s);
    configuration.arbitration = plan.arbitration;
    configuration
}

/// Bytes of a frame with the longest packet.
fn packet_bytes(configuration: &Configuration) -> usize {
    HEAD_LEN + 2 * WORD_LEN + HEADER_LEN + configuration.engine.limits.data_bytes
}

/// Runs the machine at a load. Gives the point without what is simulated, and latencies by the links that packets have gone over.
fn run(
    plan: &TorusPlan,
    routes: &Arc<Routes>,
    report: &TorusReport,
    load: f64,
) -> Result<(TorusPoint, Vec<Latencies>), Error> {
    let nodes = nodes(plan, routes, load)?;
    let count = nodes.len();
    let window = plan.time.as_nanos() as f64 / report.cycle_ns;
    let (begin, end) = (WARM_UP * window, (1.0 + WARM_UP) * window);
    let (up, origin, started) = (AtomicUsize::new(0), OnceLock::new(), Instant::now());
    let taken = thread::scope(|scope| {
        let (up, origin) = (&up, &origin);
        let threads = nodes.into_iter().map(|mut node| {
            scope.spawn(move || {
                node.come_up(up, count)?;
                let origin = *origin.get_or_init(Instant::now);
                node.run(&Schedule { origin, cycle_ns: report.cycle_ns, begin, end })
            })
        });
        let threads: Vec<_> = threads.collect();
        let join = |it: thread::ScopedJoinHandle<'_, _>| {
            it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Result<Vec<Taken>, Error>>()
    })?;
    let wall = started.elapsed();
    let mut by_hops = vec![Latencies::default(); plan.lattice.diameter() as usize + 1];
    let mut all = Latencies::default();
    for (hops, &latencies) in taken.iter().flat_map(|taken| taken.by_hops.iter().enumerate()) {
        by_hops[hops] += latencies;
        all += latencies;
    }
    let busy: Duration = taken.iter().map(|taken| taken.busy).sum();
    let point = TorusPoint {
        load,
        accepted: all.packets as f64 * f64::from(PACKET_FLITS) / window / count as f64,
        simulated: 0.0,
        latency_cycles: all.mean(),
        simulated_latency_cycles: None,
        resent: taken.iter().map(|taken| taken.resent).sum(),
        busy: busy.as_secs_f64() / wall.as_secs_f64() / report.processors.max(1) as f64,
    };
    Ok((point, by_hops))
}

/// The nodes, joined by cables.
fn nodes(plan: &TorusPlan, routes: &Arc<Routes>, load: f64) -> Result<Vec<RunningNode>, Error> {
    let lattice = plan.lattice;
    let traffic = Arc::new(Traffic::new(lattice, plan.pattern.clone(), load, PACKET_FLITS));
    let path = Path::loopback(1);
    let mut ports: Vec<_> = lattice.all().map(|_| Vec::new()).collect();
    for it in lattice.cables() {
        let [way, back] = [true, false].map(|is_up| Direction::of(it.dimension, is_up));
        let [near, far] = path.ports(0, plan.frame_bytes)?;
        let mut plug = |node: Node, direction, port| {
            ports[node.index()].push((direction, PacedPort::new(port, 8e9 / plan.bit_per_s)));
        };
        plug(it.from, way, near);
        plug(lattice.neighbour(it.from, way), back, far);
    }
    let nodes = lattice.all().zip(ports).map(|(node, ports)| {
        RunningNode::new(configuration(plan, node), routes, ports, (&traffic, plan.seed))
    });
    nodes.collect()
}

/// What a link more takes, from the latencies of packets that have gone over the least and over the most; `None` where none has gone
/// over a link.
fn hop_cycles(by_hops: &[Latencies]) -> Option<f64> {
    let mut means =
        by_hops.iter().enumerate().skip(1).filter_map(|(hops, it)| Some((hops, it.mean()?)));
    let (least, short) = means.next()?;
    let (most, long) = means.next_back().unwrap_or((0, 0.0));
    Some(match most {
        0 => short / least as f64,
        _ => (long - short) / (most - least) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_is_what_longer_ways_take_more() {
        let latencies = |all: &[f64]| {
            let packets = |&cycles: &f64| Latencies { packets: u64::from(cycles > 0.0), cycles };
            all.iter().map(packets).collect::<Vec<_>>()
        };
        assert_eq!(hop_cycles(&latencies(&[1.0, 40.0, 55.0, 80.0])), Some(20.0));
        assert_eq!(hop_cycles(&latencies(&[1.0, 0.0, 50.0])), Some(25.0), "of one length");
        assert_eq!(hop_cycles(&latencies(&[1.0, 0.0])), None);
    }
}
