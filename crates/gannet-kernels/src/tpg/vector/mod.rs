//! The chain on all 64 channels at once, for any instruction set that gives [`Lanes`].
//!
//! What makes it fast, and exact:
//!
//! * **Estimates move at most a few counts in a call**, so the serial part of the chain runs on the
//!   *rise* (sample minus the least possible pedestal, median or quartile) saturated to 8 bits.
//!   Saturation changes no comparison with an offset of at most 64.
//! * **Hits are rare**, mostly. On the sparse path rows in which no hit is open and none can begin are
//!   taken in 8 bits, one register for all channels ([`quiet`]); the others in 16 bits.
//! * **Where hits are frequent** the dense path takes the same steps in every row. The hits of rows
//!   in which some end are set aside, and primitives are put together for many rows at once.
//! * **All state stays in registers** over the rows, as far as there are registers.

mod batch;
mod estimate;
mod hits;
mod lanes;
mod quiet;
mod search;
mod transform;

use crate::tpg::chain::Transform as Config;
use crate::tpg::fetch::Ahead;
use crate::tpg::job::Job;
use crate::tpg::samples::Packed;

use search::search;
use transform::{FeedbackSum, Filter, RunningSum, Threshold, Transform};

pub(crate) use batch::{AT_ONCE, Endings, HitBatch, PLACES, TimeBase};
pub(crate) use lanes::Lanes;
pub(crate) use quiet::{Masks, Never, QuietFilter, QuietSum, Tables};

/// Runs the chain over rows of samples of some blocks of 64 channels. The blocks share all of their
/// parameters that are not by channel, and have seen the same number of samples.
#[inline(always)]
pub(crate) fn process<L: Lanes, P: Packed, const BLOCKS: usize>(
    lanes: L,
    jobs: &mut [Job; BLOCKS],
    rows: [P; BLOCKS],
    ahead: Ahead,
) {
    match jobs[0].parameters.transform {
        None => process_all::<L, Threshold<L>, P, BLOCKS>(lanes, jobs, rows, ahead),
        Some(Config::RunningSum { absolute: false }) => {
            process_all::<L, RunningSum<L, false>, P, BLOCKS>(lanes, jobs, rows, ahead);
        }
        Some(Config::RunningSum { absolute: true }) => {
            process_all::<L, RunningSum<L, true>, P, BLOCKS>(lanes, jobs, rows, ahead);
        }
        Some(Config::FeedbackSum { absolute: false }) => {
            process_all::<L, FeedbackSum<L, false>, P, BLOCKS>(lanes, jobs, rows, ahead);
        }
        Some(Config::FeedbackSum { absolute: true }) => {
            process_all::<L, FeedbackSum<L, true>, P, BLOCKS>(lanes, jobs, rows, ahead);
        }
        Some(Config::Fir) => process_all::<L, Filter<L>, P, BLOCKS>(lanes, jobs, rows, ahead),
    }
}

/// Runs the chain over rows that move the pedestal, then over those that do not.
#[inline(always)]
fn process_all<L: Lanes, T: Transform<L>, P: Packed, const BLOCKS: usize>(
    lanes: L,
    jobs: &mut [Job; BLOCKS],
    rows: [P; BLOCKS],
    ahead: Ahead,
) {
    let (parameters, count) = (jobs[0].parameters, rows[0].count());
    let moving = parameters.moving_samples(jobs[0].state.samples, count);
    let rebase = parameters.rows_to_rebase;
    for piece in [0..moving.min(rebase), rebase..moving] {
        search::<L, T, P, true, BLOCKS>(lanes, jobs, rows, ahead, piece);
    }
    for piece in [moving..count.min(rebase), moving.max(rebase)..count] {
        search::<L, T, P, false, BLOCKS>(lanes, jobs, rows, ahead, piece);
    }
    for job in jobs {
        job.batch.expect(job.completed, count, L::DENSE_FROM);
    }
}
