//! The check sum of a packet: CRC-32C.
//!
//! Over the bytes of the header as it was meant (after correction), of the payload words with
//! their padding, and of the footer without its first four bytes, which hold the sum.
//!
//! Source: ours; polynomial of Castagnoli as in RFC 3720 section 12.1.

use super::{Footer, Word};
use crate::copy::copy;

/// A sum under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc(u32);

impl Crc {
    /// The sum of a packet that begins with `header`.
    #[inline]
    pub fn of_header(header: Word) -> Self {
        Self(crc32c::crc32c(&header.to_le_bytes()))
    }

    /// Adds a word of payload.
    #[inline]
    pub fn add(&mut self, word: Word) {
        self.0 = crc32c::crc32c_append(self.0, &word.to_le_bytes());
    }

    /// Adds words of payload as they lie in memory.
    #[inline]
    pub fn add_bytes(&mut self, words: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, words);
    }

    /// Copies `payload` to the front of `words`, fills these up with zeros, and adds all of them.
    ///
    /// # Panics
    ///
    /// When `words` is shorter than `payload`.
    pub fn copy_padded(&mut self, payload: &[u8], words: &mut [u8]) {
        let (place, padding) = words.split_at_mut(payload.len());
        copy(payload, place);
        padding.fill(0);
        // Still in the cache of the first level: a packet has no more than 16 KiB.
        self.add_bytes(words);
    }

    /// The sum of the packet that ends with `footer`, whatever sum that holds.
    #[inline]
    pub fn with_footer(self, footer: &Footer) -> u32 {
        crc32c::crc32c_append(self.0, &footer.to_word().to_le_bytes()[size_of::<u32>()..])
    }
}
