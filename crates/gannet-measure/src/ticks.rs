//! Time in ticks of a detector's clock.

/// Frequency of a clock whose ticks are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TickRate {
    hz: u64,
}

impl TickRate {
    /// A clock of `hz` ticks a second.
    ///
    /// # Panics
    /// When `hz` is zero.
    pub const fn hz(hz: u64) -> Self {
        assert!(hz > 0, "a clock ticks");
        Self { hz }
    }

    /// Ticks in a second.
    pub const fn per_s(self) -> u64 {
        self.hz
    }

    /// Whole ticks in `ns` nanoseconds.
    pub const fn ticks(self, ns: u64) -> u64 {
        (ns as u128 * self.hz as u128 / 1_000_000_000) as u64
    }

    /// Whole nanoseconds in `ticks`; saturates at `u64::MAX`.
    pub const fn ns(self, ticks: u64) -> u64 {
        let ns = ticks as u128 * 1_000_000_000 / self.hz as u128;
        if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
    }

    /// Seconds in `ticks`.
    pub const fn s(self, ticks: u64) -> f64 {
        ticks as f64 / self.hz as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: TickRate = TickRate::hz(62_500_000);

    #[test]
    fn ticks_become_nanoseconds_and_back() {
        assert_eq!(CLOCK.ns(2048), 32_768);
        assert_eq!(CLOCK.ticks(32_768), 2048);
        assert_eq!(CLOCK.s(125_000_000), 2.0);
        assert_eq!(TickRate::hz(50_000_000).ns(25), 500);
    }

    #[test]
    fn real_time_stamps_do_not_overflow() {
        assert_eq!(CLOCK.ns(107_544_625_968_525_251) / 1_000_000_000, 1_720_714_015);
        assert_eq!(CLOCK.ns(u64::MAX), u64::MAX);
    }
}
