//! Bytes that are copied from memory which others may share.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::AtomicU8;

/// Bytes to be looked at, once each: of this program, or of memory that others may write meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    start: *const u8,
    len: usize,
    bytes: PhantomData<&'a [AtomicU8]>,
}

/// The next `N` bytes of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a, const N: usize> {
    start: *const [u8; N],
    bytes: PhantomData<&'a [AtomicU8]>,
}

impl<'a> From<&'a [u8]> for Source<'a> {
    #[inline(always)]
    fn from(bytes: &'a [u8]) -> Self {
        Self { start: bytes.as_ptr(), len: bytes.len(), bytes: PhantomData }
    }
}

impl<'a> From<&'a [AtomicU8]> for Source<'a> {
    #[inline(always)]
    fn from(bytes: &'a [AtomicU8]) -> Self {
        Self { start: bytes.as_ptr().cast(), len: bytes.len(), bytes: PhantomData }
    }
}

impl<'a> Source<'a> {
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// The first `len` bytes, and those behind them.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline(always)]
    pub(crate) fn split_at(self, len: usize) -> (Self, Self) {
        assert!(len <= self.len, "{len} of {} bytes", self.len);
        // SAFETY: there are as many bytes.
        let behind = unsafe { self.start.add(len) };
        (Self { len, ..self }, Self { start: behind, len: self.len - len, ..self })
    }

    /// The first `N` bytes, and those behind them; none when there are fewer.
    #[inline(always)]
    pub(crate) fn split_first<const N: usize>(self) -> Option<(Piece<'a, N>, Self)> {
        if self.len < N {
            return None;
        }
        let (front, rest) = self.split_at(N);
        Some((Piece { start: front.start.cast(), bytes: PhantomData }, rest))
    }

    /// Copies all of them to `to`.
    ///
    /// # Panics
    /// When the two have different lengths.
    #[inline(always)]
    pub(crate) fn copy_to(self, to: &mut [u8]) {
        assert_eq!(self.len, to.len());
        // SAFETY: they may be read, and `to` is borrowed by nobody else. Who writes shared memory meanwhile is outside of the
        // language, as a device would be.
        unsafe { ptr::copy_nonoverlapping(self.start, to.as_mut_ptr(), self.len) }
    }
}

impl<'a, const N: usize> Piece<'a, N> {
    /// The `COUNT` pieces of which it consists.
    #[inline(always)]
    pub(crate) fn pieces<const M: usize, const COUNT: usize>(self) -> [Piece<'a, M>; COUNT] {
        const { assert!(COUNT * M == N) };
        std::array::from_fn(|index| {
            // SAFETY: there are as many of them.
            let start = unsafe { self.start.cast::<[u8; M]>().add(index) };
            Piece { start, bytes: PhantomData }
        })
    }

    /// Where they are, to be read.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *const [u8; N] {
        self.start
    }

    /// Their values.
    #[inline(always)]
    pub(crate) fn read(self) -> [u8; N] {
        // SAFETY: they may be read; see `Source::copy_to` for who writes them.
        unsafe { self.start.read() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_cut_where_it_is_said() {
        let bytes: Vec<u8> = (0..10).collect();
        let (front, rest) = Source::from(bytes.as_slice()).split_at(3);
        let (piece, end) = rest.split_first::<4>().unwrap();
        assert_eq!((front.len(), piece.read(), end.len()), (3, [3, 4, 5, 6], 3));
        assert_eq!(piece.pieces::<2, 2>().map(Piece::read), [[3, 4], [5, 6]]);
        assert!(end.split_first::<4>().is_none());
        let mut copied = [0; 3];
        end.copy_to(&mut copied);
        assert_eq!(copied, [7, 8, 9]);
    }
}
