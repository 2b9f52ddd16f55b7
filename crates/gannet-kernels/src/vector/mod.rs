//! The chain on all 64 channels at once, for any instruction set that gives [`Lanes`].
//!
//! What makes it fast, and exact:
//!
//! * **Pedestals move at most a few counts in a call**, so the serial part of the chain runs on the
//!   *rise* (sample minus the least possible pedestal) saturated to 8 bits. Saturation changes no
//!   comparison with an offset of at most 64.
//! * **Hits are rare**, mostly. On the sparse path a row whose rises all lie below threshold minus
//!   the largest possible move, with no hit open, is left without looking at the exact signal.
//! * **Where hits are frequent** the dense path takes the same steps in every row. The hits of rows
//!   in which some end are set aside, and primitives are put together for many rows at once.
//! * **All state stays in registers** over the rows, as far as there are registers.

mod batch;
mod hits;
mod lanes;
mod pedestal;
mod transform;

use core::ops::Range;

use crate::block::{Row, SAMPLES};
use crate::chain::Transform as Config;
use crate::job::Job;
use crate::samples::{Coldata, Rows};

use batch::BATCH;
use hits::HitLanes;
use pedestal::PedestalLanes;
use transform::{FeedbackSum, Filter, RunningSum, Threshold, Transform};

pub(crate) use batch::Batch;
pub(crate) use lanes::Lanes;

/// Bytes between the row being processed and the cache lines fetched meanwhile.
const PREFETCH_AHEAD: usize = 1024;

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
    batch.expect(job.completed, job.samples.count());
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
    let rebase = job.parameters.rows_to_rebase().min(moving);
    for piece in [0..rebase, rebase..moving] {
        process_rows::<L, T, P, true, DENSE>(lanes, job, batch, rows, piece);
    }
    process_rows::<L, T, P, false, DENSE>(lanes, job, batch, rows, moving..count);
}

/// Rows in one of the packed formats.
trait Packed<L: Lanes>: Copy {
    fn count(self) -> usize;
    fn row(&self, t: usize) -> &Row;
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
    fn unpack(lanes: L, row: &Row) -> L::Words {
        lanes.unpack_adc14(row)
    }
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

    #[inline(always)]
    fn unpack(lanes: L, row: &Row) -> L::Words {
        lanes.unpack_coldata(row)
    }
}

/// One sample of all channels.
#[derive(Clone, Copy)]
struct Sample<L: Lanes> {
    adc: L::Words,
    /// The sample minus the pedestal before this sample moved it.
    level: L::Words,
    /// The sample minus the pedestal.
    signal: L::Words,
}

#[inline(always)]
fn process_rows<L: Lanes, T: Transform<L>, P: Packed<L>, const MOVING: bool, const DENSE: bool>(
    lanes: L,
    job: &mut Job,
    batch: &mut Batch,
    rows: P,
    range: Range<usize>,
) {
    if range.is_empty() {
        return;
    }
    let screen = pedestal::screen(lanes, job.parameters);
    let mut pedestal = PedestalLanes::load(lanes, job.parameters, job.state);
    let mut transform = T::load(lanes, job.parameters, job.state);
    let mut hits = HitLanes::load(lanes, &job.state.hits);
    let mut open = hits.open(lanes);
    let mut any_open = lanes.any(open);
    let end = range.end;
    for t in range {
        let row = rows.row(t);
        lanes.prefetch(row, PREFETCH_AHEAD);
        let adc = P::unpack(lanes, row);
        let rise = pedestal.rise(lanes, adc);
        let narrow = lanes.narrow(rise);
        let before = pedestal;
        if MOVING {
            pedestal.step(lanes, narrow);
        }
        if T::IS_SIGNAL && !DENSE && !any_open && !lanes.any_byte_above(narrow, screen) {
            continue;
        }
        let (value, over) = transform.step(
            lanes,
            Sample { adc, level: before.signal(lanes, rise), signal: pedestal.signal(lanes, rise) },
        );
        let ended = lanes.without(open, over);
        if DENSE {
            if T::SUMS_ASIDE {
                hits.extend_aside(lanes, value, over);
            }
            hits.store(lanes, batch.place());
            let time = job.time(t);
            let list = |bits, channels: &mut _| lanes.list(bits, channels);
            batch.wait(time, lanes.bits(ended), list);
            hits.advance::<T>(lanes, value, over, ended);
        } else {
            let any_over = lanes.any(over);
            if any_over || any_open || T::SUMS_ASIDE {
                if T::SUMS_ASIDE {
                    hits.extend_aside(lanes, value, over);
                }
                let ended = lanes.bits(ended);
                if ended != 0 {
                    hits.store(lanes, &mut job.state.hits);
                    job.complete(t, ended);
                }
                hits.advance::<T>(lanes, value, over, lanes.without(open, over));
            }
            any_open = any_over;
        }
        open = over;
        if DENSE && ((t + 1).is_multiple_of(BATCH) || t + 1 == end) {
            batch.complete(job.parameters, job.completed);
        }
    }
    pedestal.store(lanes, job.state);
    transform.store(lanes, job.state);
    if T::SUMS_ASIDE {
        hits.store(lanes, &mut job.state.hits);
    } else {
        hits.store_tidy(lanes, &mut job.state.hits);
    }
}
