//! The search for the highest rate that loses nothing, as a state machine.
//!
//! The rate grows by a factor until it fails, then the range between is halved until it is
//! narrow. A rate is judged by the majority of up to three trials, so that one moment in which
//! the machine was busy elsewhere does not decide.

use serde::Serialize;

/// Factor from one rate to the next while none has failed.
const GROWTH: f64 = 1.4;
/// The search ends when the failing rate is within this factor of the passing one.
const PRECISION: f64 = 1.03;
/// Trials of a rate that agree before it is judged.
const MAJORITY: u32 = 2;
/// A trial that reached less than this part of its rate was held up by the sender.
const REACHED_MIN: f64 = 0.97;
/// Rates that are tried at most.
const RATES_MAX: usize = 40;

/// What came of one trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// Rate asked for, in frames per second.
    pub asked_hz: f64,
    /// Rate at which the sender sent, in frames per second.
    pub reached_hz: f64,
    /// Frames that the network took.
    pub sent: u64,
    /// Frames that were received.
    pub delivered: u64,
}

impl Trial {
    /// Frames that were sent and not received.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.delivered)
    }

    /// Whether the sender kept to the rate.
    fn is_reached(&self) -> bool {
        self.reached_hz >= REACHED_MIN * self.asked_hz
    }
}

/// Looks for the highest rate without loss.
#[derive(Clone, Debug)]
pub struct Search {
    rate_hz: f64,
    least_hz: f64,
    /// Highest rate that was sent and received without loss, in frames per second.
    passed_hz: Option<f64>,
    failed_hz: Option<f64>,
    good: u32,
    bad: u32,
    held_up: u32,
    rates: usize,
    sender_limits: bool,
    trials: Vec<Trial>,
}

impl Search {
    /// A search that begins at `first_hz` and looks for nothing below `least_hz`, both in frames
    /// per second.
    pub fn new(first_hz: f64, least_hz: f64) -> Self {
        Self {
            rate_hz: first_hz,
            least_hz,
            passed_hz: None,
            failed_hz: None,
            good: 0,
            bad: 0,
            held_up: 0,
            rates: 0,
            sender_limits: false,
            trials: Vec::new(),
        }
    }

    /// The rate to try next, in frames per second; none when the search is over.
    pub fn next_hz(&self) -> Option<f64> {
        let narrow = match (self.passed_hz, self.failed_hz) {
            (Some(passed), Some(failed)) => failed <= passed * PRECISION,
            _ => false,
        };
        let over = narrow || self.sender_limits || self.rates >= RATES_MAX;
        (!over && self.rate_hz >= self.least_hz).then_some(self.rate_hz)
    }

    /// Takes in what came of a trial of that rate.
    pub fn note(&mut self, trial: Trial) {
        self.trials.push(trial);
        if !trial.is_reached() {
            self.held_up += 1;
        }
        match trial.lost() {
            0 => self.good += 1,
            _ => self.bad += 1,
        }
        if self.good >= MAJORITY {
            self.pass();
        } else if self.bad >= MAJORITY {
            self.fail();
        }
    }

    fn pass(&mut self) {
        if self.held_up >= MAJORITY {
            // Faster is not to be had from this sender: what it reached is the answer.
            self.sender_limits = true;
            let asked_hz = self.rate_hz;
            let reached = self.trials.iter().filter(|trial| trial.asked_hz == asked_hz);
            let reached_hz = reached.map(|trial| trial.reached_hz).fold(0.0, f64::max);
            self.passed_hz =
                self.passed_hz.map(|passed| passed.max(reached_hz)).or(Some(reached_hz));
            return;
        }
        self.passed_hz = Some(self.rate_hz);
        self.turn_to(match self.failed_hz {
            Some(failed) => middle(self.rate_hz, failed),
            None => self.rate_hz * GROWTH,
        });
    }

    fn fail(&mut self) {
        self.failed_hz = Some(self.rate_hz);
        self.turn_to(match self.passed_hz {
            Some(passed) => middle(passed, self.rate_hz),
            None => self.rate_hz / GROWTH / GROWTH,
        });
    }

    fn turn_to(&mut self, rate_hz: f64) {
        self.rate_hz = rate_hz;
        (self.good, self.bad, self.held_up) = (0, 0, 0);
        self.rates += 1;
    }

    /// The highest rate without loss that was found, in frames per second; 0 for none.
    pub fn found_hz(&self) -> f64 {
        self.passed_hz.unwrap_or(0.0)
    }

    /// Whether the sender could not go faster, so that the receiver might take more.
    pub fn sender_limits(&self) -> bool {
        self.sender_limits
    }

    /// All trials in their order.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }
}

/// The geometric mean, which halves a range of factors.
fn middle(low: f64, high: f64) -> f64 {
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::random::Random;

    /// Searches on a machine that loses beyond `capacity_hz`, sends up to `sender_hz`, and
    /// disturbs a part `noise` of all trials.
    fn search(capacity_hz: f64, sender_hz: f64, noise: f64, seed: u64) -> Search {
        let (mut search, mut random) = (Search::new(100e3, 100.0), Random::new(seed));
        while let Some(asked_hz) = search.next_hz() {
            let reached_hz = asked_hz.min(sender_hz);
            let disturbed = random.chance(noise);
            let lost = if reached_hz > capacity_hz || disturbed { 17 } else { 0 };
            let sent = reached_hz as u64;
            search.note(Trial { asked_hz, reached_hz, sent, delivered: sent - lost });
        }
        search
    }

    #[test]
    fn finds_the_capacity_within_its_precision() {
        for capacity_hz in [3e3, 99e3, 100e3, 487e3, 12e6] {
            let found = search(capacity_hz, f64::MAX, 0.0, 0).found_hz();
            assert!((capacity_hz / PRECISION..=capacity_hz).contains(&found), "{found}");
        }
    }

    #[test]
    fn a_disturbed_trial_now_and_then_does_not_decide() {
        let close = (0..100).filter(|&seed| {
            let found = search(500e3, f64::MAX, 0.05, seed).found_hz();
            (450e3..=500e3).contains(&found)
        });
        assert!(close.count() >= 85);
    }

    #[test]
    fn a_sender_at_its_end_is_told_from_a_receiver_at_its_end() {
        let limited = search(2e6, 300e3, 0.0, 0);
        assert!(limited.sender_limits());
        assert_eq!(limited.found_hz(), 300e3);
        assert!(!search(200e3, 300e3, 0.0, 0).sender_limits());
    }

    #[test]
    fn a_machine_that_loses_at_every_rate_ends_the_search() {
        let hopeless = search(0.0, f64::MAX, 0.0, 0);
        assert_eq!(hopeless.found_hz(), 0.0);
        assert!(hopeless.trials().len() < 200);
    }
}
