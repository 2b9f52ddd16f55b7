//! ProtoDUNE-SP WIB frame: one time sample of 256 channels, 12 bits each, 464 bytes.
//!
//! ```text
//! byte 0     16                 128                240                352             464
//!      +------+------------------+------------------+------------------+----------------+
//!      | WIB  | COLDATA block 0  | COLDATA block 1  | COLDATA block 2  | COLDATA block 3|
//!      |header| 64 channels      | 64 channels      | 64 channels      | 64 channels    |
//!      +------+------------------+------------------+------------------+----------------+
//!              block: header 16 bytes, then 8 segments of 12 bytes (8 channels each)
//! ```
//!
//! WIB header, two little-endian 64-bit words (the source counts four 32-bit words):
//!
//! ```text
//! word 0   63         48 47       34  33  32 31      24 23  21 20   16 15   13 12    8 7     0
//!         +-------------+-----------+---+---+----------+------+-------+-------+-------+-------+
//!         | wib_errors  |reserved_2 |oos|mm |reserved_1| slot | crate | fiber |version|  sof  |
//!         |     16      |    14     | 1 | 1 |    8     |  3   |   5   |   3   |   5   |   8   |
//!         +-------------+-----------+---+---+----------+------+-------+-------+-------+-------+
//! word 1   63  62          48 47                             0
//!         +---+--------------+--------------------------------+
//!         | z |   counter    |       timestamp_low (48)       |
//!         +---+--------------+--------------------------------+
//! ```
//!
//! With `z` clear, `counter` is bits 48-62 of the timestamp; with `z` set it is the WIB's counter.
//! One tick is 20 ns (50 MHz); samples are 25 ticks (2 MHz) apart. The readout of ProtoDUNE-SP
//! moved frames in super-chunks of twelve.
//!
//! Source: DUNE-DAQ/fddetdataformats `include/fddetdataformats/WIBFrame.hpp`.

pub mod coldata;

use core::fmt;

use crate::Result;
use crate::layout::{check_len, word_format};

/// Bytes of a frame.
pub const FRAME_LEN: usize = field::BLOCKS + BLOCKS * coldata::BLOCK_LEN;
/// COLDATA blocks of a frame.
pub const BLOCKS: usize = 4;
/// Channels of a frame.
pub const CHANNELS: usize = BLOCKS * coldata::CHANNELS;
/// Ticks of 20 ns from one frame of a link to the next.
pub const TICKS_PER_FRAME: u64 = 25;
/// Frames of a super-chunk.
pub const FRAMES_PER_SUPERCHUNK: usize = 12;
/// Bytes of a super-chunk.
pub const SUPERCHUNK_LEN: usize = FRAMES_PER_SUPERCHUNK * FRAME_LEN;

mod field {
    use core::ops::Range;

    pub const WIB: Range<usize> = 0..super::WibRepr::LEN;
    pub const BLOCKS: usize = WIB.end;

    pub const fn block(index: usize) -> Range<usize> {
        assert!(index < super::BLOCKS, "a frame has four COLDATA blocks");
        let first = BLOCKS + index * super::coldata::BLOCK_LEN;
        first..first + super::coldata::BLOCK_LEN
    }
}

word_format! {
    /// View of the WIB header.
    view WibHeader;
    /// A WIB header as plain values.
    repr WibRepr;
    format "ProtoDUNE-SP WIB header", 2 words;

    /// Start of frame.
    sof, set_sof: u8 = word 0, bits 0..=7;
    /// Version of the layout.
    version, set_version: u8 = word 0, bits 8..=12;
    /// Optical fibre of the WIB.
    fiber, set_fiber: u8 = word 0, bits 13..=15;
    /// Crate, that is the anode plane assembly.
    crate_id, set_crate_id: u8 = word 0, bits 16..=20;
    /// Slot in the crate.
    slot, set_slot: u8 = word 0, bits 21..=23;
    /// Reserved, 0.
    reserved_1, set_reserved_1: u8 = word 0, bits 24..=31;
    /// Mismatch flag of the WIB.
    mm, set_mm: bool = word 0, bits 32..=32;
    /// Out of synchronisation with the timing system.
    oos, set_oos: bool = word 0, bits 33..=33;
    /// Reserved, 0.
    reserved_2, set_reserved_2: u16 = word 0, bits 34..=47;
    /// Error bits of the WIB.
    wib_errors, set_wib_errors: u16 = word 0, bits 48..=63;
    /// Bits 0-47 of the timestamp.
    timestamp_low, set_timestamp_low: u64 = word 1, bits 0..=47, "ticks of 20 ns";
    /// Bits 48-62 of the timestamp when `z` is clear, else the counter of the WIB.
    counter, set_counter: u16 = word 1, bits 48..=62;
    /// Says what `counter` is.
    z, set_z: bool = word 1, bits 63..=63;
}

impl<T: AsRef<[u8]>> WibHeader<T> {
    /// Time of the sample, in ticks of 20 ns: 63 bits when `z` is clear, else 48.
    pub fn timestamp(&self) -> u64 {
        let high = if self.z() { 0 } else { u64::from(self.counter()) << 48 };
        high | self.timestamp_low()
    }

    /// Counter of the WIB, when the header carries it.
    pub fn wib_counter(&self) -> Option<u16> {
        self.z().then(|| self.counter())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> WibHeader<T> {
    /// Sets the time of the sample, in ticks of 20 ns. `z` and, when it is set, the counter of
    /// the WIB stay; bits of the timestamp that then have no place are dropped.
    pub fn set_timestamp(&mut self, ticks: u64) {
        self.set_timestamp_low(ticks);
        if !self.z() {
            self.set_counter((ticks >> 48) as u16);
        }
    }
}

/// View of a ProtoDUNE-SP WIB frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// View without a length test: accessors panic when the buffer is too short.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// View of the first [`FRAME_LEN`] bytes of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) when the buffer is too short.
    pub fn new_checked(buffer: T) -> Result<Self> {
        check_len("ProtoDUNE-SP WIB frame", buffer.as_ref(), FRAME_LEN)?;
        Ok(Self { buffer })
    }

    /// The buffer under the view.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// The WIB header.
    pub fn wib(&self) -> WibHeader<&[u8]> {
        WibHeader::new_unchecked(&self.buffer.as_ref()[field::WIB])
    }

    /// One of the four COLDATA blocks.
    ///
    /// # Panics
    /// When `index` is not below 4.
    pub fn block(&self, index: usize) -> coldata::Block<&[u8]> {
        coldata::Block::new_unchecked(&self.buffer.as_ref()[field::block(index)])
    }

    /// ADC value of a channel, numbered `64 * block + 8 * adc + channel of the ADC`.
    ///
    /// # Panics
    /// When `channel` is not below 256.
    pub fn adc(&self, channel: usize) -> u16 {
        self.block(channel / coldata::CHANNELS).adc(channel % coldata::CHANNELS)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// The WIB header, for writing.
    pub fn wib_mut(&mut self) -> WibHeader<&mut [u8]> {
        WibHeader::new_unchecked(&mut self.buffer.as_mut()[field::WIB])
    }

    /// One of the four COLDATA blocks, for writing.
    ///
    /// # Panics
    /// When `index` is not below 4.
    pub fn block_mut(&mut self, index: usize) -> coldata::Block<&mut [u8]> {
        coldata::Block::new_unchecked(&mut self.buffer.as_mut()[field::block(index)])
    }

    /// Stores the low 12 bits of `adc` for a channel, numbered as in [`Frame::adc`].
    ///
    /// # Panics
    /// When `channel` is not below 256.
    pub fn set_adc(&mut self, channel: usize, adc: u16) {
        self.block_mut(channel / coldata::CHANNELS).set_adc(channel % coldata::CHANNELS, adc);
    }
}

/// A ProtoDUNE-SP WIB frame as plain values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The WIB header.
    pub wib: WibRepr,
    /// Headers of the four COLDATA blocks.
    pub coldata: [coldata::HeaderRepr; BLOCKS],
    /// ADC values by channel, of which the low 12 bits are stored.
    pub adc: [u16; CHANNELS],
}

impl Repr {
    /// The values of a frame; every bit pattern is valid.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Self {
        Self {
            wib: WibRepr::parse(&frame.wib()),
            coldata: core::array::from_fn(|index| {
                coldata::HeaderRepr::parse(&frame.block(index).header())
            }),
            adc: core::array::from_fn(|channel| frame.adc(channel)),
        }
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        FRAME_LEN
    }

    /// Writes the whole frame.
    ///
    /// # Panics
    /// When the buffer under an unchecked view is too short.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, frame: &mut Frame<T>) {
        self.wib.emit(&mut frame.wib_mut());
        for (index, header) in self.coldata.iter().enumerate() {
            header.emit(&mut frame.block_mut(index).header_mut());
        }
        for (channel, &adc) in self.adc.iter().enumerate() {
            frame.set_adc(channel, adc);
        }
    }
}

/// Prints the headers and the range of the ADC values; `{:#}` adds every value, a row an ADC.
impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = (self.adc.iter().min().unwrap_or(&0), self.adc.iter().max().unwrap_or(&0));
        writeln!(f, "ProtoDUNE-SP WIB frame\n{}", self.wib)?;
        self.coldata.iter().try_for_each(|header| writeln!(f, "{header}"))?;
        write!(f, "ADC values\n  {CHANNELS} channels, {min} to {max} counts")?;
        if f.alternate() {
            for (index, row) in self.adc.chunks(coldata::CHANNELS_PER_ADC).enumerate() {
                write!(f, "\n  {:>3}:", index * coldata::CHANNELS_PER_ADC)?;
                row.iter().try_for_each(|adc| write!(f, " {adc}"))?;
            }
        }
        Ok(())
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Frame<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, noise};
    use proptest::prelude::*;

    #[test]
    fn the_geometry_is_the_documented_one() {
        assert_eq!((FRAME_LEN, CHANNELS, SUPERCHUNK_LEN), (464, 256, 5568));
    }

    #[test]
    fn each_wib_field_lies_where_the_diagram_says() {
        let words = [
            0xab | 0x15 << 8 | 5 << 13 | 0x12 << 16 | 6 << 21 | 1 << 33 | 0xfc5f << 48,
            0x2222_1111_1111 | 0x7333 << 48,
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        let wib = WibRepr::parse(&WibHeader::new_checked(bytes).unwrap());
        let expected = WibRepr {
            sof: 0xab,
            version: 0x15,
            fiber: 5,
            crate_id: 0x12,
            slot: 6,
            oos: true,
            wib_errors: 0xfc5f,
            timestamp_low: 0x2222_1111_1111,
            counter: 0x7333,
            ..Default::default()
        };
        assert_eq!(wib, expected);
    }

    #[test]
    fn the_counter_extends_the_timestamp_when_z_is_clear() {
        let mut wib = WibHeader::new_unchecked([0; WibRepr::LEN]);
        wib.set_timestamp(0xf333_4444_5555_5555);
        assert_eq!(wib.timestamp(), 0x7333_4444_5555_5555);
        assert_eq!(wib.wib_counter(), None);
        assert!(!wib.z());
    }

    #[test]
    fn the_counter_is_left_alone_when_z_is_set() {
        let mut wib = WibHeader::new_unchecked([0; WibRepr::LEN]);
        wib.set_z(true);
        wib.set_counter(0x7333);
        wib.set_timestamp(0xffff_4444_5555_5555);
        assert_eq!(wib.timestamp(), 0x4444_5555_5555);
        assert_eq!(wib.wib_counter(), Some(0x7333));
    }

    #[test]
    fn channels_are_numbered_by_block_then_adc_then_channel() {
        let mut frame = Frame::new_checked(vec![0; FRAME_LEN]).unwrap();
        frame.set_adc(64 + 8 * 3 + 5, 0x678);
        assert_eq!(frame.block(1).adc(8 * 3 + 5), 0x678);
        // Block 1 begins at 128; ADC 3, channel 5 is in segment (3 / 2) * 2 + 5 / 4 = 3, where an
        // odd ADC's second channel is the high half of byte 3 and byte 5.
        let bytes = frame.into_inner();
        let segment = &bytes[128 + 16 + 3 * 12..][..12];
        assert_eq!(segment, [0, 0, 0, 0x80, 0, 0x67, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn refuses_a_frame_cut_short() {
        let error = Frame::new_checked([0; FRAME_LEN - 1]).unwrap_err();
        let format = "ProtoDUNE-SP WIB frame";
        assert_eq!(error, Error::Truncated { format, expected: 464, got: 463 });
    }

    #[test]
    #[should_panic(expected = "four COLDATA blocks")]
    fn channel_256_is_a_programming_error() {
        Frame::new_unchecked([0; FRAME_LEN]).adc(256);
    }

    #[test]
    fn prints_the_headers_and_on_request_every_value() {
        let frame = Frame::new_checked([0x5a; FRAME_LEN]).unwrap();
        let text = frame.to_string();
        assert_eq!(text.matches("COLDATA header").count(), BLOCKS);
        assert_eq!(format!("{frame:#}").lines().count(), text.lines().count() + CHANNELS / 8);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn emit_after_parse_gives_back_any_frame(seed: u64) {
            let bytes = noise::bytes(seed, FRAME_LEN);
            let repr = Repr::parse(&Frame::new_checked(&bytes[..]).unwrap());
            let mut copy = Frame::new_checked(vec![0; FRAME_LEN]).unwrap();
            repr.emit(&mut copy);
            prop_assert!(copy.into_inner() == bytes);
        }

        #[test]
        fn set_adc_changes_one_channel_only(seed: u64, channel in 0..CHANNELS, adc: u16) {
            let before = noise::bytes(seed, FRAME_LEN);
            let mut after = Frame::new_checked(before.clone()).unwrap();
            after.set_adc(channel, adc);
            let before = Repr::parse(&Frame::new_checked(before).unwrap());
            let mut expected = before;
            expected.adc[channel] = adc & 0xfff;
            prop_assert_eq!(Repr::parse(&after), expected);
        }
    }
}
