//! The loop over rows.

use core::ops::Range;

use super::batch::{BATCH, Batch};
use super::hits::HitLanes;
use super::pedestal::{self, PedestalLanes};
use super::transform::Transform;
use super::{Lanes, Packed};
use crate::job::Job;

/// Runs the chain over some rows, of which all or none move the pedestal.
#[inline(always)]
pub(super) fn search<
    L: Lanes,
    T: Transform<L>,
    P: Packed<L>,
    const MOVING: bool,
    const DENSE: bool,
>(
    lanes: L,
    job: &mut Job,
    batch: &mut Batch,
    rows: P,
    range: Range<usize>,
) {
    if range.is_empty() {
        return;
    }
    let mut search = Search::<L, T>::load(lanes, job);
    let (start, end) = (range.start, range.end.min(rows.count()));
    let mut t = start;
    while L::PAIRS && t + 1 < end {
        let first = search.look::<P, MOVING>(rows, t);
        let second = search.look::<P, MOVING>(rows, t + 1);
        if DENSE || search.may_hit(first) | search.may_hit(second) {
            search.step::<DENSE>(job, batch, t, first);
            search.step::<DENSE>(job, batch, t + 1, second);
        }
        t += 2;
        if DENSE && (t - start).is_multiple_of(BATCH) {
            batch.complete(job.parameters, job.completed);
        }
    }
    while t < end {
        let row = search.look::<P, MOVING>(rows, t);
        if DENSE || search.may_hit(row) {
            search.step::<DENSE>(job, batch, t, row);
        }
        t += 1;
        if DENSE && (t - start).is_multiple_of(BATCH) {
            batch.complete(job.parameters, job.completed);
        }
    }
    if DENSE {
        batch.complete(job.parameters, job.completed);
    }
    search.store(job);
}

/// One row, unpacked, and the step of the pedestal on it.
#[derive(Clone, Copy)]
struct Seen<L: Lanes> {
    adc: L::Words,
    rise: L::Words,
    narrow: L::Bytes,
    /// The offset of the pedestal before the step, and after it.
    offset: [L::Bytes; 2],
}

/// One sample of all channels.
#[derive(Clone, Copy)]
pub(super) struct Sample<L: Lanes> {
    pub(super) adc: L::Words,
    /// The sample minus the pedestal before this sample moved it.
    pub(super) level: L::Words,
    /// The sample minus the pedestal.
    pub(super) signal: L::Words,
}

/// All that goes from row to row.
struct Search<L: Lanes, T: Transform<L>> {
    lanes: L,
    /// The rise above which a hit may be.
    screen: L::Bytes,
    pedestal: PedestalLanes<L>,
    transform: T,
    hits: HitLanes<L>,
    open: L::Channels,
    any_open: bool,
}

impl<L: Lanes, T: Transform<L>> Search<L, T> {
    #[inline(always)]
    fn load(lanes: L, job: &Job) -> Self {
        let hits = HitLanes::load(lanes, &job.state.hits);
        let open = hits.open(lanes);
        Self {
            lanes,
            screen: pedestal::screen(lanes, job.parameters),
            pedestal: PedestalLanes::load(lanes, job.parameters, job.state),
            transform: T::load(lanes, job.parameters, job.state),
            hits,
            open,
            any_open: lanes.any(open),
        }
    }

    #[inline(always)]
    fn store(self, job: &mut Job) {
        self.pedestal.store(self.lanes, job.state);
        self.transform.store(self.lanes, job.state);
        self.hits.store_tidy::<T>(self.lanes, &mut job.state.hits);
    }

    /// Unpacks a row and takes the step of the pedestal.
    #[inline(always)]
    fn look<P: Packed<L>, const MOVING: bool>(&mut self, rows: P, t: usize) -> Seen<L> {
        let lanes = self.lanes;
        let row = rows.row(t);
        rows.prefetch(lanes, t);
        let adc = P::unpack(lanes, row);
        let rise = self.pedestal.rise(lanes, adc);
        let narrow = lanes.narrow(rise);
        let before = self.pedestal.offset();
        if MOVING {
            self.pedestal.step(lanes, narrow);
        }
        Seen { adc, rise, narrow, offset: [before, self.pedestal.offset()] }
    }

    /// Whether there may be a hit in a row, or goes on from the row before.
    #[inline(always)]
    fn may_hit(&self, row: Seen<L>) -> bool {
        !T::IS_SIGNAL || self.any_open | self.lanes.any_byte_above(row.narrow, self.screen)
    }

    /// Looks for hits in a row.
    #[inline(always)]
    fn step<const DENSE: bool>(
        &mut self,
        job: &mut Job,
        batch: &mut Batch,
        t: usize,
        row: Seen<L>,
    ) {
        let lanes = self.lanes;
        let sample = Sample {
            adc: row.adc,
            level: pedestal::signal(lanes, row.rise, row.offset[0]),
            signal: pedestal::signal(lanes, row.rise, row.offset[1]),
        };
        let (value, over) = self.transform.step(lanes, sample);
        let ended = lanes.without(self.open, over);
        let any_over = lanes.any(over);
        if !DENSE && !T::SUMS_ASIDE && !(any_over | self.any_open) {
            return;
        }
        if DENSE {
            self.hits.extend_aside::<T>(lanes, value, over);
            self.hits.store(lanes, batch.place());
            let list = |bits, channels: &mut _| lanes.list(bits, channels);
            batch.wait(job.time(t), lanes.bits(ended), list);
            self.hits.advance::<T>(lanes, value, over, ended);
        } else {
            self.hits.extend_aside::<T>(lanes, value, over);
            if lanes.any(ended) {
                self.hits.store(lanes, &mut job.state.hits);
                job.complete(t, lanes.bits(ended));
            }
            self.hits.advance::<T>(lanes, value, over, ended);
        }
        self.any_open = any_over;
        self.open = over;
    }
}
