//! Index of one stream: frame number to cell, written by one thread and read by another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use gannet_memory::{Cell, Reader};

/// Time stamp of an entry that holds no frame.
const EMPTY: u64 = u64::MAX;

/// What one entry says: the frame with this time stamp lies in this cell.
#[derive(Debug)]
struct Entry {
    timestamp: AtomicU64,
    cell: AtomicU64,
}

/// What writer and reader share.
#[derive(Debug)]
pub(super) struct Shared {
    entries: Box<[Entry]>,
    ticks_per_frame: u64,
    /// Time stamp of the newest frame, `EMPTY` before the first.
    newest: AtomicU64,
    /// Least frame number that was entered out of order since the reader last asked.
    backfilled: AtomicU64,
    /// Whether time has leapt ahead by more than the index is long since the reader last asked.
    leapt: AtomicBool,
    /// The clop in which the frames lie, known before the first is entered.
    cells: OnceLock<Reader>,
}

/// Makes the index of one stream for at least `frames` frames, `ticks_per_frame` ticks apart.
///
/// # Panics
/// When either number is zero.
pub fn index(frames: usize, ticks_per_frame: u64) -> (IndexWriter, super::stream::IndexReader) {
    assert!(frames > 0 && ticks_per_frame > 0, "an index needs frames and a frame length");
    let empty = || Entry { timestamp: AtomicU64::new(EMPTY), cell: AtomicU64::new(0) };
    let shared = Arc::new(Shared {
        entries: (0..frames.next_power_of_two()).map(|_| empty()).collect(),
        ticks_per_frame,
        newest: AtomicU64::new(EMPTY),
        backfilled: AtomicU64::new(u64::MAX),
        leapt: AtomicBool::new(false),
        cells: OnceLock::new(),
    });
    (IndexWriter { shared: Arc::clone(&shared) }, super::stream::IndexReader::new(shared))
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

/// The one writer of an index.
#[derive(Debug)]
pub struct IndexWriter {
    shared: Arc<Shared>,
}

impl IndexWriter {
    /// Says in which clop the frames lie; to be called before the first is entered. A second call
    /// changes nothing.
    pub fn attach(&mut self, cells: Reader) {
        self.shared.cells.get_or_init(|| cells);
    }

    /// Enters the frame that begins at `timestamp` (ticks) and lies in `cell`.
    ///
    /// `restart` declares that time began anew with this frame: it becomes the newest even if
    /// later ones were seen before.
    pub fn insert(&mut self, timestamp: u64, cell: Cell, restart: bool) -> Placement {
        let shared = &*self.shared;
        let number = timestamp / shared.ticks_per_frame;
        let newest = shared.newest.load(Ordering::Relaxed);
        let advances = newest == EMPTY || timestamp > newest || restart;
        if !advances && newest / shared.ticks_per_frame - number >= shared.capacity() {
            return Placement::TooOld;
        }
        let entry = shared.entry(number);
        let before = entry.timestamp.load(Ordering::Relaxed);
        // A reader that sees the new cell also sees that the old time stamp is gone.
        entry.timestamp.store(EMPTY, Ordering::Relaxed);
        entry.cell.store(cell.0, Ordering::Release);
        entry.timestamp.store(timestamp, Ordering::Release);
        if advances {
            let steps = number.saturating_sub(newest / shared.ticks_per_frame);
            if newest != EMPTY && steps >= shared.capacity() {
                shared.leapt.store(true, Ordering::Release);
            }
            shared.newest.store(timestamp, Ordering::Release);
        } else {
            shared.backfilled.fetch_min(number, Ordering::AcqRel);
        }
        let same_number = before != EMPTY && before / shared.ticks_per_frame == number;
        if same_number { Placement::Displaced } else { Placement::Stored }
    }

    /// Time stamp of the newest frame.
    pub fn newest(&self) -> Option<u64> {
        self.shared.newest()
    }
}

impl Shared {
    /// The clop in which the frames lie, once there is one.
    pub(super) fn cells(&self) -> Option<&Reader> {
        self.cells.get()
    }

    /// Number of frames the index can hold.
    pub(super) fn capacity(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Length of a frame in ticks.
    pub(super) fn ticks_per_frame(&self) -> u64 {
        self.ticks_per_frame
    }

    /// Time stamp of the newest frame.
    pub(super) fn newest(&self) -> Option<u64> {
        Some(self.newest.load(Ordering::Acquire)).filter(|newest| *newest != EMPTY)
    }

    /// Least frame number entered out of order since the last call.
    pub(super) fn take_backfilled(&self) -> u64 {
        self.backfilled.swap(u64::MAX, Ordering::AcqRel)
    }

    /// Whether time has leapt ahead by more than the index is long since the last call.
    pub(super) fn take_leapt(&self) -> bool {
        self.leapt.swap(false, Ordering::AcqRel)
    }

    /// Time stamps and cells of all frames that are indexed, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, Cell)> {
        let number = |entry: &Entry| entry.timestamp.load(Ordering::Relaxed) / self.ticks_per_frame;
        self.entries.iter().filter_map(move |entry| self.find(number(entry)))
    }

    /// Time stamp and cell of frame `number`, if it is indexed.
    pub(super) fn find(&self, number: u64) -> Option<(u64, Cell)> {
        let entry = self.entry(number);
        let timestamp = entry.timestamp.load(Ordering::Acquire);
        let cell = entry.cell.load(Ordering::Acquire);
        let unchanged = entry.timestamp.load(Ordering::Relaxed) == timestamp;
        let wanted = timestamp != EMPTY && timestamp / self.ticks_per_frame == number;
        (unchanged && wanted).then_some((timestamp, Cell(cell)))
    }

    /// Entry in which frame `number` has its place.
    fn entry(&self, number: u64) -> &Entry {
        &self.entries[(number & (self.capacity() - 1)) as usize]
    }
}
