//! Memory for packets that are taken out in the order in which they came.

use std::fmt;

use gannet_memory::return_spare;
use gannet_wire::apelink::{WORD_LEN, Word};

/// Bytes of a packet with a payload of `words`.
#[inline]
pub(super) const fn packet_len(words: usize) -> usize {
    (words + 2) * WORD_LEN
}

/// Free bytes in front from which on a ring may start over before it has come to its end.
const EARLY_LEN: usize = 256 << 10;

/// Bytes in front that a ring keeps however little of it is used.
const KEPT_LEN: usize = 64 << 10;

/// A ring of pieces, each of which lies in one.
///
/// The last one before the end of the ring may leave a tail unused that the next one does not
/// fit. There is the room of one more than there may be, so that the next one always
/// finds place in front. Memory is touched from the front, only as far as pieces have lain there at once, and goes
/// back to the system when it is [no longer used](Self::trim).
#[derive(Clone)]
pub(super) struct Ring {
    /// What was used since the ring was trimmed last.
    bytes: Vec<u8>,
    /// Bytes in front that may have had memory when it was.
    touched: usize,
    len_max: usize,
    /// First byte behind the last piece.
    back: usize,
}

impl Ring {
    /// Room for `len` bytes together, in pieces of at most `piece_len`.
    pub(super) fn new(len: usize, piece_len: usize) -> Self {
        let len_max = len + piece_len;
        Self { bytes: Vec::with_capacity(len_max), touched: len_max, len_max, back: 0 }
    }

    /// Where a piece of `len` bytes would lie; `is_empty` if it is the only one. It has the place once it
    /// is [kept](Self::keep).
    #[inline]
    pub(super) fn place(&self, len: usize, is_empty: bool) -> usize {
        // Starting over where nothing lies touches the same memory again, which is in the cache.
        let is_over = self.back + len > self.len_max;
        if is_over || is_empty { 0 } else { self.back }
    }

    /// The same where the pieces of `held` bytes, of which the first lies at `front`, are taken out sooner or later: nothing
    /// means to wait for that. The ring starts over as soon as the room in front is as large as what it holds, so that a long
    /// ring that holds little touches little memory, which stays in the cache.
    #[inline]
    pub(super) fn early_place(&self, len: usize, front: usize, held: usize) -> Option<usize> {
        if front >= self.back {
            return (self.back + len <= front).then_some(self.back);
        }
        let is_early = front >= EARLY_LEN.max(held + len);
        Some(if is_early { 0 } else { self.place(len, false) })
    }

    /// Whether the last piece may grow up to `end`, where the first one lies at `front`.
    #[inline]
    pub(super) fn may_reach(&self, end: usize, front: usize) -> bool {
        end <= if front >= self.back { front } else { self.len_max }
    }

    /// Keeps the piece of `len` bytes that was placed at `at`, or has grown there, until nobody reads it any more.
    #[inline]
    pub(super) fn keep(&mut self, at: usize, len: usize) {
        self.back = at + len;
    }

    /// Gives memory back to the system that was not used since the last call, while nothing lies in the ring.
    ///
    /// A ring that once was full, because nobody read it for a moment, would else keep all of it for ever.
    pub(super) fn trim(&mut self) {
        let used = self.bytes.len().max(KEPT_LEN);
        self.touched = self.touched.max(used);
        if self.touched > 2 * used {
            return_spare(&mut self.bytes);
            self.touched = used;
        }
        self.bytes.truncate(KEPT_LEN);
    }

    /// Bytes in front that were used since the ring was trimmed.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of a piece, or of several that lie one behind another.
    #[inline]
    pub(super) fn get(&self, at: usize, len: usize) -> &[u8] {
        &self.bytes[at..at + len]
    }

    /// The same, to be written.
    #[inline]
    pub(super) fn get_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        let end = at + len;
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[at..end]
    }

    /// The word that lies at `at`.
    #[inline]
    pub(super) fn word(&self, at: usize) -> Word {
        self.bytes[at..].first_chunk().copied().map_or(0, Word::from_le_bytes)
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
        let Self { bytes: _, touched: _, len_max, back } = self;
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
        for (len_max, piece_len) in [(256, 256), (300, 256), (700, 256), (1500, 1023)] {
            let mut ring = Ring::new(len_max, piece_len);
            let (mut random, mut held, mut used) = (Random::new(1), VecDeque::new(), 0);
            for number in 0..20_000u32 {
                let len = random.below(piece_len as u64 + 1) as usize;
                while used + len > len_max {
                    let (at, len, number): (usize, usize, u32) = held.pop_front().unwrap();
                    assert!(ring.get(at, len).iter().all(|&byte| byte == number as u8));
                    used -= len;
                }
                let at = ring.place(len, held.is_empty());
                ring.get_mut(at, len).fill(number as u8);
                ring.keep(at, len);
                held.push_back((at, len, number));
                used += len;
                if number.is_multiple_of(1000) {
                    held.clear();
                    used = 0;
                    ring.trim();
                }
            }
        }
    }

    #[test]
    fn memory_that_is_used_stays_and_the_rest_goes() {
        let mut ring = Ring::new(4 << 20, 4 << 10);
        let mut use_up_to = |len: usize| {
            ring.get_mut(0, len).fill(7);
            ring.trim();
            ring.touched
        };
        assert_eq!(use_up_to(4 << 20), 4100 << 10, "what the allocator had touched is not known");
        assert_eq!(use_up_to(3 << 20), 4100 << 10);
        assert_eq!(use_up_to(1 << 20), 1 << 20);
        assert_eq!(use_up_to(600 << 10), 1 << 20);
        assert_eq!(use_up_to(10), KEPT_LEN);
        assert_eq!(use_up_to(1 << 20), 1 << 20);
    }
}
