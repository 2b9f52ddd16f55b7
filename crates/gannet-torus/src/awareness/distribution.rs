//! Times as a distribution, exact.

use serde::Serialize;

use crate::lofamo::{Mode, Timing};

/// Bins of a histogram.
pub const BINS: usize = 120;

/// Distribution of times, in seconds; all zero when there are none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of times.
    pub count: u64,
    /// Their mean.
    pub mean_s: f64,
    /// Half of them are no longer than this.
    pub p50_s: f64,
    /// 99 of 100 are no longer than this.
    pub p99_s: f64,
    /// 999 of 1000 are no longer than this.
    pub p999_s: f64,
    /// The longest.
    pub max_s: f64,
    /// Width of a bin of the histogram.
    pub bin_s: f64,
    /// Number of times by bin, from 0; the longest falls in the last.
    pub histogram: Vec<u64>,
}

impl Distribution {
    /// The distribution of `times_ns`, which are sorted for it.
    pub fn new(times_ns: &mut [u64]) -> Self {
        times_ns.sort_unstable();
        let Some(&max_ns) = times_ns.last() else { return Self::default() };
        let seconds = |ns: u64| ns as f64 * 1e-9;
        // Smallest time that at least this part of all do not exceed.
        let quantile = |part: f64| {
            let rank = (part * times_ns.len() as f64).ceil() as usize;
            seconds(times_ns[rank.clamp(1, times_ns.len()) - 1])
        };
        let sum: u128 = times_ns.iter().map(|&ns| u128::from(ns)).sum();
        let bin_ns = max_ns / BINS as u64 + 1;
        let mut histogram = vec![0; BINS];
        times_ns.iter().for_each(|ns| histogram[(ns / bin_ns) as usize] += 1);
        Self {
            count: times_ns.len() as u64,
            mean_s: sum as f64 * 1e-9 / times_ns.len() as f64,
            p50_s: quantile(0.5),
            p99_s: quantile(0.99),
            p999_s: quantile(0.999),
            max_s: seconds(max_ns),
            bin_s: seconds(bin_ns),
            histogram,
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
    /// Poll mode: 1.5 T, and 3 T + 10 ms. Push mode: 0.6 T, and 1.2 T + 10 ms.
    pub fn of(mode: Mode, period_ns: u64) -> Self {
        let period_s = period_ns as f64 * 1e-9;
        let (mean, worst) = match mode {
            Mode::Poll => (1.5, 3.0),
            Mode::Push => (0.6, 1.2),
        };
        Self { mean_s: mean * period_s, worst_s: worst * period_s + 0.010 }
    }

    /// The worst in whole nanoseconds.
    pub fn worst_ns(timing: &Timing, period_ns: u64) -> u64 {
        (Self::of(timing.mode, period_ns).worst_s * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact() {
        let mut times: Vec<u64> = (1..=1000).rev().map(|ms| ms * 1_000_000).collect();
        let all = Distribution::new(&mut times);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(all.mean_s, 0.5005) && near(all.p50_s, 0.5) && near(all.p99_s, 0.99));
        assert!(near(all.p999_s, 0.999) && near(all.max_s, 1.0));
        assert_eq!((all.count, all.histogram.iter().sum::<u64>()), (1000, 1000));
        assert_eq!(Distribution::new(&mut []), Distribution::default());
        assert!(near(Distribution::new(&mut [7]).p50_s, 7e-9));
    }

    #[test]
    fn limits_are_those_asked_for() {
        let limits = Limits::of(Mode::Push, 500_000_000);
        assert!((limits.mean_s - 0.3).abs() < 1e-12 && (limits.worst_s - 0.61).abs() < 1e-12);
        assert_eq!(Limits::worst_ns(&Timing::poll(1_000_000), 1_000_000), 13_000_000);
    }
}
