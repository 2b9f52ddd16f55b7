//! Many trials on a few threads: each depends on its number alone, and the report on all of them,
//! in whatever order they were run.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Most trials of a campaign.
pub const TRIALS_MAX: u64 = 100_000_000;
/// Failures that are kept, of each thread and in a report.
const KEPT: usize = 16;
/// How often a thread hands over what it has.
const INTERVAL: Duration = Duration::from_millis(100);

/// A trial that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Failure {
    /// Number of the trial.
    pub trial: u64,
    /// What went wrong.
    pub what: String,
}

/// Trials that are known by their numbers.
pub trait Trials: Sync {
    /// What a thread keeps from one trial to the next.
    type Bench;
    /// Sums over trials.
    type Tally: Tally;
    /// What they come to.
    type Report;

    /// Number of trials.
    fn count(&self) -> u64;

    /// Threads that share them; nothing depends on their number.
    fn threads(&self) -> usize;

    /// For the first trial of a thread.
    fn bench(&self) -> Self::Bench;

    /// Runs trial `index` and adds it to `tally`.
    fn run(&self, index: u64, bench: &mut Self::Bench, tally: &mut Self::Tally);

    /// The report of all trials or of a part.
    fn report(&self, tally: Self::Tally) -> Self::Report;
}

/// Sums over trials, which do not depend on their order.
pub trait Tally: Default + Send {
    /// Number of trials in it.
    fn trials(&self) -> u64;

    /// Adds the sums over other trials.
    fn merge(&mut self, other: Self);
}

/// Runs all trials, and hands over the sums of a few at a time.
pub fn run<T: Trials>(trials: &T, hear: &mut dyn FnMut(T::Tally)) {
    let threads = trials.threads().max(1);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for first in 0..threads as u64 {
            let sender = sender.clone();
            scope.spawn(move || share(trials, first, threads, &sender));
        }
        drop(sender);
        receiver.into_iter().for_each(hear);
    });
}

/// Runs trials `first`, `first + threads` and so on.
fn share<T: Trials>(trials: &T, first: u64, threads: usize, sums: &mpsc::Sender<T::Tally>) {
    let mut bench = trials.bench();
    let mut tally = T::Tally::default();
    let mut begin = Instant::now();
    for index in (first..trials.count()).step_by(threads) {
        trials.run(index, &mut bench, &mut tally);
        if begin.elapsed() >= INTERVAL {
            // It is heard until all threads have ended.
            let _ = sums.send(std::mem::take(&mut tally));
            begin = Instant::now();
        }
    }
    if tally.trials() > 0 {
        let _ = sums.send(tally);
    }
}

/// Runs all trials; `progress` is told how many are done.
pub fn run_all<T: Trials>(trials: &T, progress: &mut dyn FnMut(u64)) -> T::Report {
    let mut all = T::Tally::default();
    run(trials, &mut |tally| {
        all.merge(tally);
        progress(all.trials());
    });
    trials.report(all)
}

/// The first few things of their kind, in the order of trials.
#[derive(Debug)]
pub(crate) struct First<T>(Vec<T>);

impl<T> Default for First<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Ord> First<T> {
    /// Keeps another, which is of no earlier trial than those before, if it is among the first.
    pub fn keep(&mut self, another: T) {
        if self.0.len() < KEPT {
            self.0.push(another);
        }
    }

    /// Keeps those of other trials that are among the first.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
        self.0.sort();
        self.0.truncate(KEPT);
    }

    pub fn into_vec(mut self) -> Vec<T> {
        self.0.sort();
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials that are worth their numbers; every tenth goes wrong.
    struct Numbers {
        count: u64,
        threads: usize,
    }

    #[derive(Default)]
    struct Sum {
        trials: u64,
        sum: u64,
        tenths: First<u64>,
    }

    impl Tally for Sum {
        fn trials(&self) -> u64 {
            self.trials
        }

        fn merge(&mut self, other: Self) {
            self.trials += other.trials;
            self.sum += other.sum;
            self.tenths.merge(other.tenths);
        }
    }

    impl Trials for Numbers {
        type Bench = u64;
        type Tally = Sum;
        type Report = (u64, u64, Vec<u64>);

        fn count(&self) -> u64 {
            self.count
        }

        fn threads(&self) -> usize {
            self.threads
        }

        fn bench(&self) -> u64 {
            0
        }

        fn run(&self, index: u64, last: &mut u64, tally: &mut Sum) {
            assert!(*last <= index, "a thread goes up");
            *last = index;
            tally.trials += 1;
            tally.sum += index;
            if index % 10 == 3 {
                tally.tenths.keep(index);
            }
        }

        fn report(&self, tally: Sum) -> (u64, u64, Vec<u64>) {
            (tally.trials, tally.sum, tally.tenths.into_vec())
        }
    }

    #[test]
    fn every_trial_counts_once_on_any_number_of_threads() {
        for threads in [0, 1, 2, 3, 8] {
            for count in [0, 1, 7, 1000] {
                let mut done = 0;
                let (trials, sum, tenths) =
                    run_all(&Numbers { count, threads }, &mut |trials| done = trials);
                assert_eq!(
                    (trials, done, sum),
                    (count, count, count * count.saturating_sub(1) / 2)
                );
                let first: Vec<u64> = (3..count).step_by(10).take(KEPT).collect();
                assert_eq!(tenths, first);
            }
        }
    }

    #[test]
    fn sums_come_in_any_order() {
        let sum = |indices: &[u64]| {
            let mut sum = Sum::default();
            indices
                .iter()
                .for_each(|&it| Numbers { count: 0, threads: 1 }.run(it, &mut 0, &mut sum));
            sum
        };
        let parts: [&[u64]; 3] = [&[3, 13, 23], &[33, 43], &[5, 53]];
        let mut all = Sum::default();
        parts.iter().rev().for_each(|part| all.merge(sum(part)));
        assert_eq!((all.trials, all.tenths.into_vec()), (7, vec![3, 13, 23, 33, 43, 53]));
    }
}
