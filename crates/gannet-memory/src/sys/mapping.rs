//! A mapping of the operating system.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU64};

use gannet_checksum::Crc32c;

use super::words::WORD;

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

    /// Copies the bytes from `offset` on to `out`.
    ///
    /// # Panics
    /// When the range is not inside the mapping.
    #[inline]
    pub(super) fn read(&self, offset: usize, out: &mut [u8]) {
        let from = self.address(offset, out.len());
        // SAFETY: the range is mapped, and `out` lies elsewhere: no slice of a shared mapping is ever
        // made. Who writes the bytes meanwhile is outside of the language, as a device would be.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), out.len()) }
    }

    /// The same, and gives `sum` continued over what is in `out` then.
    ///
    /// # Panics
    /// When the range is not inside the mapping.
    #[inline]
    pub(super) fn read_summed(&self, offset: usize, out: &mut [u8], sum: Crc32c) -> Crc32c {
        let from = self.address(offset, out.len());
        // SAFETY: as for `words`: the range is mapped, and any of its bytes may change at any time.
        let from = unsafe { slice::from_raw_parts(from.as_ptr().cast::<AtomicU8>(), out.len()) };
        sum.and_copied_shared(from, out)
    }

    /// Copies `bytes` to `offset` and what follows.
    ///
    /// # Panics
    /// When the range is not inside the mapping.
    #[inline]
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.address(offset, bytes.len());
        // SAFETY: as for `read`, in the other direction; the caller has mapped it for writing.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) }
    }

    /// Copies `len` bytes from `offset` to `to_offset` of another mapping, or of this one.
    ///
    /// # Panics
    /// When a range is not inside its mapping.
    #[inline]
    pub(super) fn copy_to(&self, offset: usize, to: &Self, to_offset: usize, len: usize) {
        let (from, to) = (self.address(offset, len), to.address(to_offset, len));
        // SAFETY: as for `write`; the ranges may overlap, which this copy allows.
        unsafe { ptr::copy(from.as_ptr(), to.as_ptr(), len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by `self` and no borrow of it can outlive `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
