//! Events one after the other in M2EGP bytes.

use super::found::Counts;

/// Bytes of a word of the format: a header, or eight hits.
pub(super) const WORD: usize = 16;
/// What bytes 6 and 7 of a header hold.
const DELIMITER: u16 = 0xFFFF;
/// Hits of a word.
pub(super) const WORD_HITS: usize = 8;

/// An event: what its header says, and where its hits lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Time in units of the fine time, 40 bits.
    pub time: u64,
    pub hits: u8,
    /// The first word of hits.
    pub start: usize,
}

impl Packet {
    /// Words of hits.
    #[inline(always)]
    pub fn words(self) -> usize {
        (usize::from(self.hits) + (WORD_HITS - 1)) >> WORD_HITS.ilog2()
    }
}

/// Goes through a buffer of events. What its bytes say is believed only as far as the buffer goes.
#[derive(Clone, Debug)]
pub(super) struct Packets<'a> {
    words: &'a [[u8; WORD]],
    /// Bytes behind the last whole word.
    rest: usize,
    at: usize,
}

impl<'a> Packets<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let (words, rest) = bytes.as_chunks();
        Self { words, rest: rest.len(), at: 0 }
    }

    /// All words of the buffer.
    #[inline(always)]
    pub fn words(&self) -> &'a [[u8; WORD]] {
        self.words
    }

    /// The next event. After what is none, or goes beyond the buffer, there are no more.
    #[inline(always)]
    pub fn next(&mut self, counts: &mut Counts) -> Option<Packet> {
        let Some(word) = self.words.get(self.at) else {
            counts.malformed += u64::from(self.rest > 0);
            self.rest = 0;
            return None;
        };
        let header = u128::from_le_bytes(*word);
        // By itself, and not out of the header: where the next event begins waits for it.
        let hits = word[5];
        let packet = Packet { time: header as u64 & 0xFF_FFFF_FFFF, hits, start: self.at + 1 };
        let end = packet.start + packet.words();
        if (header >> 48) as u16 != DELIMITER || end > self.words.len() {
            counts.malformed += 1;
            (self.at, self.rest) = (self.words.len(), 0);
            return None;
        }
        let boards = (header >> 64) as u32;
        let pairs = (boards & 0x00FF_00FF) + (boards >> 8 & 0x00FF_00FF);
        let of_boards = (pairs & 0xFFFF) + (pairs >> 16);
        counts.board_counts_wrong += u64::from(of_boards != u32::from(packet.hits));
        counts.events += 1;
        counts.hits += u64::from(packet.hits);
        self.at = end;
        Some(packet)
    }
}

/// The hits of a word.
#[inline(always)]
pub(super) fn hits(word: &[u8; WORD]) -> [u16; WORD_HITS] {
    let (pairs, _) = word.as_chunks::<2>();
    core::array::from_fn(|hit| u16::from_le_bytes(pairs[hit]))
}
