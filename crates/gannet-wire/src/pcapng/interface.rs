//! Interface description: link type and unit of time of the packets that name it.

use super::{field, options};
use crate::Result;
use crate::capture::{ByteOrder, PACKET_LEN_MAX};
use crate::layout::array;

const NS_PER_S: i128 = 1_000_000_000;

/// Unit of time of an interface, as the option `if_tsresol` stores it.
///
/// With the top bit clear, one unit is 10^-n s, with it set 2^-n s, n being the low seven bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resolution(pub u8);

impl Resolution {
    /// One unit is 1 us; what a file without the option means.
    pub const MICROSECONDS: Self = Self(6);
    /// One unit is 1 ns.
    pub const NANOSECONDS: Self = Self(9);

    const BINARY: u8 = 0x80;

    fn exponent(self) -> u32 {
        (self.0 & !Self::BINARY).into()
    }

    /// Nanoseconds in a number of units, rounded down.
    fn ns(self, units: u64) -> i128 {
        let ns = i128::from(units) * NS_PER_S;
        if self.0 & Self::BINARY != 0 {
            return ns >> self.exponent();
        }
        // Above 10^28 the quotient is 0, so a power too large for 128 bits changes nothing.
        10i128.checked_pow(self.exponent()).map_or(0, |units_per_s| ns / units_per_s)
    }

    /// Units in a number of nanoseconds, rounded down and limited to 64 bits.
    fn units(self, ns: i128) -> u64 {
        let units_per_s = if self.0 & Self::BINARY != 0 {
            1i128.checked_shl(self.exponent()).filter(|&units| units > 0)
        } else {
            10i128.checked_pow(self.exponent())
        };
        let units =
            units_per_s.and_then(|units| ns.checked_mul(units)).map(|units| units / NS_PER_S);
        units.unwrap_or(i128::MAX).clamp(0, u64::MAX.into()) as u64
    }
}

/// What a section says of one of its interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interface {
    /// What packets begin with, for example [`LINK_TYPE_ETHERNET`](crate::capture::LINK_TYPE_ETHERNET).
    pub link_type: u16,
    /// Longest packet that the capture kept, in bytes; 0 for no limit.
    pub snap_len: u32,
    /// Unit of time.
    pub resolution: Resolution,
    /// Seconds to add to each time.
    pub offset_s: i64,
}

impl Interface {
    /// Interface with packets of any length and time in ns.
    pub const fn new(link_type: u16) -> Self {
        let resolution = Resolution::NANOSECONDS;
        Self { link_type, snap_len: PACKET_LEN_MAX as u32, resolution, offset_s: 0 }
    }

    /// Time in ns since the Unix epoch, limited to 64 bits.
    pub(super) fn timestamp_ns(&self, units: u64) -> u64 {
        let ns = self.resolution.ns(units) + i128::from(self.offset_s) * NS_PER_S;
        ns.clamp(0, u64::MAX.into()) as u64
    }

    /// Units that store a time in ns since the Unix epoch, limited to 64 bits.
    pub(super) fn units(&self, timestamp_ns: u64) -> u64 {
        self.resolution.units(i128::from(timestamp_ns) - i128::from(self.offset_s) * NS_PER_S)
    }

    /// The interface that a block describes; the block has its fixed fields.
    pub(super) fn parse(block: &[u8], order: ByteOrder) -> Result<Self> {
        let mut interface = Self {
            link_type: order.u16(array(block, field::interface::LINK_TYPE)),
            snap_len: order.u32(array(block, field::interface::SNAP_LEN)),
            resolution: Resolution::MICROSECONDS,
            offset_s: 0,
        };
        let options = &block[field::interface::OPTIONS..block.len() - 4];
        for option in options::Options::new(options, order) {
            let (code, value) = option?;
            match code {
                options::code::INTERFACE_RESOLUTION => {
                    let [resolution] = options::fixed(value)?;
                    interface.resolution = Resolution(resolution);
                }
                options::code::INTERFACE_OFFSET => {
                    interface.offset_s = order.u64(options::fixed(value)?) as i64;
                }
                _ => {}
            }
        }
        Ok(interface)
    }

    /// Appends body and options of the block that describes the interface.
    pub(super) fn emit(&self, order: ByteOrder, out: &mut Vec<u8>) {
        out.extend_from_slice(&order.bytes_u16(self.link_type));
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&order.bytes_u32(self.snap_len));
        options::emit(options::code::INTERFACE_RESOLUTION, &[self.resolution.0], order, out);
        if self.offset_s != 0 {
            let offset = order.bytes_u64(self.offset_s as u64);
            options::emit(options::code::INTERFACE_OFFSET, &offset, order, out);
        }
        options::emit_end(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(resolution: u8, offset_s: i64) -> Interface {
        Interface { resolution: Resolution(resolution), offset_s, ..Interface::new(1) }
    }

    #[test]
    fn decimal_and_binary_units_become_nanoseconds() {
        for (resolution, units, ns) in [
            (6, 1_500_000, 1_500_000_000),
            (9, 1_500_000_000, 1_500_000_000),
            (0, 3, 3_000_000_000),
            (12, 1_999, 1),
            (28, u64::MAX, 1),
            (127, u64::MAX, 0),
            (0x80, 3, 3_000_000_000),
            (0x80 | 10, 512, 500_000_000),
            (0x80 | 127, u64::MAX, 0),
        ] {
            assert_eq!(interface(resolution, 0).timestamp_ns(units), ns, "{resolution:#x}");
        }
    }

    #[test]
    fn the_offset_is_added_in_seconds() {
        assert_eq!(interface(9, 2).timestamp_ns(5), 2_000_000_005);
        assert_eq!(interface(9, -2).timestamp_ns(2_000_000_005), 5);
        assert_eq!(interface(9, 2).units(2_000_000_005), 5);
    }

    #[test]
    fn times_out_of_range_are_limited() {
        assert_eq!(interface(0, 0).timestamp_ns(u64::MAX), u64::MAX);
        assert_eq!(interface(9, -1).timestamp_ns(0), 0);
        assert_eq!(interface(9, i64::MIN).timestamp_ns(u64::MAX), 0);
        assert_eq!(interface(9, i64::MAX).timestamp_ns(u64::MAX), u64::MAX);
        assert_eq!(interface(127, 0).units(1), u64::MAX);
        assert_eq!(interface(0xff, 0).units(1), u64::MAX);
        assert_eq!(interface(9, 1).units(0), 0);
    }
}
