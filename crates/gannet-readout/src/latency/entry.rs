//! One place of an index, which one thread writes and another reads.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gannet_memory::Cell;

/// Cell of an entry that holds no frame.
const EMPTY: u64 = u64::MAX;

/// A frame that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Its first tick.
    pub begin: u64,
    /// Where it lies.
    pub cell: Cell,
    /// Its length in bytes.
    pub len: u32,
}

/// What is known of one frame, or nothing.
#[derive(Debug)]
pub(super) struct Entry {
    cell: AtomicU64,
    begin: AtomicU64,
    len: AtomicU32,
}

/// Bytes that an index takes for each frame.
pub const ENTRY_BYTES: usize = size_of::<Entry>();

impl Entry {
    /// An entry without a frame.
    pub fn empty() -> Self {
        Self { cell: AtomicU64::new(EMPTY), begin: AtomicU64::new(0), len: AtomicU32::new(0) }
    }

    /// Enters a frame in place of what was there.
    #[inline]
    pub fn put(&self, frame: Held) {
        // A reader that sees anything new also sees that the old cell, which never comes again, is
        // gone.
        self.cell.store(EMPTY, Ordering::Release);
        self.begin.store(frame.begin, Ordering::Release);
        self.len.store(frame.len, Ordering::Release);
        self.cell.store(frame.cell.0, Ordering::Release);
    }

    /// The frame, unless there is none or it is being replaced.
    #[inline]
    pub fn get(&self) -> Option<Held> {
        let cell = self.cell.load(Ordering::Acquire);
        let begin = self.begin.load(Ordering::Acquire);
        let len = self.len.load(Ordering::Acquire);
        let unchanged = self.cell.load(Ordering::Relaxed) == cell;
        (unchanged && cell != EMPTY).then_some(Held { begin, cell: Cell(cell), len })
    }
}

/// What a reader remembers from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Mark {
    /// Number of the oldest frame that may still be there; only moves back for late frames.
    pub oldest: u64,
    /// Frames may be there that are older than the newest by more than the index is long.
    pub leapt: bool,
}

/// What became of a frame that was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// It is indexed.
    Stored,
    /// It is indexed in the place of a frame that began less than one frame length apart.
    Displaced,
    /// It is older than everything the index can hold beside the newest frame.
    TooOld,
}
