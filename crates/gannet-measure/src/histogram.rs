//! Latency histograms that record without allocating and merge without loss.

use schemars::JsonSchema;
use serde::Serialize;

use crate::counter::Counter;

/// Bits of resolution within one octave: 32 buckets, so a bucket is at most 3.2 % wide.
const SUB_BITS: u32 = 5;
const SUB_COUNT: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB_COUNT;

/// A log-linear histogram of `u64` values (usually nanoseconds): one writer, many readers.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[Counter]>,
    count: Counter,
    sum: Counter,
    max: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Counter::default()).collect(),
            count: Counter::default(),
            sum: Counter::default(),
            max: Counter::default(),
        }
    }
}

/// Bucket that `value` falls into.
fn bucket(value: u64) -> usize {
    if value < SUB_COUNT as u64 {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros() - SUB_BITS;
    (octave as usize) * SUB_COUNT + (value >> octave) as usize
}

/// Largest value that falls into bucket `index`.
fn upper_edge(index: usize) -> u64 {
    if index < 2 * SUB_COUNT {
        return index as u64;
    }
    let octave = (index / SUB_COUNT - 1) as u32;
    let lower = ((index % SUB_COUNT + SUB_COUNT) as u64) << octave;
    lower + ((1u64 << octave) - 1)
}

impl Histogram {
    /// Records one value.
    #[inline]
    pub fn record(&self, value: u64) {
        self.record_many(value, 1);
    }

    /// Records `n` equal values.
    #[inline]
    pub fn record_many(&self, value: u64, n: u64) {
        self.buckets[bucket(value)].add(n);
        self.count.add(n);
        self.sum.add(value.wrapping_mul(n));
        self.max.raise(value);
    }

    /// Number of values recorded.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Sum of the values recorded.
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }

    /// Smallest value that at least the fraction `q` of all values do not exceed, to the upper
    /// edge of its bucket; 0 when nothing was recorded.
    pub fn quantile(&self, q: f64) -> u64 {
        let total: u64 = self.buckets.iter().map(Counter::get).sum();
        if total == 0 {
            return 0;
        }
        let rank = ((q.clamp(0.0, 1.0) * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count.get();
            if seen >= rank {
                return upper_edge(index).min(self.max.get());
            }
        }
        self.max.get()
    }

    /// Adds all values of `other`.
    pub fn absorb(&self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter().zip(&other.buckets) {
            mine.add(theirs.get());
        }
        self.count.add(other.count());
        self.sum.add(other.sum());
        self.max.raise(other.max.get());
    }

    /// How many values each octave holds, from the first that holds one to the last: the largest value of the
    /// octave, and their number.
    pub fn octaves(&self) -> Vec<(u64, u64)> {
        let counts: Vec<(u64, u64)> = (0..)
            .zip(self.buckets.chunks(SUB_COUNT))
            .map(|(octave, buckets)| {
                let upper = upper_edge((octave + 1) * SUB_COUNT - 1);
                (upper, buckets.iter().map(Counter::get).sum())
            })
            .collect();
        let is_held = |(_, count): &(u64, u64)| *count > 0;
        let (first, last) = (counts.iter().position(is_held), counts.iter().rposition(is_held));
        first.zip(last).map_or(Vec::new(), |(first, last)| counts[first..=last].to_vec())
    }

    /// The figures that reports print.
    pub fn summary(&self) -> Summary {
        let count = self.count();
        Summary {
            count,
            mean: if count == 0 { 0.0 } else { self.sum() as f64 / count as f64 },
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max: self.max.get(),
        }
    }
}

/// The figures of a [`Histogram`] that reports print, in the unit of its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest value, exact.
    pub max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_within_its_bucket_and_the_bucket_is_narrow(value: u64) {
            let index = bucket(value);
            prop_assert!(index < BUCKETS);
            prop_assert!(value <= upper_edge(index));
            prop_assert!(index == 0 || value > upper_edge(index - 1));
            prop_assert!(upper_edge(index) - value <= value / SUB_COUNT as u64);
        }
    }

    #[test]
    fn quantiles_are_exact_for_small_values_and_close_for_large_ones() {
        let histogram = Histogram::default();
        (1..=100).for_each(|value| histogram.record(value * 1000));
        let summary = histogram.summary();
        assert_eq!((summary.count, summary.max), (100, 100_000));
        assert!((50_000..=51_600).contains(&summary.p50));
        assert!((99_000..=100_000).contains(&summary.p99));
    }

    #[test]
    fn octaves_hold_all_values_and_none_is_left_out_between() {
        let histogram = Histogram::default();
        assert!(histogram.octaves().is_empty());
        [40, 63, 64, 300].into_iter().for_each(|value| histogram.record(value));
        assert_eq!(histogram.octaves(), [(63, 2), (127, 1), (255, 0), (511, 1)]);
    }

    #[test]
    fn merging_loses_nothing() {
        let (a, b) = (Histogram::default(), Histogram::default());
        a.record(5);
        b.record_many(9, 3);
        a.absorb(&b);
        assert_eq!((a.count(), a.sum(), a.quantile(1.0)), (4, 32, 9));
    }
}
