//! The check bits of header and credit: one wrong bit is corrected, two are detected (SECDED).
//!
//! An extended Hamming code of 120 data bits and 8 check bits:
//!
//! ```text
//!  127    126       120 119                                   0
//! +------+-------------+--------------------------------------+
//! |parity|   Hamming   |                 data                 |
//! |   1  |      7      |                  120                 |
//! +------+-------------+--------------------------------------+
//! ```
//!
//! Data bit `i` belongs to the `i`th number from 1 to 127 that is not a power of two, Hamming bit
//! `j` to 2^j. Hamming bit `j` is the parity of the data bits whose number has bit `j`; bit 127 is
//! the parity of all others. The core publishes that the top 8 bits are a Hamming code with parity
//! over the other 120, not which bit checks which: that is ours.
//!
//! Source: R. W. Hamming, "Error detecting and error correcting codes", 1950; place and width of
//! the check bits: APE-group/APEIRON `apeiron_framework/include/apenet_packet.h` (`edac`).

use super::Word;

/// Data bits under the code.
pub const DATA_BITS: u32 = 120;
/// Mask of the data bits.
pub const DATA: Word = (1 << DATA_BITS) - 1;

/// The top bit of check bits, which are those of a word or of a part of it.
const PARITY: u8 = 1 << 7;

/// The bit of the word that belongs to each number from 1 to 127.
const PLACES: [u8; 128] = places();
/// What each value of each byte of a word adds to its checks.
static CHECKS: [[u8; 256]; size_of::<Word>()] = checks_of_bytes();

const fn places() -> [u8; 128] {
    let mut places = [0; 128];
    let (mut number, mut data, mut hamming) = (1, 0, 0);
    while number < 128 {
        if usize::is_power_of_two(number) {
            places[number] = DATA_BITS as u8 + hamming;
            hamming += 1;
        } else {
            places[number] = data;
            data += 1;
        }
        number += 1;
    }
    places
}

const fn checks_of_bytes() -> [[u8; 256]; size_of::<Word>()] {
    let places = places();
    let mut numbers = [0; 128];
    let mut number = 1;
    while number < 128 {
        numbers[places[number as usize] as usize] = number;
        number += 1;
    }
    let mut checks = [[0; 256]; size_of::<Word>()];
    let mut bit = 0;
    while bit < 128 {
        let mut value = 0;
        while value < 256 {
            if value >> (bit % 8) & 1 == 1 {
                checks[bit / 8][value] ^= PARITY | numbers[bit];
            }
            value += 1;
        }
        bit += 1;
    }
    checks
}

/// What the check bits say of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// No bit is wrong.
    Clean(Word),
    /// One bit, of data or check bits, was wrong and has been put right.
    Corrected(Word),
    /// Two bits are wrong, or some other even number.
    Uncorrectable,
}

/// The data bits of `data` with their check bits; the top 8 bits of `data` are ignored.
#[inline]
pub const fn encode(data: Word) -> Word {
    let data = data & DATA;
    // Each Hamming bit belongs to a power of two, so that it puts right this bit of the number alone.
    let checks = checks(data);
    let parity_of_hamming = ((checks & !PARITY).count_ones() as u8) << 7;
    data | ((checks ^ parity_of_hamming) as Word) << DATA_BITS
}

/// Whether no bit of `word` is wrong.
#[inline]
pub const fn is_clean(word: Word) -> bool {
    checks(word) == 0
}

/// Checks `word` and corrects one wrong bit.
#[inline]
pub const fn decode(word: Word) -> Decoded {
    let checks = checks(word);
    match (checks & PARITY, checks & !PARITY) {
        (0, 0) => Decoded::Clean(word),
        (0, _) => Decoded::Uncorrectable,
        (_, 0) => Decoded::Corrected(word ^ 1 << 127),
        (_, number) => Decoded::Corrected(word ^ 1 << PLACES[number as usize]),
    }
}

/// The exclusive or of the numbers of the bits that are set, and above it their parity: of a right word 0, and with one wrong bit its number.
#[inline]
const fn checks(word: Word) -> u8 {
    let bytes = word.to_le_bytes();
    let (mut checks, mut at) = (0, 0);
    while at < bytes.len() {
        checks ^= CHECKS[at][bytes[at] as usize];
        at += 1;
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise;

    /// Zeros, ones, the control words and some random words, each with its check bits.
    fn words() -> impl Iterator<Item = Word> {
        let random =
            (0..8).map(|seed| Word::from_le_bytes(noise::bytes(seed, 16).try_into().unwrap()));
        [0, Word::MAX, super::super::MAGIC, super::super::START]
            .into_iter()
            .chain(random)
            .map(encode)
    }

    #[test]
    fn every_number_has_one_bit_of_the_word() {
        let mut seen = [false; 127];
        PLACES[1..].iter().for_each(|&place| seen[usize::from(place)] = true);
        assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn check_bits_are_the_parities_of_the_definition() {
        for word in words() {
            let is_in = |number: usize, bit: usize| {
                word >> PLACES[number] & 1 == 1 && number >> bit & 1 == 1
            };
            for bit in 0..7 {
                assert_eq!(
                    (1..128).filter(|&number| is_in(number, bit)).count() % 2,
                    0,
                    "bit {bit}"
                );
            }
            assert_eq!(word.count_ones() % 2, 0);
        }
    }

    #[test]
    fn check_bits_of_single_data_bits_are_the_columns_of_the_definition() {
        // Bit 0 belongs to 3, bit 1 to 5, bit 119 to 127; the parity bit makes the weight even.
        assert_eq!(encode(1) >> 120, 0b1000_0011);
        assert_eq!(encode(2) >> 120, 0b1000_0101);
        assert_eq!(encode(1 << 119) >> 120, 0b0111_1111);
    }

    #[test]
    fn data_is_left_as_it_is_and_a_right_word_is_clean() {
        for word in words() {
            assert_eq!(encode(word), word);
            assert_eq!(decode(word), Decoded::Clean(word));
            assert!(is_clean(word));
        }
    }

    #[test]
    fn every_single_wrong_bit_is_corrected() {
        for word in words() {
            for bit in 0..128 {
                assert_eq!(decode(word ^ 1 << bit), Decoded::Corrected(word), "bit {bit}");
                assert!(!is_clean(word ^ 1 << bit));
            }
        }
    }

    #[test]
    fn every_pair_of_wrong_bits_is_detected() {
        for word in words() {
            for first in 0..128 {
                for second in 0..first {
                    let wrong = word ^ 1 << first ^ 1 << second;
                    assert_eq!(decode(wrong), Decoded::Uncorrectable, "bits {first} and {second}");
                }
            }
        }
    }
}
