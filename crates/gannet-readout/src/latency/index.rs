//! Index of one stream: which frame of which time lies in which cell, written by one thread and
//! read by another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use gannet_memory::{Cell, Reader};
use gannet_wire::Step;

use super::entry::Held;
use super::grid::Grid;
use super::ordered::Ordered;
use super::stream::{StreamBuffer, Window};

/// Time of the newest frame before the first.
const NONE: u64 = u64::MAX;

/// What writer and reader share.
#[derive(Debug)]
pub(super) struct Shared {
    places: Places,
    /// Time stamp of the newest frame, or `NONE`.
    newest: AtomicU64,
    /// The clop in which the frames lie, known before the first is entered.
    cells: OnceLock<Reader>,
}

/// How frames are found.
#[derive(Debug)]
enum Places {
    Grid(Grid),
    Ordered(Ordered),
}

/// What a reader remembers from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Mark {
    /// Number of the oldest frame that may still be there; only moves back for late frames.
    pub oldest: u64,
    /// Frames may be there that are older than the newest by more than the index is long.
    pub leapt: bool,
}

/// Makes the latency buffer of one stream for at least `frames` frames, which are a `step` apart.
///
/// # Panics
/// When there are to be no frames, or none lasts a tick.
pub fn index(frames: usize, step: Step) -> (IndexWriter, StreamBuffer) {
    assert!(frames > 0 && step.longest() > 0, "an index needs frames and a frame length");
    let places = match step {
        Step::Fixed(ticks) => Places::Grid(Grid::new(frames, ticks)),
        Step::Varying { longest } => Places::Ordered(Ordered::new(frames, longest)),
    };
    let (newest, cells) = (AtomicU64::new(NONE), OnceLock::new());
    let shared = Arc::new(Shared { places, newest, cells });
    (IndexWriter { shared: Arc::clone(&shared) }, StreamBuffer::new(shared))
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

    /// Enters the frame that begins at `timestamp` (ticks) and lies in `cell`, `len` bytes long.
    ///
    /// `restart` declares that time began anew with this frame: it becomes the newest even if
    /// later ones were seen before.
    #[inline]
    pub fn insert(&mut self, timestamp: u64, cell: Cell, len: usize, restart: bool) -> Placement {
        let Shared { places, newest, .. } = &*self.shared;
        let frame = Held { begin: timestamp, cell, len: len as u32 };
        let before = self.newest();
        let advances = restart || before.is_none_or(|before| timestamp > before);
        let placement = match places {
            Places::Grid(grid) => grid.insert(frame, before, advances),
            Places::Ordered(ordered) => ordered.insert(frame, restart),
        };
        if advances {
            newest.store(timestamp, Ordering::Release);
        }
        placement
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

    /// Time stamp of the newest frame.
    pub(super) fn newest(&self) -> Option<u64> {
        Some(self.newest.load(Ordering::Acquire)).filter(|newest| *newest != NONE)
    }

    /// Time stamp of the oldest frame that is there, with `newest` as the newest.
    pub(super) fn oldest(&self, newest: u64, mark: &mut Mark) -> Option<u64> {
        let cells = self.cells()?;
        match &self.places {
            Places::Grid(grid) => grid.oldest(newest, mark, cells),
            Places::Ordered(ordered) => ordered.oldest(mark, cells),
        }
    }

    /// The frames that overlap `window`, in the order of time.
    pub(super) fn overlapping(&self, window: Window, mark: &Mark) -> Vec<Held> {
        let mut found = Vec::new();
        match (&self.places, self.newest()) {
            (Places::Grid(grid), Some(newest)) => {
                grid.overlapping(window, newest, mark, &mut found)
            }
            (Places::Ordered(ordered), _) => ordered.overlapping(window, &mut found),
            (_, None) => {}
        }
        found
    }
}
