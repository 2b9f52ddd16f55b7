//! What the vector kernels look up in rows whose values all fit 8 bits.

use crate::tpg::block::CHANNELS;
use crate::tpg::chain::{ChannelTable, Transform};
use crate::tpg::scalar::{FIR_SHIFT, tenth};

/// Largest magnitude of a small signal or sum.
pub(crate) const SMALL_MAX: i8 = 63;

/// What follows from an accumulator of a frugal estimate after a sample, `-limit - 1..=limit + 1`; more
/// by [`FrugalTables::bias`], which makes it an index.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct FrugalTables {
    /// The accumulator that the next sample is counted in.
    pub(crate) next: [i8; 64],
    /// How far the estimate moves.
    pub(crate) moved: [i8; 64],
}

impl FrugalTables {
    /// What keeps accumulators above 0.
    pub(crate) const fn bias(limit: i8) -> i8 {
        limit + 1
    }

    /// The tables of a limit of at most 30; with higher ones accumulators do not fit.
    pub(crate) fn new(limit: i8) -> Self {
        let bias = Self::bias(limit);
        let (mut next, mut moved) = ([0; 64], [0; 64]);
        for (i, (next, moved)) in (0..=2 * i16::from(bias)).zip(next.iter_mut().zip(&mut moved)) {
            *moved = i8::from(i == 2 * i16::from(bias)) - i8::from(i == 0);
            *next = if *moved == 0 { i as i8 } else { bias };
        }
        Self { next, moved }
    }
}

/// The two terms of a running sum, by what they are made of.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct SumTables {
    /// What is kept of a sum, by the sum; both in units, and more by [`SumTables::bias`].
    pub(crate) kept: [i8; 64],
    /// What a signal adds, in units, by the signal, which is more by [`SumTables::bias`].
    pub(crate) added: [i8; 64],
    /// Binary logarithm of the unit of the sums: with even factors they are even.
    pub(crate) unit_bits: u32,
}

impl SumTables {
    /// What brings sums and signals of both signs, or of one, into `0..64`.
    pub(crate) const fn bias(absolute: bool) -> i8 {
        if absolute { 0 } else { 32 }
    }

    /// The tables of a chain; none where the factors differ between channels, or are too large.
    pub(crate) fn new(transform: Option<Transform>, table: &ChannelTable) -> Option<Self> {
        let Some(Transform::RunningSum { absolute }) = transform else { return None };
        let memory = i32::from(uniform(&table.memory_factor)?);
        let scale = i32::from(uniform(&table.scale_factor)?);
        let unit_bits = u32::from(memory % 2 == 0 && scale % 2 == 0);
        let bias = i32::from(Self::bias(absolute));
        let term = |value: i32, factor| (i32::from(tenth(value as i16)) * factor) >> unit_bits;
        let kept: [i32; 64] =
            core::array::from_fn(|sum| term((sum as i32 - bias) << unit_bits, memory) + bias);
        let added: [i32; 64] = core::array::from_fn(|signal| term(signal as i32 - bias, scale));
        let highest = kept.iter().max()? + added.iter().max()?;
        let lowest = kept.iter().min()? + added.iter().min()?;
        // All terms fit too, since the sum of each with one of the other table does, and either
        // table has a term between the bias and 0.
        let fits = highest <= i32::from(i8::MAX) && lowest >= i32::from(i8::MIN);
        fits.then(|| Self { kept: kept.map(|x| x as i8), added: added.map(|x| x as i8), unit_bits })
    }
}

/// For each channel of a sum that is fed back, the factors of the sum and of the signal, a byte
/// each; none where ten small values times them may not fit 8 bits.
pub(crate) fn feedback_factors(
    transform: Option<Transform>,
    table: &ChannelTable,
) -> Option<[u16; CHANNELS]> {
    let Some(Transform::FeedbackSum { absolute }) = transform else { return None };
    const SUM_MAX: u16 = 19;
    let mut factors = [0; CHANNELS];
    for (channel, factors) in factors.iter_mut().enumerate() {
        let memory = u16::try_from(table.memory_factor[channel]).ok()?;
        let scale = if absolute { u16::try_from(table.scale_factor[channel]).ok()? } else { 1 };
        if memory.saturating_add(scale) > SUM_MAX {
            return None;
        }
        *factors = memory | scale << 8;
    }
    Some(factors)
}

/// The highest filtered signals that are not over the threshold of the FIR filter.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct LimitTable(
    /// At the low six bits of each interquartile range the limit at a range less by one; the
    /// filtered signals are more by [`LimitTable::SIGNAL_BIAS`].
    pub(crate) [i8; 64],
);

impl LimitTable {
    /// Ranges are small, but may be negative for a while.
    pub(crate) const LOWEST_RANGE: i16 = -12;
    /// What makes small signals positive.
    pub(crate) const SIGNAL_BIAS: i8 = 64;

    /// The table of a chain; none where channels that are not masked have different multiples.
    ///
    /// `limit` gives the limit of filtered signals at a range, by channel; it does not fall with
    /// the range.
    pub(crate) fn new(
        transform: Option<Transform>,
        table: &ChannelTable,
        limit: impl Fn(i16, usize) -> i16,
    ) -> Option<Self> {
        let Some(Transform::Fir) = transform else { return None };
        let mut open = (0..CHANNELS).filter(|&channel| !table.masked[channel]);
        let first = open.next()?;
        if open.any(|channel| table.threshold[channel] != table.threshold[first]) {
            return None;
        }
        let mut entries = [0; 64];
        for range in Self::LOWEST_RANGE..Self::LOWEST_RANGE + 64 {
            let limit = limit(range - 1, first) >> FIR_SHIFT;
            let bias = i16::from(Self::SIGNAL_BIAS);
            // A signal that equals the limit in whole counts may be over it.
            let entry = limit.clamp(1 - bias, bias - 1) - 1 + bias;
            entries[range.rem_euclid(64) as usize] = entry as i8;
        }
        Some(Self(entries))
    }
}

/// The value that all channels have.
fn uniform(factors: &[i16; CHANNELS]) -> Option<i16> {
    factors.iter().all(|factor| *factor == factors[0]).then_some(factors[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_lets_a_hit_pass_at_its_range_or_at_one_less() {
        let table = ChannelTable { threshold: [5; CHANNELS], ..ChannelTable::default() };
        let limit = |range: i16, _| 320 * range;
        let limits = LimitTable::new(Some(Transform::Fir), &table, limit).unwrap();
        for range in LimitTable::LOWEST_RANGE..LimitTable::LOWEST_RANGE + 64 {
            let quiet = limits.0[range.rem_euclid(64) as usize] - LimitTable::SIGNAL_BIAS;
            // The highest sum of the filter that has these whole counts.
            let sum = (i16::from(quiet) << FIR_SHIFT) + (1 << FIR_SHIFT) - 1;
            let may_be_over = sum > limit(range, 0) || sum > limit(range - 1, 0);
            let none_is_quiet = quiet == -LimitTable::SIGNAL_BIAS;
            assert!(!may_be_over || none_is_quiet, "range {range}");
        }
    }
}
