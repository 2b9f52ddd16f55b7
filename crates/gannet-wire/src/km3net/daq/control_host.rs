//! Prefix of a message of ControlHost.

use core::fmt;

use crate::error::Result;
use crate::layout::{array, put};
use crate::record::Record;

/// What comes before an object on a ControlHost connection: a tag of 8 characters, filled with
/// zeros, the length of what follows, 32 bits, big-endian, and 4 zero bytes.
///
/// Source: KM3NeT/KM3io.jl, `controlhost.jl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// What follows, such as [`EVENT`](Self::EVENT).
    pub tag: [u8; 8],
    /// Bytes of what follows.
    pub length: u32,
}

impl Prefix {
    /// Tag of events.
    pub const EVENT: [u8; 8] = *b"IO_EVT\0\0";
    /// Tag of summary slices.
    pub const SUMMARY_SLICE: [u8; 8] = *b"IO_SUM\0\0";
    /// Tag of time slices of all hits.
    pub const TIME_SLICE: [u8; 8] = *b"IO_TSL\0\0";
    /// Tag of time slices of L0 hits.
    pub const TIME_SLICE_L0: [u8; 8] = *b"IO_TSL0\0";
    /// Tag of time slices of L1 hits.
    pub const TIME_SLICE_L1: [u8; 8] = *b"IO_TSL1\0";
    /// Tag of time slices of L2 hits.
    pub const TIME_SLICE_L2: [u8; 8] = *b"IO_TSL2\0";
    /// Tag of time slices of the supernova stream.
    pub const TIME_SLICE_SN: [u8; 8] = *b"IO_TSSN\0";
}

impl Record for Prefix {
    const FORMAT: &'static str = "ControlHost prefix";
    const LEN: usize = 16;

    fn check(_: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        Self { tag: array(bytes, 0), length: u32::from_be_bytes(array(bytes, 8)) }
    }

    fn emit(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.tag);
        put(bytes, 8, self.length.to_be_bytes());
        put(bytes, 12, [0; 4]);
    }
}

/// Prints tag and length.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} bytes", self.tag.trim_ascii_end().escape_ascii(), self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_form() {
        let prefix = Prefix { tag: Prefix::EVENT, length: 0x0102 };
        let mut bytes = [0xa5; 16];
        prefix.emit(&mut bytes);
        assert_eq!(&bytes, b"IO_EVT\0\0\0\0\x01\x02\0\0\0\0");
        assert_eq!(Prefix::parse(&bytes), Ok(prefix));
    }
}
