//! Network namespaces of threads.
#![allow(unsafe_code)]

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives the calling thread a network of its own, without a cable.
pub fn leave_network() -> io::Result<()> {
    // SAFETY: only sharing file descriptors between threads is a matter of safety, and this goes on.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}
