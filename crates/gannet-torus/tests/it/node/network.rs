//! Nodes joined by lines that lose and damage words, deterministic by seed.

use std::sync::Arc;

use crate::line::{Line, Noise};
use gannet_lattice::{Cable, Direction, LINKS, Lattice, Node};
use gannet_rdma::PhysicalMemory;
use gannet_torus::Routes;
use gannet_torus::node::{ConfigurationError, TorusNode, UnfitRoutes};
use gannet_wire::apelink::Word;

/// All nodes of a lattice and the lines between them; one word time a step.
#[derive(Debug)]
pub struct Network<M> {
    lattice: Lattice,
    nodes: Vec<TorusNode<M>>,
    /// From each node, by direction.
    lines: Vec<[Option<Line>; LINKS]>,
    /// Words that arrive in this step, by receiver and its direction.
    arriving: Vec<[Option<Word>; LINKS]>,
    word_ns: u64,
    now: u64,
}

impl<M: PhysicalMemory> Network<M> {
    /// A network on `lattice` of nodes that `node` makes, of words of `word_ns` and lines of
    /// `length` words with `noise` drawn by `seed`.
    ///
    /// # Errors
    /// The first node that cannot be made.
    pub fn new(
        lattice: Lattice,
        node: impl FnMut(Node) -> Result<TorusNode<M>, ConfigurationError>,
        word_ns: u64,
        (length, noise, seed): (usize, Noise, u64),
    ) -> Result<Self, ConfigurationError> {
        let nodes = lattice.all().map(node).collect::<Result<Vec<_>, _>>()?;
        let lines = lattice.all().map(|node| {
            Direction::ALL.map(|direction| {
                let number = (LINKS * node.index() + direction.index()) as u64;
                let seed = seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                lattice.has(direction).then(|| Line::new(length, noise, seed))
            })
        });
        let lines = lines.collect();
        let arriving = vec![[None; LINKS]; lattice.nodes()];
        Ok(Self { lattice, nodes, lines, arriving, word_ns, now: 0 })
    }

    /// The lattice.
    pub fn lattice(&self) -> Lattice {
        self.lattice
    }

    /// Time, ns.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// All nodes in the order of their numbers.
    pub fn nodes(&self) -> &[TorusNode<M>] {
        &self.nodes
    }

    /// A node.
    pub fn node(&self, node: Node) -> &TorusNode<M> {
        &self.nodes[node.index()]
    }

    /// A node, to be posted to and polled.
    pub fn node_mut(&mut self, node: Node) -> &mut TorusNode<M> {
        &mut self.nodes[node.index()]
    }

    /// A word time: a word each way on each line.
    pub fn step(&mut self) {
        let Self { lattice, nodes, lines, arriving, now, .. } = self;
        for from in lattice.all() {
            for direction in Direction::ALL {
                let Some(line) = &mut lines[from.index()][direction.index()] else { continue };
                let Some(word) = nodes[from.index()].transmit(direction, *now) else { continue };
                let to = lattice.neighbour(from, direction);
                arriving[to.index()][direction.opposite().index()] = line.carry(word);
            }
        }
        for (node, words) in nodes.iter_mut().zip(arriving) {
            for direction in Direction::ALL {
                if let Some(word) = words[direction.index()].take() {
                    node.receive(direction, word, *now);
                }
            }
            node.advance(*now);
        }
        self.now += self.word_ns;
    }

    /// Cuts a cable: nothing passes in either direction.
    pub fn cut(&mut self, cable: Cable) {
        self.both_lines(cable, Line::cut);
    }

    /// Cuts the line from `from` in `direction`; what comes the other way passes.
    pub fn cut_one_way(&mut self, from: Node, direction: Direction) {
        if let Some(line) = &mut self.lines[from.index()][direction.index()] {
            line.cut();
        }
    }

    /// Repairs a cable.
    pub fn repair(&mut self, cable: Cable) {
        self.both_lines(cable, Line::repair);
    }

    fn both_lines(&mut self, cable: Cable, act: fn(&mut Line)) {
        let plus = Direction::of(cable.dimension, true);
        let far = self.lattice.neighbour(cable.from, plus);
        for (node, direction) in [(cable.from, plus), (far, plus.opposite())] {
            if let Some(line) = &mut self.lines[node.index()][direction.index()] {
                act(line);
            }
        }
    }

    /// Lets all nodes follow other routes.
    ///
    /// # Errors
    /// When the routes do not fit; no node has changed then.
    pub fn set_routes(&mut self, routes: &Arc<Routes>, epoch: u8) -> Result<(), UnfitRoutes> {
        self.nodes.iter().try_for_each(|node| node.check_routes(routes))?;
        self.nodes.iter_mut().try_for_each(|node| node.set_routes(Arc::clone(routes), epoch))
    }
}
