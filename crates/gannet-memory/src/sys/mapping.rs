//! A mapping of the operating system, and bytes in it that others may write meanwhile.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the words by which shared bytes are copied.
const WORD: usize = size_of::<AtomicU64>();

/// Page-aligned memory, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory that is not tied to the thread that made it.
unsafe impl Send for Mapping {}
// SAFETY: through `&Mapping` bytes are read, or copied by atomic words; whoever dereferences an
// address states its own reason.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes that nobody else has, with additional `flags`.
    pub(super) fn anonymous(len: usize, flags: libc::c_int) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        Self::map(len, libc::PROT_READ | libc::PROT_WRITE, flags, -1)
    }

    /// Maps the first `len` bytes of a file for everybody who maps it.
    pub(super) fn shared(file: BorrowedFd<'_>, len: usize, is_writable: bool) -> io::Result<Self> {
        let write = if is_writable { libc::PROT_WRITE } else { 0 };
        Self::map(len, libc::PROT_READ | write, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(len: usize, protection: i32, flags: i32, file: i32) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, file, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let refusal = || io::Error::other("the kernel mapped page zero");
        NonNull::new(base.cast()).map(|base| Self { base, len }).ok_or_else(refusal)
    }

    /// Gives the kernel advice about the whole mapping; Miri, which has no kernel, takes none.
    pub(super) fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        if cfg!(miri) {
            return Ok(());
        }
        // SAFETY: the range is exactly the mapping that `self` owns.
        match unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Length in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Address of byte `offset`.
    ///
    /// # Panics
    /// When `offset..offset + len` is not inside the mapping.
    pub(crate) fn address(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(offset <= self.len && len <= self.len - offset, "outside the region");
        // SAFETY: the sum stays inside the mapping by the assertion above.
        unsafe { self.base.add(offset) }
    }

    /// Borrows `len` bytes from `offset`.
    ///
    /// # Panics
    /// When the range is not inside the mapping.
    ///
    /// # Safety
    /// Nothing may write these bytes while the slice lives.
    #[inline]
    pub(crate) unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        let start = self.address(offset, len);
        // SAFETY: the range is mapped and initialised; the caller keeps writers away.
        unsafe { slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// The words that cover `len` bytes from `offset`, and how many bytes of the first come before.
    ///
    /// # Panics
    /// When the range is not inside the mapping.
    pub(super) fn words(&self, offset: usize, len: usize) -> (&[AtomicU64], usize) {
        let skip = offset % WORD;
        let start = self.address(offset - skip, skip + len);
        // SAFETY: the mapping is a whole number of words, aligned to pages, initialised, and lives as
        // long as `self`. Code writes to shared cells by these words only; the kernel, which writes
        // the others, is outside of the language, as a device would be.
        let words = unsafe {
            slice::from_raw_parts(start.as_ptr().cast::<AtomicU64>(), (skip + len).div_ceil(WORD))
        };
        (words, skip)
    }

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

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by `self` and no borrow of it can outlive `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
