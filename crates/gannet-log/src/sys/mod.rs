//! What the standard library does not offer: the free space of a file system, space kept for a file,
//! and a flush of part of a file.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};

/// Bytes that an ordinary user may still write on the file system of `path`.
///
/// # Errors
/// The path does not exist, or the file system does not tell.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let disk = statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Keeps blocks for bytes `range` of `file`; its length stays as it is.
///
/// # Errors
/// What the system says; `Unsupported` where the file system cannot do it, and `FileTooLarge` beyond
/// the limit that the process has for files, which some file systems notice only at the write.
pub fn reserve(file: &File, range: Range<u64>) -> io::Result<()> {
    if range.end > file_size_limit() {
        return Err(Errno::FBIG.into());
    }
    let len = range.end.saturating_sub(range.start);
    Ok(retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, range.start, len))?)
}

/// Most bytes that a file may have by the limits of this process (`ulimit -f`); `u64::MAX` without one.
pub fn file_size_limit() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// Waits until bytes `range` of `file` are on the disk; the disk's own cache, and the length of the
/// file, are left to a whole flush.
///
/// # Errors
/// What the system says.
pub fn sync_range(file: &File, range: Range<u64>) -> io::Result<()> {
    let (offset, len) = (range.start as i64, range.end.saturating_sub(range.start) as i64);
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: `file` is open for the time of the call, which takes numbers only.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_space_of_a_directory_that_exists() {
        assert!(free_bytes(Path::new("/")).is_ok());
        let error = free_bytes(Path::new("/no/such/directory")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(free_bytes(Path::new("a\0b")).is_err());
    }
}
