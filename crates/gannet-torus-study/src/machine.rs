//! A machine, its faults and its traffic.

use std::ops::RangeInclusive;

use gannet_lattice::{Direction, Faults, Node};
use gannet_torus::Routes;
use gannet_torus::routes::Means;
use gannet_torus::simulator::{FlowControl, Pattern, Script, Setup};

use super::Error;

/// A machine that is measured.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Routers and links.
    pub setup: Setup,
    /// Who sends to whom.
    pub pattern: Pattern,
    /// What does not work from the start.
    pub faults: Faults,
    /// What fails while it runs.
    pub script: Script,
    /// Cycles from an event to the change to routes round it; `None` leaves routes as they are.
    pub reroute_after: Option<u32>,
}

impl Machine {
    /// A machine without faults.
    pub fn new(setup: Setup, pattern: Pattern) -> Self {
        let faults = Faults::none(setup.lattice);
        Self { setup, pattern, faults, script: Script::default(), reroute_after: None }
    }

    /// Marks a node as dead.
    ///
    /// # Errors
    /// When the lattice has no such node.
    pub fn kill_node(&mut self, node: u32) -> Result<(), Error> {
        let node = self.known(node)?;
        self.faults.kill_node(node);
        Ok(())
    }

    /// Marks the cable at a link of a node as dead.
    ///
    /// # Errors
    /// When the lattice has no such node or link.
    pub fn kill_link(&mut self, node: u32, direction: Direction) -> Result<(), Error> {
        let (node, lattice) = (self.known(node)?, self.setup.lattice);
        if !lattice.has(direction) {
            return Err(Error::NoLink { node, direction, lattice });
        }
        self.faults.kill_cable(lattice.cable(node, direction));
        Ok(())
    }

    fn known(&self, node: u32) -> Result<Node, Error> {
        let lattice = self.setup.lattice;
        if (node as usize) < lattice.nodes() {
            Ok(Node(node))
        } else {
            Err(Error::NoNode { node, lattice })
        }
    }

    /// Flits of the shortest and of the longest packet.
    pub fn packet_flits(&self) -> RangeInclusive<u16> {
        let Pattern::Trace(trace) = &self.pattern else {
            return self.setup.packet_flits..=self.setup.packet_flits;
        };
        let shortest = trace.packets().map(|(_, packet)| packet.flits).min();
        shortest.unwrap_or(0)..=trace.longest()
    }

    /// The routes of all packets, and by which means they get round the faults if there are any.
    ///
    /// # Errors
    /// When no routes round the faults are fit.
    pub fn routes(&self) -> Result<(Routes, Option<Means>), Error> {
        if !self.faults.is_empty() {
            let (routes, means, _) = Routes::around(&self.faults, self.setup.vcs)?;
            return Ok((routes, Some(means)));
        }
        let lattice = self.setup.lattice;
        Ok(match self.setup.flow_control {
            FlowControl::Bubble => (Routes::bubble(lattice), None),
            _ => (Routes::dimension_order(lattice), None),
        })
    }
}

/// The name of a pattern, as on the command line.
pub fn pattern_name(pattern: &Pattern) -> &'static str {
    match pattern {
        Pattern::Uniform => "uniform",
        Pattern::Neighbour => "neighbour",
        Pattern::Tornado => "tornado",
        Pattern::BitComplement => "bit-complement",
        Pattern::HotSpot { .. } => "hot-spot",
        Pattern::Halo => "halo",
        Pattern::AllToAll => "all-to-all",
        Pattern::Trace(_) => "trace",
    }
}
