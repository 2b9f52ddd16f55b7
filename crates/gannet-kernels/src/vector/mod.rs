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

use gannet_wire::protowib;

use crate::block::{ROW_LEN, Row, SAMPLES};
use crate::chain::Transform as Config;
use crate::job::Job;
use crate::samples::{Coldata, HEADER, Rows};
use crate::tpg::Fetch;

use search::search;
use transform::{FeedbackSum, Filter, RunningSum, Threshold, Transform};

pub(crate) use batch::{AT_ONCE, Batch, Endings, PLACES, TimeBase};
pub(crate) use lanes::Lanes;
pub(crate) use quiet::{Never, QuietFilter, QuietSum, Tables};

/// Runs the chain over the samples of a job.
#[inline(always)]
pub(crate) fn process<L: Lanes>(lanes: L, job: &mut Job, batch: &mut Batch) {
    match job.parameters.transform {
        None => choose_form::<L, Threshold<L>>(lanes, job, batch),
        Some(Config::RunningSum { absolute: false }) => {
            choose_form::<L, RunningSum<L, false>>(lanes, job, batch);
        }
        Some(Config::RunningSum { absolute: true }) => {
            choose_form::<L, RunningSum<L, true>>(lanes, job, batch);
        }
        Some(Config::FeedbackSum { absolute: false }) => {
            choose_form::<L, FeedbackSum<L, false>>(lanes, job, batch);
        }
        Some(Config::FeedbackSum { absolute: true }) => {
            choose_form::<L, FeedbackSum<L, true>>(lanes, job, batch);
        }
        Some(Config::Fir) => choose_form::<L, Filter<L>>(lanes, job, batch),
    }
}

#[inline(always)]
fn choose_form<L: Lanes, T: Transform<L>>(lanes: L, job: &mut Job, batch: &mut Batch) {
    match (job.samples.rows, batch.is_dense()) {
        (Rows::Adc14(rows), false) => process_all::<L, T, _, false>(lanes, job, batch, rows),
        (Rows::Adc14(rows), true) => process_all::<L, T, _, true>(lanes, job, batch, rows),
        (Rows::Coldata(rows), false) => process_all::<L, T, _, false>(lanes, job, batch, rows),
        (Rows::Coldata(rows), true) => process_all::<L, T, _, true>(lanes, job, batch, rows),
    }
    batch.expect(job.completed, job.samples.count(), L::DENSE_FROM);
}

/// Runs the chain over rows that move the pedestal, then over those that do not.
#[inline(always)]
fn process_all<L: Lanes, T: Transform<L>, P: Packed<L>, const DENSE: bool>(
    lanes: L,
    job: &mut Job,
    batch: &mut Batch,
    rows: P,
) {
    let count = rows.count();
    let moving = job.parameters.moving_samples(job.state.samples, count);
    let rebase = job.parameters.rows_to_rebase();
    for piece in [0..moving.min(rebase), rebase..moving] {
        search::<L, T, P, true, DENSE>(lanes, job, batch, rows, piece);
    }
    for piece in [moving..count.min(rebase), moving.max(rebase)..count] {
        search::<L, T, P, false, DENSE>(lanes, job, batch, rows, piece);
    }
}

/// Bytes between the row being searched and the cache lines fetched meanwhile, into the first-level
/// cache and, from memory, into the second. Measured best of 0 to 16384 each; beyond 4096 both make
/// it slower.
const FETCH_AHEAD: usize = 1536;
const FETCH_FAR_AHEAD: usize = 3584;

/// Rows in one of the packed formats.
trait Packed<L: Lanes>: Copy {
    fn count(self) -> usize;
    fn row(&self, t: usize) -> &Row;
    /// Fetches what should be there some rows after row `t`.
    fn prefetch(&self, lanes: L, t: usize, fetch: Fetch);
    fn unpack(lanes: L, row: &Row) -> L::Words;
}

impl<L: Lanes> Packed<L> for &[Row; SAMPLES] {
    #[inline(always)]
    fn count(self) -> usize {
        SAMPLES
    }

    #[inline(always)]
    fn row(&self, t: usize) -> &Row {
        &self[t]
    }

    #[inline(always)]
    fn prefetch(&self, lanes: L, t: usize, fetch: Fetch) {
        lanes.prefetch::<2>(&self[t], FETCH_AHEAD);
        if fetch == Fetch::Memory {
            lanes.prefetch_far::<2>(&self[t], FETCH_FAR_AHEAD);
        }
    }

    #[inline(always)]
    fn unpack(lanes: L, row: &Row) -> L::Words {
        lanes.unpack_adc14(row)
    }
}

/// Bytes from the start of row `t` to its share of what lies behind the frames in memory: two cache
/// lines of those that all rows of the blocks but the first share out.
#[inline(always)]
fn bytes_behind(rows: &Coldata, t: usize) -> usize {
    const SHARE: usize = 128;
    let rows_before = rows.block.saturating_sub(1) * rows.frames() + t;
    let row = t * protowib::FRAME_LEN + HEADER + rows.block * ROW_LEN;
    rows.frames() * protowib::FRAME_LEN + rows_before * SHARE - row
}

impl<L: Lanes> Packed<L> for Coldata<'_> {
    #[inline(always)]
    fn count(self) -> usize {
        self.frames()
    }

    #[inline(always)]
    fn row(&self, t: usize) -> &Row {
        Coldata::row(self, t)
    }

    /// The blocks of some frames are searched one after the other. The first of them fetches all
    /// of a frame, the others begin with what lies behind these frames.
    #[inline(always)]
    fn prefetch(&self, lanes: L, t: usize, _: Fetch) {
        let row = Coldata::row(self, t);
        if self.block == 0 {
            lanes.prefetch::<8>(row, FETCH_AHEAD);
        } else {
            lanes.prefetch::<2>(row, bytes_behind(self, t));
        }
    }

    #[inline(always)]
    fn unpack(lanes: L, row: &Row) -> L::Words {
        lanes.unpack_coldata(row)
    }
}
