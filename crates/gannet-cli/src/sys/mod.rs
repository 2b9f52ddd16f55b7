//! What the standard library cannot be asked for safely.
#![allow(unsafe_code)]

mod memory;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

pub use memory::Memory;

/// The open descriptor `number` that the program was started with, which is closed with the file.
///
/// To be called before the program opens any descriptor itself, and once for each number.
pub fn inherited(number: i32) -> File {
    // SAFETY: the caller has seen that it is open, and it was so at the start: nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(number) }.into()
}

/// Has the kernel leave check sums, and segments of TCP over IPv4, to the reader of a TUN device with virtio-net headers, and nothing else.
///
/// # Errors
/// When it is no such device.
pub fn leave_to_reader(device: impl AsFd) -> io::Result<()> {
    let features = libc::c_ulong::from(libc::TUN_F_CSUM | libc::TUN_F_TSO4);
    // SAFETY: a call on a descriptor that is open, with numbers only.
    match unsafe { libc::ioctl(device.as_fd().as_raw_fd(), libc::TUNSETOFFLOAD, features) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
