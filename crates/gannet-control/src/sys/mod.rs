//! What only the operating system can do.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Nice value of threads that must not wait for others: far ahead of ordinary work, behind what
/// keeps the machine alive.
const NICE: i32 = -15;

/// Lets the calling thread run before ordinary ones.
///
/// # Errors
/// When the system refuses, as it does without `CAP_SYS_NICE`.
pub(crate) fn put_ahead() -> io::Result<()> {
    // SAFETY: the call takes no pointer; 0 stands for the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether this process may make files in `directory`.
pub(crate) fn is_writable(directory: &Path) -> bool {
    let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else { return false };
    // SAFETY: the pointer is that of a text that ends in a zero byte and outlives the call.
    unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
}
