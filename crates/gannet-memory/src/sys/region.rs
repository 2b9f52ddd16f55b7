//! Page-aligned memory from the operating system.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of the huge pages asked for.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Bytes of the words by which shared bytes are copied.
const WORD: usize = size_of::<AtomicU64>();

/// The kind of pages that back a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Reserved huge pages of 2 MiB.
    Huge,
    /// Ordinary pages that the kernel was asked to merge into huge ones where it can.
    Transparent,
    /// Ordinary pages.
    Ordinary,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Huge => "2 MiB huge pages",
            Self::Transparent => "transparent huge pages",
            Self::Ordinary => "ordinary pages",
        })
    }
}

/// The operating system refused memory.
#[derive(Debug, thiserror::Error)]
#[error("cannot map {bytes} bytes of memory: {cause}; make the buffer smaller or free memory")]
pub struct RegionError {
    bytes: usize,
    #[source]
    cause: io::Error,
}

/// Anonymous memory, zeroed and resident from the start, unmapped on drop.
///
/// Whoever owns a region alone uses its bytes as those of any buffer. A clop shares one between a
/// producer, which may let the kernel or a device write behind the back of the language, and readers
/// that copy at the same time; it decides who may look at which bytes when.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    pages: Pages,
}

// SAFETY: a region is plain memory that is not tied to the thread that mapped it.
unsafe impl Send for Region {}
// SAFETY: through `&Region` bytes are read, or copied by atomic words; whoever dereferences an
// address states its own reason.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `bytes` bytes, touches every page, and says which pages it got.
    ///
    /// # Errors
    /// When the system has not enough memory or address space.
    pub fn map(bytes: usize) -> Result<Self, RegionError> {
        let len = bytes.max(1).next_multiple_of(HUGE_PAGE_BYTES);
        if !cfg!(miri)
            && let Ok(base) = map_anonymous(len, libc::MAP_HUGETLB)
        {
            return Ok(Self { base, len, pages: Pages::Huge });
        }
        let base = map_anonymous(len, 0).map_err(|cause| RegionError { bytes: len, cause })?;
        let mut region = Self { base, len, pages: Pages::Ordinary };
        if region.advise(libc::MADV_HUGEPAGE).is_ok() {
            region.pages = Pages::Transparent;
        }
        // Faults taken now are not taken while frames arrive.
        region
            .advise(libc::MADV_POPULATE_WRITE)
            .map_err(|cause| RegionError { bytes: len, cause })?;
        Ok(region)
    }

    /// Gives the kernel advice about the whole region; Miri, which has no kernel, takes none.
    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        if cfg!(miri) {
            return Ok(());
        }
        // SAFETY: the range is exactly the mapping that `self` owns.
        match unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Length in bytes, a multiple of 2 MiB.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true: a region has at least one page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Kind of pages behind the region.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Address of byte `offset`, for the kernel or a device to write to.
    ///
    /// # Panics
    /// When `offset..offset + len` is not inside the region.
    pub fn address(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(offset <= self.len && len <= self.len - offset, "outside the region");
        // SAFETY: the sum stays inside the mapping by the assertion above.
        unsafe { self.base.add(offset) }
    }

    /// All bytes, for whoever owns the region alone.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is initialised and lives as long as `self`. A region that others write
        // through is never lent out: a clop keeps its own to itself.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// All bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; `&mut self` says that nobody else looks.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }

    /// Borrows `len` bytes from `offset`.
    ///
    /// # Panics
    /// When the range is not inside the region.
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
    /// When the range is not inside the region.
    fn words(&self, offset: usize, len: usize) -> (&[AtomicU64], usize) {
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
    /// When the range is not inside the region.
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
    /// When the range is not inside the region.
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
    /// When one of the ranges is not inside the region.
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

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by `self` and no borrow of it can outlive `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Maps `len` bytes of private anonymous memory with additional `flags`.
fn map_anonymous(len: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no existing
    // memory.
    let base = unsafe {
        libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("the kernel mapped page zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zeroed_and_rounded_to_huge_pages() {
        let region = Region::map(3 << 20).unwrap();
        assert_eq!(region.len(), 4 << 20);
        let mut bytes = vec![1u8; 100];
        region.load(region.len() - 100, &mut bytes);
        assert!(bytes.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn an_impossible_size_is_an_error_that_names_it() {
        let error = Region::map(1 << 60).unwrap_err().to_string();
        assert!(error.contains("1152921504606846976 bytes"), "{error}");
    }

    #[test]
    #[should_panic(expected = "outside the region")]
    fn refuses_addresses_outside() {
        let region = Region::map(1).unwrap();
        region.address(region.len() - 1, 2);
    }
}
