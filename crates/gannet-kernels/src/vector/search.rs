//! The loop over rows.

use core::ops::Range;

use super::Lanes;
use super::estimate::{Estimate, less_offset};
use super::hits::HitLanes;
use super::quiet::{Quiet, QuietRow, ROWS_MAX};
use super::transform::Transform;
use crate::fetch::Ahead;
use crate::job::Job;
use crate::parameters::Parameters;
use crate::samples::Packed;

/// Runs the chain over some rows of each block, of which all or none move the pedestal.
#[inline(always)]
pub(super) fn search<
    L: Lanes,
    T: Transform<L>,
    P: Packed,
    const MOVING: bool,
    const BLOCKS: usize,
>(
    lanes: L,
    jobs: &mut [Job; BLOCKS],
    rows: [P; BLOCKS],
    ahead: Ahead,
    range: Range<usize>,
) {
    if range.is_empty() {
        return;
    }
    let parameters = jobs[0].parameters;
    let limits = lanes.frugal(parameters.accum_limit, &parameters.frugal_tables);
    for (job, rows) in jobs.iter_mut().zip(rows) {
        let mut search = Search::<L, T>::load(lanes, limits, ahead, job);
        let end = range.end.min(rows.count());
        let mut t = range.start;
        if job.batch.is_dense() {
            t = search.pass_loud::<P, MOVING, true>(job, rows, t..end);
            let time_base = job.time_base();
            job.batch.complete(lanes, job.parameters, time_base, job.completed);
        }
        while t < end {
            t = search.pass_quiet::<P, MOVING>(job, rows, t..end);
            if t < end {
                t = search.pass_loud::<P, MOVING, false>(job, rows, t..end);
            }
        }
        search.store(job);
    }
}

/// One row, unpacked, and the step of the pedestal on it.
#[derive(Clone, Copy)]
struct Seen<L: Lanes> {
    adc: L::Words,
    rise: L::Words,
    narrow: L::Bytes,
    /// The side of the pedestal before the step, and its offset after it.
    side: L::Bytes,
    offset: L::Bytes,
}

impl<L: Lanes> Seen<L> {
    /// What of it fits 8 bits.
    #[inline(always)]
    fn quiet(self, lanes: L) -> QuietRow<L> {
        let signal = lanes.subtract_bytes(self.narrow, self.offset);
        QuietRow { rise: self.narrow, side: self.side, signal }
    }
}

/// One sample of all channels.
#[derive(Clone, Copy)]
pub(crate) struct Sample<L: Lanes> {
    pub(super) adc: L::Words,
    /// On which side it was of the pedestal before it moved that: -1, 0 or 1.
    pub(super) side: L::Bytes,
    /// The sample minus the pedestal.
    pub(super) signal: L::Words,
}

/// All that goes from row to row.
struct Search<L: Lanes, T: Transform<L>> {
    lanes: L,
    ahead: Ahead,
    pedestal: Estimate<L>,
    transform: T,
    any_open: bool,
}

/// The hits, while some are open or may begin.
struct Loud<L: Lanes> {
    hits: HitLanes<L>,
    open: L::Channels,
    any_open: bool,
}

impl<L: Lanes, T: Transform<L>> Search<L, T> {
    #[inline(always)]
    fn load(lanes: L, limits: L::Frugal, ahead: Ahead, job: &Job) -> Self {
        let (parameters, state) = (job.parameters, &*job.state);
        let sot = lanes.load(&state.hits.samples_over_threshold);
        Self {
            lanes,
            ahead,
            pedestal: Estimate::load(
                lanes,
                parameters,
                limits,
                &state.pedestal,
                &state.accumulator,
            ),
            transform: T::load(lanes, parameters, limits, state),
            any_open: lanes.any(lanes.above(sot, lanes.splat(0))),
        }
    }

    #[inline(always)]
    fn store(self, job: &mut Job) {
        self.pedestal.store(self.lanes, &mut job.state.pedestal, &mut job.state.accumulator);
        self.transform.store(self.lanes, job.state);
    }

    /// Unpacks a row and takes the step of the pedestal.
    #[inline(always)]
    fn look<P: Packed, const MOVING: bool>(&mut self, rows: P, t: usize) -> Seen<L> {
        let lanes = self.lanes;
        let row = rows.row(t);
        // Two cache lines are about as much as a row.
        for line in [0, 64] {
            let reached = rows.reached(t).wrapping_add(line);
            lanes.prefetch(reached.wrapping_add(self.ahead.near));
            lanes.prefetch_far(reached.wrapping_add(self.ahead.far));
        }
        let adc = P::unpack(lanes, row);
        let rise = self.pedestal.rise(lanes, adc);
        let narrow = lanes.narrow(rise);
        let side = self.pedestal.side(lanes, narrow);
        if MOVING {
            self.pedestal.count(lanes, side);
        }
        Seen { adc, rise, narrow, side, offset: self.pedestal.offset() }
    }

    /// Takes rows in 8 bits up to one that may be loud, and gives its number.
    #[inline(always)]
    fn pass_quiet<P: Packed, const MOVING: bool>(
        &mut self,
        job: &mut Job,
        rows: P,
        range: Range<usize>,
    ) -> usize {
        let (lanes, rows_at_once) = (self.lanes, T::Quiet::ROWS);
        let mut t = range.start;
        if self.any_open {
            return t;
        }
        let Some(mut quiet) = self.settle(job.parameters) else { return t };
        while t + rows_at_once <= range.end {
            let before = (quiet, self.pedestal);
            let mut loud = lanes.splat_bytes(0);
            // First all pedestals, then all steps: neither of the two needs all registers.
            let mut seen = [QuietRow { rise: loud, side: loud, signal: loud }; ROWS_MAX];
            for (i, seen) in seen[..rows_at_once].iter_mut().enumerate() {
                *seen = self.look::<P, MOVING>(rows, t + i).quiet(lanes);
            }
            for seen in &seen[..rows_at_once] {
                loud = lanes.either_bytes(loud, quiet.step(lanes, *seen));
            }
            if lanes.any_negative(lanes.either_bytes(loud, quiet.judge(lanes))) {
                (quiet, self.pedestal) = before;
                break;
            }
            t += rows_at_once;
        }
        while t < range.end {
            let (mut next, pedestal) = (quiet, self.pedestal);
            let row = self.look::<P, MOVING>(rows, t).quiet(lanes);
            let loud = next.step(lanes, row);
            if lanes.any_negative(lanes.either_bytes(loud, next.judge(lanes))) {
                self.pedestal = pedestal;
                break;
            }
            quiet = next;
            t += 1;
        }
        quiet.resume(lanes, &mut self.transform);
        if let Some(highest) = quiet.highest(lanes) {
            let peak = lanes.load(&job.state.hits.peak);
            lanes.store(&mut job.state.hits.peak, lanes.max(peak, highest));
        }
        t
    }

    /// The form in 8 bits, if all values fit.
    #[inline(always)]
    fn settle(&self, parameters: &Parameters) -> Option<T::Quiet> {
        T::Quiet::settle(self.lanes, parameters, &self.transform, &self.pedestal)
    }

    /// Takes rows in 16 bits until no hit is open and all values fit 8 bits, and gives the number of
    /// the next.
    #[inline(always)]
    fn pass_loud<P: Packed, const MOVING: bool, const DENSE: bool>(
        &mut self,
        job: &mut Job,
        rows: P,
        range: Range<usize>,
    ) -> usize {
        let lanes = self.lanes;
        let hits = HitLanes::load(lanes, &job.state.hits);
        let mut loud = Loud { hits, open: hits.open(lanes), any_open: self.any_open };
        let mut t = range.start;
        while t < range.end {
            let row = self.look::<P, MOVING>(rows, t);
            self.step::<DENSE>(job, &mut loud, t, row);
            t += 1;
            if !DENSE && !loud.any_open && self.settle(job.parameters).is_some() {
                break;
            }
        }
        loud.hits.store_tidy::<T>(lanes, &mut job.state.hits);
        self.any_open = loud.any_open;
        t
    }

    /// Looks for hits in a row.
    #[inline(always)]
    fn step<const DENSE: bool>(
        &mut self,
        job: &mut Job,
        loud: &mut Loud<L>,
        t: usize,
        row: Seen<L>,
    ) {
        let lanes = self.lanes;
        let sample = Sample {
            adc: row.adc,
            side: row.side,
            signal: less_offset(lanes, row.rise, row.offset),
        };
        let (value, over) = self.transform.step(lanes, sample);
        let ended = lanes.without(loud.open, over);
        let any_over = lanes.any(over);
        if !DENSE && !(any_over | loud.any_open) {
            if T::SUMS_ASIDE {
                loud.hits.raise_peaks(lanes, value);
            }
            return;
        }
        loud.hits.extend_aside::<T>(lanes, value, over);
        if DENSE {
            // Whether a hit ends in a row cannot be foreseen, so it makes no branch.
            let complete = loud.hits.complete::<T>(lanes, job.parameters, ended);
            let time_base = job.time_base();
            job.batch.add(lanes, loud.hits, complete, t);
            job.batch.make_room(lanes, job.parameters, time_base, job.completed);
        } else if lanes.any(ended) {
            loud.hits.store(lanes, &mut job.state.hits);
            job.complete(t, lanes.bits(ended));
        }
        loud.hits.advance::<T>(lanes, value, over, ended);
        loud.any_open = any_over;
        loud.open = over;
    }
}
