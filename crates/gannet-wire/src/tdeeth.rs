//! TDEEth frame: 64 channels of the DUNE top vertical-drift electronics (TDE), 7200 bytes.
//!
//! Bytes 0-15 are the [DAQ Ethernet header](crate::daq_ethernet), bytes 32-7199 the
//! [ADC block](crate::adc14). Between them is the header of the TDE:
//!
//! ```text
//! word 0   63     56 55    52 51        42 41              26 25            0
//!         +---------+--------+------------+------------------+--------------+
//!         | channel | version| tde_header |    tde_errors    |   reserved   |
//!         |    8    |    4   |     10     |        16        |      26      |
//!         +---------+--------+------------+------------------+--------------+
//! word 1  |                          tai_time (64)                          |
//!         +-----------------------------------------------------------------+
//! ```
//!
//! Little-endian 64-bit words. Sampling at 2 MHz, that is every 31.25 ticks of 16 ns:
//! 31 250 frames/s. Development versions of the format had the fields in the opposite order.
//!
//! Source: DUNE-DAQ/fddetdataformats `include/fddetdataformats/TDEEthFrame.hpp`.

use crate::layout::word_format;
use crate::tpc_frame::{self, FRONT_END_LEN, FrontEnd};

pub use crate::tpc_frame::{BLOCK_LENGTH, CHANNELS, FRAME_LEN, SAMPLES};

/// Ticks of 16 ns from one frame of a stream to the next.
pub const TICKS_PER_FRAME: u64 = 2000;

/// View of a TDEEth frame.
pub type Frame<T> = tpc_frame::Frame<T, HeaderRepr>;
/// A TDEEth frame as plain values.
pub type Repr = tpc_frame::Repr<HeaderRepr>;

word_format! {
    /// View of the TDE's own header.
    view Header;
    /// The TDE's own header as plain values.
    repr HeaderRepr;
    format "TDEEth header", 2 words;

    /// Reserved, 0.
    reserved, set_reserved: u32 = word 0, bits 0..=25;
    /// Error bits of the TDE.
    tde_errors, set_tde_errors: u16 = word 0, bits 26..=41;
    /// Header bits of the TDE.
    tde_header, set_tde_header: u16 = word 0, bits 42..=51;
    /// Version of this header.
    version, set_version: u8 = word 0, bits 52..=55;
    /// Channel identifier of the frame.
    channel, set_channel: u8 = word 0, bits 56..=63;
    /// International Atomic Time (TAI) as the electronics counts it; all ones when not given.
    tai_time, set_tai_time: u64 = word 1, bits 0..=63, "(TAI)";
}

impl FrontEnd for HeaderRepr {
    const FORMAT: &'static str = "TDEEth frame";
    const TICKS_PER_FRAME: u64 = TICKS_PER_FRAME;

    fn parse(bytes: &[u8; FRONT_END_LEN]) -> Self {
        Self::parse(&Header::new_unchecked(bytes))
    }

    fn emit(&self, bytes: &mut [u8; FRONT_END_LEN]) {
        Self::emit(self, &mut Header::new_unchecked(bytes));
    }
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// The TDE's own header.
    #[inline]
    pub fn tde(&self) -> Header<&[u8]> {
        Header::new_unchecked(self.front_end())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// The TDE's own header, for writing.
    #[inline]
    pub fn tde_mut(&mut self) -> Header<&mut [u8]> {
        Header::new_unchecked(self.front_end_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, noise};
    use proptest::prelude::*;

    #[test]
    fn each_header_field_lies_where_the_diagram_says() {
        let word = 0x3ff_ffff | 0xbeef << 26 | 0x2a5 << 42 | 0x9 << 52 | 0x7e << 56;
        let mut bytes = vec![0; FRAME_LEN];
        bytes[16..24].copy_from_slice(&u64::to_le_bytes(word));
        bytes[24..32].copy_from_slice(&0x0123_4567_89ab_cdef_u64.to_le_bytes());
        let expected = HeaderRepr {
            reserved: 0x3ff_ffff,
            tde_errors: 0xbeef,
            tde_header: 0x2a5,
            version: 9,
            channel: 0x7e,
            tai_time: 0x0123_4567_89ab_cdef,
        };
        let frame = Frame::new_checked(bytes).unwrap();
        assert_eq!(HeaderRepr::parse(&frame.tde()), expected);

        let mut copy = Frame::new_checked(vec![0; FRAME_LEN]).unwrap();
        expected.emit(&mut copy.tde_mut());
        assert_eq!(copy.into_inner(), frame.into_inner());
    }

    #[test]
    fn refuses_a_frame_cut_short() {
        let error = Frame::new_checked(vec![0; 32]).unwrap_err();
        assert_eq!(error, Error::Truncated { format: "TDEEth frame", expected: 7200, got: 32 });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn emit_after_parse_gives_back_any_frame(seed: u64) {
            let bytes = noise::bytes(seed, FRAME_LEN);
            let repr = Repr::parse(&Frame::new_checked(&bytes[..]).unwrap());
            let mut copy = Frame::new_checked(vec![0; FRAME_LEN]).unwrap();
            repr.emit(&mut copy);
            prop_assert!(copy.into_inner() == bytes);
        }
    }
}
