//! What a rate is limited by.

use serde::Serialize;

use super::Step;
use crate::search::{Limit, Stage};

/// Longest part of a trial for which a thread may lack a core before the trial tells more of the
/// machine than of the thread.
const LACK_MAX: f64 = 0.02;

/// What there is no higher rate without loss for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// At higher rates the receiver lost frames, with a core for all of the time.
    Receiver,
    /// Asked for more, the sender sent no faster, with a core for all of the time, and nothing was
    /// lost.
    Sender,
    /// At higher rates the receiver or the sender lacked a core: other programs took it, or they
    /// had to share one.
    Machine,
    /// The search came to the end of the rates that it tries.
    Search,
}

/// Whether a trial failed for want of a core: frames were lost by a receiver without one, or the
/// sender fell short without one.
pub(super) fn is_disturbed(step: &Step) -> bool {
    let receiver = step.lost > 0 && step.receiver_waited_share > LACK_MAX;
    let sender = step.is_short() && step.sender_running_share < 1.0 - LACK_MAX;
    receiver || sender
}

/// What limits, by what the search found and what became of the trials of higher rates.
pub(super) fn verdict(limit: Limit, steps: &[Step], found_hz: f64) -> LimitedBy {
    let asked_higher = |step: &&Step| {
        step.stage != Stage::Saturate && step.asked_hz.is_some_and(|asked_hz| asked_hz > found_hz)
    };
    let beyond = steps.iter().filter(asked_higher);
    let (told, plain) = match limit {
        Limit::Search => return LimitedBy::Search,
        Limit::Receiver => (beyond.filter(|step| step.lost > 0).collect(), LimitedBy::Receiver),
        Limit::Sender => (beyond.filter(|step| step.is_short()).collect(), LimitedBy::Sender),
    };
    let told: Vec<&Step> = told;
    let disturbed = told.iter().filter(|step| is_disturbed(step)).count();
    if 2 * disturbed > told.len() { LimitedBy::Machine } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(asked_hz: f64, reached_hz: f64, lost: u64, lack: f64) -> Step {
        Step {
            stage: Stage::Climb,
            asked_hz: Some(asked_hz),
            reached_hz,
            sent: 1000,
            delivered: 1000 - lost,
            lost,
            arrived_hz: reached_hz,
            ns_per_frame: 1000.0,
            sender_running_share: 1.0 - lack,
            receiver_waited_share: lack,
            counts: true,
        }
    }

    #[test]
    fn who_had_a_core_and_was_not_fast_enough_is_the_limit() {
        let lossy = |lack| [step(4e5, 4e5, 0, 0.3), step(5e5, 5e5, 9, lack)];
        assert_eq!(verdict(Limit::Receiver, &lossy(0.001), 4e5), LimitedBy::Receiver);
        assert_eq!(verdict(Limit::Receiver, &lossy(0.3), 4e5), LimitedBy::Machine);
        let short = |lack| [step(3e5, 3e5, 0, 0.3), step(6e5, 3.1e5, 0, lack)];
        assert_eq!(verdict(Limit::Sender, &short(0.001), 3e5), LimitedBy::Sender);
        assert_eq!(verdict(Limit::Sender, &short(0.4), 3e5), LimitedBy::Machine);
        assert_eq!(verdict(Limit::Search, &short(0.4), 3e5), LimitedBy::Search);
    }

    #[test]
    fn one_disturbed_trial_of_several_does_not_decide() {
        let steps = [step(5e5, 5e5, 9, 0.3), step(5e5, 5e5, 9, 0.0), step(5e5, 5e5, 9, 0.0)];
        assert_eq!(verdict(Limit::Receiver, &steps, 4e5), LimitedBy::Receiver);
    }

    #[test]
    fn want_of_a_core_disturbs_only_what_failed() {
        assert!(!is_disturbed(&step(4e5, 4e5, 0, 0.5)));
        assert!(is_disturbed(&step(4e5, 4e5, 1, 0.5)));
        assert!(is_disturbed(&step(4e5, 2e5, 0, 0.5)));
        assert!(!is_disturbed(&step(4e5, 2e5, 1, 0.0)));
    }
}
