//! Index of one stream: which frame of which time lies in which cell, written by one thread and
//! read by others.

use std::array;
use std::sync::Arc;

use gannet_memory::{Cell, Reader};
use gannet_wire::Step;

use super::entry::{Held, Placement};
use super::shared::Shared;
use super::stream::StreamBuffer;

/// Makes the latency buffer of one stream for at least `frames` frames, which are a `step` apart, with a handle for each of
/// its readers.
///
/// # Panics
/// When there are to be no frames, or none lasts a tick.
pub fn index<const READERS: usize>(
    frames: usize,
    step: Step,
) -> (IndexWriter, [StreamBuffer; READERS]) {
    assert!(frames > 0 && step.longest() > 0, "an index needs frames and a frame length");
    let shared = Arc::new(Shared::new(frames, step, READERS));
    let readers = array::from_fn(|reader| StreamBuffer::new(Arc::clone(&shared), reader));
    (IndexWriter { shared }, readers)
}

/// The one writer of an index.
#[derive(Debug)]
pub struct IndexWriter {
    shared: Arc<Shared>,
}

impl IndexWriter {
    /// Says in which clop the frames lie; to be called before the first is entered. A second call
    /// changes nothing.
    pub fn attach(&mut self, cells: Reader) {
        self.shared.attach(cells);
    }

    /// Enters the frame that begins at `timestamp` (ticks) and lies in `cell`, `len` bytes long.
    ///
    /// `restart` declares that time began anew with this frame: it becomes the newest even if
    /// later ones were seen before.
    #[inline]
    pub fn insert(&mut self, timestamp: u64, cell: Cell, len: usize, restart: bool) -> Placement {
        self.shared.insert(Held { begin: timestamp, cell, len: len as u32 }, restart)
    }

    /// Time stamp of the newest frame.
    pub fn newest(&self) -> Option<u64> {
        self.shared.newest()
    }
}
