//! How far a stream has been processed.

/// Farthest that one call may move the clock of a stream without a second that agrees: 10 s of a
/// 62.5 MHz clock.
const LEAP_MAX_TICKS: u64 = 625_000_000;

/// The data time up to which a stream has been processed.
///
/// A single frame with a corrupt time stamp must not move it: a leap, forward or back, counts
/// only when the call after it confirms it.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamClock {
    processed_to: u64,
    leap: Option<u64>,
}

impl StreamClock {
    /// Data time, in ticks; 0 before the first call of [`advance`](Self::advance).
    pub(super) fn processed_to(&self) -> u64 {
        self.processed_to
    }

    /// Moves to `tick`; says whether it is believed.
    ///
    /// A small step back is believed and changes nothing.
    pub(super) fn advance(&mut self, tick: u64) -> bool {
        let near = |from: u64| tick.abs_diff(from) <= LEAP_MAX_TICKS;
        if self.processed_to == 0 || self.leap.is_some_and(near) {
            self.processed_to = tick;
        } else if near(self.processed_to) {
            self.processed_to = self.processed_to.max(tick);
        } else {
            self.leap = Some(tick);
            return false;
        }
        self.leap = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_move_it_and_small_steps_back_do_not() {
        let mut clock = StreamClock::default();
        assert!(clock.advance(1 << 56));
        assert!(clock.advance((1 << 56) + 2048));
        assert!(clock.advance(1 << 56));
        assert_eq!(clock.processed_to(), (1 << 56) + 2048);
    }

    #[test]
    fn one_corrupt_time_stamp_is_not_believed() {
        let mut clock = StreamClock::default();
        clock.advance(1_000_000);
        for corrupt in [1 << 63, u64::MAX, 1_000_000 + LEAP_MAX_TICKS + 1] {
            assert!(!clock.advance(corrupt));
            assert!(clock.advance(1_000_000));
            assert_eq!(clock.processed_to(), 1_000_000);
        }
    }

    #[test]
    fn a_leap_that_is_confirmed_is_followed_both_ways() {
        let mut clock = StreamClock::default();
        clock.advance(5_000);
        assert!(!clock.advance(1 << 40));
        assert!(clock.advance((1 << 40) + 2048));
        assert_eq!(clock.processed_to(), (1 << 40) + 2048);
        assert!(!clock.advance(7_000));
        assert!(clock.advance(9_000));
        assert_eq!(clock.processed_to(), 9_000);
    }
}
