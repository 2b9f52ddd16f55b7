//! ADC block of 64 time samples of 64 channels, 14 bits each, without padding.
//!
//! ```text
//!            byte 0   1   2   3   4   5   6 ...                        111
//! sample  0  |  ch 0  |  ch 1  |  ch 2  |  ch 3  | ...        |  ch 63  |
//! sample  1  | one row: 64 x 14 bits = 896 bits = 112 bytes             |
//!    ...
//! sample 63  |                                                          |
//! ```
//!
//! A row is one little-endian number of 896 bits, and channel `c` is bits `14c ..= 14c + 13` of it,
//! so values cross the borders of bytes and of 64-bit words. Four channels fill seven bytes.
//!
//! This module is the definition, written to be plainly right. The fast forms are in
//! `gannet-kernels` and are tested against it.
//!
//! Source: DUNE-DAQ/fddetdataformats `include/fddetdataformats/WIBEthFrame.hpp` (`get_adc`).

use crate::layout::{array, put};

/// Channels of a block.
pub const CHANNELS: usize = 64;
/// Time samples of a block.
pub const SAMPLES: usize = 64;
/// Bits of one ADC value.
pub const ADC_BITS: usize = 14;
/// Largest ADC value.
pub const ADC_MAX: u16 = (1 << ADC_BITS) - 1;
/// Bytes of one time sample of all channels.
pub const ROW_LEN: usize = CHANNELS * ADC_BITS / 8;
/// Bytes of a block.
pub const BLOCK_LEN: usize = SAMPLES * ROW_LEN;

/// A packed block.
pub type Block = [u8; BLOCK_LEN];
/// Unpacked values, `[sample][channel]`.
pub type Samples = [[u16; CHANNELS]; SAMPLES];

/// Bits of the words in which the source states the packing.
const WORD_BITS: usize = 64;

/// Where a value begins: byte offset of its first word, and the bit in that word.
const fn place(channel: usize, sample: usize) -> (usize, usize) {
    assert!(channel < CHANNELS && sample < SAMPLES, "channel and sample must be below 64");
    let bit = ADC_BITS * channel;
    (ROW_LEN * sample + 8 * (bit / WORD_BITS), bit % WORD_BITS)
}

/// ADC value of one channel at one time sample.
///
/// # Panics
/// When `channel` or `sample` is not below 64.
#[inline]
pub fn get(block: &Block, channel: usize, sample: usize) -> u16 {
    let (at, shift) = place(channel, sample);
    let mut value = u64::from_le_bytes(array(block, at)) >> shift;
    if shift + ADC_BITS > WORD_BITS {
        value |= u64::from_le_bytes(array(block, at + 8)) << (WORD_BITS - shift);
    }
    value as u16 & ADC_MAX
}

/// Stores the low 14 bits of `adc` for one channel at one time sample.
///
/// # Panics
/// When `channel` or `sample` is not below 64.
#[inline]
pub fn set(block: &mut Block, channel: usize, sample: usize, adc: u16) {
    let (at, shift) = place(channel, sample);
    let (mask, value) = (u64::from(ADC_MAX), u64::from(adc & ADC_MAX));
    let word = u64::from_le_bytes(array(block, at));
    put(block, at, (word & !(mask << shift) | value << shift).to_le_bytes());
    if shift + ADC_BITS > WORD_BITS {
        let done = WORD_BITS - shift;
        let word = u64::from_le_bytes(array(block, at + 8));
        put(block, at + 8, (word & !(mask >> done) | value >> done).to_le_bytes());
    }
}

/// Packs `[sample][channel]` values, of which the low 14 bits are stored.
pub fn pack(samples: &Samples, block: &mut Block) {
    for (sample, row) in samples.iter().enumerate() {
        for (channel, &adc) in row.iter().enumerate() {
            set(block, channel, sample, adc);
        }
    }
}

/// Unpacks a block into `[sample][channel]` values.
pub fn unpack(block: &Block, samples: &mut Samples) {
    for (sample, row) in samples.iter_mut().enumerate() {
        for (channel, adc) in row.iter_mut().enumerate() {
            *adc = get(block, channel, sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise;
    use proptest::prelude::*;

    /// The definition bit by bit: bit `14c + b` of the row is bit `b` of channel `c`.
    fn bit_by_bit(block: &Block, channel: usize, sample: usize) -> u16 {
        let row = &block[sample * 112..][..112];
        (0..14).fold(0, |value, b| {
            let bit = 14 * channel + b;
            value | u16::from(row[bit / 8] >> (bit % 8) & 1) << b
        })
    }

    fn noise_block(seed: u64) -> Box<Block> {
        noise::bytes(seed, BLOCK_LEN).try_into().unwrap()
    }

    #[test]
    fn reads_the_first_row_of_a_real_frame() {
        // ProtoDUNE-HD run 27980: the first sixteen channels, two induction planes and collection.
        let row = [
            0xd9, 0x9f, 0xde, 0x47, 0x00, 0x72, 0x7f, 0xe8, 0x5f, 0x9b, 0xc0, 0x19, 0x7c, 0x09,
            0xa3, 0xc2, 0x7d, 0xf0, 0x03, 0x5a, 0x7f, 0x7f, 0x5f, 0xfc, 0xd7, 0xf8, 0x9d, 0x7b,
        ];
        let expected = [
            8153, 8058, 8196, 8156, 8168, 621, 412, 607, 675, 503, 8255, 8150, 8063, 8177, 8077,
            7911,
        ];
        let mut block = [0; BLOCK_LEN];
        block[..row.len()].copy_from_slice(&row);
        let read: Vec<u16> = (0..16).map(|channel| get(&block, channel, 0)).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn the_last_value_fills_the_last_bits_of_the_block() {
        let mut block = [0; BLOCK_LEN];
        set(&mut block, 63, 63, u16::MAX);
        assert_eq!(block[BLOCK_LEN - 2..], [0xfc, 0xff]);
        assert!(block[..BLOCK_LEN - 2].iter().all(|&byte| byte == 0));
    }

    #[test]
    #[should_panic(expected = "must be below 64")]
    fn channel_64_is_a_programming_error() {
        get(&[0; BLOCK_LEN], 64, 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn get_equals_the_bit_by_bit_definition(seed: u64) {
            let block = noise_block(seed);
            for sample in 0..SAMPLES {
                for channel in 0..CHANNELS {
                    let expected = bit_by_bit(&block, channel, sample);
                    prop_assert_eq!(get(&block, channel, sample), expected);
                }
            }
        }

        #[test]
        fn pack_after_unpack_gives_back_any_block(seed: u64) {
            let block = noise_block(seed);
            let mut samples = [[0; CHANNELS]; SAMPLES];
            unpack(&block, &mut samples);
            let mut copy = noise_block(!seed);
            pack(&samples, &mut copy);
            prop_assert!(copy == block);
        }

        #[test]
        fn set_changes_one_value_only(seed: u64, channel in 0..CHANNELS, sample in 0..SAMPLES, adc: u16) {
            let before = noise_block(seed);
            let mut after = before.clone();
            set(&mut after, channel, sample, adc);
            for s in 0..SAMPLES {
                for c in 0..CHANNELS {
                    let here = (c, s) == (channel, sample);
                    let expected = if here { adc & ADC_MAX } else { get(&before, c, s) };
                    prop_assert_eq!(get(&after, c, s), expected);
                }
            }
        }
    }
}
