//! COLDATA block: the part of a ProtoDUNE-SP frame that one COLDATA chip sent, 112 bytes.
//!
//! Header, two little-endian 64-bit words (the source counts four 32-bit words), then 8 segments:
//!
//! ```text
//! word 0   63           48 47        40 39        32 31       24 23       16 15      8 7   4 3   0
//!         +---------------+------------+------------+-----------+-----------+---------+-----+-----+
//!         | convert_count |checksum_b  |checksum_a  |checksum_b |checksum_a |reserved |s2_  |s1_  |
//!         |      16       |  high 8    |  high 8    |  low 8    |  low 8    |    8    |err 4|err 4|
//!         +---------------+------------+------------+-----------+-----------+---------+-----+-----+
//! word 1   63 60 59 56 55 52 51 48 47 44 43 40 39 36 35 32 31         16 15             0
//!         +-----+-----+-----+-----+-----+-----+-----+-----+-------------+----------------+
//!         |hdr 8|hdr 6|hdr 7|hdr 5|hdr 4|hdr 2|hdr 3|hdr 1|  reserved   | error_register |
//!         +-----+-----+-----+-----+-----+-----+-----+-----+-------------+----------------+
//! ```
//!
//! A segment is 12 bytes: four channels of an even ADC in bytes 0, 2, 4, ... and the same four
//! channels of the next odd ADC in bytes 1, 3, 5, ...; two 12-bit values fill three bytes:
//!
//! ```text
//!   first, third channel : byte 0, 6 and the low half of byte 2, 8
//!   second, fourth channel: the high half of byte 2, 8 and byte 4, 10
//! ```
//!
//! Source: DUNE-DAQ/fddetdataformats `include/fddetdataformats/WIBFrame.hpp`.

use crate::layout::word_format;

/// Bytes of a block.
pub const BLOCK_LEN: usize = field::SEGMENTS + SEGMENTS * field::SEGMENT_LEN;
/// Channels of a block.
pub const CHANNELS: usize = ADCS * CHANNELS_PER_ADC;
/// ADCs of a block.
pub const ADCS: usize = 8;
/// Channels of one ADC.
pub const CHANNELS_PER_ADC: usize = 8;
/// Largest ADC value.
pub const ADC_MAX: u16 = 0xfff;

/// Segments of a block.
const SEGMENTS: usize = 8;

mod field {
    use core::ops::Range;

    pub const HEADER: Range<usize> = 0..super::HeaderRepr::LEN;
    pub const SEGMENTS: usize = HEADER.end;
    pub const SEGMENT_LEN: usize = 12;
}

word_format! {
    /// View of a COLDATA header.
    view Header;
    /// A COLDATA header as plain values.
    repr HeaderRepr;
    format "COLDATA header", 2 words;

    /// Error bits of stream 1.
    s1_error, set_s1_error: u8 = word 0, bits 0..=3;
    /// Error bits of stream 2.
    s2_error, set_s2_error: u8 = word 0, bits 4..=7;
    /// Reserved, 0.
    reserved_1, set_reserved_1: u8 = word 0, bits 8..=15;
    /// Low byte of check sum A.
    checksum_a_low, set_checksum_a_low: u8 = word 0, bits 16..=23;
    /// Low byte of check sum B.
    checksum_b_low, set_checksum_b_low: u8 = word 0, bits 24..=31;
    /// High byte of check sum A.
    checksum_a_high, set_checksum_a_high: u8 = word 0, bits 32..=39;
    /// High byte of check sum B.
    checksum_b_high, set_checksum_b_high: u8 = word 0, bits 40..=47;
    /// Counter of the conversions of the COLDATA.
    convert_count, set_convert_count: u16 = word 0, bits 48..=63, "conversions, modulo 65536";
    /// Error register.
    error_register, set_error_register: u16 = word 1, bits 0..=15;
    /// Reserved, 0.
    reserved_2, set_reserved_2: u16 = word 1, bits 16..=31;
    /// Header of stream 1.
    stream_header_1, set_stream_header_1: u8 = word 1, bits 32..=35;
    /// Header of stream 3; the stored order is 1, 3, 2, 4, 5, 7, 6, 8.
    stream_header_3, set_stream_header_3: u8 = word 1, bits 36..=39;
    /// Header of stream 2.
    stream_header_2, set_stream_header_2: u8 = word 1, bits 40..=43;
    /// Header of stream 4.
    stream_header_4, set_stream_header_4: u8 = word 1, bits 44..=47;
    /// Header of stream 5.
    stream_header_5, set_stream_header_5: u8 = word 1, bits 48..=51;
    /// Header of stream 7.
    stream_header_7, set_stream_header_7: u8 = word 1, bits 52..=55;
    /// Header of stream 6.
    stream_header_6, set_stream_header_6: u8 = word 1, bits 56..=59;
    /// Header of stream 8.
    stream_header_8, set_stream_header_8: u8 = word 1, bits 60..=63;
}

impl<T: AsRef<[u8]>> Header<T> {
    /// Check sum A.
    pub fn checksum_a(&self) -> u16 {
        u16::from_le_bytes([self.checksum_a_low(), self.checksum_a_high()])
    }

    /// Check sum B.
    pub fn checksum_b(&self) -> u16 {
        u16::from_le_bytes([self.checksum_b_low(), self.checksum_b_high()])
    }
}

/// View of a COLDATA block. It is only made by [`Frame`](super::Frame), which knows its length.
#[derive(Clone, Copy, Debug)]
pub struct Block<T> {
    buffer: T,
}

impl<'a> Block<&'a [u8]> {
    /// The block that these bytes are.
    pub const fn of(bytes: &'a [u8; BLOCK_LEN]) -> Self {
        Self { buffer: bytes }
    }
}

impl<T: AsRef<[u8]>> Block<T> {
    pub(super) const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// The header of the block.
    pub fn header(&self) -> Header<&[u8]> {
        Header::new_unchecked(&self.buffer.as_ref()[field::HEADER])
    }

    /// ADC value of a channel, numbered `8 * adc + channel of the ADC`.
    ///
    /// # Panics
    /// When `channel` is not below 64.
    pub fn adc(&self, channel: usize) -> u16 {
        let (bytes, [first, second, third]) = (self.buffer.as_ref(), places(channel));
        if channel.is_multiple_of(2) {
            u16::from(bytes[first]) | u16::from(bytes[second] & 0xf) << 8
        } else {
            u16::from(bytes[second] >> 4) | u16::from(bytes[third]) << 4
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Block<T> {
    /// The header of the block, for writing.
    pub fn header_mut(&mut self) -> Header<&mut [u8]> {
        Header::new_unchecked(&mut self.buffer.as_mut()[field::HEADER])
    }

    /// Stores the low 12 bits of `adc` for a channel, numbered as in [`Block::adc`].
    ///
    /// # Panics
    /// When `channel` is not below 64.
    pub fn set_adc(&mut self, channel: usize, adc: u16) {
        let (bytes, [first, second, third]) = (self.buffer.as_mut(), places(channel));
        let adc = adc & ADC_MAX;
        if channel.is_multiple_of(2) {
            bytes[first] = adc as u8;
            bytes[second] = bytes[second] & 0xf0 | (adc >> 8) as u8;
        } else {
            bytes[second] = bytes[second] & 0x0f | (adc << 4) as u8;
            bytes[third] = (adc >> 4) as u8;
        }
    }
}

/// Offsets in the block of the three bytes that hold `channel` and its partner in the pair.
fn places(channel: usize) -> [usize; 3] {
    assert!(channel < CHANNELS, "a COLDATA block has 64 channels");
    let (adc, ch) = (channel / CHANNELS_PER_ADC, channel % CHANNELS_PER_ADC);
    let segment = adc / 2 * 2 + ch / 4;
    let pair = ch % 4 / 2;
    let first = field::SEGMENTS + segment * field::SEGMENT_LEN + 6 * pair + adc % 2;
    [first, first + 2, first + 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_with_first_segment(segment: [u8; 12]) -> Block<[u8; BLOCK_LEN]> {
        let mut bytes = [0; BLOCK_LEN];
        bytes[16..28].copy_from_slice(&segment);
        Block::new_unchecked(bytes)
    }

    #[test]
    fn a_segment_interleaves_an_even_and_an_odd_adc() {
        // The values of DUNE's own unit test (fddetdataformats, WIBFrame_test.cxx).
        let segment = [0x11, 0x22, 0x43, 0x65, 0x77, 0x88, 0x99, 0xaa, 0xcb, 0xed, 0xff, 0x10];
        let block = block_with_first_segment(segment);
        let read = |adc: usize| [0, 1, 2, 3].map(|ch| block.adc(8 * adc + ch));
        assert_eq!(read(0), [0x311, 0x774, 0xb99, 0xffc]);
        assert_eq!(read(1), [0x522, 0x886, 0xdaa, 0x10e]);
    }

    #[test]
    fn writing_one_channel_leaves_the_other_half_of_a_shared_byte() {
        let mut block = block_with_first_segment([0xff; 12]);
        block.set_adc(0, 0);
        assert_eq!((block.adc(0), block.adc(1)), (0, 0xfff));
        block.set_adc(1, 0x1234);
        assert_eq!((block.adc(0), block.adc(1)), (0, 0x234));
    }

    #[test]
    fn check_sums_are_split_over_two_words_of_the_source() {
        let mut header = Header::new_unchecked([0; HeaderRepr::LEN]);
        header.set_checksum_a_low(0x11);
        header.set_checksum_b_low(0x22);
        header.set_checksum_a_high(0x33);
        header.set_checksum_b_high(0x44);
        assert_eq!((header.checksum_a(), header.checksum_b()), (0x3311, 0x4422));
        assert_eq!(header.into_inner()[..8], [0, 0, 0x11, 0x22, 0x33, 0x44, 0, 0]);
    }

    #[test]
    fn stream_headers_are_stored_in_the_order_1_3_2_4_5_7_6_8() {
        let mut header = Header::new_unchecked([0; HeaderRepr::LEN]);
        header.set_stream_header_1(1);
        header.set_stream_header_2(2);
        header.set_stream_header_3(3);
        header.set_stream_header_4(4);
        header.set_stream_header_5(5);
        header.set_stream_header_6(6);
        header.set_stream_header_7(7);
        header.set_stream_header_8(8);
        assert_eq!(header.into_inner()[12..], [0x31, 0x42, 0x75, 0x86]);
    }
}
