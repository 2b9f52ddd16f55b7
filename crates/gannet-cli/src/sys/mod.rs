//! The one thing that the standard library cannot be asked for safely.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};

/// The open descriptor `number` that the program was started with, which is closed with the file.
///
/// To be called before the program opens any descriptor itself, and once for each number.
pub fn inherited(number: i32) -> File {
    // SAFETY: the caller has seen that it is open, and it was so at the start: nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(number) }.into()
}
