//! The latency buffer: the last seconds of each stream, found by time.
//!
//! Frames stay in the clop in which they landed. What this module adds is an index per stream from
//! time stamp to cell: [`IndexWriter`] belongs to the receiving thread, [`StreamBuffer`] to the
//! thread that answers data requests, and more of them to those who only look. Where a stream is recorded as it comes, an intake remembers
//! the order of its frames too: [`IntakeWriter`] and [`IntakeReader`].

mod entry;
mod grid;
mod index;
mod intake;
mod ordered;
mod shared;
mod stream;
mod window;

pub use entry::{ENTRY_BYTES, Placement};
pub use index::{IndexWriter, index};
pub use intake::{IntakeLag, IntakeReader, IntakeWriter, Next, intake};
pub use stream::{Extent, StreamBuffer};
pub use window::Window;
