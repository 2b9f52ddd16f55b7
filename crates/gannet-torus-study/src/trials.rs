//! Many trials on a few threads: each depends on its number alone, and the report on all of them,
//! in whatever order they were run.

use std::fmt::Display;
use std::sync::mpsc;

use serde::Serialize;

/// Most trials of a campaign.
pub const TRIALS_MAX: u64 = 100_000_000;
/// Failures that are kept in a report.
const KEPT: usize = 16;

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
    /// What came of a trial.
    type Outcome: Send;
    /// Sums over trials, which do not depend on their order.
    type Sums;
    /// What they come to.
    type Report;

    /// Number of trials.
    fn count(&self) -> u64;

    /// Threads that share them; nothing depends on their number.
    fn threads(&self) -> usize;

    /// For the first trial of a thread.
    fn bench(&self) -> Self::Bench;

    /// Runs trial `index`, and tells `trace` what happens in it.
    fn run(&self, index: u64, bench: &mut Self::Bench, trace: &mut Trace) -> Self::Outcome;

    /// Sums over no trials.
    fn none(&self) -> Self::Sums;

    /// Adds trial `index`.
    fn add(&self, sums: &mut Self::Sums, index: u64, outcome: Self::Outcome);

    /// The report of all trials or of a part.
    fn report(&self, sums: Self::Sums) -> Self::Report;
}

/// Lines that tell what happens in a trial; of a trial among many nothing is kept.
#[derive(Debug, Default)]
pub struct Trace(Option<Vec<String>>);

impl Trace {
    /// Adds a line, which is made only if it is kept.
    pub fn tell<T: Display>(&mut self, line: impl FnOnce() -> T) {
        if let Some(lines) = &mut self.0 {
            lines.push(line().to_string());
        }
    }
}

/// Runs all trials, and hands over what came of each.
pub fn run<T: Trials>(trials: &T, hear: &mut dyn FnMut(u64, T::Outcome)) {
    let threads = trials.threads().max(1);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for first in 0..threads as u64 {
            let sender = sender.clone();
            scope.spawn(move || {
                let (mut bench, mut trace) = (trials.bench(), Trace::default());
                for index in (first..trials.count()).step_by(threads) {
                    // It is heard until all threads have ended.
                    _ = sender.send((index, trials.run(index, &mut bench, &mut trace)));
                }
            });
        }
        drop(sender);
        receiver.into_iter().for_each(|(index, outcome)| hear(index, outcome));
    });
}

/// Runs all trials: their report.
pub fn run_all<T: Trials>(trials: &T) -> T::Report {
    let mut sums = trials.none();
    run(trials, &mut |index, outcome| trials.add(&mut sums, index, outcome));
    trials.report(sums)
}

/// Runs trial `index`, and tells what happens in it, a line each.
pub fn tell<T: Trials>(trials: &T, index: u64) -> (T::Outcome, Vec<String>) {
    let mut trace = Trace(Some(Vec::new()));
    let outcome = trials.run(index, &mut trials.bench(), &mut trace);
    (outcome, trace.0.unwrap_or_default())
}

/// Puts another thing among the first few of its kind, if it is one of them.
pub(crate) fn keep<T: Ord>(first: &mut Vec<T>, another: T) {
    let place = first.partition_point(|kept| *kept <= another);
    if place < KEPT {
        first.truncate(KEPT - 1);
        first.insert(place, another);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials that are worth their numbers; every tenth is kept.
    struct Numbers {
        count: u64,
        threads: usize,
    }

    impl Trials for Numbers {
        type Bench = u64;
        type Outcome = u64;
        type Sums = (u64, u64, Vec<u64>);
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

        fn run(&self, index: u64, last: &mut u64, trace: &mut Trace) -> u64 {
            assert!(*last <= index, "a thread goes up");
            *last = index;
            trace.tell(|| format!("trial {index}"));
            index
        }

        fn none(&self) -> Self::Sums {
            Default::default()
        }

        fn add(&self, (trials, sum, tenths): &mut Self::Sums, index: u64, outcome: u64) {
            *trials += 1;
            *sum += outcome;
            if index % 10 == 3 {
                keep(tenths, index);
            }
        }

        fn report(&self, sums: Self::Sums) -> Self::Report {
            sums
        }
    }

    #[test]
    fn every_trial_counts_once_on_any_number_of_threads() {
        for threads in [0, 1, 2, 3, 8] {
            for count in [0, 1, 7, 1000] {
                let first: Vec<u64> = (3..count).step_by(10).take(KEPT).collect();
                let expected = (count, count * count.saturating_sub(1) / 2, first);
                assert_eq!(run_all(&Numbers { count, threads }), expected);
            }
        }
    }

    #[test]
    fn the_first_are_kept_in_whatever_order_they_come() {
        let mut first = Vec::new();
        (0..100).rev().for_each(|number| keep(&mut first, number));
        assert!(first.into_iter().eq(0..KEPT as i32));
    }

    #[test]
    fn a_trial_is_told_by_its_number() {
        let told = tell(&Numbers { count: 9, threads: 1 }, 7);
        assert_eq!(told, (7, vec!["trial 7".to_owned()]));
    }
}
