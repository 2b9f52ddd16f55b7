//! Rows in which no hit is open and none begins, in 8 bits.
//!
//! Most rows are such, and all that the chain keeps fits bytes in them, so that one register holds
//! it for all channels. A row that may be *loud* (a channel over threshold, or a value that does
//! not fit) is left to the exact form of the chain, which goes on from the row before.

use super::Lanes;
use super::estimate::Estimate;
use super::transform::{FeedbackSum, Filter, RunningSum, TENTH, Threshold, cascade};
use crate::parameters::Parameters;
use crate::scalar::FIR_SHIFT;
use crate::tables::{LimitTable, SMALL_MAX, SumTables};

/// Most moves of a pedestal with which a signal of a saturated rise is not taken for a small one.
const MOVES_MAX: i16 = 31;

/// One row in 8 bits.
#[derive(Clone, Copy)]
pub(crate) struct QuietRow<L: Lanes> {
    /// Samples minus the base of the pedestals, saturated.
    pub(super) rise: L::Bytes,
    /// On which side they were of the pedestals before these moved: -1, 0 or 1.
    pub(super) side: L::Bytes,
    /// Samples minus the pedestals; beyond [`SMALL_MAX`] where the rise is saturated.
    pub(super) signal: L::Bytes,
}

/// The form in 8 bits of `T`, a step between pedestal subtraction and hits.
pub(crate) trait Quiet<L: Lanes, T>: Copy {
    /// Goes on from the exact form; `None` if its values do not fit.
    fn settle(lanes: L, parameters: &Parameters, exact: &T, pedestal: &Estimate<L>)
    -> Option<Self>;

    /// Takes a row. What comes back is negative on channels where the row may be loud; then this
    /// must be thrown away.
    fn step(&mut self, lanes: L, row: QuietRow<L>) -> L::Bytes;

    /// Lets the exact form go on from here.
    fn resume(&self, lanes: L, exact: &mut T);

    /// In a chain that sums aside, the highest values since the exact form was left.
    fn highest(&self, lanes: L) -> Option<L::Words>;
}

/// For steps that an instruction set has no form in 8 bits for.
#[derive(Clone, Copy)]
pub(crate) enum Never {}

impl<L: Lanes, T> Quiet<L, T> for Never {
    #[inline(always)]
    fn settle(_: L, _: &Parameters, _: &T, _: &Estimate<L>) -> Option<Self> {
        None
    }

    #[inline(always)]
    fn step(&mut self, _: L, _: QuietRow<L>) -> L::Bytes {
        match *self {}
    }

    #[inline(always)]
    fn resume(&self, _: L, _: &mut T) {}

    #[inline(always)]
    fn highest(&self, _: L) -> Option<L::Words> {
        None
    }
}

/// Compares the rises: no signal is higher.
#[derive(Clone, Copy)]
pub(super) struct QuietThreshold<L: Lanes> {
    /// The rise above which a hit may be.
    screen: L::Bytes,
}

impl<L: Lanes> Quiet<L, Threshold<L>> for QuietThreshold<L> {
    #[inline(always)]
    fn settle(
        lanes: L,
        parameters: &Parameters,
        _: &Threshold<L>,
        _: &Estimate<L>,
    ) -> Option<Self> {
        // A rise that saturates at 127 must always be loud.
        let threshold = lanes.load(&parameters.threshold);
        Some(Self { screen: lanes.narrow(lanes.min(threshold, lanes.splat(126))) })
    }

    #[inline(always)]
    fn step(&mut self, lanes: L, row: QuietRow<L>) -> L::Bytes {
        lanes.subtract_saturating_bytes(self.screen, row.rise)
    }

    #[inline(always)]
    fn resume(&self, _: L, _: &mut Threshold<L>) {}

    #[inline(always)]
    fn highest(&self, _: L) -> Option<L::Words> {
        None
    }
}

/// Instruction sets that look bytes up in tables of 64.
pub(crate) trait Tables: Lanes {
    /// Such a table, in a register.
    type Table: Copy;

    fn table(self, entries: &[i8; 64]) -> Self::Table;
    /// The entries at the low six bits of each byte.
    fn look_up(self, table: Self::Table, index: Self::Bytes) -> Self::Bytes;
}

/// The running sum while it and the signals are small: two tables and an addition.
#[derive(Clone, Copy)]
pub(crate) struct QuietSum<L: Tables, const ABSOLUTE: bool> {
    /// The sums, in units and more by [`SumTables::bias`].
    sum: L::Bytes,
    /// Whether the unit is 2.
    is_even: bool,
    kept: L::Table,
    added: L::Table,
    /// What makes a sum over the threshold, or out of the table, more than 127.
    headroom: L::Bytes,
}

impl<L: Tables, const ABSOLUTE: bool> QuietSum<L, ABSOLUTE> {
    const BIAS: i8 = SumTables::bias(ABSOLUTE);
}

impl<L: Tables, const ABSOLUTE: bool> Quiet<L, RunningSum<L, ABSOLUTE>> for QuietSum<L, ABSOLUTE> {
    #[inline(always)]
    fn settle(
        lanes: L,
        parameters: &Parameters,
        exact: &RunningSum<L, ABSOLUTE>,
        _: &Estimate<L>,
    ) -> Option<Self> {
        let tables =
            parameters.sum_tables.as_ref().filter(|_| parameters.moves_max() <= MOVES_MAX)?;
        let is_even = tables.unit_bits == 1;
        let (bias, last) = (lanes.splat(i16::from(Self::BIAS)), lanes.splat(63));
        let threshold = lanes.load(&parameters.threshold);
        let (sum, threshold) = match is_even {
            true => (lanes.shift_right::<1>(exact.sum), lanes.shift_right::<1>(threshold)),
            false => (exact.sum, threshold),
        };
        let sum = lanes.add(sum, bias);
        if lanes.any(lanes.below_unsigned(last, sum)) {
            return None;
        }
        let most = lanes.min(threshold, lanes.subtract(last, bias));
        let headroom = lanes.subtract(lanes.splat(127), lanes.add(most, bias));
        Some(Self {
            sum: lanes.narrow(sum),
            is_even,
            kept: lanes.table(&tables.kept),
            added: lanes.table(&tables.added),
            headroom: lanes.narrow(headroom),
        })
    }

    #[inline(always)]
    fn step(&mut self, lanes: L, row: QuietRow<L>) -> L::Bytes {
        let index = if ABSOLUTE {
            lanes.abs_bytes(row.signal)
        } else {
            lanes.add_bytes(row.signal, lanes.splat_bytes(Self::BIAS))
        };
        let kept = lanes.look_up(self.kept, self.sum);
        self.sum = lanes.add_bytes(kept, lanes.look_up(self.added, index));
        let outside = lanes.add_saturating_unsigned_bytes(index, lanes.splat_bytes(64));
        let over = lanes.add_saturating_unsigned_bytes(self.sum, self.headroom);
        lanes.either_bytes(outside, over)
    }

    #[inline(always)]
    fn resume(&self, lanes: L, exact: &mut RunningSum<L, ABSOLUTE>) {
        let bias = lanes.splat(i16::from(Self::BIAS));
        let sum = lanes.subtract(lanes.widen(self.sum), bias);
        exact.sum = if self.is_even { lanes.add(sum, sum) } else { sum };
    }

    #[inline(always)]
    fn highest(&self, _: L) -> Option<L::Words> {
        None
    }
}

/// The running sum less its median, while it and the signals are small.
#[derive(Clone, Copy)]
pub(super) struct QuietFeedback<L: Lanes, const ABSOLUTE: bool> {
    sum: L::Bytes,
    median: Estimate<L>,
    /// The base of the median.
    base: L::Bytes,
    /// For each channel the factors of the sum and of the signal, a byte each.
    factors: L::Words,
    /// What makes a sum over the threshold, or not small, more than 127 when [`SMALL_MAX`] was
    /// added.
    headroom: L::Bytes,
    highest: L::Bytes,
}

impl<L: Lanes, const ABSOLUTE: bool> Quiet<L, FeedbackSum<L, ABSOLUTE>>
    for QuietFeedback<L, ABSOLUTE>
{
    #[inline(always)]
    fn settle(
        lanes: L,
        parameters: &Parameters,
        exact: &FeedbackSum<L, ABSOLUTE>,
        _: &Estimate<L>,
    ) -> Option<Self> {
        let factors =
            parameters.feedback_factors.as_ref().filter(|_| parameters.moves_max() <= MOVES_MAX)?;
        let small = lanes.splat(i16::from(SMALL_MAX));
        let (sum, base) = (exact.sum, exact.median.base());
        let farthest = lanes.max(lanes.abs(sum), lanes.abs(base));
        if lanes.any(lanes.above(farthest, small)) {
            return None;
        }
        let most = lanes.min(lanes.load(&parameters.threshold), small);
        let headroom = lanes.subtract(lanes.splat(127 - i16::from(SMALL_MAX)), most);
        Some(Self {
            sum: lanes.narrow(sum),
            median: exact.median,
            base: lanes.narrow(base),
            factors: lanes.load(factors),
            headroom: lanes.narrow(headroom),
            highest: lanes.splat_bytes(0),
        })
    }

    #[inline(always)]
    fn step(&mut self, lanes: L, row: QuietRow<L>) -> L::Bytes {
        let signal = if ABSOLUTE { lanes.abs_bytes(row.signal) } else { row.signal };
        let weighed = lanes.weigh(self.sum, signal, self.factors);
        let sum = lanes.narrow(lanes.multiply_rounding(weighed, lanes.splat(TENTH)));
        let rise = lanes.subtract_saturating_bytes(sum, self.base);
        self.median.count(lanes, self.median.side(lanes, rise));
        self.sum = lanes.subtract_saturating_bytes(rise, self.median.offset());
        self.highest = lanes.max_bytes(self.highest, row.signal);
        let small = lanes.splat_bytes(SMALL_MAX);
        let outside = lanes.add_bytes(row.signal, small);
        let over = lanes.add_bytes(self.sum, small);
        let over = lanes.add_saturating_unsigned_bytes(over, self.headroom);
        lanes.either_bytes(outside, over)
    }

    #[inline(always)]
    fn resume(&self, lanes: L, exact: &mut FeedbackSum<L, ABSOLUTE>) {
        exact.sum = lanes.widen(self.sum);
        exact.median = self.median;
    }

    #[inline(always)]
    fn highest(&self, lanes: L) -> Option<L::Words> {
        Some(lanes.widen(self.highest))
    }
}

/// The filter while signals and interquartile ranges are small.
#[derive(Clone, Copy)]
pub(crate) struct QuietFilter<L: Tables> {
    quartile: [Estimate<L>; 2],
    /// How far the bases of the quartiles lie below that of the pedestal.
    below: [L::Bytes; 2],
    /// The index into `limit` when both quartiles are at their bases.
    base_range: L::Bytes,
    /// The highest filtered signals that are not over threshold, by range.
    limit: L::Table,
    /// More than any filtered signal on masked channels.
    masked: L::Bytes,
    /// As in [`Filter`]; signals are more by [`QuietFilter::BIAS`], so that none is negative.
    delayed: [L::Bytes; 2],
    terms: [L::Words; 6],
    highest: L::Bytes,
}

impl<L: Tables> QuietFilter<L> {
    const BIAS: i8 = LimitTable::SIGNAL_BIAS;
}

impl<L: Tables> Quiet<L, Filter<L>> for QuietFilter<L> {
    #[inline(always)]
    fn settle(
        lanes: L,
        parameters: &Parameters,
        exact: &Filter<L>,
        pedestal: &Estimate<L>,
    ) -> Option<Self> {
        let limit = parameters.limit_table.as_ref()?;
        let [first, third] = exact.quartile;
        let below = [
            lanes.subtract(pedestal.base(), first.base()),
            lanes.subtract(pedestal.base(), third.base()),
        ];
        let mut farthest = lanes.max(lanes.abs(below[0]), lanes.abs(below[1]));
        for signal in exact.history(lanes) {
            farthest = lanes.max(farthest, lanes.abs(signal));
        }
        let bases = lanes.subtract(third.base(), first.base());
        let base_range = lanes.add(bases, lanes.splat(LimitTable::RANGE_BIAS));
        let moves_max = parameters.moves_max();
        let room = lanes.splat(63 - 4 * moves_max);
        let lowest = lanes.subtract(base_range, lanes.splat(2 * moves_max));
        let unfit = lanes.either(
            lanes.above(farthest, lanes.splat(i16::from(SMALL_MAX))),
            lanes.below_unsigned(room, lowest),
        );
        if 4 * moves_max > 63 || lanes.any(unfit) {
            return None;
        }
        let mut terms = exact.terms;
        for (power, term) in terms.iter_mut().enumerate() {
            *term = lanes.add(*term, lanes.splat(i16::from(Self::BIAS) << power));
        }
        let biased = |signal| lanes.add_bytes(lanes.narrow(signal), lanes.splat_bytes(Self::BIAS));
        Some(Self {
            quartile: exact.quartile,
            below: [lanes.narrow(below[0]), lanes.narrow(below[1])],
            base_range: lanes.narrow(base_range),
            limit: lanes.table(&limit.0),
            masked: lanes.narrow(lanes.load(&parameters.threshold)),
            delayed: [biased(exact.delayed[0]), biased(exact.delayed[1])],
            terms,
            highest: lanes.splat_bytes(Self::BIAS),
        })
    }

    #[inline(always)]
    fn step(&mut self, lanes: L, row: QuietRow<L>) -> L::Bytes {
        let [first, third] = &mut self.quartile;
        let side = first.side(lanes, lanes.add_saturating_bytes(row.rise, self.below[0]));
        first.count(lanes, lanes.keep_where_negative(row.side, side));
        let side = third.side(lanes, lanes.add_saturating_bytes(row.rise, self.below[1]));
        third.count(lanes, lanes.keep_where_positive(row.side, side));
        let moved = lanes.subtract_bytes(third.offset(), first.offset());
        let limit = lanes.look_up(self.limit, lanes.add_bytes(self.base_range, moved));
        let limit = lanes.max_bytes(limit, self.masked);

        let signal = lanes.add_bytes(row.signal, lanes.splat_bytes(Self::BIAS));
        let [older, newer] = self.delayed;
        self.delayed = [newer, signal];
        let filtered = cascade(lanes, &mut self.terms, lanes.widen_unsigned(older));
        let filtered = lanes.narrow(lanes.shift_right::<FIR_SHIFT>(filtered));
        self.highest = lanes.max_bytes(self.highest, filtered);
        lanes.either_bytes(signal, lanes.subtract_saturating_bytes(limit, filtered))
    }

    #[inline(always)]
    fn resume(&self, lanes: L, exact: &mut Filter<L>) {
        exact.quartile = self.quartile;
        let bias = lanes.splat(i16::from(Self::BIAS));
        exact.delayed = [
            lanes.subtract(lanes.widen(self.delayed[0]), bias),
            lanes.subtract(lanes.widen(self.delayed[1]), bias),
        ];
        for (power, (term, biased)) in exact.terms.iter_mut().zip(self.terms).enumerate() {
            *term = lanes.subtract(biased, lanes.splat(i16::from(Self::BIAS) << power));
        }
    }

    #[inline(always)]
    fn highest(&self, lanes: L) -> Option<L::Words> {
        let bias = lanes.splat(i16::from(Self::BIAS));
        Some(lanes.subtract(lanes.widen(self.highest), bias))
    }
}
