//! What breaks, and when.

use std::fmt;

use gannet_lattice::{Cable, DIMENSIONS, Direction, Lattice, Node};
use gannet_measure::random::Random;
use serde::Serialize;

/// Most faults drawn for one trial, but for those of a partition, which count as one.
pub const FAULTS_MAX: u32 = 64;

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The host's software stops.
    HostHung,
    /// The NIC stops, and with it its links; the host goes on.
    NicDead,
    /// Host and NIC stop.
    NodeDead,
    /// The host cannot use the service network any more, and sees that its interface is down.
    ServiceDown,
    /// A part of the host is out of its limits.
    HostSick,
    /// A sensor of the NIC is over its threshold.
    SensorHigh,
    /// A cable carries nothing any more.
    CableCut,
    /// A cable has many errors.
    CableFlaky,
    /// A cable carries nothing any more in one direction. Only [`Hardship`](super::Hardship) makes
    /// it, of cables that are cut.
    CableHalfCut,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::HostHung,
        Self::NicDead,
        Self::NodeDead,
        Self::ServiceDown,
        Self::HostSick,
        Self::SensorHigh,
        Self::CableCut,
        Self::CableFlaky,
        Self::CableHalfCut,
    ];
    /// Kinds that are drawn, the first of all; the last two of them are of cables.
    const DRAWN: usize = 8;

    /// The name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::HostHung => "host hung",
            Self::NicDead => "NIC dead",
            Self::NodeDead => "node dead",
            Self::ServiceDown => "service network down",
            Self::HostSick => "host sick",
            Self::SensorHigh => "sensor high",
            Self::CableCut => "cable cut",
            Self::CableFlaky => "cable flaky",
            Self::CableHalfCut => "cable half cut",
        }
    }

    /// Whether a cable breaks, not a node.
    pub fn is_of_cable(self) -> bool {
        matches!(self, Self::CableCut | Self::CableFlaky | Self::CableHalfCut)
    }
}

/// Errors of a flaky cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errors {
    /// How many each end gets.
    pub count: u32,
    /// From one to the next, in the mean.
    pub gap_ns: u64,
}

impl Errors {
    /// More than any threshold in use, at 1e-6 of 28 Gbit/s.
    pub const MANY: Self = Self { count: 16, gap_ns: 36_000 };
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it begins.
    pub at_ns: u64,
    /// What happens.
    pub kind: FaultKind,
    /// The node, or the end of the cable that `direction` is of.
    pub node: Node,
    /// The link by which the cable leaves the node: the one that is dead if half of it is cut, else
    /// a plus direction; X+ for faults of nodes.
    pub direction: Direction,
    /// When it has healed; `None` stays.
    pub until_ns: Option<u64>,
    /// Errors of a flaky cable.
    pub errors: Errors,
}

impl Fault {
    /// A fault of a node.
    pub fn of_node(at_ns: u64, kind: FaultKind, node: Node) -> Self {
        let (direction, errors) = (Direction::XPlus, Errors::MANY);
        Self { at_ns, kind, node, direction, until_ns: None, errors }
    }

    /// A fault of a cable.
    pub fn of_cable(at_ns: u64, kind: FaultKind, cable: Cable) -> Self {
        let direction = Direction::of(cable.dimension, true);
        Self { direction, ..Self::of_node(at_ns, kind, cable.from) }
    }

    /// What breaks, whenever it does.
    fn thing(&self) -> (Node, FaultKind, usize) {
        (self.node, self.kind, self.direction.index())
    }

    /// When the last comes of it.
    pub fn last_ns(&self) -> u64 {
        self.until_ns.unwrap_or(self.at_ns)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.kind.name(), self.node)?;
        if self.kind.is_of_cable() { write!(f, " {}", self.direction) } else { Ok(()) }
    }
}

/// Draws up to `most` faults of a trial, in the order of time.
///
/// One trial in four has them all at once, the others within twice the watchdog period. In three of
/// ten they gather around one node, where they hide each other best. One in a hundred also has a
/// partition: all cables of a slab cut, and the service network down for all its nodes but none, one
/// or two.
pub fn random_faults(
    lattice: Lattice,
    period_ns: u64,
    most: u32,
    random: &mut Random,
) -> Vec<Fault> {
    let start_ns = period_ns / 10 + random.below(period_ns);
    let window_ns = if random.chance(0.25) { 0 } else { 2 * period_ns };
    let count = 1 + random.below(most.clamp(1, FAULTS_MAX).into());
    let centre = random.chance(0.3).then(|| any_node(lattice, random));
    let mut faults: Vec<Fault> = (0..count)
        .map(|_| {
            let at_ns = start_ns + random.below(window_ns + 1);
            random_fault(lattice, at_ns, centre, random)
        })
        .collect();
    if random.chance(0.01) {
        let at_ns = start_ns + random.below(window_ns + 1);
        partition(lattice, at_ns, random, &mut faults);
    }
    faults.sort_by_key(|fault| (fault.thing(), fault.at_ns));
    faults.dedup_by_key(|fault| fault.thing());
    faults.sort_by_key(|fault| (fault.at_ns, fault.thing()));
    faults
}

fn any_node(lattice: Lattice, random: &mut Random) -> Node {
    Node(random.below(lattice.nodes() as u64) as u32)
}

fn random_fault(lattice: Lattice, at_ns: u64, centre: Option<Node>, random: &mut Random) -> Fault {
    let links: Vec<Direction> =
        Direction::ALL.into_iter().filter(|&direction| lattice.has(direction)).collect();
    let kinds = FaultKind::DRAWN - if links.is_empty() { 2 } else { 0 };
    let kind = FaultKind::ALL[random.below(kinds as u64) as usize];
    let node = match centre {
        Some(centre) if random.chance(0.2) => centre,
        Some(centre) => lattice.neighbour(centre, Direction::ALL[random.below(6) as usize]),
        None => any_node(lattice, random),
    };
    if !kind.is_of_cable() {
        return Fault::of_node(at_ns, kind, node);
    }
    let direction = links[random.below(links.len() as u64) as usize];
    Fault::of_cable(at_ns, kind, lattice.cable(node, direction))
}

/// Cuts a slab out of a dimension.
fn partition(lattice: Lattice, at_ns: u64, random: &mut Random, faults: &mut Vec<Fault>) {
    let long: Vec<usize> = (0..DIMENSIONS).filter(|&d| lattice.sizes()[d] > 2).collect();
    if long.is_empty() {
        return;
    }
    let dimension = long[random.below(long.len() as u64) as usize];
    let size = lattice.sizes()[dimension];
    let first = random.below(size.into()) as u16;
    let thickness = 1 + random.below((size / 2).into()) as u16;
    let inside = |node: Node| {
        let place = lattice.coordinates(node)[dimension];
        (u32::from(place) + u32::from(size) - u32::from(first)) % u32::from(size)
            < u32::from(thickness)
    };
    let plus = Direction::of(dimension, true);
    let cut = lattice.all().filter(|&node| inside(node) != inside(lattice.neighbour(node, plus)));
    faults.extend(
        cut.map(|from| Fault::of_cable(at_ns, FaultKind::CableCut, Cable { from, dimension })),
    );
    let members: Vec<Node> = lattice.all().filter(|&node| inside(node)).collect();
    let any = |random: &mut Random| members[random.below(members.len() as u64) as usize];
    let spared: Vec<Node> = (0..random.below(3)).map(|_| any(random)).collect();
    let lonely = members.iter().filter(|node| !spared.contains(node));
    faults.extend(lonely.map(|&node| Fault::of_node(at_ns, FaultKind::ServiceDown, node)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_those_of_their_seed_in_order_and_all_different() {
        let lattice: Lattice = "4x4x4".parse().unwrap();
        let draw = |trial| random_faults(lattice, 1_000_000, 6, &mut Random::stream(9, trial));
        let mut kinds = [0; 8];
        for trial in 0..500 {
            let faults = draw(trial);
            assert_eq!(faults, draw(trial));
            assert!(faults.is_sorted_by_key(|fault| fault.at_ns) && !faults.is_empty());
            assert!(faults.iter().all(|fault| fault.at_ns >= 100_000 && fault.at_ns <= 3_100_000));
            for (index, fault) in faults.iter().enumerate() {
                kinds[fault.kind as usize] += 1;
                assert!(faults[..index].iter().all(|other| other.thing() != fault.thing()));
            }
        }
        assert!(kinds.iter().all(|&count| count > 50), "{kinds:?}");
    }

    #[test]
    fn a_partition_cuts_two_planes() {
        let lattice: Lattice = "8x4x1".parse().unwrap();
        for seed in 0..50 {
            let mut faults = Vec::new();
            partition(lattice, 5, &mut Random::new(seed), &mut faults);
            let cut = faults.iter().filter(|fault| fault.kind == FaultKind::CableCut).count();
            assert!([8, 16].contains(&cut), "{cut}");
        }
    }

    #[test]
    fn a_lattice_of_one_node_has_no_cables_to_break() {
        let lattice: Lattice = "1".parse().unwrap();
        let faults = random_faults(lattice, 1000, 9, &mut Random::new(3));
        assert!(faults.iter().all(|fault| !fault.kind.is_of_cable()));
    }
}
