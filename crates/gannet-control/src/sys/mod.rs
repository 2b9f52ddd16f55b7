//! What only the operating system can do.
#![allow(unsafe_code)]

use std::io;

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
