//! Many trials on a few threads.

use std::sync::mpsc;

use serde::Serialize;

/// Most trials of a campaign.
pub const TRIALS_MAX: u64 = 100_000_000;
/// Failures that are kept, of each thread and in a report.
pub(super) const FAILURES_KEPT: usize = 16;

/// A trial that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Failure {
    /// Number of the trial.
    pub trial: u64,
    /// What went wrong.
    pub what: String,
}

/// Sums over trials, which do not depend on their order.
pub(super) trait Tally: Default + Send {
    /// Adds the sums over other trials.
    fn merge(&mut self, other: Self);
}

/// The sums over trials 0 to `trials`, each added by `run`; `progress` is told how many are done.
pub(super) fn over_trials<T: Tally>(
    trials: u64,
    threads: usize,
    progress: &mut dyn FnMut(u64),
    run: impl Fn(u64, &mut T) + Sync,
) -> T {
    let (sender, receiver) = mpsc::channel();
    let run = &run;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads as u64)
            .map(|first| {
                let sender = sender.clone();
                scope.spawn(move || {
                    let mut tally = T::default();
                    for index in (first..trials).step_by(threads) {
                        run(index, &mut tally);
                        // Whoever listens may have gone; the trials count all the same.
                        let _ = sender.send(());
                    }
                    tally
                })
            })
            .collect();
        drop(sender);
        (1..).zip(receiver).for_each(|(done, ())| progress(done));
        let mut tally = T::default();
        for worker in workers {
            match worker.join() {
                Ok(part) => tally.merge(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        tally
    })
}

/// The first few of these, in the order of trials.
pub(super) fn first<T: Ord>(mut kept: Vec<T>) -> Vec<T> {
    kept.sort();
    kept.truncate(FAILURES_KEPT);
    kept
}

/// Keeps another, if it is among the first of its thread.
pub(super) fn keep<T>(kept: &mut Vec<T>, another: T) {
    if kept.len() < FAILURES_KEPT {
        kept.push(another);
    }
}
