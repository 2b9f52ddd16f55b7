//! Where a packet goes next: dimension order, ways round faults, and trees.
//!
//! A route is a sequence of [`Hop`]s: a port, and the *class* of virtual channels to use on it.
//! Classes are what keeps routes free of deadlock; a router divides its virtual channels evenly
//! among them. [`Routes::around`] plans the routes of a machine with faults, by the simplest means
//! that reach every node, and installs nothing that [`check`](check::check) has not walked. [`NextHops`] are those of machines
//! whose routers look at the destination alone.

use gannet_lattice::{Coordinates, DIMENSIONS, Direction, Faults, LINKS, Lattice, Node};

pub mod check;
mod detour;
mod next_hops;
mod plan;
mod ring;
mod tree;

use detour::Detours;
use ring::Rings;
use tree::Tree;

pub use next_hops::NextHops;
pub use plan::{MAX_CHECKED_NODES, Means, Refused};

/// The port of a router that leads to its own node; ports 0 to 5 are the links.
pub const LOCAL: u8 = LINKS as u8;

/// Ports of a router: six links and the node.
pub const PORTS: usize = LINKS + 1;

/// Most classes of virtual channels that any routes use.
pub const MAX_CLASSES: u8 = 4;

/// One step of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// A link by the number of its direction, or [`LOCAL`].
    pub port: u8,
    /// Class of virtual channels on that link.
    pub class: u8,
}

impl Hop {
    /// The link; `None` where the packet has arrived.
    #[inline]
    pub fn link(self) -> Option<Direction> {
        Direction::ALL.get(usize::from(self.port)).copied()
    }
}

/// Where the head of a packet stands.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The node it has reached.
    pub at: Coordinates,
    /// The port it came in by; [`LOCAL`] at its source.
    pub port: u8,
    /// The class of the virtual channel it came in by.
    pub class: u8,
}

/// Where a packet has to go.
#[derive(Clone, Copy, Debug)]
pub struct Journey {
    /// Where it was sent from.
    pub source: Coordinates,
    /// Its destination.
    pub destination: Coordinates,
    /// A node to pass on the way, where the direct way is broken; else the destination.
    pub via: Coordinates,
}

/// The routes of a machine.
#[derive(Clone, Debug)]
pub struct Routes {
    lattice: Lattice,
    scheme: Scheme,
    /// With faults: the connected part of each node, none for dead ones.
    parts: Option<Vec<Option<u32>>>,
}

#[derive(Clone, Debug)]
enum Scheme {
    /// x before y before z, with a class for packets that cross the dateline of a ring; with
    /// detours, a second pair of classes behind the node that is passed on the way.
    DimensionOrder { rings: Rings, detours: Option<Detours> },
    /// x before y before z in one class, for routers that keep a bubble free in each ring.
    Bubble { rings: Rings },
    /// Up a tree, then down.
    Tree(Tree),
}

impl Routes {
    /// Dimension order on a lattice without faults: two classes.
    pub fn dimension_order(lattice: Lattice) -> Self {
        let rings = Rings::new(&Faults::none(lattice));
        Self { lattice, scheme: Scheme::DimensionOrder { rings, detours: None }, parts: None }
    }

    /// Dimension order in one class, which is free of deadlock only under bubble flow control
    /// (Carrion, Beivide, Gregorio and Vallejo, "A flow control mechanism to avoid message deadlock
    /// in k-ary n-cube networks", 1997).
    pub fn bubble(lattice: Lattice) -> Self {
        let scheme = Scheme::Bubble { rings: Rings::new(&Faults::none(lattice)) };
        Self { lattice, scheme, parts: None }
    }

    /// The lattice of the machine.
    pub fn lattice(&self) -> Lattice {
        self.lattice
    }

    /// Classes of virtual channels that the routes need.
    pub fn classes(&self) -> u8 {
        match &self.scheme {
            Scheme::DimensionOrder { detours: None, .. } => 2,
            Scheme::DimensionOrder { detours: Some(_), .. } => 4,
            Scheme::Bubble { .. } | Scheme::Tree(_) => 1,
        }
    }

    /// Whether the routes are free of deadlock only in routers that keep a bubble free in each ring.
    pub fn needs_bubbles(&self) -> bool {
        matches!(self.scheme, Scheme::Bubble { .. })
    }

    /// The node that a packet from `from` heads for first: a node to pass on the way where the direct
    /// way is broken, else `to`. `None` when `to` cannot be reached.
    #[inline]
    pub fn way(&self, from: Node, to: Node) -> Option<Node> {
        if let Some(parts) = &self.parts
            && (parts[from.index()].is_none() || parts[from.index()] != parts[to.index()])
        {
            return None;
        }
        match &self.scheme {
            Scheme::DimensionOrder { detours: Some(detours), .. } => {
                Some(detours.via(from, to).unwrap_or(to))
            }
            _ => Some(to),
        }
    }

    /// The next step of a packet; `None` where the faults leave it none.
    #[inline]
    pub fn hop(&self, position: Position, journey: &Journey) -> Option<Hop> {
        if position.at == journey.destination {
            return Some(Hop { port: LOCAL, class: 0 });
        }
        match &self.scheme {
            Scheme::DimensionOrder { rings, detours: None } => {
                in_order(rings, position, journey.destination, journey)
            }
            Scheme::DimensionOrder { rings, detours: Some(_) } => {
                past_via(rings, position, journey)
            }
            Scheme::Bubble { rings } => {
                let hop = in_order(rings, position, journey.destination, journey)?;
                Some(Hop { class: 0, ..hop })
            }
            Scheme::Tree(tree) => {
                tree.hop(self.lattice.node(position.at), self.lattice.node(journey.destination))
            }
        }
    }
}

/// Dimension order: the first dimension in which packet and target differ. Within a ring a packet
/// keeps its direction and its class.
#[inline]
fn in_order(
    rings: &Rings,
    position: Position,
    target: Coordinates,
    journey: &Journey,
) -> Option<Hop> {
    let at = position.at;
    let dimension = (0..DIMENSIONS).find(|&dimension| at[dimension] != target[dimension])?;
    if usize::from(position.port) / 2 == dimension {
        return Some(Hop { port: position.port ^ 1, class: position.class });
    }
    let even = || evenly(journey, dimension);
    let entry = rings.enter(at, dimension, target[dimension], even)?;
    Some(Hop { port: entry.direction as u8, class: u8::from(entry.crosses_dateline) })
}

/// Dimension order to the node on the way in classes 0 and 1, then on in classes 2 and 3. No
/// packet comes back from the second pair to the first, so the two cannot wait for each other.
#[inline]
fn past_via(rings: &Rings, position: Position, journey: &Journey) -> Option<Hop> {
    const BEHIND: u8 = 2;
    let is_behind = position.port != LOCAL && position.class >= BEHIND;
    if !is_behind && position.at != journey.via {
        return in_order(rings, position, journey.via, journey);
    }
    let position = if is_behind {
        Position { class: position.class - BEHIND, ..position }
    } else {
        Position { port: LOCAL, ..position }
    };
    let hop = in_order(rings, position, journey.destination, journey)?;
    Some(Hop { class: hop.class + BEHIND, ..hop })
}

/// Decides between two ways of equal length round the ring of `dimension`, so that every link of a
/// ring gets the same share and each pair of nodes keeps to one way.
#[inline]
fn evenly(journey: &Journey, dimension: usize) -> bool {
    // Going half way round, source and destination differ by a constant in this dimension: what
    // they add to the sum must be counted once.
    let sum =
        |place: Coordinates| place.iter().map(|&coordinate| u32::from(coordinate)).sum::<u32>();
    let all = sum(journey.source) + sum(journey.destination);
    (all + u32::from(journey.destination[dimension])).is_multiple_of(2)
}

/// A route from its source on: each hop with the node that it leaves, the last one to [`LOCAL`].
///
/// A route that the faults cut off ends before; one that goes round in circles after
/// [`Routes::links_max`] hops.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    routes: &'a Routes,
    journey: Journey,
    at: Node,
    position: Position,
    hops_left: u32,
}

impl Routes {
    /// Links after which a walk is given up: no route in use is half as long.
    pub fn links_max(&self) -> u32 {
        4 * self.lattice.nodes() as u32
    }

    /// The route between two nodes; `None` when `to` cannot be reached.
    pub fn walk(&self, from: Node, to: Node) -> Option<Walk<'_>> {
        let place = |node| self.lattice.coordinates(node);
        let via = place(self.way(from, to)?);
        let journey = Journey { source: place(from), destination: place(to), via };
        let position = Position { at: place(from), port: LOCAL, class: 0 };
        Some(Walk { routes: self, journey, at: from, position, hops_left: self.links_max() })
    }
}

impl Walk<'_> {
    /// The links alone, each with the node that it leaves.
    pub fn links(self) -> impl Iterator<Item = (Node, Direction)> {
        self.filter_map(|(at, hop)| Some((at, hop.link()?)))
    }
}

impl Iterator for Walk<'_> {
    type Item = (Node, Hop);

    #[inline]
    fn next(&mut self) -> Option<(Node, Hop)> {
        self.hops_left = self.hops_left.checked_sub(1)?;
        let hop = self.routes.hop(self.position, &self.journey)?;
        let at = self.at;
        match hop.link() {
            None => self.hops_left = 0,
            Some(link) => {
                let lattice = self.routes.lattice;
                self.at = lattice.neighbour(at, link);
                let (place, port) = (lattice.coordinates(self.at), link.opposite() as u8);
                self.position = Position { at: place, port, class: hop.class };
            }
        }
        Some((at, hop))
    }
}
