//! How long it takes until a fault is known.

use gannet_lattice::{Faults, Lattice};
use gannet_lofamo::Mode;
use gannet_measure::random::Random;
use serde::Serialize;

use super::{Error, check_cycles};
use crate::awareness::{Campaign, FaultKind, Watched};
use crate::trials::{Trace, Trials};

/// Longest time until a fault is known that is simulated, in cycles.
pub(super) const AWARE_MAX: u32 = 4_000_000;
/// Times of each kind of fault that are drawn from.
const SAMPLES: usize = 64;
/// Trials of awareness after which what there is has to do.
const TRIALS_MAX: u64 = 2000;
const HINT: &str = "; give a shorter watchdog period, a longer cycle, or the time itself";

/// When the master knows of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    /// After so many cycles.
    After {
        /// Cycles from the fault.
        cycles: u64,
    },
    /// As long after as it took in trials of [`awareness`](crate::awareness), of which one is drawn
    /// for each fault.
    Watched {
        /// How nodes are watched.
        mode: Mode,
        /// Watchdog period.
        period_ns: u64,
        /// A cycle of the network, in nanoseconds.
        cycle_ns: f64,
    },
}

/// Cycles from a fault until the master knows, to be drawn from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Delays<T = u32> {
    cables: Vec<T>,
    nodes: Vec<T>,
}

impl Warning {
    /// Delays of a machine, which depend on the seed.
    ///
    /// # Errors
    /// When a delay is longer than [`AWARE_MAX`], or 0.
    pub(super) fn delays(&self, lattice: Lattice, seed: u64) -> Result<Delays, Error> {
        let delays = match *self {
            Self::After { cycles } => Delays::fixed(cycles),
            Self::Watched { mode, period_ns, cycle_ns } => {
                Delays::watched(lattice, mode, period_ns, cycle_ns, seed)
            }
        };
        let Delays { cables, nodes } = delays;
        let most = cables.iter().chain(&nodes).copied().max().unwrap_or(0);
        check_cycles("becoming aware of a fault", most, AWARE_MAX, HINT)?;
        let narrow = |all: Vec<u64>| all.into_iter().map(|cycles| cycles as u32).collect();
        Ok(Delays { cables: narrow(cables), nodes: narrow(nodes) })
    }
}

impl Delays<u64> {
    fn fixed(cycles: u64) -> Self {
        Self { cables: vec![cycles], nodes: vec![cycles] }
    }

    fn watched(lattice: Lattice, mode: Mode, period_ns: u64, cycle_ns: f64, seed: u64) -> Self {
        let machine = Watched { seed, ..Watched::new(lattice, mode, period_ns) };
        let campaign = Campaign::new(machine, TRIALS_MAX, 1);
        let (mut simulation, mut trace) = (campaign.bench(), Trace::default());
        let cycles = |ns: u64| ((ns as f64 / cycle_ns).ceil() as u64).max(1);
        let mut delays = Self { cables: Vec::new(), nodes: Vec::new() };
        for index in 0..TRIALS_MAX {
            for (kind, after_ns) in campaign.run(index, &mut simulation, &mut trace).known {
                match kind {
                    FaultKind::CableCut => delays.cables.push(cycles(after_ns)),
                    FaultKind::NodeDead => delays.nodes.push(cycles(after_ns)),
                    _ => {}
                }
            }
            if delays.cables.len() >= SAMPLES && delays.nodes.len() >= SAMPLES {
                break;
            }
        }
        delays
    }
}

impl Delays<u32> {
    /// Cycles until the last of these faults is known.
    pub fn draw(&self, faults: &Faults, random: &mut Random) -> u32 {
        let mut pick = |delays: &[u32]| {
            delays.get(random.below(delays.len() as u64) as usize).copied().unwrap_or(1)
        };
        let nodes = (0..faults.dead_node_count()).map(|_| pick(&self.nodes)).max();
        let cables = (0..faults.dead_cable_count()).map(|_| pick(&self.cables)).max();
        nodes.max(cables).unwrap_or(1)
    }

    /// The longest.
    pub fn longest(&self) -> u32 {
        self.cables.iter().chain(&self.nodes).copied().max().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_come_from_awareness_in_cycles() {
        let lattice: Lattice = "3x3".parse().unwrap();
        let delays = |cycle_ns| {
            let watched = Warning::Watched { mode: Mode::Push, period_ns: 1_000_000, cycle_ns };
            watched.delays(lattice, 1).unwrap()
        };
        let (fine, coarse) = (delays(5.0), delays(50.0));
        assert!(fine.cables.len() >= SAMPLES && fine.nodes.len() >= SAMPLES);
        // A cut cable is known after tens of microseconds, a dead node within 1.2 periods.
        assert!(fine.cables.iter().all(|&it| (2_000..100_000).contains(&it)), "{fine:?}");
        assert!(fine.nodes.iter().all(|&it| (2_000..240_000).contains(&it)), "{fine:?}");
        assert_eq!(coarse.cables[0], fine.cables[0].div_ceil(10));
    }

    #[test]
    fn the_last_fault_counts() {
        let lattice: Lattice = "4x4".parse().unwrap();
        let delays = Delays { cables: vec![10], nodes: vec![30] };
        let random = &mut Random::new(1);
        let of = |nodes, cables| Faults::random(lattice, nodes, cables, &mut Random::new(2));
        assert_eq!(delays.draw(&of(0, 2), random), 10);
        assert_eq!(delays.draw(&of(1, 2), random), 30);
        assert_eq!(delays.longest(), 30);
    }

    #[test]
    fn times_too_long_to_simulate_are_refused() {
        let refused = |cycles| Warning::After { cycles }.delays("4".parse().unwrap(), 1);
        assert!(refused(0).is_err() && refused(1).is_ok());
        let what = refused(60_000_000).unwrap_err().to_string();
        assert!(what.contains("60000000 cycles") && what.contains("watchdog period"), "{what}");
    }
}
