//! Times as a distribution, exact.

use gannet_torus::lattice::{Direction, Lattice};
use gannet_torus::lofamo::{Mode, Timing};
use serde::Serialize;

/// Bins of a histogram.
pub const BINS: usize = 120;

/// Distribution of times, in seconds; of no times there is neither mean nor quantile.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of times.
    pub count: u64,
    /// Their mean.
    pub mean_s: Option<f64>,
    /// Half of them are no longer than this.
    pub p50_s: Option<f64>,
    /// 99 of 100 are no longer than this.
    pub p99_s: Option<f64>,
    /// 999 of 1000 are no longer than this.
    pub p999_s: Option<f64>,
    /// The longest.
    pub max_s: Option<f64>,
    /// Width of a bin of the histogram.
    pub bin_s: Option<f64>,
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
            mean_s: Some(sum as f64 * 1e-9 / times_ns.len() as f64),
            p50_s: Some(quantile(0.5)),
            p99_s: Some(quantile(0.99)),
            p999_s: Some(quantile(0.999)),
            max_s: Some(seconds(max_ns)),
            bin_s: Some(seconds(bin_ns)),
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
        let near = |a: Option<f64>, b: f64| (a.unwrap() - b).abs() < 1e-12;
        assert!(near(all.mean_s, 0.5005) && near(all.p50_s, 0.5) && near(all.p99_s, 0.99));
        assert!(near(all.p999_s, 0.999) && near(all.max_s, 1.0));
        assert_eq!((all.count, all.histogram.iter().sum::<u64>()), (1000, 1000));
        assert_eq!(Distribution::new(&mut []), Distribution::default());
        assert!(near(Distribution::new(&mut [7]).p50_s, 7e-9));
    }

    #[test]
    fn of_no_times_there_is_no_mean() {
        let none = Distribution::new(&mut []);
        let times = [none.mean_s, none.p50_s, none.p99_s, none.p999_s, none.max_s, none.bin_s];
        assert_eq!((none.count, times), (0, [None; 6]));
    }

    #[test]
    fn a_mean_is_judged_of_many_times_only() {
        let limits = Limits::of(Mode::Push, 1_000_000_000);
        let of = |count, ns: u64| Distribution::new(&mut vec![ns; count]);
        assert!(limits.are_kept_by(&of(0, 0)) && limits.are_kept_by(&of(100, 590_000_000)));
        assert!(limits.are_kept_by(&of(99, 700_000_000)));
        assert!(!limits.are_kept_by(&of(100, 700_000_000)));
        assert!(!limits.are_kept_by(&of(1, 1_300_000_000)));
    }

    #[test]
    fn limits_are_those_asked_for() {
        let limits = Limits::of(Mode::Push, 500_000_000);
        assert!((limits.mean_s - 0.3).abs() < 1e-12 && (limits.worst_s - 0.61).abs() < 1e-12);
        assert_eq!(Limits::worst_ns(&Timing::poll(1_000_000), 1_000_000), 13_000_000);
    }
}
