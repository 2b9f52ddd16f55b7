//! Does a torus survive its faults? Random faults against [`routes`](gannet_torus::routes) and
//! [`simulator`](gannet_torus::simulator).
//!
//! [`RoutingCampaign`] draws sets of dead nodes and cables, plans routes round each, proves them
//! anew by other means than the planner, and lets an overload on them drain. [`RerouteCampaign`]
//! breaks something of a machine under load: packets are lost until the fault is known and other
//! routes are in use, and then sent again.

mod proof;
mod reroute;
mod routing;
mod series;
mod warning;

use std::fmt;

use gannet_lattice::{Direction, Faults, Lattice};
use gannet_measure::random::Random;
use gannet_torus::routes::{MAX_CHECKED_NODES, Refused};
use gannet_torus::simulator::{FlowControl, Pattern, Setup, SetupError, Simulation};
use serde::Serialize;
use thiserror::Error;

pub use proof::Proof;
pub use reroute::{RerouteCampaign, RerouteReport, RerouteResult, RerouteTrials};
pub use routing::{Figures, Routed, RoutingCampaign, RoutingReport, RoutingResult, Row};
pub use series::{Instant, Series};
pub use warning::Warning;

use crate::trials::TRIALS_MAX;

/// Why a campaign cannot be run.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A value of the machine is outside its range.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// No routes are planned for a machine of this size.
    #[error(transparent)]
    TooLarge(#[from] Refused),
    /// Bubbles take the place of the classes of channels that routes round faults rely on.
    #[error("bubble flow control goes with rings that are whole: choose another")]
    Bubble,
    /// The number of trials is outside its range.
    #[error("{0} trials: choose 1 to {TRIALS_MAX}")]
    Trials(u64),
    /// More faults at the least than at the most.
    #[error("{least} {what} at the least and {most} at the most: the first is larger")]
    Counts {
        /// Dead nodes or cables.
        what: &'static str,
        /// Fewest of them.
        least: u32,
        /// Most of them.
        most: u32,
    },
    /// A trial could have no fault at all.
    #[error("0 dead nodes and 0 dead cables at the least: nothing would fail in some trials")]
    NoFault,
    /// A time is outside its range.
    #[error("{what} takes {cycles} cycles: choose 1 to {most}{hint}")]
    Cycles {
        /// What takes so long.
        what: &'static str,
        /// How long.
        cycles: u64,
        /// The longest that is simulated.
        most: u32,
        /// What to do about it.
        hint: &'static str,
    },
}

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
    fn draw(&self, lattice: Lattice, random: &mut Random) -> Faults {
        let mut between = |(least, most): (u32, u32)| {
            u64::from(least) + random.below(u64::from(most.saturating_sub(least)) + 1)
        };
        let (nodes, cables) = (between(self.nodes), between(self.cables));
        let nodes = (nodes as usize).min(lattice.nodes() - 1);
        Faults::random(lattice, nodes, cables as usize, random)
    }
}

/// A set of faults round which no routes were installed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Refusal {
    /// Number of the trial.
    pub trial: u64,
    /// The reason.
    pub why: String,
}

/// A set of faults in words.
struct Told<'a>(&'a Faults);

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

/// Checks what both campaigns have in common.
fn check(setup: &Setup, load: f64, counts: &FaultCounts, trials: u64) -> Result<(), Error> {
    if setup.flow_control == FlowControl::Bubble {
        return Err(Error::Bubble);
    }
    let alone = Setup { threads: 1, ..setup.clone() };
    alone.check(&Pattern::Uniform, load)?;
    let nodes = setup.lattice.nodes();
    if nodes > MAX_CHECKED_NODES {
        return Err(Refused::TooLarge(nodes).into());
    }
    if !(1..=TRIALS_MAX).contains(&trials) {
        return Err(Error::Trials(trials));
    }
    for (what, (least, most)) in [("dead nodes", counts.nodes), ("dead cables", counts.cables)] {
        if least > most {
            return Err(Error::Counts { what, least, most });
        }
    }
    Ok(())
}

/// Checks that something takes 1 to `most` cycles.
fn check_cycles(
    what: &'static str,
    cycles: u64,
    most: u32,
    hint: &'static str,
) -> Result<(), Error> {
    if (1..=u64::from(most)).contains(&cycles) {
        return Ok(());
    }
    Err(Error::Cycles { what, cycles, most, hint })
}

/// Stops sources and lets the network go on by `stride` cycles until nothing is under way: the
/// cycles it took. After `longest` it is taken to be stuck.
fn drain(
    simulation: &mut Simulation,
    longest: u32,
    stride: u32,
    mut advance: impl FnMut(&mut Simulation, u32),
) -> Result<u32, String> {
    let begin = simulation.now();
    simulation.pause();
    while !simulation.is_empty() {
        if simulation.now() - begin >= longest {
            let totals = simulation.totals();
            return Err(format!("stuck: not drained after {longest} cycles, {totals:?}"));
        }
        advance(simulation, stride);
    }
    Ok(simulation.now() - begin)
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
