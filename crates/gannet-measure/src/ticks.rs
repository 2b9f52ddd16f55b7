//! Time in ticks, with the frequency in the type.

use std::fmt;

/// A span or a point of time counted in ticks of a clock of `HZ` hertz.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks<const HZ: u64>(pub u64);

/// Ticks of the 62.5 MHz DUNE clock: 1 tick = 16 ns.
pub type DuneTicks = Ticks<62_500_000>;

/// Ticks of the 50 MHz ProtoDUNE-SP clock: 1 tick = 20 ns.
pub type ProtoDuneTicks = Ticks<50_000_000>;

impl<const HZ: u64> Ticks<HZ> {
    /// Ticks in a second.
    pub const HZ: u64 = HZ;

    /// `count` ticks.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The span of `ns` nanoseconds, rounded down to whole ticks.
    pub const fn from_ns(ns: u64) -> Self {
        Self((ns as u128 * HZ as u128 / 1_000_000_000) as u64)
    }

    /// This span in nanoseconds, rounded down; saturates at `u64::MAX`.
    pub const fn to_ns(self) -> u64 {
        let ns = self.0 as u128 * 1_000_000_000 / HZ as u128;
        if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
    }
}

impl<const HZ: u64> fmt::Display for Ticks<HZ> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ticks", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dune_frame_lasts_2048_ticks_or_32768_ns() {
        assert_eq!(DuneTicks::new(2048).to_ns(), 32_768);
        assert_eq!(DuneTicks::from_ns(32_768), DuneTicks::new(2048));
        assert_eq!(ProtoDuneTicks::new(25).to_ns(), 500);
    }

    #[test]
    fn real_time_stamps_do_not_overflow() {
        assert_eq!(DuneTicks::new(107_544_625_968_525_251).to_ns() / 1_000_000_000, 1_720_714_015);
        assert_eq!(DuneTicks::new(u64::MAX).to_ns(), u64::MAX);
    }
}
