//! When the frames of a time came, to tell how long a decision took.

use std::collections::VecDeque;

/// Points of time that are remembered: about a second at one a batch and millisecond.
const POINTS_MAX: usize = 1024;

/// Pairs of data time and arrival, both growing.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    points: VecDeque<(u64, u64)>,
}

impl Arrivals {
    /// Notes that frames up to `tick` had come at `arrival_ns`.
    pub(super) fn note(&mut self, tick: u64, arrival_ns: u64) {
        match self.points.back() {
            Some((newest, _)) if tick <= *newest => return,
            // Batches of several streams come together: one point for all of them.
            Some((_, noted_ns)) if arrival_ns <= *noted_ns => return,
            _ => (),
        }
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back((tick, arrival_ns));
    }

    /// Tick to which the data have come; none before the first.
    pub(super) fn newest(&self) -> Option<u64> {
        Some(self.points.back()?.0)
    }

    /// When the frame that holds `tick` had not come yet, at the latest known moment: from there
    /// to now is never too short. `None` when that is too long ago, or in the future.
    pub(super) fn of(&self, tick: u64) -> Option<u64> {
        let place = self.points.partition_point(|(noted, _)| *noted <= tick);
        let (_, arrival_ns) = self.points.get(place.checked_sub(1)?)?;
        Some(*arrival_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_moment_before_a_tick_came() {
        let mut arrivals = Arrivals::default();
        for (tick, ns) in [(1000, 10), (2000, 20), (1500, 25), (3000, 30)] {
            arrivals.note(tick, ns);
        }
        assert_eq!(arrivals.of(999), None);
        assert_eq!(arrivals.of(1999), Some(10));
        assert_eq!(arrivals.of(2000), Some(20));
        assert_eq!(arrivals.of(9000), Some(30));
    }

    #[test]
    fn forgets_the_oldest() {
        let mut arrivals = Arrivals::default();
        (1..=POINTS_MAX as u64 + 1).for_each(|tick| arrivals.note(tick, tick));
        assert_eq!(arrivals.of(1), None);
        assert_eq!(arrivals.of(2), Some(2));
    }
}
