//! The loop over rows.

use core::ops::Range;

use super::Lanes;
use super::estimate::{Estimate, less_offset};
use super::hits::HitLanes;
use super::quiet::{Quiet, QuietRow, ROWS_MAX};
use super::transform::Transform;
use crate::tpg::fetch::Ahead;
use crate::tpg::job::Job;
use crate::tpg::parameters::Parameters;
use crate::tpg::samples::Packed;

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
            search.pass_dense::<P, MOVING>(job, rows, t..end);
            t = end;
        }
        while t < end {
            t = search.pass_quiet::<P, MOVING>(job, rows, t..end);
            if t < end {
                t = search.pass_loud::<P, MOVING>(job, rows, t..end);
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
    fn pass_loud<P: Packed, const MOVING: bool>(
        &mut self,
        job: &mut Job,
        rows: P,
        range: Range<usize>,
    ) -> usize {
        let lanes = self.lanes;
        let mut loud = Loud::load(lanes, job, self.any_open);
        let mut t = range.start;
        while t < range.end {
            let (value, over) = self.exact::<P, MOVING>(rows, t);
            let any_over = lanes.any(over);
            if any_over | loud.any_open {
                let ended = loud.extend::<T>(lanes, value, over);
                if lanes.any(ended) {
                    loud.hits.store(lanes, &mut job.state.hits);
                    job.complete(t, lanes.bits(ended));
                }
                loud.advance::<T>(lanes, value, over, ended);
            } else if T::SUMS_ASIDE {
                loud.hits.raise_peaks(lanes, value);
            }
            loud.any_open = any_over;
            t += 1;
            if !any_over && self.settle(job.parameters).is_some() {
                break;
            }
        }
        loud.hits.store_tidy::<T>(lanes, &mut job.state.hits);
        self.any_open = loud.any_open;
        t
    }

    /// Takes all rows in 16 bits. Whether a hit ends in one cannot be foreseen, so it makes no branch.
    #[inline(always)]
    fn pass_dense<P: Packed, const MOVING: bool>(
        &mut self,
        job: &mut Job,
        rows: P,
        range: Range<usize>,
    ) {
        let lanes = self.lanes;
        let mut loud = Loud::load(lanes, job, self.any_open);
        let time_base = job.time_base();
        let mut t = range.start;
        // A channel has at least one sample over threshold between the ends of two hits, so the hits
        // that end in two rows are listed as those of one.
        while t + 2 <= range.end {
            let (earlier, ended_earlier) = self.dense::<P, MOVING>(&mut loud, rows, t);
            let (later, ended) = self.dense::<P, MOVING>(&mut loud, rows, t + 1);
            let hits = later.replaced(lanes, ended_earlier, &earlier);
            let short = hits.short::<T>(lanes, job.parameters);
            let complete = [lanes.without(ended_earlier, short), lanes.without(ended, short)];
            job.batch.add(lanes, hits, complete, t + 1);
            job.batch.make_room(lanes, job.parameters, time_base, job.completed);
            t += 2;
        }
        if t < range.end {
            let (hits, ended) = self.dense::<P, MOVING>(&mut loud, rows, t);
            let complete = lanes.without(ended, hits.short::<T>(lanes, job.parameters));
            job.batch.add(lanes, hits, [lanes.without(ended, ended), complete], t);
        }
        job.batch.complete(lanes, job.parameters, time_base, job.completed);
        loud.hits.store_tidy::<T>(lanes, &mut job.state.hits);
        self.any_open = lanes.any(loud.open);
    }

    /// Takes a row of the dense path, and gives the hits with those that end in it, and which do.
    #[inline(always)]
    fn dense<P: Packed, const MOVING: bool>(
        &mut self,
        loud: &mut Loud<L>,
        rows: P,
        t: usize,
    ) -> (HitLanes<L>, L::Channels) {
        let (value, over) = self.exact::<P, MOVING>(rows, t);
        let ended = loud.extend::<T>(self.lanes, value, over);
        let hits = loud.hits;
        loud.advance::<T>(self.lanes, value, over, ended);
        (hits, ended)
    }

    /// Takes the steps of the chain in 16 bits; gives what hits sum, and where there are hits.
    #[inline(always)]
    fn exact<P: Packed, const MOVING: bool>(
        &mut self,
        rows: P,
        t: usize,
    ) -> (L::Words, L::Channels) {
        let lanes = self.lanes;
        let row = self.look::<P, MOVING>(rows, t);
        let signal = less_offset(lanes, row.rise, row.offset);
        self.transform.step(lanes, Sample { adc: row.adc, side: row.side, signal })
    }
}

impl<L: Lanes> Loud<L> {
    #[inline(always)]
    fn load(lanes: L, job: &Job, any_open: bool) -> Self {
        let hits = HitLanes::load(lanes, &job.state.hits);
        Self { hits, open: hits.open(lanes), any_open }
    }

    /// Adds what a sample adds before hits end, and gives those that do.
    #[inline(always)]
    fn extend<T: Transform<L>>(
        &mut self,
        lanes: L,
        value: L::Words,
        over: L::Channels,
    ) -> L::Channels {
        self.hits.extend_aside::<T>(lanes, value, over);
        lanes.without(self.open, over)
    }

    /// Goes on from a sample whose `ended` hits have been taken care of.
    #[inline(always)]
    fn advance<T: Transform<L>>(
        &mut self,
        lanes: L,
        value: L::Words,
        over: L::Channels,
        ended: L::Channels,
    ) {
        self.hits.advance::<T>(lanes, value, over, ended);
        self.open = over;
    }
}
