//! Memory that several processes map.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fs::OpenOptions;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use gannet_checksum::Crc32c;

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

/// What a region consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sealed memory of this host, without a name.
    Sealed,
    /// Memory of a PCI device: a file of the kernel (`resourceN`, or `resourceN_wc`, which combines writes). Its length is the
    /// device's. Writes are posted; each read waits for the device.
    Device,
    /// An ordinary file, which whoever may write it can also cut short; or one of huge pages, of which a hole is filled again only while the
    /// system has huge pages left, however the file is sealed.
    File,
}

impl Kind {
    /// Of the open file `file`.
    fn of(file: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: a call on a descriptor that is open, with numbers only.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let is_sealed = seals >= 0 && seals & SEALS == SEALS;
        // SAFETY: zeros are a valid `statfs`, which the call fills.
        let file_system = unsafe {
            let mut stat: libc::statfs = std::mem::zeroed();
            if libc::fstatfs(file.as_raw_fd(), &mut stat) != 0 {
                return Err(io::Error::last_os_error());
            }
            stat.f_type
        };
        Ok(match file_system {
            libc::SYSFS_MAGIC => Self::Device,
            libc::HUGETLBFS_MAGIC => Self::File,
            _ if is_sealed => Self::Sealed,
            _ => Self::File,
        })
    }
}

/// Why a descriptor is no region that can be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// Its length could change while it is mapped, or its pages go, and the next access would end this process.
    #[error("the descriptor is neither sealed memory of ordinary pages nor memory of a PCI device")]
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

/// Memory that other processes map when they are given its descriptor: sealed memory without a name, or memory of a PCI
/// device.
///
/// Others write it at any time, so its bytes are never lent out: they are copied, by this process or the kernel, or looked at as
/// atomic words. What is copied while somebody writes it may be old in one part and new in another; whoever
/// shares a region agrees by words of it, or in another way, who writes which bytes when. One thread at a
/// time has a region; another one attaches it for itself, as another process does.
#[derive(Debug)]
pub struct SharedRegion {
    mapping: Mapping,
    file: OwnedFd,
    access: Access,
    kind: Kind,
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
        let (access, kind) = (Access::Write, Kind::Sealed);
        Ok(Self { mapping, file, access, kind, one_thread: PhantomData })
    }

    /// Maps the whole file at `path`, memory of a PCI device or ordinary, for reading and writing.
    ///
    /// Whoever may cut an ordinary file short can end this process by doing so, so other processes do not
    /// [attach](Self::attach) it.
    ///
    /// # Errors
    /// When it cannot be opened or mapped, or is not a whole number of pages long.
    pub fn map_file(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let bytes = file.metadata()?.len();
        if bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES as u64) {
            let text = format!("it has {bytes} bytes, which are no whole pages of {PAGE_BYTES}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let kind = Kind::of(file.as_fd())?;
        Self::map(file.into(), bytes as usize, Access::Write, kind)
    }

    /// Maps the memory of another process, of which a descriptor was received.
    ///
    /// # Errors
    /// When its length could change, it has not `bytes` bytes, or it cannot be mapped.
    pub fn attach(file: OwnedFd, bytes: u64, access: Access) -> Result<Self, AttachError> {
        let kind = Kind::of(file.as_fd())?;
        if kind == Kind::File {
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
        Ok(Self::map(file, got as usize, access, kind)?)
    }

    /// Maps the same memory once more, for another thread or a library.
    ///
    /// # Errors
    /// When too many files are open, or the system has no memory for the tables.
    pub fn again(&self) -> io::Result<Self> {
        Self::map(self.file.try_clone()?, self.len(), self.access, self.kind)
    }

    fn map(file: OwnedFd, len: usize, access: Access, kind: Kind) -> io::Result<Self> {
        let mapping = Mapping::shared(file.as_fd(), len, access == Access::Write)?;
        // The pages are there, but not yet in the tables of this process; those of a device need not be asked for.
        if kind != Kind::Device {
            mapping.advise(match access {
                Access::Read => libc::MADV_POPULATE_READ,
                Access::Write => libc::MADV_POPULATE_WRITE,
            })?;
        }
        Ok(Self { mapping, file, access, kind, one_thread: PhantomData })
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

    /// What it consists of.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Copies the bytes from `offset` on to `out`.
    ///
    /// # Panics
    /// When the range is not inside the region.
    #[inline]
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        self.mapping.read(offset, out);
    }

    /// The same, and gives `sum` continued over what is in `out` then, whatever others write meanwhile.
    ///
    /// # Panics
    /// When the range is not inside the region.
    #[inline]
    pub fn read_summed(&self, offset: usize, out: &mut [u8], sum: Crc32c) -> Crc32c {
        self.mapping.read_summed(offset, out, sum)
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

    /// Reads at most `len` bytes from `source` to `offset` and what follows; gives how many bytes came. It does not wait for them where the
    /// kernel offers that (`RWF_NOWAIT`: for sockets and tun devices since 6.5); elsewhere the flags of `source` say whether it does.
    ///
    /// # Errors
    /// Those of `read(2)`.
    ///
    /// # Panics
    /// When the range is not inside the region, or the region may only be read.
    pub fn read_from(&self, offset: usize, len: usize, source: impl AsFd) -> io::Result<usize> {
        self.begin_to_write();
        let to = self.mapping.address(offset, len).as_ptr();
        let (source, part) = (source.as_fd(), libc::iovec { iov_base: to.cast(), iov_len: len });
        // SAFETY: the `len` bytes are mapped for writing as long as `self` lives, and none of them is ever lent out but as an atomic word, which others write at any time.
        let read = unsafe { libc::preadv2(source.as_raw_fd(), &part, 1, -1, libc::RWF_NOWAIT) };
        // SAFETY: as before.
        counted(read, || unsafe { libc::read(source.as_raw_fd(), to.cast(), len) })
    }

    /// Writes the `len` bytes from `offset` on to `target`; gives how many it took. It waits no more than
    /// [`read_from`](Self::read_from) does.
    ///
    /// # Errors
    /// Those of `write(2)`.
    ///
    /// # Panics
    /// When the range is not inside the region.
    pub fn write_to(&self, offset: usize, len: usize, target: impl AsFd) -> io::Result<usize> {
        let from = self.mapping.address(offset, len).as_ptr();
        let (target, part) = (target.as_fd(), libc::iovec { iov_base: from.cast(), iov_len: len });
        // SAFETY: the `len` bytes are mapped as long as `self` lives; the kernel copies them, whoever writes them meanwhile.
        let written = unsafe { libc::pwritev2(target.as_raw_fd(), &part, 1, -1, libc::RWF_NOWAIT) };
        // SAFETY: as before.
        counted(written, || unsafe { libc::write(target.as_raw_fd(), from.cast(), len) })
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
            kind: Kind::Sealed,
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

/// Bytes that a system call has read or written, which gave -1 if it failed; those of the `plain` call where the kernel does not know
/// `RWF_NOWAIT` of such a file.
fn counted(count: isize, plain: impl FnOnce() -> isize) -> io::Result<usize> {
    let bytes = |count| usize::try_from(count).map_err(|_| io::Error::last_os_error());
    bytes(count).or_else(|error| match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => bytes(plain()),
        _ => Err(error),
    })
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
    fn the_kernel_copies_from_and_to_descriptors() {
        let region = SharedRegion::new(4096).unwrap();
        let (near, far) = std::os::unix::net::UnixDatagram::pair().unwrap();
        region.write(100, b"gannet");
        assert_eq!(region.write_to(100, 6, &near).unwrap(), 6);
        assert_eq!(region.read_from(4000, 96, &far).unwrap(), 6);
        let mut bytes = [1; 8];
        region.read(3999, &mut bytes);
        assert_eq!(&bytes, b"\0gannet\0");
        // Of these the kernel does not know `RWF_NOWAIT`.
        let maps = std::fs::File::open("/proc/self/maps").unwrap();
        assert!(region.read_from(200, 96, &maps).unwrap() > 0);
        // SAFETY: a descriptor that is given is fresh.
        let event = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) };
        assert_eq!(region.write_to(0, 8, &event).unwrap(), 8);
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(region.write_to(0, 1, &null).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn a_socket_is_not_waited_for_whatever_its_flags() {
        let region = SharedRegion::new(4096).unwrap();
        let (near, _far) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let (mut byte, file) = ([0_u8], near.as_raw_fd());
        let part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        // SAFETY: the part is one byte, which nobody else uses.
        let read = unsafe { libc::preadv2(file, &part, 1, -1, libc::RWF_NOWAIT) };
        assert_eq!(read, -1);
        if io::Error::last_os_error().raw_os_error() == Some(libc::EOPNOTSUPP) {
            let what = "reading of a socket that would wait";
            return gannet_measure::testing::skipped(what, "the kernel has no RWF_NOWAIT for it");
        }
        let error = region.read_from(0, 1, &near).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let error = (0..100_000).find_map(|_| region.write_to(0, 4096, &near).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    #[should_panic(expected = "may only be read")]
    fn the_kernel_writes_nothing_to_what_may_be_read() {
        let file = SharedRegion::new(1).unwrap().descriptor(Access::Read).unwrap();
        let region = SharedRegion::attach(file, 4096, Access::Read).unwrap();
        let _count = region.read_from(0, 1, tempfile());
    }

    #[test]
    #[should_panic(expected = "outside the region")]
    fn the_kernel_writes_nothing_outside() {
        let _count = SharedRegion::new(1).unwrap().read_from(4095, 2, tempfile());
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

    #[test]
    fn huge_pages_that_could_be_taken_away_are_refused() {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | libc::MFD_HUGETLB;
        // SAFETY: the name is a string that ends with zero; a descriptor that is given is fresh.
        let file = match unsafe { libc::memfd_create(c"huge".as_ptr(), flags) } {
            -1 => return gannet_measure::testing::skipped("memory of huge pages", "there is none"),
            // SAFETY: the kernel has just opened it for us.
            file => unsafe { std::fs::File::from_raw_fd(file) },
        };
        let bytes = 1 << 30;
        file.set_len(bytes).unwrap();
        // SAFETY: a call on a descriptor that is open, with numbers only.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) }, 0);
        let refusal = SharedRegion::attach(file.into(), bytes, Access::Write).unwrap_err();
        assert!(matches!(refusal, AttachError::Unsealed), "{refusal}");
    }

    fn tempfile() -> std::fs::File {
        std::fs::File::open("/proc/self/exe").unwrap()
    }

    #[test]
    fn a_file_is_mapped_by_its_owner_and_by_no_other_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("device");
        std::fs::write(&path, vec![7; 8192]).unwrap();
        let here = SharedRegion::map_file(&path).unwrap();
        assert_eq!((here.kind(), here.len()), (Kind::File, 8192));
        here.write(4095, b"gannet");
        let again = here.again().unwrap();
        let mut bytes = [0; 8];
        again.read(4094, &mut bytes);
        assert_eq!(&bytes, b"\x07gannet\x07");
        assert_eq!(&std::fs::read(&path).unwrap()[4095..4101], b"gannet");
        let given = here.descriptor(Access::Write).unwrap();
        let refusal = SharedRegion::attach(given, 8192, Access::Write).unwrap_err();
        assert!(matches!(refusal, AttachError::Unsealed));
    }

    #[test]
    fn a_file_that_is_no_whole_pages_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("odd");
        for (bytes, why) in [(0, "it has 0 bytes"), (5000, "it has 5000 bytes")] {
            std::fs::write(&path, vec![0; bytes]).unwrap();
            let error = SharedRegion::map_file(&path).unwrap_err();
            assert!(error.to_string().starts_with(why), "{error}");
        }
        assert!(SharedRegion::map_file(directory.path()).is_err());
    }

    #[test]
    fn files_of_the_kernels_device_tree_keep_their_length() {
        let Ok(file) = std::fs::File::open("/sys/kernel/profiling") else {
            return gannet_measure::testing::skipped("memory of PCI devices", "no sysfs here");
        };
        assert_eq!(Kind::of(file.as_fd()).unwrap(), Kind::Device);
        assert_eq!(Kind::of(tempfile().as_fd()).unwrap(), Kind::File);
    }

    #[test]
    #[should_panic(expected = "outside the region")]
    fn refuses_ranges_outside() {
        SharedRegion::new(1).unwrap().read(4095, &mut [0; 2]);
    }
}
