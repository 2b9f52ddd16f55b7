//! The latency buffer: the last seconds of each stream, found by time.
//!
//! Frames stay in the clop in which they landed. What this module adds is an index per stream from
//! time stamp to cell: [`IndexWriter`] belongs to the receiving thread, [`StreamBuffer`] to the
//! thread that answers data requests.

mod index;
mod stream;

pub use index::{IndexWriter, Placement, index};
pub use stream::{Extent, StreamBuffer, Window};
