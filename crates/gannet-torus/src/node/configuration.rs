//! What a node is made from, and why it cannot be.

use gannet_lattice::{Lattice, Node};
use gannet_wire::apelink::{HOPS_MAX, WORD_LEN};
use gannet_wire::rdma::HEADER_LEN;
use thiserror::Error;

use crate::link;
use crate::router::Arbitration;
use crate::routes::Routes;

/// Most packets of the engine that may wait for a link.
pub const INJECTION_PACKETS_MAX: usize = 64;

/// All that a node is made from. Times are in nanoseconds, those of the links too.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The engine; its node is the node.
    pub engine: gannet_rdma::Configuration,
    /// Each of the links.
    pub link: link::Config,
    /// A packet that has made so many hops and is not there is dropped: it goes in circles. 1 to
    /// [`HOPS_MAX`].
    pub hop_limit: u16,
    /// Packets of the engine that may wait for a link, 1 to [`INJECTION_PACKETS_MAX`]; as many of
    /// them wait before one for another link is held up.
    pub injection_packets: usize,
    /// Who goes first where packets compete for a link.
    pub arbitration: Arbitration,
}

impl Configuration {
    /// Defaults for a node of `lattice`, on whose lines a word takes `word_ns`.
    ///
    /// The hop limit is what the format counts to.
    pub fn new(lattice: Lattice, node: Node, word_ns: u64) -> Self {
        let link = link::Config::default();
        let mut engine = gannet_rdma::Configuration::new(node);
        engine.limits.nodes = lattice.nodes();
        Self {
            engine,
            link: link::Config {
                timeout: link.timeout * word_ns,
                credit_period: link.credit_period * word_ns,
                dead_after: link.dead_after * word_ns,
                ..link
            },
            hop_limit: HOPS_MAX,
            injection_packets: 8,
            arbitration: Arbitration::default(),
        }
    }

    /// Tests what the links do not test.
    pub(super) fn check(&self, lattice: Lattice) -> Result<(), ConfigurationError> {
        let node = self.engine.node;
        if node.index() >= lattice.nodes() {
            return Err(ConfigurationError::NotInLattice(node, lattice));
        }
        if self.engine.limits.nodes != lattice.nodes() {
            return Err(ConfigurationError::Nodes(self.engine.limits.nodes, lattice));
        }
        self.engine.check()?;
        if !(1..=INJECTION_PACKETS_MAX).contains(&self.injection_packets) {
            return Err(ConfigurationError::InjectionPackets(self.injection_packets));
        }
        if !(1..=HOPS_MAX).contains(&self.hop_limit) {
            return Err(ConfigurationError::HopLimit(self.hop_limit));
        }
        let max = self.link.packet_words_max() * WORD_LEN;
        let got = HEADER_LEN + self.engine.limits.data_bytes;
        if got > max {
            return Err(ConfigurationError::PacketBytes { got, max });
        }
        Ok(())
    }
}

/// Why a node cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// A parameter of the links is out of its range.
    #[error(transparent)]
    Link(#[from] link::ConfigError),
    /// A parameter of the engine is out of its range.
    #[error(transparent)]
    Engine(#[from] gannet_rdma::ConfigurationError),
    /// The first routes do not fit.
    #[error(transparent)]
    Routes(#[from] UnfitRoutes),
    /// The lattice has no such node.
    #[error("{0} is not in a lattice of {1}")]
    NotInLattice(Node, Lattice),
    /// The engine is for a machine of another size.
    #[error("an engine for {0} nodes does not fit a lattice of {1}")]
    Nodes(usize, Lattice),
    /// No packets, or too many, may wait for a link.
    #[error("{0} packets may wait for a link: it must be 1 to {INJECTION_PACKETS_MAX}")]
    InjectionPackets(usize),
    /// The format does not count so far, or nothing gets anywhere.
    #[error("a hop limit of {0}: it must be 1 to {HOPS_MAX}")]
    HopLimit(u16),
    /// Packets of the engine do not fit the FIFOs of the links.
    #[error("packets of {got} bytes with header do not fit the links, which take {max}")]
    PacketBytes {
        /// Bytes of the longest packet.
        got: usize,
        /// Most bytes that a link takes.
        max: usize,
    },
}

/// Why a node does not take routes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnfitRoutes {
    /// They are for another machine.
    #[error("routes of a lattice of {got} do not fit a node of {expected}")]
    Lattice {
        /// Lattice of the routes.
        got: Lattice,
        /// Lattice of the node.
        expected: Lattice,
    },
    /// Each class needs a virtual channel of its own.
    #[error(
        "the routes need {classes} virtual channels and the links have {channels}: plan routes with \
         fewer classes, or make links with more channels"
    )]
    Channels {
        /// Classes of the routes.
        classes: u8,
        /// Virtual channels of each link.
        channels: usize,
    },
    /// The node does not keep bubbles free.
    #[error("routes in one class that need bubbles deadlock here: take dimension order")]
    Bubble,
}

/// Tests whether links with `channels` virtual channels on `lattice` can follow `routes`.
pub(super) fn check_routes(
    routes: &Routes,
    lattice: Lattice,
    channels: usize,
) -> Result<(), UnfitRoutes> {
    if routes.lattice() != lattice {
        return Err(UnfitRoutes::Lattice { got: routes.lattice(), expected: lattice });
    }
    if routes.needs_bubbles() {
        return Err(UnfitRoutes::Bubble);
    }
    let classes = routes.classes();
    if usize::from(classes) > channels {
        return Err(UnfitRoutes::Channels { classes, channels });
    }
    Ok(())
}
