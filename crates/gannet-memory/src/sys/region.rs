//! Page-aligned memory from the operating system.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, fence};

/// Size of the huge pages asked for.
const HUGE_PAGE_BYTES: usize = 2 << 20;

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
/// A region hands out raw addresses because the kernel or a device writes it behind the back of
/// the language. The types built on it decide who may look at which bytes when.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    pages: Pages,
}

// SAFETY: a region is plain memory that is not tied to the thread that mapped it.
unsafe impl Send for Region {}
// SAFETY: through `&Region` only addresses and racy copies are offered; whoever dereferences an
// address states its own reason.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `bytes` bytes, touches every page, and says which pages it got.
    ///
    /// # Errors
    /// When the system has not enough memory or address space.
    pub fn map(bytes: usize) -> Result<Self, RegionError> {
        let len = bytes.max(1).next_multiple_of(HUGE_PAGE_BYTES);
        if let Ok(base) = map_anonymous(len, libc::MAP_HUGETLB) {
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

    /// Gives the kernel advice about the whole region.
    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
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

    /// Borrows `len` bytes from `offset`.
    ///
    /// # Panics
    /// When the range is not inside the region.
    ///
    /// # Safety
    /// Nothing may write these bytes while the slice lives.
    pub(crate) unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        let start = self.address(offset, len);
        // SAFETY: the range is mapped and initialised; the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// Borrows `len` bytes from `offset` for writing.
    ///
    /// # Panics
    /// When the range is not inside the region.
    ///
    /// # Safety
    /// Nothing else may write these bytes, and nothing may borrow them, while the slice lives.
    /// Racy copies by [`Region::copy_out`] may overlap; they are checked by their caller.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn slice_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        let start = self.address(offset, len);
        // SAFETY: the range is mapped; the caller guarantees exclusive access.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// Copies bytes that a writer may be overwriting at this moment.
    ///
    /// What arrives in `out` is meaningful only if a check after the copy shows that no write
    /// began before it ended, as in a sequence lock; the fence orders that check after the copy.
    ///
    /// # Panics
    /// When the range is not inside the region.
    pub(crate) fn copy_out(&self, offset: usize, out: &mut [u8]) {
        let start = self.address(offset, out.len());
        // SAFETY: source and destination are valid for the length and do not overlap, because
        // `out` is borrowed from outside the mapping. The writer is the kernel or code behind
        // `slice_mut`; torn bytes are discarded by the caller's generation check.
        unsafe { ptr::copy_nonoverlapping(start.as_ptr(), out.as_mut_ptr(), out.len()) };
        fence(Ordering::Acquire);
    }
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
        region.copy_out(region.len() - 100, &mut bytes);
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
