//! The footer of a packet: one word. The published core has one and does not say what is in it.
//!
//! ```text
//!  127                  84 83       64 63        32 31         0
//! +-----------------------+-----------+------------+------------+
//! | time (ns, mod 2^44)   |  source   |  sequence  |    crc     |
//! |          44           |    20     |     32     |     32     |
//! +-----------------------+-----------+------------+------------+
//! ```
//!
//! `sequence` counts the packets of one link and is made anew on each hop; `crc` is the CRC-32C of
//! the payload words with their padding, then of the header as it was meant (after correction), then of the footer without its
//! first four bytes: so the sum of a payload is that of its packets on all links. `source` and `time` say where and when the packet began and stay.
//!
//! Source: ours, in the place of the footer of APE-group/APEIRON `apenet_packet.h`.

use core::fmt;

use gannet_checksum::Crc32c;

use super::run::Run;
use super::{WORD_LEN, Word};
use crate::error::Result;
use crate::layout::{array, put};
use crate::record::Record;

/// Bytes of the sum, which are the first ones.
const CRC_LEN: usize = size_of::<u32>();
/// Width of the time in a footer: it wraps after 4.9 hours.
pub const TIME_BITS: u32 = 44;

mod field {
    use super::Run;

    pub const CRC: Run = Run::new(31, 0);
    pub const SEQUENCE: Run = Run::new(63, 32);
    pub const SOURCE: Run = Run::new(83, 64);
    pub const TIME: Run = Run::new(127, 84);
}

/// A footer as plain values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Footer {
    /// CRC-32C of the packet.
    pub crc: u32,
    /// Number of the packet on its link, modulo 2^32.
    pub sequence: u32,
    /// Number of the node where the packet began, 20 bits.
    pub source: u32,
    /// When the packet began: ns modulo 2^[`TIME_BITS`].
    pub time: u64,
}

impl Footer {
    /// The fields of `word`.
    #[inline]
    pub const fn from_word(word: Word) -> Self {
        Self {
            crc: field::CRC.of(word) as u32,
            sequence: field::SEQUENCE.of(word) as u32,
            source: field::SOURCE.of(word) as u32,
            time: field::TIME.of(word),
        }
    }

    /// The stored form; bits above the width of a field are dropped.
    #[inline]
    pub const fn to_word(&self) -> Word {
        field::CRC.place(self.crc as u64)
            | field::SEQUENCE.place(self.sequence as u64)
            | field::SOURCE.place(self.source as u64)
            | field::TIME.place(self.time)
    }

    /// This footer with the sum of its packet, of whose padded payload `payload` is the sum.
    #[inline]
    pub fn sealed(self, header: Word, payload: Crc32c) -> Self {
        Self { crc: self.sum(header, payload), ..self }
    }

    /// Whether the footer holds the sum of its packet, of whose padded payload `payload` is the sum.
    #[inline]
    pub fn seals(&self, header: Word, payload: Crc32c) -> bool {
        self.crc == self.sum(header, payload)
    }

    #[inline]
    fn sum(&self, header: Word, payload: Crc32c) -> u32 {
        let mut bytes = [0; 2 * WORD_LEN - CRC_LEN];
        // In the pieces in which they are read, so that no read waits for two writes.
        let rest = self.to_word() >> (8 * CRC_LEN);
        let ([first, second, third], last) = bytes.as_chunks_mut() else { unreachable!() };
        *first = (header as u64).to_le_bytes();
        *second = ((header >> 64) as u64).to_le_bytes();
        *third = (rest as u64).to_le_bytes();
        last.copy_from_slice(&((rest >> 64) as u32).to_le_bytes());
        payload.and(&bytes).0
    }
}

/// Every bit pattern is a footer; whether it fits its packet, [`Footer::seals`] says.
impl Record for Footer {
    const FORMAT: &'static str = "APElink footer";
    const LEN: usize = WORD_LEN;

    fn check(_: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        Self::from_word(Word::from_le_bytes(array(bytes, 0)))
    }

    fn emit(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.to_word().to_le_bytes());
    }
}

/// Prints one field a line, with its unit.
impl fmt::Display for Footer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Self::FORMAT)?;
        write!(f, "\n  {:<22} {:#010x}", "crc", self.crc)?;
        write!(f, "\n  {:<22} {}", "sequence", self.sequence)?;
        write!(f, "\n  {:<22} node {}", "source", self.source)?;
        write!(f, "\n  {:<22} {} ns, modulo 2^{TIME_BITS}", "time", self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::testing::skipped;
    use proptest::prelude::*;

    #[test]
    fn ways_to_sum_that_this_machine_lacks_are_told() {
        for way in ["avx2", "avx512"] {
            if !gannet_checksum::ways().any(|it| it == way) {
                skipped(format_args!("check sums by {way}"), "this processor lacks it");
            }
        }
    }

    #[test]
    fn each_field_lies_where_the_diagram_says() {
        let word = |set: fn(&mut Footer)| {
            let mut footer = Footer::default();
            set(&mut footer);
            footer.to_word()
        };
        assert_eq!(word(|f| f.crc = u32::MAX), 0xffff_ffff);
        assert_eq!(word(|f| f.sequence = u32::MAX), 0xffff_ffff << 32);
        assert_eq!(word(|f| f.source = u32::MAX), 0xf_ffff << 64);
        assert_eq!(word(|f| f.time = u64::MAX), ((1 << 44) - 1) << 84);
    }

    #[test]
    fn the_sum_is_that_of_the_bytes_of_the_packet_without_its_own() {
        let payload = Crc32c::of(&[2; WORD_LEN]);
        let footer = Footer { crc: 0, sequence: 3, source: 4, time: 5 }.sealed(1, payload);
        let mut bytes = [2; 3 * WORD_LEN];
        bytes[WORD_LEN..2 * WORD_LEN].copy_from_slice(&Word::to_le_bytes(1));
        bytes[2 * WORD_LEN..].copy_from_slice(&footer.to_word().to_le_bytes());
        let summed = [&bytes[..32], &bytes[36..]].concat();
        assert_eq!(footer.crc, crc_fast::crc32_iscsi(&summed));
        assert!(footer.seals(1, payload));
    }

    #[test]
    fn a_change_of_any_field_or_word_breaks_the_seal() {
        let payload = Crc32c::of(b"payload");
        let footer = Footer { crc: 0, sequence: 3, source: 4, time: 5 }.sealed(1, payload);
        for bit in 0..128 {
            let other = Footer::from_word(footer.to_word() ^ 1 << bit);
            assert!(!other.seals(1, payload), "bit {bit}");
            assert!(!footer.seals(1 ^ 1 << bit, payload), "bit {bit} of the header");
        }
    }

    #[test]
    fn bytes_that_are_too_few_are_refused() {
        assert!(Footer::parse(&[0; 15]).is_err());
    }

    proptest! {
        #[test]
        fn emit_after_parse_gives_back_any_bytes(bytes: [u8; WORD_LEN]) {
            let mut copy = [0; WORD_LEN];
            Footer::parse(&bytes).unwrap().emit(&mut copy);
            prop_assert_eq!(copy, bytes);
        }
    }
}
