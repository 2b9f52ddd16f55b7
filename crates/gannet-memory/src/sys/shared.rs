//! Memory that several processes map.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::mapping::Mapping;
use super::region::RegionError;
use crate::sync::atomic::AtomicU64;
use crate::window::heed_leave;

/// Seals of a region: its length stays, and so do the seals.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// What a process may do with memory that another one gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Read and write.
    Write,
}

/// Why a descriptor is no region that can be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// It is not sealed memory: its length could change while it is mapped.
    #[error("the descriptor is no sealed shared memory; only `SharedRegion::new` makes it")]
    Unsealed,
    /// It has another length than it should.
    #[error("the shared memory has {got} bytes and should have {expected}")]
    Length {
        /// Bytes agreed on.
        expected: u64,
        /// Bytes found.
        got: u64,
    },
    /// The operating system refuses it.
    #[error("cannot map shared memory: {0}")]
    System(#[from] io::Error),
}

/// Sealed memory without a name, which other processes map when they are given its descriptor.
///
/// Others write it at any time, so its bytes are never lent out: they are copied, or looked at as atomic
/// words. What is copied while somebody writes it may be old in one part and new in another; whoever
/// shares a region agrees by words of it, or in another way, who writes which bytes when. One thread at a
/// time has a region; another one attaches it for itself, as another process does.
#[derive(Debug)]
pub struct SharedRegion {
    mapping: Mapping,
    file: OwnedFd,
    access: Access,
    /// Two threads may not copy by the same mapping at the same time.
    one_thread: PhantomData<Cell<()>>,
}

impl SharedRegion {
    /// Makes zeroed memory of `bytes` bytes, rounded up to whole pages, resident from the start.
    ///
    /// # Errors
    /// When the system has not enough memory, or too many files are open.
    pub fn new(bytes: usize) -> Result<Self, RegionError> {
        let refuse = |cause| RegionError { bytes, cause };
        let len = bytes.max(1).checked_next_multiple_of(PAGE_BYTES);
        let len = len.ok_or_else(|| refuse(io::ErrorKind::OutOfMemory.into()))?;
        let region = Self::sealed(len).map_err(refuse)?;
        // Huge pages are welcome and not needed; faults taken now are not taken later.
        let _ = region.mapping.advise(libc::MADV_HUGEPAGE);
        region.mapping.advise(libc::MADV_POPULATE_WRITE).map_err(refuse)?;
        Ok(region)
    }

    fn sealed(len: usize) -> io::Result<Self> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a string that ends with zero; a descriptor that is given is fresh.
        let file = match unsafe { libc::memfd_create(c"gannet".as_ptr(), flags) } {
            -1 => return Err(io::Error::last_os_error()),
            // SAFETY: the kernel has just opened it for us.
            file => unsafe { OwnedFd::from_raw_fd(file) },
        };
        let length = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: two calls on a descriptor that is open, with numbers only.
        let is_sealed = unsafe {
            libc::ftruncate(file.as_raw_fd(), length) == 0
                && libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) == 0
        };
        if !is_sealed {
            return Err(io::Error::last_os_error());
        }
        let mapping = Mapping::shared(file.as_fd(), len, true)?;
        Ok(Self { mapping, file, access: Access::Write, one_thread: PhantomData })
    }

    /// Maps the memory of another process, of which a descriptor was received.
    ///
    /// # Errors
    /// When it is not sealed, has not `bytes` bytes, or cannot be mapped.
    pub fn attach(file: OwnedFd, bytes: u64, access: Access) -> Result<Self, AttachError> {
        // SAFETY: a call on a descriptor that is open, with numbers only.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & SEALS != SEALS {
            return Err(AttachError::Unsealed);
        }
        // SAFETY: zeros are a valid `stat`, which the call fills.
        let got = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(file.as_raw_fd(), &mut stat) != 0 {
                return Err(io::Error::last_os_error().into());
            }
            stat.st_size as u64
        };
        if got != bytes || bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES as u64) {
            return Err(AttachError::Length { expected: bytes, got });
        }
        let mapping = Mapping::shared(file.as_fd(), got as usize, access == Access::Write)?;
        // The pages are there, but not yet in the tables of this process.
        mapping.advise(match access {
            Access::Read => libc::MADV_POPULATE_READ,
            Access::Write => libc::MADV_POPULATE_WRITE,
        })?;
        Ok(Self { mapping, file, access, one_thread: PhantomData })
    }

    /// A descriptor for another process, which then can map the region for `access`.
    ///
    /// # Errors
    /// When too many files are open, or the files of processes (`/proc`) cannot be reached.
    pub fn descriptor(&self, access: Access) -> io::Result<OwnedFd> {
        match access {
            Access::Write => self.file.try_clone(),
            Access::Read => {
                let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                std::fs::File::open(path).map(OwnedFd::from)
            }
        }
    }

    /// Length in bytes, whole pages.
    pub fn len(&self) -> usize {
        self.mapping.len()
    }

    /// Never true: a region has at least one page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What this process may do with it.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Copies the bytes from `offset` on to `out`.
    ///
    /// # Panics
    /// When the range is not inside the region.
    #[inline]
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        self.mapping.read(offset, out);
    }

    /// Copies `bytes` to `offset` and what follows.
    ///
    /// # Panics
    /// When the range is not inside the region, or the region may only be read.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.begin_to_write();
        self.mapping.write(offset, bytes);
    }

    /// Copies `len` bytes from `offset` to `to_offset` of another region, or of this one.
    ///
    /// # Panics
    /// When a range is not inside its region, or `to` may only be read.
    #[inline]
    pub fn copy_to(&self, offset: usize, to: &Self, to_offset: usize, len: usize) {
        to.begin_to_write();
        self.mapping.copy_to(offset, &to.mapping, to_offset, len);
    }

    #[inline]
    fn begin_to_write(&self) {
        assert!(self.access == Access::Write, "the region may only be read");
        heed_leave();
    }

    /// What is mapped, for a clop, which never looks at bytes that others may write.
    pub(crate) fn into_mapping(self) -> Mapping {
        self.mapping
    }

    /// The words from `offset` on, by which processes agree.
    ///
    /// # Panics
    /// When `offset` is no multiple of 8, the range is not inside the region, or the region may only be
    /// read.
    pub fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(self.access == Access::Write, "the region may only be read");
        assert!(offset.is_multiple_of(size_of::<u64>()), "a word begins at a multiple of 8");
        self.mapping.words(offset, count * size_of::<u64>()).0
    }
}

#[cfg(all(test, loom))]
impl SharedRegion {
    /// The same memory twice, as two processes have it.
    pub(crate) fn two(bytes: usize) -> (Self, Self) {
        let open = || std::fs::File::open("/dev/null").unwrap();
        let here = Mapping::shared(open().as_fd(), bytes, true).unwrap();
        let region = |mapping| Self {
            mapping,
            file: open().into(),
            access: Access::Write,
            one_thread: PhantomData,
        };
        (region(here.clone()), region(here))
    }
}

impl AsFd for SharedRegion {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Length of the pages of which a region has a whole number.
const PAGE_BYTES: usize = 4096;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_one_mapping_writes_another_reads() {
        let here = SharedRegion::new(10_000).unwrap();
        assert_eq!(here.len(), 12_288);
        let there = here.descriptor(Access::Write).unwrap();
        let there = SharedRegion::attach(there, 12_288, Access::Write).unwrap();
        there.write(5000, b"gannet");
        let mut bytes = [1; 8];
        here.read(4999, &mut bytes);
        assert_eq!(&bytes, b"\0gannet\0");
        there.copy_to(5000, &there, 5003, 6);
        here.read(4999, &mut bytes);
        assert_eq!(&bytes, b"\0gangann");
        here.words(8, 2)[1].store(7, Ordering::Release);
        assert_eq!(there.words(16, 1)[0].load(Ordering::Acquire), 7);
    }

    #[test]
    fn what_is_given_for_reading_cannot_be_mapped_for_writing() {
        let here = SharedRegion::new(1).unwrap();
        let file = here.descriptor(Access::Read).unwrap();
        let error = SharedRegion::attach(file, 4096, Access::Write).unwrap_err();
        assert!(matches!(error, AttachError::System(_)), "{error}");
        let file = here.descriptor(Access::Read).unwrap();
        let there = SharedRegion::attach(file, 4096, Access::Read).unwrap();
        here.write(9, &[3]);
        let mut byte = [0];
        there.read(9, &mut byte);
        assert_eq!(byte, [3]);
    }

    #[test]
    #[should_panic(expected = "may only be read")]
    fn nothing_is_written_to_what_may_be_read() {
        let file = SharedRegion::new(1).unwrap().descriptor(Access::Read).unwrap();
        SharedRegion::attach(file, 4096, Access::Read).unwrap().write(0, &[0]);
    }

    #[test]
    fn what_could_shrink_is_refused() {
        let error = |file: std::fs::File, bytes| {
            SharedRegion::attach(file.into(), bytes, Access::Write).unwrap_err()
        };
        assert!(matches!(error(tempfile(), 4096), AttachError::Unsealed));
        let region = SharedRegion::new(4096).unwrap();
        let file = region.descriptor(Access::Write).unwrap();
        let refusal = error(file.into(), 8192);
        assert!(matches!(refusal, AttachError::Length { expected: 8192, got: 4096 }), "{refusal}");
        let file: std::fs::File = region.descriptor(Access::Write).unwrap().into();
        assert!(file.set_len(0).is_err() && file.set_len(1 << 20).is_err());
    }

    fn tempfile() -> std::fs::File {
        std::fs::File::open("/proc/self/exe").unwrap()
    }

    #[test]
    #[should_panic(expected = "outside the region")]
    fn refuses_ranges_outside() {
        SharedRegion::new(1).unwrap().read(4095, &mut [0; 2]);
    }
}
