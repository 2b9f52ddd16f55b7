//! The library, its objects, and the only code that touches them.
#![allow(unsafe_code)]

mod abi;
mod cable;
mod halt;
mod info;
mod library;
mod memory;
mod objects;

pub(super) use cable::PIECES_MAX;
pub use cable::{Cable, Event, Lent, Piece, Reach};
pub(super) use halt::Halt;
pub use info::{Info, Lack};
pub use library::{CallError, Hints, Library, LibraryError, VARIABLE};
pub use memory::Mapped;
