//! Which output a packet has to take, and why there may be none.

use std::num::NonZeroU8;
use std::sync::Arc;

use gannet_lattice::{Coordinates, Direction, Lattice, Node};
use gannet_wire::apelink::{Destination, Header};

use super::arbiter::{EJECTION, channel};
use super::event::Reason;
use crate::router::{Stranded, channels_of_class, class_of, next_hop};
use crate::routes::{Hop, Journey, LOCAL, Position, Routes};

/// The routes that a node follows.
#[derive(Clone, Debug)]
pub(super) struct Guide {
    pub node: Node,
    pub at: Coordinates,
    routes: Arc<Routes>,
    /// Virtual channels of a link.
    channels: u8,
    /// Number of the routes; packets carry it.
    pub epoch: u8,
    pub hop_limit: u16,
    /// Links that are down, one bit each.
    down: u8,
    /// Outputs of this node's packets by destination, as far as they were found.
    first: Box<[Option<NonZeroU8>]>,
}

/// What a packet has come by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub source: u32,
    pub port: u8,
    pub vc: u8,
}

impl Guide {
    pub fn new(node: Node, routes: Arc<Routes>, channels: u8, epoch: u8, hop_limit: u16) -> Self {
        let (at, nodes) = (routes.lattice().coordinates(node), routes.lattice().nodes());
        let first = vec![None; nodes].into();
        Self { node, at, routes, channels, epoch, hop_limit, down: 0, first }
    }

    pub fn lattice(&self) -> Lattice {
        self.routes.lattice()
    }

    pub fn follow(&mut self, routes: Arc<Routes>, epoch: u8) {
        (self.routes, self.epoch) = (routes, epoch);
        self.first.fill(None);
    }

    /// Whether the link in `direction` is down.
    pub fn is_down(&self, direction: Direction) -> bool {
        self.down >> direction.index() & 1 == 1
    }

    /// Marks the link in `direction` as down or up.
    pub fn set_down(&mut self, direction: Direction, is_down: bool) {
        let bit = 1 << direction.index();
        self.down = if is_down { self.down | bit } else { self.down & !bit };
        self.first.fill(None);
    }

    /// The output of a packet of this node's engine.
    pub fn first_output(&mut self, destination: Node) -> Result<usize, Reason> {
        let Some(first) = self.first.get(destination.index()) else {
            return Err(Reason::NoSuchNode);
        };
        if let Some(behind) = first {
            return Ok(usize::from(behind.get()) - 1);
        }
        let came = Came { source: self.node.0, port: LOCAL, vc: 0 };
        let output =
            if destination == self.node { EJECTION } else { self.next(destination, came)? };
        // The number behind that of the output, which may be 0.
        self.first[destination.index()] = NonZeroU8::new(output as u8 + 1);
        Ok(output)
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
        let source = Node(came.source);
        // Every node knows the node to pass on the way, since all follow the same routes.
        let via = self.routes.way(source, destination).ok_or(Reason::NoRoute)?;
        let place = |node| self.lattice().coordinates(node);
        let journey =
            Journey { source: place(source), destination: place(destination), via: place(via) };
        let classes = self.routes.classes();
        let class = class_of(came.vc, self.channels, classes);
        let position = Position { at: self.at, port: came.port, class };
        let Hop { port, class } = next_hop(&self.routes, self.down, position, &journey)?;
        if port == LOCAL {
            return Err(Reason::NoRoute);
        }
        // Packets to a node keep to one channel: none overtakes another, and those that wait for a slow
        // node hold up a part of the others only.
        let channels = channels_of_class(class, self.channels, classes);
        let number: u32 = journey.destination.map(u32::from).iter().sum();
        let vc = channels.start + number % channels.len() as u32;
        Ok(channel(port.into(), vc as u8))
    }

    /// Where a source is; nowhere in particular if the lattice has no such node.
    pub fn place(&self, source: u32) -> Coordinates {
        let exists = (source as usize) < self.lattice().nodes();
        if exists { self.lattice().coordinates(Node(source)) } else { Coordinates::default() }
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

impl From<Stranded> for Reason {
    fn from(stranded: Stranded) -> Self {
        match stranded {
            Stranded::NoRoute => Self::NoRoute,
            Stranded::LinkDown => Self::LinkDown,
        }
    }
}
