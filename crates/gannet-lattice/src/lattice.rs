//! The shape of a torus: nodes, coordinates, directions and cables.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

/// Dimensions of a torus; a ring of one node has no links.
pub const DIMENSIONS: usize = 3;
/// Links of a node, one per [`Direction`].
pub const LINKS: usize = 2 * DIMENSIONS;
/// Most nodes of a lattice: 2^20, sixteen times what the header of the published APElink reaches.
pub const MAX_NODES: usize = 1 << 20;

/// A node of a lattice, by its number; x runs fastest, then y, then z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Node(pub u32);

impl Node {
    /// The number of the node, to index arrays with.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Node {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "node {}", self.0)
    }
}

/// The place of a node in x, y and z, each from 0.
pub type Coordinates = [u16; DIMENSIONS];

/// One of the six links of a node, in the order X+, X-, Y+, Y-, Z+, Z-.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Direction {
    /// To the next node in x.
    XPlus,
    /// To the previous node in x.
    XMinus,
    /// To the next node in y.
    YPlus,
    /// To the previous node in y.
    YMinus,
    /// To the next node in z.
    ZPlus,
    /// To the previous node in z.
    ZMinus,
}

impl Direction {
    /// All directions in the order of their numbers.
    pub const ALL: [Direction; LINKS] =
        [Self::XPlus, Self::XMinus, Self::YPlus, Self::YMinus, Self::ZPlus, Self::ZMinus];

    /// The direction of `dimension` (0, 1 or 2), towards larger coordinates if `plus`.
    ///
    /// # Panics
    ///
    /// When `dimension` is not below [`DIMENSIONS`].
    #[inline]
    pub fn of(dimension: usize, plus: bool) -> Self {
        Self::ALL[2 * dimension + usize::from(!plus)]
    }

    /// The number of the direction, 0 to 5.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }

    /// 0 for x, 1 for y, 2 for z.
    #[inline]
    pub fn dimension(self) -> usize {
        self as usize / 2
    }

    /// Whether coordinates grow this way, but for the wrap from the last node to the first.
    #[inline]
    pub fn is_plus(self) -> bool {
        (self as usize).is_multiple_of(2)
    }

    /// The direction back.
    #[inline]
    pub fn opposite(self) -> Self {
        Self::ALL[self as usize ^ 1]
    }

    /// The name used in tables and files: `X+` to `Z-`.
    pub fn name(self) -> &'static str {
        ["X+", "X-", "Y+", "Y-", "Z+", "Z-"][self as usize]
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Direction {
    type Err = String;

    /// Reads `X+` to `Z-`, in capitals or not.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = |direction: &Self| direction.name().eq_ignore_ascii_case(text.trim());
        let none = || format!("`{text}` is no link: links are X+, X-, Y+, Y-, Z+ and Z-");
        Self::ALL.into_iter().find(named).ok_or_else(none)
    }
}

/// A cable, named by the node from which it leads in a plus direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Cable {
    /// The node at the end whose link is a plus direction.
    pub from: Node,
    /// 0 for x, 1 for y, 2 for z.
    pub dimension: usize,
}

/// A torus of up to three dimensions whose sizes may differ.
///
/// A ring of one node has no links; in a ring of two, the two nodes are joined by two cables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Lattice {
    sizes: [u16; DIMENSIONS],
}

/// Why a lattice cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LatticeError {
    /// The text is not sizes joined by `x`.
    #[error("`{0}` is no lattice: write one to three sizes joined by x, such as 8x8x8 or 16x4")]
    Syntax(String),
    /// A size is a number that no ring can have.
    #[error("`{0}` is no lattice: a ring has at most 65535 nodes, and a lattice {MAX_NODES}")]
    Ring(String),
    /// A size is zero.
    #[error("a lattice of {0}x{1}x{2} has no nodes: each size is at least 1")]
    Empty(u16, u16, u16),
    /// The lattice is larger than what node numbers are kept for.
    #[error("a lattice of {0}x{1}x{2} has {nodes} nodes: at most {MAX_NODES} can be handled", nodes = u64::from(*.0) * u64::from(*.1) * u64::from(*.2))]
    TooLarge(u16, u16, u16),
}

impl Lattice {
    /// A lattice of these sizes in x, y and z.
    ///
    /// # Errors
    ///
    /// When a size is zero or the nodes exceed [`MAX_NODES`].
    pub fn new(sizes: [u16; DIMENSIONS]) -> Result<Self, LatticeError> {
        let [x, y, z] = sizes;
        match sizes.iter().map(|&size| u64::from(size)).product::<u64>() {
            0 => Err(LatticeError::Empty(x, y, z)),
            nodes if nodes > MAX_NODES as u64 => Err(LatticeError::TooLarge(x, y, z)),
            _ => Ok(Self { sizes }),
        }
    }

    /// Sizes in x, y and z.
    #[inline]
    pub fn sizes(&self) -> [u16; DIMENSIONS] {
        self.sizes
    }

    /// Number of nodes.
    #[inline]
    pub fn nodes(&self) -> usize {
        self.sizes.iter().map(|&size| usize::from(size)).product()
    }

    /// All nodes in the order of their numbers.
    pub fn all(&self) -> impl ExactSizeIterator<Item = Node> + use<> {
        (0..self.nodes() as u32).map(Node)
    }

    /// Dimensions of more than one node.
    pub fn dimensions(&self) -> impl Iterator<Item = usize> + use<> {
        let sizes = self.sizes;
        (0..DIMENSIONS).filter(move |&dimension| sizes[dimension] > 1)
    }

    /// Coordinates of `node`.
    #[inline]
    pub fn coordinates(&self, node: Node) -> Coordinates {
        let [x, y, _] = self.sizes.map(u32::from);
        let row = node.0 / x;
        [(node.0 % x) as u16, (row % y) as u16, (row / y) as u16]
    }

    /// The node at `place`.
    ///
    /// # Panics
    ///
    /// In debug builds, when `place` lies outside.
    #[inline]
    pub fn node(&self, place: Coordinates) -> Node {
        debug_assert!((0..DIMENSIONS).all(|d| place[d] < self.sizes[d]));
        let [x, y, _] = self.sizes.map(u32::from);
        let [px, py, pz] = place.map(u32::from);
        Node((pz * y + py) * x + px)
    }

    /// Whether nodes have a link in this direction.
    #[inline]
    pub fn has(&self, direction: Direction) -> bool {
        self.sizes[direction.dimension()] > 1
    }

    /// The node at the other end of the link of `node`; the node itself in a ring of one.
    #[inline]
    pub fn neighbour(&self, node: Node, direction: Direction) -> Node {
        let dimension = direction.dimension();
        let size = self.sizes[dimension];
        let mut place = self.coordinates(node);
        place[dimension] = if direction.is_plus() {
            if place[dimension] + 1 == size { 0 } else { place[dimension] + 1 }
        } else if place[dimension] == 0 {
            size - 1
        } else {
            place[dimension] - 1
        };
        self.node(place)
    }

    /// The cable at the link of `node` in `direction`.
    #[inline]
    pub fn cable(&self, node: Node, direction: Direction) -> Cable {
        let from = if direction.is_plus() { node } else { self.neighbour(node, direction) };
        Cable { from, dimension: direction.dimension() }
    }

    /// All cables of the lattice.
    pub fn cables(&self) -> impl Iterator<Item = Cable> + use<> {
        let lattice = *self;
        self.all().flat_map(move |from| {
            lattice.dimensions().map(move |dimension| Cable { from, dimension })
        })
    }

    /// Fewest links between two nodes.
    pub fn distance(&self, from: Node, to: Node) -> u32 {
        let (a, b) = (self.coordinates(from), self.coordinates(to));
        (0..DIMENSIONS)
            .map(|dimension| {
                let way = a[dimension].abs_diff(b[dimension]);
                u32::from(way.min(self.sizes[dimension] - way))
            })
            .sum()
    }

    /// Largest [`distance`](Self::distance) of any two nodes.
    pub fn diameter(&self) -> u32 {
        self.sizes.iter().map(|&size| u32::from(size / 2)).sum()
    }

    /// Mean distance of two nodes drawn at random, which may be the same.
    pub fn mean_distance(&self) -> f64 {
        let mean = |size: u16| {
            let k = f64::from(size);
            if size.is_multiple_of(2) { k / 4.0 } else { (k * k - 1.0) / (4.0 * k) }
        };
        self.sizes.iter().map(|&size| mean(size)).sum()
    }
}

impl fmt::Display for Lattice {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let [x, y, z] = self.sizes;
        write!(out, "{x}x{y}x{z}")
    }
}

impl FromStr for Lattice {
    type Err = LatticeError;

    fn from_str(text: &str) -> Result<Self, LatticeError> {
        let syntax = || LatticeError::Syntax(text.to_owned());
        let size_of = |part: &str| {
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            let error = || if is_number { LatticeError::Ring(text.to_owned()) } else { syntax() };
            part.parse().map_err(|_| error())
        };
        let mut sizes = [1; DIMENSIONS];
        let mut parts = text.split('x');
        for size in &mut sizes {
            match parts.next() {
                Some(part) => *size = size_of(part.trim())?,
                None => break,
            }
        }
        if parts.next().is_some() { Err(syntax()) } else { Self::new(sizes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lattice() -> impl Strategy<Value = Lattice> {
        [1u16..9, 1u16..9, 1u16..9].prop_map(|sizes| Lattice::new(sizes).unwrap())
    }

    proptest! {
        #[test]
        fn a_step_and_a_step_back_lead_home(lattice in lattice(), pick: u32) {
            let node = Node(pick % lattice.nodes() as u32);
            prop_assert_eq!(lattice.node(lattice.coordinates(node)), node);
            for direction in Direction::ALL {
                let next = lattice.neighbour(node, direction);
                prop_assert_eq!(lattice.neighbour(next, direction.opposite()), node);
                prop_assert_eq!(lattice.cable(node, direction), lattice.cable(next, direction.opposite()));
                prop_assert!(lattice.distance(node, next) <= 1);
            }
        }

        #[test]
        fn distances_agree_with_diameter_and_mean(lattice in lattice()) {
            let distances = || lattice.all().map(|to| lattice.distance(Node(0), to));
            prop_assert_eq!(distances().max().unwrap(), lattice.diameter());
            let mean = f64::from(distances().sum::<u32>()) / lattice.nodes() as f64;
            prop_assert!((mean - lattice.mean_distance()).abs() < 1e-9);
        }
    }

    #[test]
    fn mean_distances_are_the_published_ones() {
        let mean = |text: &str| text.parse::<Lattice>().unwrap().mean_distance();
        assert_eq!(
            (mean("4x4x1"), mean("4x4x4"), mean("8x8x8"), mean("46x46x46")),
            (2.0, 3.0, 6.0, 34.5)
        );
    }

    #[test]
    fn sizes_are_read_and_wrong_ones_refused() {
        assert_eq!("16x4".parse::<Lattice>().unwrap().sizes(), [16, 4, 1]);
        assert_eq!("8".parse::<Lattice>().unwrap().to_string(), "8x1x1");
        for text in ["", "8x", "axb", "2x2x2x2", "-1x2", "0x3", "60000x60000x60000"] {
            assert!(text.parse::<Lattice>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_ring_of_two_has_two_cables_and_a_ring_of_one_none() {
        let lattice: Lattice = "2x1x3".parse().unwrap();
        assert_eq!(lattice.cables().filter(|cable| cable.dimension == 0).count(), 6);
        assert_eq!(lattice.cables().filter(|cable| cable.dimension == 1).count(), 0);
        assert!(!lattice.has(Direction::YMinus));
    }
}
