//! APElink: packets and control words of the direct links of a 3D torus, in words of 128 bits.
//!
//! ```text
//! idle line     MAGIC CREDIT MAGIC CREDIT ...
//! packet        MAGIC START HEADER payload (0 to 256 words) FOOTER
//! in a packet   ... payload MAGIC CREDIT payload ...
//! escape        MAGIC MAGIC stands for the content MAGIC, MAGIC ESCAPED_START for the content START
//! ```
//!
//! A [`Word`] is sent as 16 bytes, the least significant first: two little-endian 64-bit words,
//! the low one first. [`Header`], [`Footer`] and [`Credit`] are one word each; [`Packet`] is a view
//! of header, payload and footer as they lie in memory. [`secded`] protects header and credit.
//!
//! The published core has no check sum, no sequence number and no escape for a payload that
//! contains control words. Those are ours:
//!
//! * the [`Footer`] holds a CRC-32C, a sequence number, and where and when the packet began;
//! * the words of a packet that equal [`MAGIC`] or [`START`] are sent as two words. So START is on
//!   the line where a packet begins and nowhere else, and a receiver that has lost its place needs
//!   only to wait for it;
//! * a [`Credit`] also acknowledges packets and names the two sessions that it joins;
//! * a [`Header`] may name its destination by the number of the node instead of by coordinates of
//!   6, 5 and 5 bits, which end at 64 x 32 x 32 nodes.
//!
//! Source: APE-group/APEIRON `apeiron_framework/include/apenet_packet.h` and the VHDL packages
//! `header_pkg` and `link_pkg` of its core `TextaRossa_switch_4in_2ex_u200.xo`.

mod credit;
mod footer;
pub mod frame;
mod header;
pub mod hls;
pub mod packet;
mod run;
pub mod secded;

pub use credit::{Credit, DATA_USED_MAX, HEADERS_USED_MAX, NEXT_MODULUS, Used, VIRTUAL_CHANNELS};
pub use footer::{Footer, TIME_BITS};
pub use frame::Frame;
pub use header::{Destination, HEADER_ONLY, HOPS_MAX, Header, NODES_MAX};
pub use packet::Packet;

/// A word of the link; bit 0 is the least significant and is sent first.
pub type Word = u128;

/// Bytes of a [`Word`].
pub const WORD_LEN: usize = 16;
/// Most bytes of payload in a packet on a line of words.
pub const PAYLOAD_LEN_MAX: usize = 4096;
/// Most words of payload in a packet on a line of words.
pub const PAYLOAD_WORDS_MAX: usize = PAYLOAD_LEN_MAX / WORD_LEN;
/// Most words of payload in a packet of a [frame]: as many as the size in its header can tell. Ours.
pub const FRAMED_WORDS_MAX: usize = ((1 << 14) - 1) / WORD_LEN;
/// Most bytes of payload in a packet of a [frame].
pub const FRAMED_LEN_MAX: usize = FRAMED_WORDS_MAX * WORD_LEN;
/// Words of a packet beside its payload: MAGIC, START, header and footer.
pub const FRAMING_WORDS: usize = 4;
/// Words that a credit takes on the line: MAGIC and the credit word.
pub const CREDIT_WORDS: usize = 2;

/// Announces a control word: START, a credit, or what an escape stands for.
pub const MAGIC: Word = twice(0xffff_aaaa_5555_aaaa);
/// Begins a packet.
pub const START: Word = twice(0xffff_bbbb_6666_bbbb);
/// Stands for START, behind a MAGIC, among the words of a packet. Ours: the published core does
/// not escape.
pub const ESCAPED_START: Word = twice(0xffff_cccc_3333_cccc);

/// The 64-bit pattern of a control word over the width of the link.
const fn twice(pattern: u64) -> Word {
    (pattern as Word) << 64 | pattern as Word
}

/// Words that a payload of `len` bytes takes; the last one is padded with zeros.
pub const fn payload_words(len: usize) -> usize {
    len.div_ceil(WORD_LEN)
}

/// The words of a payload of `bytes`, the last one padded with zeros.
pub fn words_of(bytes: &[u8]) -> impl ExactSizeIterator<Item = Word> {
    bytes.chunks(WORD_LEN).map(|chunk| {
        let mut word = [0; WORD_LEN];
        word[..chunk.len()].copy_from_slice(chunk);
        Word::from_le_bytes(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_words_are_the_published_patterns_over_128_bits() {
        assert_eq!(MAGIC, 0xffff_aaaa_5555_aaaa_ffff_aaaa_5555_aaaa);
        assert_eq!(START, 0xffff_bbbb_6666_bbbb_ffff_bbbb_6666_bbbb);
        assert_eq!(MAGIC.to_le_bytes()[..8], [0xaa, 0xaa, 0x55, 0x55, 0xaa, 0xaa, 0xff, 0xff]);
    }

    #[test]
    fn control_words_differ_in_many_bits() {
        let pairs = [(MAGIC, START), (MAGIC, ESCAPED_START), (START, ESCAPED_START)];
        assert!(pairs.iter().all(|(a, b)| (a ^ b).count_ones() >= 24));
    }

    #[test]
    fn a_payload_is_padded_with_zeros_to_whole_words() {
        let words: Vec<Word> = words_of(&[1; 17]).collect();
        assert_eq!(words, [0x0101_0101_0101_0101_0101_0101_0101_0101, 1]);
        assert_eq!((payload_words(0), payload_words(1), payload_words(4096)), (0, 1, 256));
    }
}
