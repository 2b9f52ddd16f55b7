//! The library, its objects, and the only code that touches them.
#![allow(unsafe_code)]

mod abi;
mod cable;
mod info;
mod library;
mod memory;
mod objects;

pub use cable::{Cable, Event, Lent, Piece, Reach};
pub use info::{Info, Lack};
pub use library::{CallError, Hints, Library, LibraryError, VARIABLE};
pub use memory::Mapped;
