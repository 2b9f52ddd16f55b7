//! The library, its objects, and the only code that touches them.
#![allow(unsafe_code)]

mod abi;
mod info;
mod library;

pub use info::{Info, Lack};
pub use library::{CallError, Hints, Library, LibraryError, VARIABLE};
