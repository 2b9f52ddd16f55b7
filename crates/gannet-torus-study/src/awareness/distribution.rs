//! Times as a distribution.

use gannet_lattice::{Direction, Lattice};
use gannet_lofamo::Mode;
use gannet_measure::histogram::Histogram;
use serde::Serialize;

/// Parts of the watchdog period to which times are counted.
const RESOLUTION: u64 = 1000;
/// Such parts in a bin of the histogram of a report.
const PARTS_A_BIN: usize = 10;

/// Awareness time over the watchdog period that was published, of one beat a period: 0.9 s at
/// 500 ms.
///
/// Source: Ammendola et al., arXiv:1307.0433.
pub const PUBLISHED_PERIODS: f64 = 1.8;

/// Times counted to a thousandth of the watchdog period and, where that is less, to 3 % of
/// themselves, however many they are.
#[derive(Debug, Default)]
pub(super) struct Times {
    parts: Vec<u64>,
    octaves: Histogram,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Times {
    /// Counts a time at a watchdog period.
    pub fn add(&mut self, time_ns: u64, period_ns: u64) {
        let part = (time_ns / part_ns(period_ns)) as usize;
        if part >= self.parts.len() {
            self.parts.resize(part + 1, 0);
        }
        self.parts[part] += 1;
        self.octaves.record(time_ns);
        self.count += 1;
        self.sum_ns += u128::from(time_ns);
        self.max_ns = self.max_ns.max(time_ns);
    }

    /// Counts all of `other`, which are of the same watchdog period.
    pub fn merge(&mut self, other: &Self) {
        if other.parts.len() > self.parts.len() {
            self.parts.resize(other.parts.len(), 0);
        }
        self.parts.iter_mut().zip(&other.parts).for_each(|(mine, theirs)| *mine += theirs);
        self.octaves.absorb(&other.octaves);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Smallest time that at least this part of all do not exceed, to the end of its bin.
    fn quantile_ns(&self, part: f64, period_ns: u64) -> u64 {
        let rank = ((part * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let index = self.parts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let end_ns = index.map(|index| (index as u64 + 1) * part_ns(period_ns));
        end_ns.unwrap_or(self.max_ns).min(self.octaves.quantile(part))
    }
}

fn part_ns(period_ns: u64) -> u64 {
    (period_ns / RESOLUTION).max(1)
}

/// Distribution of times, in seconds; of no times there is neither mean nor quantile.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of times.
    pub count: u64,
    /// Their mean.
    pub mean_s: Option<f64>,
    /// Half of them are no longer than this: as the next two known to a thousandth of the watchdog
    /// period or to 3 %, whichever is less.
    pub p50_s: Option<f64>,
    /// 99 of 100 are no longer than this.
    pub p99_s: Option<f64>,
    /// 999 of 1000 are no longer than this.
    pub p999_s: Option<f64>,
    /// The longest.
    pub max_s: Option<f64>,
    /// Width of a bin of the histogram: a hundredth of the watchdog period.
    pub bin_s: Option<f64>,
    /// Number of times by bin, from 0; the longest falls in the last.
    pub histogram: Vec<u64>,
}

impl Distribution {
    /// The distribution of `times` at a watchdog period.
    pub(super) fn new(times: &Times, period_ns: u64) -> Self {
        if times.count == 0 {
            return Self::default();
        }
        let seconds = |ns: u64| Some(ns as f64 * 1e-9);
        let quantile = |part| seconds(times.quantile_ns(part, period_ns));
        Self {
            count: times.count,
            mean_s: Some(times.sum_ns as f64 * 1e-9 / times.count as f64),
            p50_s: quantile(0.5),
            p99_s: quantile(0.99),
            p999_s: quantile(0.999),
            max_s: seconds(times.max_ns),
            bin_s: seconds(PARTS_A_BIN as u64 * part_ns(period_ns)),
            histogram: times.parts.chunks(PARTS_A_BIN).map(|parts| parts.iter().sum()).collect(),
        }
    }
}

/// What awareness may take at most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// In the mean over all faults.
    pub mean_s: f64,
    /// For any fault.
    pub worst_s: f64,
}

impl Limits {
    /// Fewest times whose mean is judged.
    pub const MEAN_LEAST: u64 = 100;

    /// Poll mode: 1.5 T, and 3 T + 10 ms. Push mode: 0.6 T, and 1.2 T + 10 ms.
    pub fn of(mode: Mode, period_ns: u64) -> Self {
        let period_s = period_ns as f64 * 1e-9;
        let (mean, worst) = match mode {
            Mode::Poll => (1.5, 3.0),
            Mode::Push => (0.6, 1.2),
        };
        Self { mean_s: mean * period_s, worst_s: worst * period_s + 0.010 }
    }

    /// Whether anything is promised for this machine: a node without neighbours is watched by none.
    pub fn hold_for(lattice: Lattice) -> bool {
        Direction::ALL.into_iter().any(|direction| lattice.has(direction))
    }

    /// Whether `times` keep them. A mean of fewer than [`MEAN_LEAST`](Self::MEAN_LEAST) says little,
    /// and is not judged.
    pub fn are_kept_by(&self, times: &Distribution) -> bool {
        let keeps = |time_s: Option<f64>, limit_s| time_s.is_none_or(|time_s| time_s <= limit_s);
        keeps(times.max_s, self.worst_s)
            && (times.count < Self::MEAN_LEAST || keeps(times.mean_s, self.mean_s))
    }

    /// The worst in whole nanoseconds.
    pub(super) fn worst_ns(&self) -> u64 {
        (self.worst_s * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS_NS: u64 = 1_000_000;

    fn of(times_ns: impl IntoIterator<Item = u64>, period_ns: u64) -> Distribution {
        let mut times = [Times::default(), Times::default()];
        for (index, time_ns) in times_ns.into_iter().enumerate() {
            times[index % 2].add(time_ns, period_ns);
        }
        let [mut all, others] = times;
        all.merge(&others);
        Distribution::new(&all, period_ns)
    }

    #[test]
    fn quantiles_are_known_to_a_thousandth_and_the_longest_exactly() {
        let all = of((1..=1000).rev().map(|ms| ms * MS_NS), 500 * MS_NS);
        let near = |a: Option<f64>, b: f64| (-1e-12..=0.0005 + 1e-12).contains(&(a.unwrap() - b));
        assert!(near(all.p50_s, 0.5) && near(all.p99_s, 0.99) && near(all.p999_s, 0.999));
        assert!(near(all.mean_s, 0.5005) && near(all.max_s, 1.0));
        assert_eq!((all.count, all.histogram.iter().sum::<u64>()), (1000, 1000));
        // 5 ms a bin; the last holds 1 s alone.
        assert_eq!((all.bin_s, all.histogram.len()), (Some(0.005), 201));
        assert_eq!((all.histogram[0], all.histogram[1], all.histogram[200]), (4, 5, 1));
        let short = of((1..=1000).map(|us| us * 1000), 500 * MS_NS);
        let close = |a: Option<f64>, b: f64| (1.0..1.04).contains(&(a.unwrap() / b));
        assert!(close(short.p50_s, 0.0005) && close(short.p99_s, 0.00099));
        let one = of([7], MS_NS);
        assert_eq!((one.p50_s, one.p999_s), (one.max_s, one.max_s));
    }

    #[test]
    fn of_no_times_there_is_no_mean() {
        let none = of([], MS_NS);
        let times = [none.mean_s, none.p50_s, none.p99_s, none.p999_s, none.max_s, none.bin_s];
        assert_eq!((none.count, times), (0, [None; 6]));
    }

    #[test]
    fn a_mean_is_judged_of_many_times_only() {
        let limits = Limits::of(Mode::Push, 1_000_000_000);
        let of = |count, ns: u64| of(vec![ns; count], 1_000_000_000);
        assert!(limits.are_kept_by(&of(0, 0)) && limits.are_kept_by(&of(100, 590_000_000)));
        assert!(limits.are_kept_by(&of(99, 700_000_000)));
        assert!(!limits.are_kept_by(&of(100, 700_000_000)));
        assert!(!limits.are_kept_by(&of(1, 1_300_000_000)));
    }

    #[test]
    fn limits_are_those_asked_for() {
        let limits = Limits::of(Mode::Push, 500_000_000);
        assert!((limits.mean_s - 0.3).abs() < 1e-12 && (limits.worst_s - 0.61).abs() < 1e-12);
        assert_eq!(Limits::of(Mode::Poll, 1_000_000).worst_ns(), 13_000_000);
    }
}
