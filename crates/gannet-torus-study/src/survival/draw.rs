//! Random sets of faults.

use std::fmt;

use gannet_lattice::{Direction, Faults, Lattice};
use gannet_measure::random::Random;
use serde::Serialize;

/// How many nodes and cables fail in a trial: from the first number to the last, each as likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FaultCounts {
    /// Fewest and most dead nodes.
    pub nodes: (u32, u32),
    /// Fewest and most dead cables.
    pub cables: (u32, u32),
}

impl FaultCounts {
    /// A set of faults, each as likely as any other of as many nodes and cables; at least one node
    /// stays.
    pub(super) fn draw(&self, lattice: Lattice, random: &mut Random) -> Faults {
        let mut between = |(least, most): (u32, u32)| {
            u64::from(least) + random.below(u64::from(most.saturating_sub(least)) + 1)
        };
        let (nodes, cables) = (between(self.nodes), between(self.cables));
        let nodes = (nodes as usize).min(lattice.nodes() - 1);
        Faults::random(lattice, nodes, cables as usize, random)
    }
}

/// A set of faults in words.
pub(super) struct Told<'a>(pub &'a Faults);

impl fmt::Display for Told<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let faults = self.0;
        write!(out, "{} dead nodes:", faults.dead_node_count())?;
        for node in faults.dead_nodes() {
            write!(out, " {}", node.0)?;
        }
        write!(out, "; {} dead cables:", faults.dead_cable_count())?;
        for cable in faults.dead_cables() {
            write!(out, " {}:{}", cable.from.0, Direction::of(cable.dimension, true))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_as_many_as_asked_for_and_a_node_stays() {
        let counts = FaultCounts { nodes: (1, 9), cables: (2, 4) };
        let mut seen = [[false; 10]; 5];
        for index in 0..400 {
            let faults = counts.draw("3x3".parse().unwrap(), &mut Random::stream(1, index));
            seen[faults.dead_cable_count()][faults.dead_node_count()] = true;
        }
        for (cables, nodes) in seen.iter().enumerate() {
            for (count, &seen) in nodes.iter().enumerate() {
                assert_eq!(seen, (2..=4).contains(&cables) && (1..=8).contains(&count));
            }
        }
    }
}
