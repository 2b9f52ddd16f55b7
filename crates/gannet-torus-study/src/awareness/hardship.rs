//! What faults may be like beside those of the published figures, which stay, cut cables both ways
//! and spare the master.

use gannet_lattice::Lattice;
use gannet_measure::random::Random;
use serde::Serialize;

use super::distribution::Limits;
use super::fault::{Errors, Fault, FaultKind};

/// Most errors that an end of a cable of random errors gets: half of such cables have fewer than
/// make a link sick.
const ERRORS_MAX: u64 = 24;
/// Least and greatest mean gap between them.
const GAP_MIN_NS: f64 = 10_000.0;
const GAP_MAX_NS: f64 = 10_000_000.0;

/// How much harder than the published ones trials are; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Hardship {
    /// Part of the faults that heal: after anything up to twice the longest time that they may take
    /// to be known. Hosts and NICs start anew then.
    pub heal: f64,
    /// Part of the cut cables that are cut in one direction only.
    pub half_cut: f64,
    /// Part of the flaky cables whose ends get a random number of errors at a random rate: 1 to 24,
    /// of which 11 make a link sick, 10 us to 10 ms apart. Awareness counts from the eleventh.
    pub random_errors: f64,
    /// Whether the master runs on a host, the first that can speak, and dies with it or its service
    /// network. The next takes over with an empty picture when the silence is noticed.
    pub mortal_master: bool,
}

impl Hardship {
    /// Whether anything is harder.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Makes the faults of a trial harder. What is not asked for draws no random numbers.
    pub(super) fn harden(
        &self,
        faults: &mut [Fault],
        (lattice, limits): (Lattice, Limits),
        random: &mut Random,
    ) {
        let drawn = |part: f64, random: &mut Random| part > 0.0 && random.chance(part);
        for fault in faults {
            if fault.kind == FaultKind::CableCut && drawn(self.half_cut, random) {
                fault.kind = FaultKind::CableHalfCut;
                if random.chance(0.5) {
                    fault.node = lattice.neighbour(fault.node, fault.direction);
                    fault.direction = fault.direction.opposite();
                }
            }
            if fault.kind == FaultKind::CableFlaky && drawn(self.random_errors, random) {
                let gap = GAP_MIN_NS * (GAP_MAX_NS / GAP_MIN_NS).powf(random.unit());
                let count = 1 + random.below(ERRORS_MAX) as u32;
                fault.errors = Errors { count, gap_ns: gap as u64 };
            }
            if drawn(self.heal, random) {
                fault.until_ns = Some(fault.at_ns + 1 + random.below(2 * limits.worst_ns()));
            }
        }
    }
}
