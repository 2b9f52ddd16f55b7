//! Which packets are made, by whom, for whom, and when.

use std::sync::Arc;

use gannet_lattice::{Direction, Lattice, Node};
use gannet_measure::random::Random;

use super::trace::Trace;

/// Traffic patterns.
///
/// Tornado, neighbour and bit complement are the usual ones (Dally and Towles, "Principles and
/// practices of interconnection networks", 2004), taken per coordinate, so that they are defined
/// for every lattice.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Any node, the sender included.
    Uniform,
    /// The next node in every dimension at once.
    Neighbour,
    /// `ceil(k / 2) - 1` nodes on in every ring of k.
    Tornado,
    /// The node at the mirrored coordinates.
    BitComplement,
    /// One node in the middle for a part of all packets, any node for the rest.
    HotSpot {
        /// Part of the packets that go to it, 0 to 1.
        fraction: f64,
    },
    /// Bursts of one packet to each neighbour, all nodes at once: a sweep over a divided volume.
    Halo,
    /// Bursts of one packet to every other node, all nodes at once.
    AllToAll,
    /// The packets of a file.
    Trace(Arc<Trace>),
}

impl Pattern {
    /// Where all packets of a node go, for patterns in which that is one place.
    pub fn fixed_destination(&self, lattice: Lattice, node: Node) -> Option<Node> {
        let step: fn(u32, u32) -> u32 = match self {
            Self::Neighbour => |x, k| (x + 1) % k,
            Self::Tornado => |x, k| (x + k.div_ceil(2) - 1) % k,
            Self::BitComplement => |x, k| k - 1 - x,
            _ => return None,
        };
        let (place, sizes) = (lattice.coordinates(node), lattice.sizes());
        let moved = |d: usize| step(u32::from(place[d]), u32::from(sizes[d])) as u16;
        Some(lattice.node(std::array::from_fn(moved)))
    }

    /// The node that [`Pattern::HotSpot`] favours.
    pub fn hot_spot(lattice: Lattice) -> Node {
        lattice.node(lattice.sizes().map(|size| size / 2))
    }

    /// Packets that a node makes at once; 0 where a pattern of bursts has nobody to send to.
    pub fn burst(&self, lattice: Lattice) -> usize {
        match self {
            Self::Halo => 2 * lattice.dimensions().count(),
            Self::AllToAll => lattice.nodes() - 1,
            _ => 1,
        }
    }
}

/// Makes the packets of one node.
#[derive(Clone, Debug)]
pub struct Generator {
    random: Random,
    /// Packets made so far, for patterns that go round.
    made: u32,
    /// Cycle at which the packet that is next was made.
    born: u32,
}

/// What the generators of all nodes have in common.
#[derive(Clone, Debug)]
pub struct Traffic {
    pub(super) lattice: Lattice,
    pub(super) pattern: Pattern,
    /// Flits of a packet.
    pub(super) flits: u16,
    /// Logarithm of the probability that a node makes no packet in a cycle.
    log_idle: f64,
    /// Cycles from one burst to the next.
    burst_period: f64,
}

/// The cycle of a packet that is never made.
pub(super) const NEVER: u32 = u32::MAX;

impl Traffic {
    /// Traffic of `load` flits per node and cycle, in packets of `flits`; a trace brings its own.
    pub fn new(lattice: Lattice, pattern: Pattern, load: f64, flits: u16) -> Self {
        let packets = load / f64::from(flits);
        let burst_period = (pattern.burst(lattice) as f64 / packets).max(1.0);
        Self { lattice, pattern, flits, log_idle: (-packets.min(1.0)).ln_1p(), burst_period }
    }

    /// The generator of one node, and its first packet.
    pub fn generator(&self, node: Node, seed: u64) -> Generator {
        let random = Random::stream(seed, u64::from(node.0));
        let mut generator = Generator { random, made: 0, born: 0 };
        generator.born = match self.pattern {
            Pattern::Halo | Pattern::AllToAll | Pattern::Trace(_) => self.burst_start(node, 0),
            _ => self.gap(&mut generator.random).saturating_sub(1),
        };
        generator
    }

    /// Cycles to the next packet of a node that makes one with equal probability in each cycle.
    fn gap(&self, random: &mut Random) -> u32 {
        if self.log_idle == 0.0 {
            return NEVER;
        }
        let gap = (1.0 - random.unit()).ln() / self.log_idle;
        if gap < f64::from(u32::MAX / 2) { 1 + gap as u32 } else { NEVER }
    }

    /// Cycle of packet `number` of a node, for patterns whose times are not random.
    fn burst_start(&self, node: Node, number: u32) -> u32 {
        if let Pattern::Trace(trace) = &self.pattern {
            let packet = trace.by_source[node.index()].get(number as usize);
            return packet.map_or(NEVER, |packet| packet.cycle);
        }
        let burst = self.pattern.burst(self.lattice) as u32;
        if burst == 0 || !self.burst_period.is_finite() {
            return NEVER;
        }
        (f64::from(number / burst) * self.burst_period) as u32
    }

    fn destination(&self, node: Node, made: u32, random: &mut Random) -> Node {
        let (lattice, nodes) = (self.lattice, self.lattice.nodes() as u32);
        match &self.pattern {
            Pattern::HotSpot { fraction } if random.chance(*fraction) => Pattern::hot_spot(lattice),
            Pattern::Uniform | Pattern::HotSpot { .. } => {
                Node(random.below(u64::from(nodes)) as u32)
            }
            fixed @ (Pattern::Neighbour | Pattern::Tornado | Pattern::BitComplement) => {
                fixed.fixed_destination(lattice, node).expect("the destination is fixed")
            }
            Pattern::Halo => {
                let turn = made as usize % self.pattern.burst(lattice);
                let dimension = lattice.dimensions().nth(turn / 2).expect("turn is below links");
                lattice.neighbour(node, Direction::of(dimension, turn.is_multiple_of(2)))
            }
            Pattern::AllToAll => Node((node.0 + 1 + made % (nodes - 1)) % nodes),
            Pattern::Trace(trace) => trace.by_source[node.index()][made as usize].destination,
        }
    }
}

/// A packet as it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The cycle of it.
    pub born: u32,
    /// Where it goes.
    pub destination: Node,
    /// Its flits.
    pub flits: u16,
}

impl Generator {
    /// Cycle at which the next packet is made; the last one that there is if none is made any more.
    #[inline]
    pub fn next_at(&self) -> u32 {
        self.born
    }

    /// Makes no packets any more.
    pub fn stop(&mut self) {
        self.born = NEVER;
    }

    /// Makes the next packet, which must be due.
    pub fn make(&mut self, node: Node, traffic: &Traffic) -> Made {
        let destination = traffic.destination(node, self.made, &mut self.random);
        let flits = match &traffic.pattern {
            Pattern::Trace(trace) => trace.by_source[node.index()][self.made as usize].flits,
            _ => traffic.flits,
        };
        let made = Made { born: self.born, destination, flits };
        self.made = self.made.wrapping_add(1);
        self.born = match traffic.pattern {
            Pattern::Halo | Pattern::AllToAll | Pattern::Trace(_) => {
                traffic.burst_start(node, self.made)
            }
            _ => self.born.saturating_add(traffic.gap(&mut self.random)),
        };
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(lattice: &str, pattern: Pattern, load: f64, flits: u16) -> Traffic {
        Traffic::new(lattice.parse().unwrap(), pattern, load, flits)
    }

    fn first(traffic: &Traffic, node: u32, count: usize) -> Vec<Made> {
        let mut generator = traffic.generator(Node(node), 1);
        (0..count).map(|_| generator.make(Node(node), traffic)).collect()
    }

    #[test]
    fn load_is_flits_per_cycle() {
        for (load, flits) in [(0.3, 1), (0.9, 18), (1.0, 1), (0.01, 4)] {
            let traffic = traffic("8x8x8", Pattern::Uniform, load, flits);
            let last = *first(&traffic, 5, 20_000).last().unwrap();
            let measured = 20_000.0 * f64::from(flits) / f64::from(last.born + 1);
            assert!((measured / load - 1.0).abs() < 0.03, "{measured} for {load}");
        }
    }

    #[test]
    fn patterns_go_where_their_definition_says() {
        let to = |lattice, pattern, node| {
            first(&traffic(lattice, pattern, 0.5, 1), node, 1)[0].destination.0
        };
        assert_eq!(to("8x8", Pattern::Tornado, 0), 3 + 3 * 8);
        assert_eq!(to("5x4", Pattern::Tornado, 0), 2 + 5);
        assert_eq!(to("8x8", Pattern::Neighbour, 63), 0);
        assert_eq!(to("8x8", Pattern::BitComplement, 1), 62);
        assert_eq!(to("3x1x1", Pattern::AllToAll, 2), 0);
    }

    #[test]
    fn bursts_reach_everybody_once() {
        let halo: Vec<Made> = first(&traffic("4x4", Pattern::Halo, 0.5, 2), 0, 5);
        let to: Vec<u32> = halo.iter().map(|made| made.destination.0).collect();
        assert_eq!(to, [1, 3, 4, 12, 1]);
        let born: Vec<u32> = halo.iter().map(|made| made.born).collect();
        assert_eq!(born, [0, 0, 0, 0, 16]);
        let mut all: Vec<u32> = first(&traffic("4x2", Pattern::AllToAll, 0.5, 1), 3, 7)
            .iter()
            .map(|m| m.destination.0)
            .collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 4, 5, 6, 7]);
    }

    #[test]
    fn traces_are_read_and_their_errors_placed() {
        let lattice: Lattice = "2x2".parse().unwrap();
        let trace =
            Trace::parse("cycle,source,destination,flits\n9,0,3,2\n# x\n4, 0, 1, 1\n", lattice)
                .unwrap();
        assert_eq!((trace.len(), trace.longest(), trace.last_cycle()), (2, 2, 9));
        let made = first(&Traffic::new(lattice, Pattern::Trace(Arc::new(trace)), 0.0, 1), 0, 2);
        assert_eq!(made.iter().map(|made| made.born).collect::<Vec<_>>(), [4, 9]);
        let marked = Trace::parse("\u{feff}4,0,1,1\n", lattice).unwrap();
        assert_eq!((marked.len(), marked.last_cycle()), (1, 4));
        let bad = ["1,2,3\n", "\n1,0,4,1", "1,0,1,0", "1,0,x,1", "1,0,1,1,1", "1,0,1,1,"];
        for (text, line) in bad.into_iter().zip([1, 2, 1, 1, 1, 1]) {
            assert_eq!(Trace::parse(text, lattice).unwrap_err().line, line, "{text}");
        }
    }
}
