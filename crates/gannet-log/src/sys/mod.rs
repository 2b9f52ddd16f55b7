//! What the standard library does not offer: the free space of a file system, space kept for a file,
//! and a flush of part of a file.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that an ordinary user may still write on the file system of `path`.
///
/// # Errors
/// The path does not exist, or the file system does not tell.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut stat = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` ends in NUL and outlives the call; `stat` has room for the structure.
    let rc = unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: statvfs returned 0, so the kernel has filled the structure.
    let stat = unsafe { stat.assume_init() };
    // The widths of these fields differ between platforms.
    #[allow(clippy::unnecessary_cast)]
    Ok((stat.f_bavail as u64).saturating_mul(stat.f_frsize as u64))
}

/// Keeps blocks for bytes `range` of `file`; its length stays as it is.
///
/// # Errors
/// What the system says; `Unsupported` where the file system cannot do it, and `FileTooLarge` beyond
/// the limit that the process has for files, which some file systems notice only at the write.
pub fn reserve(file: &File, range: Range<u64>) -> io::Result<()> {
    if range.end > file_size_limit() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let (offset, len) = (range.start as i64, range.end.saturating_sub(range.start) as i64);
    loop {
        // SAFETY: `file` is open for the time of the call, which takes numbers only.
        let rc =
            unsafe { libc::fallocate64(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, offset, len) };
        match rc {
            0 => return Ok(()),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// Most bytes that a file may have by the limits of this process (`ulimit -f`); `u64::MAX` without one.
pub fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is a whole structure that the kernel fills; on an error it stays as it is.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
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
