//! What the standard library does not offer: the free space of a file system.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
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
