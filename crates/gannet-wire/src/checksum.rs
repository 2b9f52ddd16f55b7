//! The Internet check sum: the one's complement of the one's complement sum of 16-bit words.
//!
//! Source: RFC 1071.

/// A sum under way, over big-endian 16-bit words.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds bytes; only the last bytes added may be odd in number.
    ///
    /// Four bytes at a time: since 2^16 is 1 modulo 2^16 - 1, words of 32 bits fold to the same.
    pub(crate) fn add(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        let sum = words.iter().fold(self.0, |sum, &word| sum + u64::from(u32::from_be_bytes(word)));
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        Self(sum + u64::from(u32::from_be_bytes(last)))
    }

    /// The check sum. Over bytes that contain their own right check sum it is 0.
    pub(crate) fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise;
    use proptest::prelude::*;

    fn word_by_word(bytes: &[u8]) -> u16 {
        let sum = bytes.chunks(2).fold(0u32, |sum, pair| {
            let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
            let sum = sum + u32::from(word);
            (sum & 0xffff) + (sum >> 16)
        });
        !(sum as u16)
    }

    #[test]
    fn sums_the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().add(&bytes).finish(), !0xddf2);
    }

    proptest! {
        #[test]
        fn equals_the_sum_word_by_word(seed: u64, len in 0usize..2000, even in 0usize..40) {
            let bytes = noise::bytes(seed, len);
            let (first, last) = bytes.split_at((2 * even).min(len / 2 * 2));
            let sum = Sum::default().add(first).add(last).finish();
            prop_assert_eq!(sum, word_by_word(&bytes));
        }
    }
}
