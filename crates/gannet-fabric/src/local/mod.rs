//! What processes of one host share: a socket for messages and descriptors of memory, and rings of entries in that memory.
//!
//! No system call takes part in what goes through a ring, unless its reader has gone to sleep.

#[cfg(not(loom))]
mod line;
#[cfg(not(loom))]
mod listener;
#[cfg_attr(loom, expect(dead_code, reason = "the model tests the ring alone"))]
mod ring;

#[cfg(not(loom))]
pub use line::{Line, MESSAGE_LEN};
#[cfg(not(loom))]
pub use listener::{Listener, connected};
#[cfg(not(loom))]
pub use ring::{ENTRIES, RingMemory};
pub use ring::{Reader, Words, Writer, words};
