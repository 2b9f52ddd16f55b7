//! Which output a packet has to take, and why there may be none.

use std::sync::Arc;

use gannet_lattice::{Coordinates, Direction, Lattice, Node};
use gannet_wire::apelink::{Destination, Header};

use super::arbiter::{EJECTION, channel};
use super::event::Reason;
use crate::routes::{Hop, Journey, LOCAL, Position, Routes};

/// The routes that a node follows.
#[derive(Clone, Debug)]
pub(super) struct Guide {
    pub node: Node,
    at: Coordinates,
    routes: Arc<Routes>,
    /// Number of the routes; packets carry it.
    pub epoch: u8,
    pub hop_limit: u16,
    /// Links that are down, one bit each.
    down: u8,
}

/// What a packet has come by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub source: u32,
    pub port: u8,
    pub class: u8,
}

impl Guide {
    pub fn new(node: Node, routes: Arc<Routes>, epoch: u8, hop_limit: u16) -> Self {
        let at = routes.lattice().coordinates(node);
        Self { node, at, routes, epoch, hop_limit, down: 0 }
    }

    pub fn lattice(&self) -> Lattice {
        self.routes.lattice()
    }

    pub fn follow(&mut self, routes: Arc<Routes>, epoch: u8) {
        (self.routes, self.epoch) = (routes, epoch);
    }

    /// Whether the link in `direction` is down.
    pub fn is_down(&self, direction: Direction) -> bool {
        self.down >> direction.index() & 1 == 1
    }

    /// Marks the link in `direction` as down or up.
    pub fn set_down(&mut self, direction: Direction, is_down: bool) {
        let bit = 1 << direction.index();
        self.down = if is_down { self.down | bit } else { self.down & !bit };
    }

    /// The output of a packet of this node's engine.
    pub fn first_output(&self, destination: Node) -> Result<usize, Reason> {
        if destination.index() >= self.lattice().nodes() {
            return Err(Reason::NoSuchNode);
        }
        let came = Came { source: self.node.0, port: LOCAL, class: 0 };
        if destination == self.node { Ok(EJECTION) } else { self.next(destination, came) }
    }

    /// The output of a packet that a link has brought.
    ///
    /// A packet that is at its destination is taken by whatever routes it came.
    pub fn output(&self, header: &Header, came: Came) -> Result<usize, Reason> {
        let destination = self.destination(header).ok_or(Reason::NoSuchNode)?;
        if destination == self.node {
            return Ok(EJECTION);
        }
        if header.process != u16::from(self.epoch) {
            return Err(Reason::OtherRoutes);
        }
        if header.hops >= self.hop_limit {
            return Err(Reason::HopLimit);
        }
        if came.source as usize >= self.lattice().nodes() {
            return Err(Reason::NoSuchNode);
        }
        self.next(destination, came)
    }

    fn next(&self, destination: Node, came: Came) -> Result<usize, Reason> {
        let lattice = self.lattice();
        let source = Node(came.source);
        // Every node knows the node to pass on the way, since all follow the same routes.
        let via = self.routes.way(source, destination).ok_or(Reason::NoRoute)?;
        let [source, destination, via] =
            [source, destination, via].map(|node| lattice.coordinates(node));
        let position = Position { at: self.at, port: came.port, class: came.class };
        let hop = self.routes.hop(position, &Journey { source, destination, via });
        let Hop { port, class } = hop.filter(|hop| hop.port != LOCAL).ok_or(Reason::NoRoute)?;
        if self.down >> port & 1 == 1 {
            return Err(Reason::LinkDown);
        }
        Ok(channel(port.into(), class))
    }

    /// The node that a header names, in either form.
    fn destination(&self, header: &Header) -> Option<Node> {
        let lattice = self.lattice();
        match header.destination {
            Destination::Node(node) => ((node as usize) < lattice.nodes()).then_some(Node(node)),
            Destination::Coordinates { x, y, z } => {
                let place = [x, y, z].map(u16::from);
                let inside = place.iter().zip(lattice.sizes()).all(|(&at, size)| at < size);
                inside.then(|| lattice.node(place))
            }
        }
    }
}
