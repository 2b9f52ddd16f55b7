//! Memory for packets that are taken out in the order in which they came.

use std::fmt;

use gannet_wire::apelink::{WORD_LEN, Word};

/// Words of a packet beside its payload.
pub(super) const BESIDE: usize = 2;

/// Free bytes in front from which on a ring may start over before it has come to its end.
const EARLY_LEN: usize = 256 << 10;

/// A ring in which each lies in one piece.
///
/// The last one before the end of the ring may leave a tail unused that the next one does not
/// fit. There is the room of one more than there may be, so that the next one always
/// finds place in front. Memory is touched from the front, and only as far as they have lain there at once.
#[derive(Clone)]
pub(super) struct Ring {
    bytes: Vec<u8>,
    len_max: usize,
    /// First byte behind the last one.
    back: usize,
}

impl Ring {
    /// Room for packets with so many words of payload together, and each with so many at most.
    pub(super) fn of_packets(words: usize, packets: usize, payload_words: usize) -> Self {
        Self::new(words + BESIDE * packets, payload_words + BESIDE)
    }

    /// Room for `words` together, in pieces of at most `piece_words`.
    fn new(words: usize, piece_words: usize) -> Self {
        let len_max = (words + piece_words) * WORD_LEN;
        Self { bytes: Vec::with_capacity(len_max), len_max, back: 0 }
    }

    /// Where a piece of `words` would lie; `is_empty` if it is the only one. It has the place once it
    /// is [kept](Self::keep).
    #[inline]
    pub(super) fn place(&self, words: usize, is_empty: bool) -> usize {
        // Starting over where nothing lies touches the same memory again, which is in the cache.
        let is_over = self.back + words * WORD_LEN > self.len_max;
        if is_over || is_empty { 0 } else { self.back }
    }

    /// The same where the pieces of `held` words, of which the first lies at `front`, are taken out sooner or later: nothing
    /// means to wait for that. The ring starts over as soon as the room in front is as large as what it holds, so that a long
    /// ring that holds little touches little memory, which stays in the cache.
    pub(super) fn early_place(&self, words: usize, front: usize, held: usize) -> Option<usize> {
        let len = words * WORD_LEN;
        if front >= self.back {
            return (self.back + len <= front).then_some(self.back);
        }
        let is_early = front >= EARLY_LEN.max(held * WORD_LEN + len);
        Some(if is_early { 0 } else { self.place(words, false) })
    }

    /// Keeps the piece of `words` that was placed at `at`, until nobody reads it any more.
    pub(super) fn keep(&mut self, at: usize, words: usize) {
        self.back = at + words * WORD_LEN;
    }

    /// Bytes of memory in which something has lain.
    #[cfg(test)]
    pub(super) fn touched(&self) -> usize {
        self.bytes.len()
    }

    /// The words of a piece, or of several that lie one behind another.
    #[inline]
    pub(super) fn get(&self, at: usize, words: usize) -> &[u8] {
        &self.bytes[at..at + words * WORD_LEN]
    }

    /// The word that lies at `at`.
    #[inline]
    pub(super) fn word(&self, at: usize) -> Word {
        self.bytes[at..].first_chunk().copied().map_or(0, Word::from_le_bytes)
    }

    /// The words of a piece, to be written.
    #[inline]
    pub(super) fn get_mut(&mut self, at: usize, words: usize) -> &mut [u8] {
        let end = at + words * WORD_LEN;
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[at..end]
    }
}

/// Header, padded payload and footer of a packet.
#[inline]
pub(super) fn parts(packet: &mut [u8]) -> (&mut [u8; WORD_LEN], &mut [u8], &mut [u8; WORD_LEN]) {
    let rest = packet.split_first_chunk_mut();
    let (head, rest) = rest.expect("a packet has a header");
    let (payload, foot) = rest.split_last_chunk_mut().expect("it has a footer");
    (head, payload, foot)
}

/// Prints how much there is, not what.
impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes: _, len_max, back } = self;
        f.debug_struct("Ring").field("bytes", len_max).field("back", back).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use gannet_measure::random::Random;

    use super::*;

    #[test]
    fn pieces_never_overlap_as_long_as_they_fit_together() {
        for (words_max, piece_words) in [(256, 256), (300, 256), (700, 256), (1500, 1023)] {
            let mut ring = Ring::new(words_max, piece_words);
            let (mut random, mut held, mut used) = (Random::new(1), VecDeque::new(), 0);
            for number in 0..20_000u32 {
                let words = random.below(piece_words as u64 + 1) as usize;
                while used + words > words_max {
                    let (at, words, number): (usize, usize, u32) = held.pop_front().unwrap();
                    assert!(ring.get(at, words).iter().all(|&byte| byte == number as u8));
                    used -= words;
                }
                let at = ring.place(words, held.is_empty());
                ring.get_mut(at, words).fill(number as u8);
                ring.keep(at, words);
                held.push_back((at, words, number));
                used += words;
            }
        }
    }
}
