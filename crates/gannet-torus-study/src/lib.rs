//! Experiments on torus machines: what one does under load and could do at best, what it survives,
//! and how soon its faults are known.
//!
//! An [`Experiment`] measures one machine at one load after the other in the simulator of
//! `gannet-torus`. Beside every figure stands its [limit](Limits): the latency of a packet that
//! meets no other, and the load at which the busiest link, or its channels, are full.
//!
//! An [`AblationReport`](ablation::AblationReport) tells what parts of the RDMA engine are worth, beside what is published of
//! them, and [`EfficiencyRow`] what of a line payload gets.

pub mod ablation;
mod animation;
pub mod awareness;
mod channel_load;
mod efficiency;
mod experiment;
mod limits;
mod machine;
pub mod plan;
mod plot;
mod point;
mod report;
pub mod survival;
pub mod trials;

use gannet_lattice::{Lattice, MAX_NODES, Node};
use gannet_measure::quantity::Bytes;
use gannet_memory::Bound;
use gannet_torus::routes::Refused;
use gannet_torus::simulator::SetupError;

pub use self::animation::{Animation, CurvePoint, Frame, Mark};
pub use self::efficiency::{
    EfficiencyRow, PUBLISHED_EFFICIENCY, PUBLISHED_RATE, Reading, readings,
};
pub use self::experiment::{Experiment, Saturation, Timing};
pub use self::limits::Limits;
pub use self::machine::{Machine, pattern_name};
pub use self::plot::{PlotError, awareness_svg, curve_svg, means_svg, over_time_svg, tlb_svg};
pub use self::point::{LinkTable, LoadedLink, Point};
pub use self::report::{Fault, LoadReport, SetupFacts};

/// Why a machine is not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value of the setup is outside its range.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The simulation needs more memory than this process may take.
    #[error(
        "a simulation of {lattice} needs {needed} of memory, but only {left} can be had ({bound}): \
         make the lattice, its queues or its delays smaller"
    )]
    Memory {
        /// The lattice.
        lattice: Lattice,
        /// What it needs.
        needed: Bytes,
        /// What is left to this process.
        left: Bytes,
        /// What bounds that.
        bound: Bound,
    },
    /// No routes lead round the faults.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A node that the lattice does not have.
    #[error("there is no node {node}: {lattice} has {nodes}, numbered from 0", nodes = .lattice.nodes())]
    NoNode {
        /// The number that was asked for.
        node: u32,
        /// The lattice.
        lattice: Lattice,
    },
    /// A link that the lattice does not have.
    #[error("{node} has no link {direction}: {lattice} is one node wide there")]
    NoLink {
        /// The node.
        node: Node,
        /// The link.
        direction: gannet_lattice::Direction,
        /// The lattice.
        lattice: Lattice,
    },
    /// Ports that do not make whole rings.
    #[error("{ports} ports make no rings: a node has 2, 4 or 6 of them")]
    Ports {
        /// Ports of a node.
        ports: usize,
    },
    /// Too few or too many nodes.
    #[error("a machine has 2 to {MAX_NODES} nodes, and not {nodes}")]
    Nodes {
        /// Nodes that were asked for.
        nodes: usize,
    },
    /// The lattice asked for has too few places.
    #[error("{lattice} has {places} places for {nodes} nodes: make it larger", places = .lattice.nodes())]
    TooSmall {
        /// The lattice.
        lattice: Lattice,
        /// Nodes that were asked for.
        nodes: usize,
    },
    /// The lattice asked for has more dimensions than nodes have ports.
    #[error("{lattice} needs {needed} ports a node, not {ports}: join fewer sizes by x")]
    TooFewPorts {
        /// The lattice.
        lattice: Lattice,
        /// Ports that it needs.
        needed: usize,
        /// Ports that nodes have.
        ports: usize,
    },
    /// More frames than a page of some megabytes holds.
    #[error("{frames} frames of {nodes} nodes are too much for a page: show at most {most}")]
    TooManyFrames {
        /// Frames that were asked for.
        frames: usize,
        /// Nodes of the lattice.
        nodes: usize,
        /// Frames that fit.
        most: usize,
    },
    /// A trace has times of its own, so its load cannot be chosen.
    #[error(
        "the packets of a trace have their times: leave out the load and the saturation search"
    )]
    TraceLoad,
}
