//! The steps between pedestal subtraction and hits.

use super::Lanes;
use super::estimate::{Estimate, less_offset};
use super::quiet::{Quiet, QuietFeedback, QuietThreshold};
use super::search::Sample;
use crate::tpg::parameters::Parameters;
use crate::tpg::scalar::{FIR_SHIFT, FIR_SIGNAL_MAX};
use crate::tpg::state::{HISTORY, State};

/// The tenth that running sums multiply with, in 32768ths.
pub(super) const TENTH: i16 = 3276;

/// What is compared with the threshold, and what hits sum.
pub(super) trait Transform<L: Lanes>: Copy {
    /// Whether hits sum another quantity than the one compared.
    const SUMS_ASIDE: bool = false;

    /// Its form in 8 bits.
    type Quiet: Quiet<L, Self>;

    fn load(lanes: L, parameters: &Parameters, limits: L::Frugal, state: &State) -> Self;
    fn store(&self, lanes: L, state: &mut State);
    /// The value that hits sum, and where there are hits.
    fn step(&mut self, lanes: L, sample: Sample<L>) -> (L::Words, L::Channels);
}

/// The signal.
#[derive(Clone, Copy)]
pub(crate) struct Threshold<L: Lanes> {
    threshold: L::Words,
}

impl<L: Lanes> Transform<L> for Threshold<L> {
    type Quiet = QuietThreshold<L>;

    #[inline(always)]
    fn load(lanes: L, parameters: &Parameters, _: L::Frugal, _: &State) -> Self {
        Self { threshold: lanes.load(&parameters.threshold) }
    }

    #[inline(always)]
    fn store(&self, _: L, _: &mut State) {}

    #[inline(always)]
    fn step(&mut self, lanes: L, sample: Sample<L>) -> (L::Words, L::Channels) {
        (sample.signal, lanes.above(sample.signal, self.threshold))
    }
}

/// The running sum.
#[derive(Clone, Copy)]
pub(crate) struct RunningSum<L: Lanes, const ABSOLUTE: bool> {
    pub(super) sum: L::Words,
    memory_factor: L::Words,
    scale_factor: L::Words,
    threshold: L::Words,
}

impl<L: Lanes, const ABSOLUTE: bool> Transform<L> for RunningSum<L, ABSOLUTE> {
    type Quiet = L::QuietSum<ABSOLUTE>;

    #[inline(always)]
    fn load(lanes: L, parameters: &Parameters, _: L::Frugal, state: &State) -> Self {
        Self {
            sum: lanes.load(&state.running_sum),
            memory_factor: lanes.load(&parameters.memory_factor),
            scale_factor: lanes.load(&parameters.scale_factor),
            threshold: lanes.load(&parameters.threshold),
        }
    }

    #[inline(always)]
    fn store(&self, lanes: L, state: &mut State) {
        lanes.store(&mut state.running_sum, self.sum);
    }

    #[inline(always)]
    fn step(&mut self, lanes: L, sample: Sample<L>) -> (L::Words, L::Channels) {
        let tenth = lanes.splat(TENTH);
        let signal = if ABSOLUTE { lanes.abs(sample.signal) } else { sample.signal };
        let added = lanes.multiply(lanes.multiply_rounding(signal, tenth), self.scale_factor);
        let kept = lanes.multiply(lanes.multiply_rounding(self.sum, tenth), self.memory_factor);
        self.sum = lanes.add_saturating(kept, added);
        (self.sum, lanes.above(self.sum, self.threshold))
    }
}

/// The running sum less its median; hits sum the signal.
#[derive(Clone, Copy)]
pub(crate) struct FeedbackSum<L: Lanes, const ABSOLUTE: bool> {
    pub(super) sum: L::Words,
    pub(super) median: Estimate<L>,
    memory_factor: L::Words,
    scale_factor: L::Words,
    threshold: L::Words,
}

impl<L: Lanes, const ABSOLUTE: bool> Transform<L> for FeedbackSum<L, ABSOLUTE> {
    const SUMS_ASIDE: bool = true;
    type Quiet = QuietFeedback<L, ABSOLUTE>;

    #[inline(always)]
    fn load(lanes: L, parameters: &Parameters, limits: L::Frugal, state: &State) -> Self {
        Self {
            sum: lanes.load(&state.running_sum),
            median: Estimate::load(
                lanes,
                parameters,
                limits,
                &state.sum_median,
                &state.sum_accumulator,
            ),
            memory_factor: lanes.load(&parameters.memory_factor),
            scale_factor: lanes.load(&parameters.scale_factor),
            threshold: lanes.load(&parameters.threshold),
        }
    }

    #[inline(always)]
    fn store(&self, lanes: L, state: &mut State) {
        lanes.store(&mut state.running_sum, self.sum);
        self.median.store(lanes, &mut state.sum_median, &mut state.sum_accumulator);
    }

    #[inline(always)]
    fn step(&mut self, lanes: L, sample: Sample<L>) -> (L::Words, L::Channels) {
        let kept = lanes.multiply(self.sum, self.memory_factor);
        let added = if ABSOLUTE {
            lanes.multiply(lanes.abs(sample.signal), self.scale_factor)
        } else {
            sample.signal
        };
        let sum = lanes.multiply_rounding(lanes.add(kept, added), lanes.splat(TENTH));
        let rise = self.median.rise(lanes, sum);
        let side = self.median.side(lanes, lanes.narrow(rise));
        self.median.count(lanes, side);
        self.sum = less_offset(lanes, rise, self.median.offset());
        (sample.signal, lanes.above(self.sum, self.threshold))
    }
}

/// The filtered signal, compared with a multiple of the interquartile range.
///
/// The taps are those of six sums of neighbours, so each sample takes six additions.
#[derive(Clone, Copy)]
pub(crate) struct Filter<L: Lanes> {
    pub(super) quartile: [Estimate<L>; 2],
    /// The signals that wait to enter the filter, older first.
    pub(super) delayed: [L::Words; 2],
    /// For each sum, its latest term.
    pub(super) terms: [L::Words; 6],
    range_max: L::Words,
    range_factor: L::Words,
    threshold: L::Words,
}

/// The sums of neighbours of sums of neighbours, so many times; `latest` is the latest term of the
/// first.
#[inline(always)]
pub(super) fn cascade<L: Lanes, const TIMES: usize>(
    lanes: L,
    terms: &mut [L::Words; TIMES],
    latest: L::Words,
) -> L::Words {
    let mut sum = latest;
    for term in terms {
        let next = lanes.add(sum, *term);
        *term = sum;
        sum = next;
    }
    sum
}

impl<L: Lanes> Filter<L> {
    /// The last signals, the oldest first. Those that entered the filter follow from its terms.
    #[inline(always)]
    pub(super) fn history(&self, lanes: L) -> [L::Words; HISTORY] {
        let [older, newer] = self.delayed;
        let [mut a, mut b, mut c, mut d, mut e, mut f] = self.terms;
        let mut entered = [a; 6];
        for place in (0..6).rev() {
            entered[place] = a;
            // A term of the sum before is what this one has more than it.
            a = lanes.subtract(b, a);
            b = lanes.subtract(c, b);
            c = lanes.subtract(d, c);
            d = lanes.subtract(e, d);
            e = lanes.subtract(f, e);
            f = e;
        }
        let [g, h, i, j, k, l] = entered;
        [g, h, i, j, k, l, older, newer]
    }
}

impl<L: Lanes> Transform<L> for Filter<L> {
    const SUMS_ASIDE: bool = true;
    type Quiet = L::QuietFilter;

    #[inline(always)]
    fn load(lanes: L, parameters: &Parameters, limits: L::Frugal, state: &State) -> Self {
        let zero = lanes.splat(0);
        let quartile = |side: usize| {
            let accumulator = &state.quartile_accumulator[side];
            Estimate::load(lanes, parameters, limits, &state.quartile[side], accumulator)
        };
        let mut history = [zero; HISTORY];
        for (signal, state) in history.iter_mut().zip(&state.history) {
            *signal = lanes.load(state);
        }
        let [entered @ .., older, newer] = history;
        let mut filter = Self {
            quartile: [quartile(0), quartile(1)],
            delayed: [older, newer],
            terms: [zero; 6],
            range_max: lanes.load(&parameters.range_max),
            range_factor: lanes.load(&parameters.range_factor),
            threshold: lanes.load(&parameters.threshold),
        };
        for signal in entered {
            cascade(lanes, &mut filter.terms, signal);
        }
        filter
    }

    #[inline(always)]
    fn store(&self, lanes: L, state: &mut State) {
        for side in 0..2 {
            let accumulator = &mut state.quartile_accumulator[side];
            self.quartile[side].store(lanes, &mut state.quartile[side], accumulator);
        }
        for (state, signal) in state.history.iter_mut().zip(self.history(lanes)) {
            lanes.store(state, signal);
        }
    }

    #[inline(always)]
    fn step(&mut self, lanes: L, sample: Sample<L>) -> (L::Words, L::Channels) {
        let [first, third] = &mut self.quartile;
        let side = first.side(lanes, lanes.narrow(first.rise(lanes, sample.adc)));
        first.count(lanes, lanes.keep_where_negative(sample.side, side));
        let side = third.side(lanes, lanes.narrow(third.rise(lanes, sample.adc)));
        third.count(lanes, lanes.keep_where_positive(sample.side, side));
        let [older, newer] = self.delayed;
        // The sample that leaves the delay is two steps old when the next one comes.
        let filtered = cascade(lanes, &mut self.terms, older);
        let signal = lanes.min(sample.signal, lanes.splat(FIR_SIGNAL_MAX));
        self.delayed = [newer, signal];
        let range = lanes.subtract(self.quartile[1].value(lanes), self.quartile[0].value(lanes));
        let limit = lanes.multiply(lanes.min(range, self.range_max), self.range_factor);
        let over = lanes.above(filtered, lanes.max(limit, self.threshold));
        (lanes.shift_right::<FIR_SHIFT>(filtered), over)
    }
}
