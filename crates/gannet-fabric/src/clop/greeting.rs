//! What a receiver answers to one that wants to send, in memory of that one.
//!
//! Five words of 8 bytes, little-endian: what this is, whether the other one may send, bytes of a cell, number of
//! cells, and the cell of the next frame. The immediate with it is the leave.

use gannet_memory::SharedRegion;

use super::leave::{Leave, Ring};

/// What a sender calls its window for words, and a receiver that of its ring.
pub(super) const WORDS: u32 = u32::from_le_bytes(*b"word");
pub(super) const RING: u32 = u32::from_le_bytes(*b"ring");
/// Bytes of a greeting.
pub(super) const LEN: u64 = 40;

const IS: u64 = u64::from_le_bytes(*b"clop v1\0");
const BUSY: u64 = 0;
const WELCOME: u64 = 1;

/// A greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Another one sends.
    Busy,
    /// The other one may send to these cells, from cell `next` on.
    Welcome { ring: Ring, next: u64 },
}

impl Greeting {
    /// Writes it to the begin of a region.
    pub fn write(&self, region: &SharedRegion) {
        let words = match *self {
            Self::Busy => [IS, BUSY, 0, 0, 0],
            Self::Welcome { ring, next } => [IS, WELCOME, ring.cell_bytes, ring.cells, next],
        };
        let mut bytes = [0; LEN as usize];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        region.write(0, &bytes);
    }

    /// Reads what somebody wrote to the begin of a region; none where that is no greeting.
    pub fn read(region: &SharedRegion) -> Option<Self> {
        let mut bytes = [0; LEN as usize];
        region.read(0, &mut bytes);
        let (words, _) = bytes.as_chunks();
        let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        match words[..] {
            [IS, BUSY, ..] => Some(Self::Busy),
            [IS, WELCOME, cell_bytes, cells, next] => {
                Some(Self::Welcome { ring: Ring { cell_bytes, cells }, next })
            }
            _ => None,
        }
    }

    /// The leave of a sender that is welcome to a window of so many bytes; none if that cannot be.
    pub fn leave(self, window_bytes: u64, low: u32) -> Option<Leave> {
        let Self::Welcome { ring, next } = self else { return None };
        let Ring { cell_bytes, cells } = ring;
        let is_inside = cells.checked_mul(cell_bytes).is_some_and(|bytes| bytes <= window_bytes);
        // No count of cells gets that far.
        let can_be = is_inside && cells > 0 && cell_bytes > 0 && next < u64::MAX / 2;
        if can_be { Leave::new(ring, next, low) } else { None }
    }
}
