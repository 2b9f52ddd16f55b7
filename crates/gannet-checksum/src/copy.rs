//! Copying bytes of packets.

use crate::shm::Source;

/// Bytes that are copied at once.
const PIECE: usize = 2048;

/// Copies all of `from` to `to`.
///
/// In pieces of 2 KiB: from 2112 bytes on, memcpy of glibc moves them by one string instruction, which some processors do
/// byte by byte where the last twelve bits of the address of `to` are a little greater than those of `from` (AMD Zen 3: 1 to
/// 31, 6 us for 4 KiB instead of 0.1).
///
/// # Panics
/// When the two have different lengths.
#[inline]
pub fn copy(from: &[u8], to: &mut [u8]) {
    copy_from(from.into(), to);
}

/// The same from memory that others may share.
#[inline]
pub(crate) fn copy_from(mut from: Source<'_>, to: &mut [u8]) {
    assert_eq!(from.len(), to.len());
    for to in to.chunks_mut(PIECE) {
        let (piece, rest) = from.split_at(to.len());
        piece.copy_to(to);
        from = rest;
    }
}

/// Copies `from` to the front of `to`, and fills that up with zeros.
///
/// # Panics
/// When `to` is shorter than `from`.
#[inline]
pub fn copy_padded(from: &[u8], to: &mut [u8]) {
    let (place, padding) = to.split_at_mut(from.len());
    copy(from, place);
    padding.fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_copied_whatever_its_length() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
            let from: Vec<u8> = (0..length).map(|at| (at * 7 + at / 256) as u8).collect();
            let mut to = vec![0; length];
            copy(&from, &mut to);
            assert_eq!(from, to);
            let mut padded = vec![0xa5; length + 15];
            copy_padded(&from, &mut padded);
            assert!(padded[..length] == from && padded[length..] == [0; 15]);
        }
    }
}
