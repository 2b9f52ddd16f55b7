//! Bytes that others may write or copy meanwhile, as atomic words.

use super::mapping::Mapping;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the words by which shared bytes are copied.
pub(super) const WORD: usize = size_of::<u64>();

impl Mapping {
    /// Copies bytes that a writer may be overwriting at this moment.
    ///
    /// What arrives in `out` is meaningful only if a check after the copy shows that no write
    /// began before it ended, as in a sequence lock.
    ///
    /// # Panics
    /// When the range is not inside the mapping.
    pub(crate) fn load(&self, offset: usize, out: &mut [u8]) {
        let (words, skip) = self.words(offset, out.len());
        let (first, out) = out.split_at_mut(out.len().min((WORD - skip) % WORD));
        let words = match words.split_first() {
            Some((word, rest)) if skip > 0 => {
                first.copy_from_slice(&get(word)[skip..skip + first.len()]);
                rest
            }
            _ => words,
        };
        let (whole, last) = out.as_chunks_mut::<WORD>();
        for (bytes, word) in whole.iter_mut().zip(words) {
            *bytes = get(word);
        }
        if !last.is_empty() {
            last.copy_from_slice(&get(&words[whole.len()])[..last.len()]);
        }
    }

    /// Writes bytes that readers may be copying at this moment. There is one writer at a time.
    ///
    /// # Panics
    /// When the range is not inside the mapping.
    pub(crate) fn store(&self, offset: usize, bytes: &[u8]) {
        let (words, skip) = self.words(offset, bytes.len());
        let (first, bytes) = bytes.split_at(bytes.len().min((WORD - skip) % WORD));
        let words = match words.split_first() {
            Some((word, rest)) if skip > 0 => {
                patch(word, skip, first);
                rest
            }
            _ => words,
        };
        let (whole, last) = bytes.as_chunks::<WORD>();
        for (bytes, word) in whole.iter().zip(words) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if !last.is_empty() {
            patch(&words[whole.len()], 0, last);
        }
    }

    /// Copies `len` bytes to another place, which readers may be copying at this moment.
    ///
    /// # Panics
    /// When one of the ranges is not inside the mapping.
    pub(crate) fn copy_within(&self, from: usize, to: usize, len: usize) {
        let mut piece = [0; 512];
        for done in (0..len).step_by(piece.len()) {
            let piece = &mut piece[..(len - done).min(512)];
            self.load(from + done, piece);
            self.store(to + done, piece);
        }
    }
}

/// The bytes of a word.
#[inline]
fn get(word: &AtomicU64) -> [u8; WORD] {
    word.load(Ordering::Relaxed).to_ne_bytes()
}

/// Replaces some bytes of a word that also holds bytes of a neighbour.
fn patch(word: &AtomicU64, at: usize, bytes: &[u8]) {
    let mut all = get(word);
    all[at..at + bytes.len()].copy_from_slice(bytes);
    word.store(u64::from_ne_bytes(all), Ordering::Relaxed);
}
