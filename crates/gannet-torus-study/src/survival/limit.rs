//! What a campaign cannot be.

use gannet_torus::routes::{MAX_CHECKED_NODES, Refused};
use gannet_torus::simulator::{FlowControl, Pattern, Setup, SetupError};
use thiserror::Error;

use super::draw::FaultCounts;
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

/// Checks what both campaigns have in common.
pub(super) fn check(
    setup: &Setup,
    load: f64,
    counts: &FaultCounts,
    trials: u64,
) -> Result<(), Error> {
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
pub(super) fn check_cycles(
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
