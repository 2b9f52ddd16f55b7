//! How long an answer takes, and how long it is waited for.

use super::configuration::Replay;

/// Round trips to one node, and the time to wait for an answer, by the rules of RFC 6298.
///
/// One round trip is measured at a time, so that the mean remembers the last eight of them however many packets are
/// under way. The caller leaves out what was sent more than once, of which nobody knows what is answered (Karn's rule).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    /// Smoothed round trip and smoothed deviation from it, ns; none before the first one.
    smoothed: Option<(u64, u64)>,
    /// When the last one was measured.
    measured_at: u64,
    /// How often the time to wait has doubled since, as nothing was answered in it.
    backoff: u8,
}

impl RoundTrip {
    /// Takes a round trip that began at `sent_at`, unless it overlaps with the last one that was measured.
    pub fn measure(&mut self, sent_at: u64, now: u64) {
        if sent_at < self.measured_at {
            return;
        }
        let trip = now.saturating_sub(sent_at);
        let (mean, deviation) = self.smoothed.map_or((trip, trip / 2), |(mean, deviation)| {
            let off = mean.abs_diff(trip);
            (mean - mean / 8 + trip / 8, deviation - deviation / 4 + off / 4)
        });
        *self = Self { smoothed: Some((mean, deviation)), measured_at: now, backoff: 0 };
    }

    /// How often the time to wait doubles for a packet that is sent now, for the `sends`-th time.
    pub fn doublings(&self, sends: u8) -> u8 {
        self.backoff.max(sends.saturating_sub(1))
    }

    /// Notes that a packet was not answered in a time that had doubled so often.
    pub fn expired(&mut self, doublings: u8) {
        self.backoff = self.backoff.max(doublings.saturating_add(1));
    }

    /// Notes that the other node answers, although it takes nothing.
    pub fn answered(&mut self) {
        self.backoff = 0;
    }

    /// Time to wait for an answer after so many doublings, ns.
    pub fn timeout(&self, doublings: u8, replay: &Replay) -> u64 {
        let once = self.smoothed.map_or(replay.timeout_ns, |(mean, deviation)| {
            mean.saturating_add(deviation.saturating_mul(4)).max(replay.timeout_min_ns)
        });
        replay.backed_off(once, doublings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLAY: Replay =
        Replay { timeout_ns: 5000, timeout_min_ns: 100, timeout_max_ns: 50_000, ..Replay::DEFAULT };

    #[test]
    fn the_time_to_wait_follows_the_mean_and_its_deviation() {
        let mut trip = RoundTrip::default();
        assert_eq!(trip.timeout(0, &REPLAY), 5000);
        trip.measure(0, 800);
        // 800 and 4 times 400.
        assert_eq!(trip.timeout(0, &REPLAY), 2400);
        trip.measure(1000, 2600);
        // 800 + 800/8 and 4 times 400 + (800 - 400)/4.
        assert_eq!(trip.timeout(0, &REPLAY), 900 + 4 * 500);
        for at in 0..100 {
            trip.measure(10_000 * at + 10_000, 10_000 * at + 11_600);
        }
        // Of a path that is always alike only the mean is left, up to what is lost by rounding.
        assert!((1600 - 8..1600 + 32).contains(&trip.timeout(0, &REPLAY)), "{trip:?}");
    }

    #[test]
    fn it_keeps_to_its_bounds_and_backs_off_until_something_is_answered() {
        let mut trip = RoundTrip::default();
        trip.measure(0, 10);
        assert_eq!(trip.timeout(0, &REPLAY), 100);
        trip.measure(10, u64::MAX);
        assert_eq!(trip.timeout(0, &REPLAY), 50_000);
        let mut trip = RoundTrip::default();
        trip.measure(0, 800);
        assert_eq!((trip.doublings(1), trip.doublings(3)), (0, 2));
        trip.expired(0);
        trip.expired(0);
        assert_eq!((trip.doublings(1), trip.doublings(3)), (1, 2));
        trip.expired(1);
        assert_eq!((trip.doublings(1), trip.timeout(2, &REPLAY)), (2, 4 * 2400));
        trip.expired(u8::MAX);
        assert_eq!(trip.timeout(trip.doublings(1), &REPLAY), 50_000);
        trip.measure(900, 1700);
        assert_eq!(trip.doublings(1), 0);
    }

    #[test]
    fn what_was_sent_before_the_last_measurement_says_nothing_new() {
        let mut trip = RoundTrip::default();
        trip.measure(0, 800);
        let before = trip.timeout(0, &REPLAY);
        trip.measure(799, 10_000);
        assert_eq!(trip.timeout(0, &REPLAY), before);
    }
}
