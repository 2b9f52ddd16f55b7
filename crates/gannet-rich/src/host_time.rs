//! When something happened by the clock of this host, as far as the data tell.

/// By how much the clock of a front end may run slower than that of this host: 100 parts in a million.
const DRIFT_PER_NS: u64 = 10_000;

/// Tells the time of this host at which something of a detector time happened.
///
/// Nobody tells how the two clocks stand to each other, so the data that came fastest do: what arrives
/// was made at least so long ago. A time that is told is late by as long as the fastest took on its
/// way, from the front end to here. Clocks that drift apart are followed.
#[derive(Clone, Debug, Default)]
pub struct HostTime {
    /// Host time at detector time 0, in nanoseconds, and when that was last seen to be so.
    zero: Option<(i64, u64)>,
}

impl HostTime {
    /// Takes note that what was made `made_ns` after the begin of the detector's time arrived at
    /// `arrival_ns`.
    pub fn observe(&mut self, made_ns: u64, arrival_ns: u64) {
        let seen = arrival_ns.wrapping_sub(made_ns) as i64;
        let zero = match self.zero {
            None => seen,
            Some((zero, at_ns)) => {
                let drift = arrival_ns.saturating_sub(at_ns) / DRIFT_PER_NS;
                seen.min(zero.saturating_add(drift as i64))
            }
        };
        self.zero = Some((zero, arrival_ns));
    }

    /// Nanoseconds from what was made `made_ns` after the begin of the detector's time until
    /// `now_ns`; 0 before anything was observed.
    pub fn age_ns(&self, made_ns: u64, now_ns: u64) -> u64 {
        let Some((zero, _)) = self.zero else { return 0 };
        let made_at = (made_ns as i64).wrapping_add(zero);
        (now_ns as i64).saturating_sub(made_at).max(0) as u64
    }

    /// Forgets what was observed: the time of the detector begins anew.
    pub fn begin_anew(&mut self) {
        self.zero = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_tells_what_time_it_is() {
        let mut time = HostTime::default();
        assert_eq!(time.age_ns(5, 1_000), 0);
        time.observe(1_000, 501_000);
        time.observe(2_000, 501_700);
        time.observe(3_000, 700_000);
        assert_eq!(time.age_ns(2_000, 501_700), 0);
        assert_eq!(time.age_ns(3_000, 700_000), 700_000 - 3_000 - 499_700 - 19);
    }

    #[test]
    fn a_slower_clock_is_followed_and_a_pause_is_not() {
        let mut time = HostTime::default();
        // The front end's clock loses 50 parts in a million.
        for second in 0..100_u64 {
            let host_ns = second * 1_000_000_000;
            let made_ns = host_ns - host_ns / 20_000;
            time.observe(made_ns, host_ns + 7_000);
            assert!(time.age_ns(made_ns, host_ns + 7_000) < 100, "{second}");
        }
        let (made_ns, host_ns) = (99_000_000_000 - 4_950_000, 99_000_000_000);
        time.observe(made_ns, host_ns + 10_000_000);
        assert!(time.age_ns(made_ns, host_ns + 10_000_000) > 9_990_000, "10 ms late is late");
        time.begin_anew();
        time.observe(0, host_ns);
        assert_eq!(time.age_ns(0, host_ns + 5), 5);
    }
}
