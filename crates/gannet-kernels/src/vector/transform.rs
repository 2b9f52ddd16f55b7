//! The steps between pedestal subtraction and hits.

use super::Lanes;
use super::pedestal::FrugalLanes;
use super::search::Sample;
use crate::parameters::Parameters;
use crate::scalar::{FIR_SHIFT, FIR_SIGNAL_MAX};
use crate::state::{HISTORY, State};

/// The tenth that running sums multiply with, in 32768ths.
const TENTH: i16 = 3276;

/// What is compared with the threshold, and what hits sum.
pub(super) trait Transform<L: Lanes>: Copy {
    /// Whether the signal itself is compared, so that rises tell where no hit can be.
    const IS_SIGNAL: bool = false;
    /// Whether hits sum another quantity than the one compared.
    const SUMS_ASIDE: bool = false;

    fn load(lanes: L, parameters: &Parameters, state: &State) -> Self;
    fn store(&self, lanes: L, state: &mut State);
    /// The value that hits sum, and where there are hits.
    fn step(&mut self, lanes: L, sample: Sample<L>) -> (L::Words, L::Channels);
}

/// The signal.
#[derive(Clone, Copy)]
pub(super) struct Threshold<L: Lanes> {
    threshold: L::Words,
}

impl<L: Lanes> Transform<L> for Threshold<L> {
    const IS_SIGNAL: bool = true;

    #[inline(always)]
    fn load(lanes: L, parameters: &Parameters, _: &State) -> Self {
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
pub(super) struct RunningSum<L: Lanes, const ABSOLUTE: bool> {
    sum: L::Words,
    memory_factor: L::Words,
    scale_factor: L::Words,
    threshold: L::Words,
}

impl<L: Lanes, const ABSOLUTE: bool> Transform<L> for RunningSum<L, ABSOLUTE> {
    #[inline(always)]
    fn load(lanes: L, parameters: &Parameters, state: &State) -> Self {
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
pub(super) struct FeedbackSum<L: Lanes, const ABSOLUTE: bool> {
    sum: L::Words,
    median: FrugalLanes<L>,
    limit: L::Words,
    memory_factor: L::Words,
    scale_factor: L::Words,
    threshold: L::Words,
}

impl<L: Lanes, const ABSOLUTE: bool> Transform<L> for FeedbackSum<L, ABSOLUTE> {
    const SUMS_ASIDE: bool = true;

    #[inline(always)]
    fn load(lanes: L, parameters: &Parameters, state: &State) -> Self {
        Self {
            sum: lanes.load(&state.running_sum),
            median: FrugalLanes {
                estimate: lanes.load(&state.sum_median),
                accumulator: lanes.load(&state.sum_accumulator),
            },
            limit: lanes.splat(i16::from(parameters.accum_limit)),
            memory_factor: lanes.load(&parameters.memory_factor),
            scale_factor: lanes.load(&parameters.scale_factor),
            threshold: lanes.load(&parameters.threshold),
        }
    }

    #[inline(always)]
    fn store(&self, lanes: L, state: &mut State) {
        lanes.store(&mut state.running_sum, self.sum);
        lanes.store(&mut state.sum_median, self.median.estimate);
        lanes.store(&mut state.sum_accumulator, self.median.accumulator);
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
        let higher = lanes.above(sum, self.median.estimate);
        let lower = lanes.above(self.median.estimate, sum);
        self.median.step(lanes, higher, lower, self.limit);
        self.sum = lanes.subtract(sum, self.median.estimate);
        (sample.signal, lanes.above(self.sum, self.threshold))
    }
}

/// The filtered signal, compared with a multiple of the interquartile range.
///
/// The taps are those of six sums of neighbours, so each sample takes six additions.
#[derive(Clone, Copy)]
pub(super) struct Filter<L: Lanes> {
    quartile: [FrugalLanes<L>; 2],
    limit: L::Words,
    /// The signals that wait to enter the filter, older first.
    delayed: [L::Words; 2],
    /// For each sum, its latest term.
    terms: [L::Words; 6],
    /// The last signals, in a ring.
    history: [L::Words; HISTORY],
    /// Place of the oldest of them.
    oldest: usize,
    range_max: L::Words,
    range_factor: L::Words,
    threshold: L::Words,
}

impl<L: Lanes> Filter<L> {
    /// The filtered signal, `signal` being the latest that enters.
    #[inline(always)]
    fn sum(&mut self, lanes: L, signal: L::Words) -> L::Words {
        let mut sum = signal;
        for term in &mut self.terms {
            let next = lanes.add(sum, *term);
            *term = sum;
            sum = next;
        }
        sum
    }
}

impl<L: Lanes> Transform<L> for Filter<L> {
    const SUMS_ASIDE: bool = true;

    #[inline(always)]
    fn load(lanes: L, parameters: &Parameters, state: &State) -> Self {
        let zero = lanes.splat(0);
        let quartile = |side: usize| FrugalLanes {
            estimate: lanes.load(&state.quartile[side]),
            accumulator: lanes.load(&state.quartile_accumulator[side]),
        };
        let mut history = [zero; HISTORY];
        for (signal, state) in history.iter_mut().zip(&state.history) {
            *signal = lanes.load(state);
        }
        let [entered @ .., older, newer] = history;
        let mut filter = Self {
            quartile: [quartile(0), quartile(1)],
            limit: lanes.splat(i16::from(parameters.accum_limit)),
            delayed: [older, newer],
            terms: [zero; 6],
            history,
            oldest: 0,
            range_max: lanes.load(&parameters.range_max),
            range_factor: lanes.load(&parameters.range_factor),
            threshold: lanes.load(&parameters.threshold),
        };
        for signal in entered {
            filter.sum(lanes, signal);
        }
        filter
    }

    #[inline(always)]
    fn store(&self, lanes: L, state: &mut State) {
        for side in 0..2 {
            lanes.store(&mut state.quartile[side], self.quartile[side].estimate);
            lanes.store(&mut state.quartile_accumulator[side], self.quartile[side].accumulator);
        }
        for (i, state) in state.history.iter_mut().enumerate() {
            lanes.store(state, self.history[(self.oldest + i) % HISTORY]);
        }
    }

    #[inline(always)]
    fn step(&mut self, lanes: L, sample: Sample<L>) -> (L::Words, L::Channels) {
        let zero = lanes.splat(0);
        let sides = [lanes.above(zero, sample.level), lanes.above(sample.level, zero)];
        for (quartile, side) in self.quartile.iter_mut().zip(sides) {
            let higher = lanes.both(side, lanes.above(sample.adc, quartile.estimate));
            let lower = lanes.both(side, lanes.above(quartile.estimate, sample.adc));
            quartile.step(lanes, higher, lower, self.limit);
        }
        let [older, newer] = self.delayed;
        // The sample that leaves the delay is two steps old when the next one comes.
        let filtered = self.sum(lanes, older);
        let signal = lanes.min(sample.signal, lanes.splat(FIR_SIGNAL_MAX));
        self.delayed = [newer, signal];
        self.history[self.oldest % HISTORY] = signal;
        self.oldest += 1;
        let range = lanes.subtract(self.quartile[1].estimate, self.quartile[0].estimate);
        let limit = lanes.multiply(lanes.min(range, self.range_max), self.range_factor);
        let over = lanes.above(filtered, lanes.max(limit, self.threshold));
        (lanes.shift_right::<FIR_SHIFT>(filtered), over)
    }
}
