//! Changing single samples of a packed ADC block.

use gannet_wire::adc14::{ADC_BITS, ADC_MAX, Block, CHANNELS, get, set};

/// Adds `delta` counts to one sample, stopping at 0 and at full scale.
#[inline]
pub(crate) fn add(block: &mut Block, channel: usize, sample: usize, delta: i32) {
    let adc = i32::from(get(block, channel, sample)) + delta;
    set(block, channel, sample, adc.clamp(0, i32::from(ADC_MAX)) as u16);
}

/// Bytes that are read and written to change one sample: 14 bits begin anywhere in the first.
const WORD: usize = 4;

/// Sets one sample to full scale, which only needs bits to be set.
#[inline]
pub(crate) fn saturate(block: &mut Block, channel: usize, sample: usize) {
    let bit = (sample * CHANNELS + channel) * ADC_BITS;
    // The last sample of the block begins too near its end for a word: step back.
    let byte = (bit / 8).min(block.len() - WORD);
    let word = &mut block[byte..byte + WORD];
    let ones = u32::from(ADC_MAX) << (bit - 8 * byte);
    let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]) | ones;
    word.copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::adc14::BLOCK_LEN;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn saturating_sets_one_sample_to_full_scale(channel in 0usize..64, sample in 0usize..64) {
            let mut fast = [0x2d; BLOCK_LEN];
            let mut plain = fast;
            saturate(&mut fast, channel, sample);
            set(&mut plain, channel, sample, ADC_MAX);
            prop_assert!(fast == plain);
        }
    }

    #[test]
    fn the_last_sample_can_be_saturated() {
        let mut block = [0; BLOCK_LEN];
        saturate(&mut block, 63, 63);
        assert_eq!(get(&block, 63, 63), ADC_MAX);
        assert_eq!(get(&block, 62, 63), 0);
    }

    #[test]
    fn adding_stops_at_the_ends_of_the_scale() {
        let mut block = [0; BLOCK_LEN];
        add(&mut block, 5, 9, 16_000);
        assert_eq!(get(&block, 5, 9), 16_000);
        add(&mut block, 5, 9, 1000);
        assert_eq!(get(&block, 5, 9), ADC_MAX);
        add(&mut block, 5, 9, -20_000);
        assert_eq!(get(&block, 5, 9), 0);
    }
}
