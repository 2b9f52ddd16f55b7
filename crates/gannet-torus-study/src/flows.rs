//! Who sends how much to whom: the patterns of the simulator as numbers.

use gannet_lattice::{Direction, Lattice, Node};
use gannet_torus::simulator::Pattern;

/// What goes from one node to another, or from each to all, in a cycle at a load of 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub flits: f64,
    pub packets: f64,
}

impl Flow {
    /// So many flits in packets of this length.
    pub fn new(flits: f64, packet_flits: u16) -> Self {
        Self { flits, packets: flits / f64::from(packet_flits) }
    }

    pub fn times(self, factor: f64) -> Self {
        Self { flits: factor * self.flits, packets: factor * self.packets }
    }
}

/// Calls `visit` with source, destination and flow for all that a pattern sends but for what it
/// [spreads](spread) evenly over all nodes; packets that are not of a trace have `packet_flits`.
pub(super) fn each(
    lattice: Lattice,
    pattern: &Pattern,
    packet_flits: u16,
    visit: &mut dyn FnMut(Node, Node, Flow),
) {
    let mut all = |to: &dyn Fn(Node) -> Node, flits: f64| {
        lattice.all().for_each(|from| visit(from, to(from), Flow::new(flits, packet_flits)));
    };
    match pattern {
        Pattern::Uniform => {}
        Pattern::Neighbour | Pattern::Tornado | Pattern::BitComplement => {
            all(&|from| pattern.fixed_destination(lattice, from).unwrap_or(from), 1.0);
        }
        Pattern::HotSpot { fraction } => all(&|_| Pattern::hot_spot(lattice), *fraction),
        Pattern::Halo => {
            let links: Vec<_> = Direction::ALL.into_iter().filter(|&d| lattice.has(d)).collect();
            for &link in &links {
                all(&|from| lattice.neighbour(from, link), 1.0 / links.len() as f64);
            }
        }
        Pattern::AllToAll => {
            // What is spread reaches the sender, too; the pattern does not.
            let others = lattice.nodes() as f64 - 1.0;
            if others > 0.0 {
                all(&|from| from, -1.0 / others);
            }
        }
        Pattern::Trace(trace) => {
            let flits: u64 = trace.packets().map(|(_, packet)| u64::from(packet.flits)).sum();
            let unit = lattice.nodes() as f64 / flits.max(1) as f64;
            for (from, packet) in trace.packets() {
                let flow = Flow::new(f64::from(packet.flits) * unit, packet.flits);
                visit(from, packet.destination, flow);
            }
        }
    }
}

/// Flits per node and cycle that go evenly to all nodes, the sender included, at a load of 1.
pub(super) fn spread(lattice: Lattice, pattern: &Pattern) -> f64 {
    let nodes = lattice.nodes() as f64;
    match pattern {
        Pattern::Uniform => 1.0,
        Pattern::HotSpot { fraction } => 1.0 - fraction,
        Pattern::AllToAll if nodes > 1.0 => nodes / (nodes - 1.0),
        _ => 0.0,
    }
}
