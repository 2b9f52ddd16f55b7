//! A hit of a photomultiplier, as modules send it and files keep it.

use core::fmt;

use crate::error::Result;
use crate::layout::{array, put};
use crate::record::Record;

/// Photomultipliers of a module; numbers from here on are of none.
pub const CHANNELS: usize = 31;

mod field {
    pub const CHANNEL: usize = 0;
    pub const TIME: usize = 1;
    pub const TIME_OVER_THRESHOLD: usize = 5;
    pub const END: usize = 6;
}

/// Light on a photomultiplier: 6 bytes, the time big-endian.
///
/// ```text
/// byte  0         1                                       5           6
///      +---------+---------------------------------------+-----------+
///      | channel |       time in the slice (ns)          | time over |
///      |         |                                       | threshold |
///      +---------+---------------------------------------+-----------+
/// ```
///
/// Source: KM3NeT/km3pipe, `io/clb.py` and `io/daq.py`; a time with its highest bit set is read
/// there as a negative one, and is bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hit {
    /// Photomultiplier of the module, below [`CHANNELS`] if it is one.
    pub channel: u8,
    /// Time in the slice, in nanoseconds.
    pub time: u32,
    /// Time over threshold, in nanoseconds.
    pub time_over_threshold: u8,
}

impl Record for Hit {
    const FORMAT: &'static str = "hit";
    const LEN: usize = field::END;

    #[inline]
    fn check(_: &[u8]) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        Self {
            channel: bytes[field::CHANNEL],
            time: u32::from_be_bytes(array(bytes, field::TIME)),
            time_over_threshold: bytes[field::TIME_OVER_THRESHOLD],
        }
    }

    #[inline]
    fn emit(&self, bytes: &mut [u8]) {
        bytes[field::CHANNEL] = self.channel;
        put(bytes, field::TIME, self.time.to_be_bytes());
        bytes[field::TIME_OVER_THRESHOLD] = self.time_over_threshold;
    }
}

/// Prints channel, time and time over threshold.
impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { channel, time, time_over_threshold } = self;
        write!(f, "channel {channel} at {time} ns for {time_over_threshold} ns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_hit_is_big_endian() {
        let hit = Hit { channel: 15, time: 66_541_067, time_over_threshold: 28 };
        let mut bytes = [0; 6];
        hit.emit(&mut bytes);
        assert_eq!(bytes, [15, 0x03, 0xf7, 0x56, 0x0b, 28]);
        assert_eq!(Hit::parse(&bytes), Ok(hit));
        assert_eq!(hit.to_string(), "channel 15 at 66541067 ns for 28 ns");
    }
}
