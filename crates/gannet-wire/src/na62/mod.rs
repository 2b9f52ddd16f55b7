//! What the NA62 experiment sends: formats and geometry of its RICH, and primitives of its trigger.
//!
//! NA62 counts time from the start of a burst: a time stamp of 32 bits in ticks of its clock, and
//! 1/256 of a tick beside it as the *fine time*. Together they are the 40 bits of [`Time`], which
//! wrap after 107 s. A *frame* is 256 ticks, 6.4 us: the time after which every source sends its
//! primitives, if only to say that there are none.
//!
//! Source: dariosol/na62l0tpfw, NA62/na62-farm-lib, NA62/na62-trigger-algorithms.

pub mod m2egp;
pub mod mep;
pub mod mgp;
pub mod mtp;
pub mod pm_map;

use core::fmt;

use gannet_measure::ticks::TickRate;

use crate::numbered::numbered;

pub use pm_map::{Pm, PmMap};

/// Clock whose ticks time stamps count.
pub const CLOCK: TickRate = TickRate::hz(40_078_600);
/// Clock whose ticks are units of fine time.
pub const FINE_CLOCK: TickRate = TickRate::hz(CLOCK.per_s() << FINE_BITS);
/// Bits of a fine time: it is in units of 1/256 tick.
pub const FINE_BITS: u32 = 8;
/// Ticks of a frame.
pub const FRAME_TICKS: u32 = 256;
/// Bits of a time within its frame: a frame has 65,536 units of fine time.
pub const FRAME_FINE_BITS: u32 = 16;

numbered! {
    /// A source of data or primitives.
    ///
    /// Source: NA62/na62-farm-lib, `SourceIDManager.h`.
    pub enum Source: u8 {
        Lav = 0x10 => "LAV",
        Straw = 0x14 => "STRAW",
        Chod = 0x18 => "CHOD",
        Rich = 0x1c => "RICH",
        NewChod = 0x20 => "NewCHOD",
        LKr = 0x24 => "LKr",
        Muv1 = 0x28 => "MUV1",
        Muv2 = 0x2c => "MUV2",
        Muv3 = 0x30 => "MUV3",
        Sac = 0x34 => "SAC",
        Hasc = 0x3c => "HASC",
        L0Tp = 0x40 => "L0TP",
        L1 = 0x44 => "L1",
    }
}

/// Detector time since the start of the burst: 40 bits, in units of 1/256 tick. It wraps, so it
/// has no order of its own: see [`since`](Self::since).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Time(u64);

impl Time {
    /// Bits of a time.
    pub const BITS: u32 = 32 + FINE_BITS;

    /// The time of a time stamp in ticks and a fine time in 1/256 tick.
    #[inline]
    pub const fn new(timestamp: u32, fine: u8) -> Self {
        Self((timestamp as u64) << FINE_BITS | fine as u64)
    }

    /// The time of a count of fine units, of which the low 40 bits are kept.
    #[inline]
    pub const fn from_fine_units(units: u64) -> Self {
        Self(units & ((1 << Self::BITS) - 1))
    }

    /// The time in units of 1/256 tick.
    #[inline]
    pub const fn fine_units(self) -> u64 {
        self.0
    }

    /// Whole ticks.
    #[inline]
    pub const fn timestamp(self) -> u32 {
        (self.0 >> FINE_BITS) as u32
    }

    /// What is above whole ticks, in 1/256 tick.
    #[inline]
    pub const fn fine(self) -> u8 {
        self.0 as u8
    }

    /// Number of the frame in which the time lies, 24 bits.
    #[inline]
    pub const fn frame(self) -> u32 {
        (self.0 >> FRAME_FINE_BITS) as u32
    }

    /// Units of 1/256 tick from `earlier` to this time, negative if it comes before: the shorter
    /// way around the 40 bits.
    #[inline]
    pub const fn since(self, earlier: Self) -> i64 {
        const UNUSED: u32 = u64::BITS - Time::BITS;
        ((self.0.wrapping_sub(earlier.0) << UNUSED) as i64) >> UNUSED
    }
}

/// Prints ticks, and what is above them in 1/256 tick.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ticks {}/256", self.timestamp(), self.fine())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tick_is_24951_ps_and_a_frame_6387_ns() {
        assert_eq!(CLOCK.ns(1_000_000), 24_950_971);
        assert_eq!(FINE_CLOCK.ns(256_000_000), 24_950_971);
        assert_eq!(CLOCK.ns(FRAME_TICKS.into()), 6_387);
        assert_eq!(FINE_CLOCK.ns(1 << FRAME_FINE_BITS), 6_387);
    }

    #[test]
    fn a_fine_unit_is_97_464732_ps() {
        let ps = 1e12 / FINE_CLOCK.per_s() as f64;
        assert!((ps - 97.464_731_802).abs() < 1e-5, "{ps}");
    }

    #[test]
    fn time_goes_on_over_its_wrap() {
        let last = Time::new(u32::MAX, 255);
        assert_eq!(Time::new(0, 0).since(last), 1);
        assert_eq!(last.since(Time::new(0, 0)), -1);
        assert_eq!(Time::from_fine_units(1 << Time::BITS), Time::new(0, 0));
        assert_eq!(FINE_CLOCK.ns(1 << Time::BITS) / 1_000_000_000, 107);
    }

    #[test]
    fn a_time_is_printed_in_ticks_and_parts_of_them() {
        assert_eq!(Time::new(0x12310, 0x80).to_string(), "74512 ticks 128/256");
        assert_eq!(Time::new(0x12310, 0x80).frame(), 0x123);
    }

    proptest! {
        #[test]
        fn a_time_is_its_timestamp_and_fine_time(timestamp: u32, fine: u8) {
            let time = Time::new(timestamp, fine);
            prop_assert_eq!((time.timestamp(), time.fine()), (timestamp, fine));
            prop_assert_eq!(Time::from_fine_units(time.fine_units()), time);
        }

        #[test]
        fn a_difference_added_leads_back(a: u64, b: u64) {
            let (a, b) = (Time::from_fine_units(a), Time::from_fine_units(b));
            let difference = a.since(b);
            prop_assert_eq!(Time::from_fine_units(b.fine_units().wrapping_add_signed(difference)), a);
            prop_assert!((-1 << 39..1 << 39).contains(&difference));
        }
    }
}
