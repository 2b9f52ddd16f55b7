//! One place of an index, which one thread writes and another reads.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

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

/// What one reader has yet to learn of the order of frames: the writer sets it, the reader takes it.
#[derive(Debug)]
pub(super) struct Change {
    /// Least number at which the order has been changed elsewhere than at its end.
    least: AtomicU64,
    /// Whether time has leapt ahead by more than the index is long.
    leapt: AtomicBool,
}

impl Change {
    /// Nothing yet, for each of so many readers.
    pub fn none(readers: usize) -> Box<[Self]> {
        let none = || Self { least: AtomicU64::new(u64::MAX), leapt: AtomicBool::new(false) };
        (0..readers).map(|_| none()).collect()
    }

    /// Tells of a frame that was entered out of order.
    pub fn note(&self, number: u64) {
        self.least.fetch_min(number, Ordering::AcqRel);
    }

    /// Tells of a leap.
    pub fn note_leap(&self) {
        self.leapt.store(true, Ordering::Release);
    }

    /// The least number told of since it was last taken; the greatest there is for none.
    pub fn take(&self) -> u64 {
        self.least.swap(u64::MAX, Ordering::AcqRel)
    }

    /// Whether there was a leap since it was last taken.
    pub fn take_leap(&self) -> bool {
        self.leapt.swap(false, Ordering::AcqRel)
    }
}

/// What a reader remembers from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Mark {
    /// Which of the readers it is.
    pub reader: usize,
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
