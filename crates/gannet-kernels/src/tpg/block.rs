//! The ADC block of a WIBEth or TDEEth frame: 64 samples of 64 channels, 14 bits each.
//!
//! ```text
//! block = 64 rows, one a time sample; row = 112 bytes = one little-endian number of 896 bits
//!
//! bit   895     882            41      28 27      14 13       0
//!      +-----------+--  ...  --+---------+---------+---------+
//!      | channel 63|           |channel 2|channel 1|channel 0|
//!      +-----------+--  ...  --+---------+---------+---------+
//! ```
//!
//! There is no padding and values cross byte and word borders. Two identities serve the vector
//! kernels: 4 channels are 7 bytes, and 2 channels (28 bits) always lie in a 4-byte window.
//!
//! Source: DUNE-DAQ/fddetdataformats `WIBEthFrame.hpp`, `TDEEthFrame.hpp`.

/// Channels in a block.
pub const CHANNELS: usize = 64;
/// Time samples in a block.
pub const SAMPLES: usize = 64;
/// Bits of one ADC value.
pub const ADC_BITS: usize = 14;
/// Largest ADC value.
pub const ADC_MAX: u16 = (1 << ADC_BITS) - 1;
/// Bytes of one row: the values of all channels at one time.
pub const ROW_LEN: usize = CHANNELS * ADC_BITS / 8;
/// Bytes of a block.
pub const BLOCK_LEN: usize = SAMPLES * ROW_LEN;
/// Most trigger primitives that one block can complete: a hit and the sample that ends it take
/// two samples, so 32 on each channel.
pub const MAX_TPS_PER_FRAME: usize = CHANNELS * SAMPLES / 2;

/// A packed block.
pub type Block = [u8; BLOCK_LEN];
/// A packed row.
pub type Row = [u8; ROW_LEN];

/// The rows of a block, in time order.
pub fn rows(block: &Block) -> &[Row] {
    block.as_chunks().0
}

/// The ADC value of one channel of a row, `0..=ADC_MAX`.
///
/// # Panics
///
/// If `channel` is not below [`CHANNELS`].
pub fn sample(row: &Row, channel: usize) -> u16 {
    assert!(channel < CHANNELS, "channel {channel}: a block has {CHANNELS}");
    let bit = channel * ADC_BITS;
    let byte = |i: usize| u32::from(row.get(bit / 8 + i).copied().unwrap_or(0));
    let window = byte(0) | byte(1) << 8 | byte(2) << 16;
    (window >> (bit % 8)) as u16 & ADC_MAX
}

/// Packs `adc(time, channel)` into a block; only the low 14 bits of each value are kept.
pub fn pack(adc: impl Fn(usize, usize) -> u16) -> Box<Block> {
    let mut block = Box::new([0; BLOCK_LEN]);
    for (time, row) in block.as_chunks_mut::<ROW_LEN>().0.iter_mut().enumerate() {
        for channel in 0..CHANNELS {
            let bit = channel * ADC_BITS;
            let value = u32::from(adc(time, channel) & ADC_MAX) << (bit % 8);
            for (byte, part) in row[bit / 8..].iter_mut().zip(value.to_le_bytes()) {
                *byte |= part;
            }
        }
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_c_lies_in_bits_14c_of_the_little_endian_row() {
        let mut row = [0; ROW_LEN];
        row[1] = 0b1100_0000; // bits 14 and 15: the two low bits of channel 1
        row[2] = 0b0000_0001; // bit 16: the third
        assert_eq!(sample(&row, 0), 0);
        assert_eq!(sample(&row, 1), 0b111);
        assert_eq!(sample(&row, 2), 0);
    }

    #[test]
    fn the_last_channel_ends_with_the_row() {
        let mut row = [0; ROW_LEN];
        row[ROW_LEN - 1] = 0x80; // bit 895
        assert_eq!(sample(&row, 63), 0x2000);
        assert_eq!(sample(&row, 62), 0);
    }

    #[test]
    fn packing_then_reading_gives_every_value_back() {
        let adc = |t: usize, c: usize| ((t * 9973 + c * 7919) % (1 << ADC_BITS)) as u16;
        let block = pack(adc);
        for (t, row) in rows(&block).iter().enumerate() {
            for c in 0..CHANNELS {
                assert_eq!(sample(row, c), adc(t, c), "sample {t}, channel {c}");
            }
        }
    }

    #[test]
    fn packing_keeps_only_fourteen_bits() {
        let block = pack(|_, c| if c == 1 { 0xffff } else { 0 });
        assert_eq!(sample(&rows(&block)[0], 1), ADC_MAX);
        assert_eq!(sample(&rows(&block)[0], 2), 0);
    }
}
