//! Routes followed link by link.

use gannet_lattice::{Direction, Node};

use super::{Hop, Journey, LOCAL, Position, Routes};

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
