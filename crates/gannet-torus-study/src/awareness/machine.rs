//! A machine that is watched, and how late things happen there.

use gannet_lattice::Lattice;
use gannet_lofamo::Mode;
use gannet_measure::random::Random;
use serde::Serialize;

/// Most nodes of a simulated lattice.
pub const NODES_MAX: usize = 4096;

/// How far periods stray.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Jitter {
    /// Each period is longer or shorter by up to this part of it, evenly distributed.
    pub period: f64,
    /// Part of the actions of hosts that come late because the operating system ran something else.
    pub late_chance: f64,
    /// Longest such lateness, as part of the watchdog period. Latenesses are distributed
    /// exponentially, with a quarter of this as mean, and cut off here.
    pub late_max: f64,
}

impl Default for Jitter {
    /// 1 % of each period; one action of a host in a thousand late, by at most 5 % of the watchdog
    /// period.
    fn default() -> Self {
        Self { period: 0.01, late_chance: 0.001, late_max: 0.05 }
    }
}

impl Jitter {
    /// `period_ns` with its jitter.
    #[inline]
    pub fn stray(&self, period_ns: u64, random: &mut Random) -> u64 {
        let range = (period_ns as f64 * self.period) as u64;
        period_ns - range + random.below(2 * range + 1)
    }

    /// How late an action of a host is at a watchdog period of `period_ns`; mostly 0.
    #[inline]
    pub fn late(&self, period_ns: u64, random: &mut Random) -> u64 {
        if !random.chance(self.late_chance) {
            return 0;
        }
        let max = period_ns as f64 * self.late_max;
        random.exponential(max / 4.0).min(max) as u64
    }
}

/// How long things take that do not depend on the watchdog period, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Surroundings {
    /// How far periods stray.
    pub jitter: Jitter,
    /// From one credit word of a link to the next.
    pub credit_ns: u64,
    /// Part of the credit words of links that work which are lost, or damaged and so thrown away.
    pub credit_loss: f64,
    /// Part of those credit words that are late, with all behind them.
    pub credit_late: f64,
    /// How late these are, in the mean of an exponential distribution.
    pub credit_late_ns: u64,
    /// Time of flight of a link.
    pub flight_ns: u64,
    /// From an interrupt to the program that waits for it.
    pub wake_ns: u64,
    /// Least delay of the service network.
    pub service_ns: u64,
    /// Mean of what comes on top of it, exponentially distributed.
    pub service_queue_ns: u64,
    /// Longest delay of the service network.
    pub service_max_ns: u64,
    /// Part of the messages that the service network loses.
    pub service_loss: f64,
}

impl Default for Surroundings {
    /// A credit word a microsecond, none lost or late, 10 us to wake a program, and 40 to 150 us of a service network
    /// that loses nothing.
    fn default() -> Self {
        Self {
            jitter: Jitter::default(),
            credit_ns: 1000,
            credit_loss: 0.0,
            credit_late: 0.0,
            credit_late_ns: 4000,
            flight_ns: 500,
            wake_ns: 10_000,
            service_ns: 40_000,
            service_queue_ns: 10_000,
            service_max_ns: 150_000,
            service_loss: 0.0,
        }
    }
}

impl Surroundings {
    /// Lulls of a link that works, in a nanosecond, for want of credit words: silences longer than
    /// `silence_ns`, by loss and by lateness.
    fn lulls(&self, silence_ns: u64) -> [f64; 2] {
        let credit_ns = self.credit_ns as f64;
        let words = (silence_ns / self.credit_ns) as i32;
        let lost = self.credit_loss.powi(words) * (1.0 - self.credit_loss);
        let waits_ns = silence_ns.saturating_sub(self.credit_ns) as f64;
        let late = self.credit_late * (-waits_ns / self.credit_late_ns as f64).exp();
        [lost / credit_ns, late / credit_ns]
    }

    /// Time until the next lull of a link; none if there are none.
    pub(super) fn next_lull(&self, silence_ns: u64, random: &mut Random) -> Option<u64> {
        let rate: f64 = self.lulls(silence_ns).iter().sum();
        (rate > 0.0).then(|| random.exponential(1.0 / rate) as u64)
    }

    /// How long a lull lasts beyond `silence_ns`.
    pub(super) fn rest_of_lull(&self, silence_ns: u64, random: &mut Random) -> u64 {
        let [lost, late] = self.lulls(silence_ns);
        if random.chance(late / (lost + late)) {
            return 1 + random.exponential(self.credit_late_ns as f64) as u64;
        }
        let mut words = 1;
        while random.chance(self.credit_loss) {
            words += 1;
        }
        words * self.credit_ns
    }

    /// Delay of one message over the service network; none if it is lost.
    #[inline]
    pub fn service_delay(&self, random: &mut Random) -> Option<u64> {
        let queue = random.exponential(self.service_queue_ns as f64) as u64;
        let is_lost = random.chance(self.service_loss);
        (!is_lost).then_some((self.service_ns + queue).min(self.service_max_ns))
    }
}

/// A machine and how it is watched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watched {
    /// Its shape.
    pub lattice: Lattice,
    /// How its nodes are watched.
    pub mode: Mode,
    /// Watchdog period T.
    pub period_ns: u64,
    /// How late things happen.
    pub surroundings: Surroundings,
    /// Trial `i` depends on this and on `i` alone.
    pub seed: u64,
    /// Threads that share trials; nothing depends on their number.
    pub threads: usize,
}

impl Watched {
    /// The machine in the usual surroundings, with seed 1 on one thread.
    pub fn new(lattice: Lattice, mode: Mode, period_ns: u64) -> Self {
        let surroundings = Surroundings::default();
        Self { lattice, mode, period_ns, surroundings, seed: 1, threads: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lulls_are_as_frequent_as_words_drawn_one_by_one() {
        let surroundings = Surroundings {
            credit_loss: 0.4,
            credit_late: 0.001,
            credit_late_ns: 6000,
            ..Surroundings::default()
        };
        let (silence_ns, words) = (10_000, 4_000_000);
        let mut random = Random::new(5);
        let (mut lulls, mut heard_ns, mut behind_ns) = (0, 0, 0);
        for word in 0..words {
            let due_ns = 1000 * word;
            if random.chance(0.001) {
                behind_ns = behind_ns.max(due_ns + random.exponential(6000.0) as u64);
            }
            if random.chance(0.4) {
                continue;
            }
            let at_ns = due_ns.max(behind_ns);
            lulls += u64::from(at_ns - heard_ns > silence_ns);
            heard_ns = at_ns;
        }
        let rate: f64 = surroundings.lulls(silence_ns).iter().sum();
        let expected = rate * 1000.0 * words as f64;
        // Lateness that comes upon loss is not counted.
        assert!((0.9..1.3).contains(&(lulls as f64 / expected)), "{lulls}, expected {expected}");
        assert_eq!(Surroundings::default().next_lull(silence_ns, &mut random), None);
    }
}
