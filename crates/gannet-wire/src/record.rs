//! Records of fixed length: the pattern that the small formats share.

use core::fmt;
use core::marker::PhantomData;

use crate::error::{Error, Result};
use crate::layout::check_len;

/// A value that is stored in a fixed number of bytes.
///
/// Small formats, which are always read whole, are their own `Repr`: the struct is the valid
/// value, [`parse`](Record::parse) and [`emit`](Record::emit) carry it to and from bytes.
pub trait Record: Sized {
    /// Name of the format, as errors print it.
    const FORMAT: &'static str;
    /// Bytes of the stored form.
    const LEN: usize;

    /// Tests what the layout itself guarantees (markers, version) in at least [`LEN`](Self::LEN)
    /// bytes.
    ///
    /// # Errors
    /// Names the field that holds another value than the layout requires.
    fn check(bytes: &[u8]) -> Result<()>;

    /// Reads the value from checked bytes.
    ///
    /// # Panics
    /// If there are fewer than [`LEN`](Self::LEN) bytes; see [`parse`](Self::parse).
    fn read(bytes: &[u8]) -> Self;

    /// Writes the stored form to the first [`LEN`](Self::LEN) bytes; padding becomes zero.
    ///
    /// # Panics
    /// If there are fewer than [`LEN`](Self::LEN) bytes.
    fn emit(&self, bytes: &mut [u8]);

    /// Reads a value from the start of untrusted bytes; what follows it is ignored.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the bytes end too early, else as [`check`](Self::check).
    #[inline]
    fn parse(bytes: &[u8]) -> Result<Self> {
        check_len(Self::FORMAT, bytes, Self::LEN)?;
        Self::check(bytes)?;
        Ok(Self::read(bytes))
    }
}

/// Tests that a field holds the value that the layout requires.
#[inline]
pub(crate) fn check_value(
    format: &'static str,
    field: &'static str,
    expected: u64,
    got: u64,
) -> Result<()> {
    if got != expected {
        return Err(Error::Value { format, field, expected, got });
    }
    Ok(())
}

/// Records stored one after the other, read in place.
#[derive(Debug)]
pub struct Records<'a, R> {
    bytes: &'a [u8],
    record: PhantomData<R>,
}

impl<'a, R: Record> Records<'a, R> {
    /// The records that fill `bytes`, each of which is checked here once.
    ///
    /// # Errors
    /// [`Error::Remainder`] when the bytes are not a whole number of records, else as
    /// [`Record::check`] of the first bad one.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self> {
        if !bytes.len().is_multiple_of(R::LEN) {
            return Err(Error::Remainder { format: R::FORMAT, unit: R::LEN, got: bytes.len() });
        }
        bytes.chunks_exact(R::LEN).try_for_each(R::check)?;
        Ok(Self { bytes, record: PhantomData })
    }
}

impl<R> Clone for Records<'_, R> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes, record: PhantomData }
    }
}

impl<R: Record> Iterator for Records<'_, R> {
    type Item = R;

    fn next(&mut self) -> Option<R> {
        let (record, rest) = self.bytes.split_at_checked(R::LEN)?;
        self.bytes = rest;
        Some(R::read(record))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.bytes.len() / R::LEN;
        (len, Some(len))
    }
}

impl<R: Record> ExactSizeIterator for Records<'_, R> {}

/// Writes records one after the other to the start of `bytes`.
///
/// # Panics
/// If `bytes` is shorter than `records.len() * R::LEN`.
pub fn emit_all<R: Record>(records: &[R], bytes: &mut [u8]) {
    let (bytes, _) = bytes.split_at_mut(records.len() * R::LEN);
    for (record, chunk) in records.iter().zip(bytes.chunks_exact_mut(R::LEN)) {
        record.emit(chunk);
    }
}

/// Prints the names of the bits set in a word, for example `Incomplete, bit 9`, or `none`.
pub(crate) struct BitNames<'a> {
    /// The word.
    pub word: u64,
    /// Names of the bits, from bit 0 on.
    pub names: &'a [&'a str],
}

impl fmt::Display for BitNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for bit in (0..u64::BITS).filter(|bit| self.word >> bit & 1 == 1) {
            f.write_str(separator)?;
            match self.names.get(bit as usize) {
                Some(name) => f.write_str(name)?,
                None => write!(f, "bit {bit}")?,
            }
            separator = ", ";
        }
        if self.word == 0 { f.write_str("none") } else { Ok(()) }
    }
}
