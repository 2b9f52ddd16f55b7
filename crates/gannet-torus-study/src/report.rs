//! What was measured of one machine, as a document.

use gannet_lattice::{Direction, Faults, Node};
use gannet_torus::routes::Means;
use gannet_torus::simulator::{Arbitration, FlowControl, Setup};
use serde::Serialize;

use super::experiment::{Experiment, Saturation};
use super::limits::Limits;
use super::machine::pattern_name;
use super::point::{LinkTable, Point};

/// What was measured of one machine.
#[derive(Clone, Debug, Serialize)]
pub struct LoadReport {
    /// The machine.
    pub setup: SetupFacts,
    /// What it could do at best.
    pub limits: Limits,
    /// The last point, if there is any: as a document its fields stand at the top.
    #[serde(flatten)]
    pub last: Option<Point>,
    /// Where it saturates, if that was searched.
    pub saturation: Option<Saturation>,
    /// Load of the links at the last point, if asked for.
    pub links: Option<LinkTable>,
    /// All points, in their order.
    pub points: Vec<Point>,
}

impl LoadReport {
    /// A report without points.
    pub fn new(experiment: &Experiment) -> Self {
        Self {
            setup: SetupFacts::new(experiment),
            limits: experiment.limits().clone(),
            last: None,
            saturation: None,
            links: None,
            points: Vec::new(),
        }
    }

    /// Adds a point.
    pub fn add(&mut self, point: Point) {
        self.last = Some(point.clone());
        self.points.push(point);
    }

    /// All points there are by load, with those of the search for saturation.
    pub fn curve(&self) -> Vec<&Point> {
        let trials = self.saturation.iter().flat_map(|saturation| &saturation.trials);
        let mut curve: Vec<&Point> = self.points.iter().chain(trials).collect();
        curve.sort_by(|a, b| a.load.total_cmp(&b.load));
        curve
    }
}

/// A machine in names and numbers.
#[derive(Clone, Debug, Serialize)]
pub struct SetupFacts {
    /// Sizes joined by `x`.
    pub lattice: String,
    /// Nodes of the lattice.
    pub nodes: usize,
    /// Name of the pattern.
    pub pattern: &'static str,
    /// Flits of a packet; absent where those of a trace differ.
    pub packet_flits: Option<u16>,
    /// Virtual channels of a link.
    pub vcs: u8,
    /// Flits that a virtual channel holds.
    pub vc_depth: u16,
    /// Cycles of a hop over a link of one cycle.
    pub router_delay: u32,
    /// Cycles on a link.
    pub link_delay: u32,
    /// When a packet moves on.
    pub flow_control: FlowControl,
    /// Who goes first where packets compete.
    pub arbitration: Arbitration,
    /// Seed of all randomness.
    pub seed: u64,
    /// Threads.
    pub threads: usize,
    /// What does not work.
    pub faults: Vec<Fault>,
    /// How routes get round it.
    pub means: Option<Means>,
}

impl SetupFacts {
    fn new(experiment: &Experiment) -> Self {
        let machine = experiment.machine();
        let Setup { lattice, .. } = machine.setup;
        let flits = machine.packet_flits();
        Self {
            lattice: lattice.to_string(),
            nodes: lattice.nodes(),
            pattern: pattern_name(&machine.pattern),
            packet_flits: Some(*flits.start()).filter(|_| flits.start() == flits.end()),
            vcs: machine.setup.vcs,
            vc_depth: machine.setup.vc_depth,
            router_delay: machine.setup.router_delay,
            link_delay: machine.setup.link_delay,
            flow_control: machine.setup.flow_control,
            arbitration: machine.setup.arbitration,
            seed: machine.setup.seed,
            threads: machine.setup.threads,
            faults: Fault::list(&machine.faults),
            means: experiment.means(),
        }
    }
}

/// A dead node or cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// `node` or `cable`.
    pub kind: &'static str,
    /// The node, or the one from which the cable leads in a plus direction.
    pub node: Node,
    /// The link of a cable: `X+`, `Y+` or `Z+`.
    pub direction: Option<&'static str>,
}

impl Fault {
    /// All of them: nodes, then cables.
    pub fn list(faults: &Faults) -> Vec<Fault> {
        let nodes = faults.dead_nodes().map(|node| Self { kind: "node", node, direction: None });
        let cables = faults.dead_cables().map(|cable| {
            let direction = Some(Direction::of(cable.dimension, true).name());
            Self { kind: "cable", node: cable.from, direction }
        });
        nodes.chain(cables).collect()
    }
}
