//! Rows in which no hit is open and none begins, in 8 bits.
//!
//! Most rows are such, and all that the chain keeps fits bytes in them, so that one register holds
//! it for all channels. A row that may be *loud* (a channel over threshold, or a value that does
//! not fit) is left to the exact form of the chain, which goes on from the row before.

use super::Lanes;
use super::estimate::Estimate;
use super::transform::{FeedbackSum, Filter, RunningSum, TENTH, Threshold, cascade};
use crate::tpg::parameters::Parameters;
use crate::tpg::scalar::FIR_SHIFT;
use crate::tpg::tables::{LimitTable, SMALL_MAX, SumTables};

/// Most moves of a pedestal with which a signal of a saturated rise is not taken for a small one.
const MOVES_MAX: i16 = 31;

/// Most rows that are taken in 8 bits at a time.
pub(super) const ROWS_MAX: usize = 8;

/// One row in 8 bits.
#[derive(Clone, Copy)]
pub(crate) struct QuietRow<L: Lanes> {
    /// Samples minus the base of the pedestals, saturated.
    pub(super) rise: L::Bytes,
    /// On which side they were of the pedestals before these moved: -1, 0 or 1.
    pub(super) side: L::Bytes,
    /// Samples minus the pedestals; beyond [`SMALL_MAX`] where they do not fit.
    pub(super) signal: L::Bytes,
}

/// The form in 8 bits of `T`, a step between pedestal subtraction and hits.
pub(crate) trait Quiet<L: Lanes, T>: Copy {
    /// Rows that are taken before it is asked whether one of them may be loud, at most [`ROWS_MAX`].
    const ROWS: usize = L::QUIET_ROWS;

    /// Goes on from the exact form; `None` if its values do not fit.
    fn settle(lanes: L, parameters: &Parameters, exact: &T, pedestal: &Estimate<L>)
    -> Option<Self>;

    /// Takes a row. What comes back is negative on channels where the row may be loud; then this
    /// must be thrown away.
    fn step(&mut self, lanes: L, row: QuietRow<L>) -> L::Bytes;

    /// Judges the rows since it was last asked, at most [`Quiet::ROWS`], as a whole. What
    /// comes back is negative as that of a step is.
    #[inline(always)]
    fn judge(&mut self, lanes: L) -> L::Bytes {
        lanes.splat_bytes(0)
    }

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

/// Instruction sets that look bytes up in tables.
pub(crate) trait Tables: Lanes {
    /// Entries that a table has at most: 64, or 32 where twice as many take too long.
    const ENTRIES: u8;

    /// The first entries of a table, in registers.
    type Table: Copy;

    fn table(self, entries: &[i8; 64]) -> Self::Table;
    /// The entry at the low bits of each byte, whose highest bit is 0.
    fn look_up(self, table: Self::Table, index: Self::Bytes) -> Self::Bytes;
}

/// Instruction sets with masks by bytes.
pub(crate) trait Masks: Lanes {
    /// Some of the channels, to choose bytes by.
    type ByteChannels: Copy;

    /// Where `x` is negative.
    fn negative(self, x: Self::Bytes) -> Self::ByteChannels;
    /// Where `x` is positive.
    fn positive(self, x: Self::Bytes) -> Self::ByteChannels;
    /// Moves offsets and accumulators on these channels, where accumulators with a sign added are
    /// `counted`.
    fn move_where(
        self,
        limits: Self::Frugal,
        channels: Self::ByteChannels,
        counted: Self::Bytes,
        offset: &mut Self::Bytes,
        accumulators: &mut Self::Bytes,
    );
    /// `x` on these channels, `y` on the others.
    fn choose_bytes(
        self,
        channels: Self::ByteChannels,
        x: Self::Bytes,
        y: Self::Bytes,
    ) -> Self::Bytes;
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
            parameters.sum_tables.as_ref().filter(|_| parameters.moves_max <= MOVES_MAX)?;
        // With fewer entries noise of both signs often does not fit.
        if !ABSOLUTE && L::ENTRIES < 64 {
            return None;
        }
        let is_even = tables.unit_bits == 1;
        let last = lanes.splat(i16::from(L::ENTRIES) - 1);
        let bias = lanes.splat(i16::from(Self::BIAS));
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
        let beyond = lanes.splat_bytes((128 - L::ENTRIES) as i8);
        let outside = lanes.add_saturating_unsigned_bytes(index, beyond);
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
    /// On the base 0.
    median: Estimate<L>,
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
            parameters.feedback_factors.as_ref().filter(|_| parameters.moves_max <= MOVES_MAX)?;
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
            median: exact.median.on_base(lanes, lanes.splat(0)),
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
        // What the sum is without the move is known earlier than the median.
        let unmoved = lanes.subtract_saturating_bytes(sum, self.median.offset());
        let moved = self.median.count(lanes, self.median.side(lanes, sum));
        self.sum = lanes.subtract_saturating_bytes(unmoved, moved);
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
        exact.median = self.median.on_base(lanes, exact.median.base());
    }

    #[inline(always)]
    fn highest(&self, lanes: L) -> Option<L::Words> {
        Some(lanes.widen(self.highest))
    }
}

/// The filter while signals and interquartile ranges are small.
#[derive(Clone, Copy)]
pub(crate) struct QuietFilter<L: Tables + Masks> {
    /// On the base of the pedestal, so that all three are compared with one rise.
    quartile: [Estimate<L>; 2],
    /// The last three signals, the oldest first, which has entered the filter. All signals are more
    /// by [`QuietFilter::BIAS`], so that none is negative.
    delayed: [L::Bytes; 3],
    /// As in [`Filter`], without the first.
    terms: [L::Words; 5],
    /// The highest sum of the filter in the rows that are to be judged.
    sum: L::Words,
    /// The highest filtered signal in the rows before them.
    highest: L::Bytes,
    /// The limit of filtered signals when rows were last judged.
    limit: L::Bytes,
    limits: L::Table,
    /// More than any filtered signal on masked channels.
    masked: L::Bytes,
}

impl<L: Tables + Masks> QuietFilter<L> {
    const BIAS: i8 = LimitTable::SIGNAL_BIAS;

    /// Moves the first quartile by a sample below the pedestal, the third by one above it.
    #[inline(always)]
    fn move_quartiles(&mut self, lanes: L, row: QuietRow<L>) {
        let [first, third] = &mut self.quartile;
        let (below, above) = (lanes.negative(row.side), lanes.positive(row.side));
        // No sample moves both, so that one step does for the two.
        let either = third.replaced(lanes, below, first);
        let counted = either.counted(lanes, either.side(lanes, row.rise));
        first.move_where(lanes, below, counted);
        third.move_where(lanes, above, counted);
    }

    /// What filtered signals must not pass before a quartile has moved again, nor just after.
    #[inline(always)]
    fn limit(&self, lanes: L) -> L::Bytes {
        let [first, third] = &self.quartile;
        let range = lanes.subtract_bytes(third.offset(), first.offset());
        lanes.max_bytes(lanes.look_up(self.limits, range), self.masked)
    }
}

impl<L: Tables + Masks> Quiet<L, Filter<L>> for QuietFilter<L> {
    const ROWS: usize = 2 * L::QUIET_ROWS;

    #[inline(always)]
    fn settle(
        lanes: L,
        parameters: &Parameters,
        exact: &Filter<L>,
        pedestal: &Estimate<L>,
    ) -> Option<Self> {
        let limits = parameters.limit_table.as_ref()?;
        let base = pedestal.base();
        let [first, third] = &exact.quartile;
        let mut farthest = lanes.max(
            lanes.abs(lanes.subtract(base, first.base())),
            lanes.abs(lanes.subtract(base, third.base())),
        );
        for signal in exact.history(lanes) {
            farthest = lanes.max(farthest, lanes.abs(signal));
        }
        let moves_max = parameters.moves_max;
        let room = lanes.splat(63 - 4 * moves_max);
        let lowest = lanes.add(
            lanes.subtract(third.base(), first.base()),
            lanes.splat(LimitTable::LOWEST_RANGE.unsigned_abs() as i16 - 2 * moves_max),
        );
        let unfit = lanes.either(
            lanes.above(farthest, lanes.splat(i16::from(SMALL_MAX))),
            lanes.below_unsigned(room, lowest),
        );
        // While they are not judged neither quartile may move twice.
        let moves_once = parameters.accum_limit as usize + 1 >= Self::ROWS;
        if !moves_once || 4 * moves_max > 63 || lanes.any(unfit) {
            return None;
        }
        let biased = |signal, power| lanes.add(signal, lanes.splat(i16::from(Self::BIAS) << power));
        let [entered, a, b, c, d, e] = exact.terms;
        let [older, newer] = exact.delayed;
        let mut filter = Self {
            quartile: [first.on_base(lanes, base), third.on_base(lanes, base)],
            delayed: [
                lanes.narrow(biased(entered, 0)),
                lanes.narrow(biased(older, 0)),
                lanes.narrow(biased(newer, 0)),
            ],
            terms: [biased(a, 1), biased(b, 2), biased(c, 3), biased(d, 4), biased(e, 5)],
            sum: lanes.splat(0),
            highest: lanes.splat_bytes(0),
            limit: lanes.splat_bytes(0),
            limits: lanes.table(&limits.0),
            masked: lanes.narrow(lanes.load(&parameters.threshold)),
        };
        filter.limit = filter.limit(lanes);
        Some(filter)
    }

    #[inline(always)]
    fn step(&mut self, lanes: L, row: QuietRow<L>) -> L::Bytes {
        self.move_quartiles(lanes, row);
        let signal = lanes.add_bytes(row.signal, lanes.splat_bytes(Self::BIAS));
        let [oldest, older, newer] = self.delayed;
        self.delayed = [older, newer, signal];
        let pair = lanes.widen_unsigned(lanes.add_bytes(oldest, older));
        self.sum = lanes.max(self.sum, cascade(lanes, &mut self.terms, pair));
        signal
    }

    #[inline(always)]
    fn judge(&mut self, lanes: L) -> L::Bytes {
        let filtered = lanes.narrow(lanes.shift_right::<FIR_SHIFT>(self.sum));
        let before = lanes.subtract_saturating_bytes(self.limit, filtered);
        self.limit = self.limit(lanes);
        let after = lanes.subtract_saturating_bytes(self.limit, filtered);
        self.sum = lanes.splat(0);
        self.highest = lanes.max_bytes(self.highest, filtered);
        lanes.either_bytes(before, after)
    }

    #[inline(always)]
    fn resume(&self, lanes: L, exact: &mut Filter<L>) {
        for (exact, quartile) in exact.quartile.iter_mut().zip(&self.quartile) {
            *exact = quartile.on_base(lanes, exact.base());
        }
        let exactly =
            |biased, power| lanes.subtract(biased, lanes.splat(i16::from(Self::BIAS) << power));
        let [entered, older, newer] = self.delayed;
        let [a, b, c, d, e] = self.terms;
        exact.delayed = [exactly(lanes.widen(older), 0), exactly(lanes.widen(newer), 0)];
        exact.terms = [
            exactly(lanes.widen(entered), 0),
            exactly(a, 1),
            exactly(b, 2),
            exactly(c, 3),
            exactly(d, 4),
            exactly(e, 5),
        ];
    }

    #[inline(always)]
    fn highest(&self, lanes: L) -> Option<L::Words> {
        let bias = lanes.splat(i16::from(Self::BIAS));
        Some(lanes.subtract(lanes.widen(self.highest), bias))
    }
}
