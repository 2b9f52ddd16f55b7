//! What the writer and the readers of one stream's index share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use gannet_memory::Reader;
use gannet_wire::Step;

use super::entry::{Held, Mark, Placement};
use super::grid::Grid;
use super::ordered::Ordered;
use super::window::Window;

/// Time of the newest frame before the first.
const NONE: u64 = u64::MAX;

/// What writer and readers share.
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

impl Shared {
    /// Room for at least `frames` frames, which are a `step` apart, for so many readers.
    pub fn new(frames: usize, step: Step, readers: usize) -> Self {
        let places = match step {
            Step::Fixed(ticks) => Places::Grid(Grid::new(frames, ticks, readers)),
            Step::Varying { longest } | Step::Slices { length: longest } => {
                Places::Ordered(Ordered::new(frames, longest, readers))
            }
        };
        Self { places, newest: AtomicU64::new(NONE), cells: OnceLock::new() }
    }

    /// Says in which clop the frames lie. A second call changes nothing.
    pub fn attach(&self, cells: Reader) {
        self.cells.get_or_init(|| cells);
    }

    /// Enters a frame; `restart` makes it the newest even if later ones were seen before.
    #[inline]
    pub fn insert(&self, frame: Held, restart: bool) -> Placement {
        let before = self.newest();
        let advances = restart || before.is_none_or(|before| frame.begin > before);
        let placement = match &self.places {
            Places::Grid(grid) => grid.insert(frame, before, advances),
            Places::Ordered(ordered) => ordered.insert(frame, restart),
        };
        if advances {
            self.newest.store(frame.begin, Ordering::Release);
        }
        placement
    }

    /// The clop in which the frames lie, once there is one.
    pub fn cells(&self) -> Option<&Reader> {
        self.cells.get()
    }

    /// Time stamp of the newest frame.
    pub fn newest(&self) -> Option<u64> {
        Some(self.newest.load(Ordering::Acquire)).filter(|newest| *newest != NONE)
    }

    /// Time stamp of the oldest frame that is there, with `newest` as the newest.
    pub fn oldest(&self, newest: u64, mark: &mut Mark) -> Option<u64> {
        let cells = self.cells()?;
        match &self.places {
            Places::Grid(grid) => grid.oldest(newest, mark, cells),
            Places::Ordered(ordered) => ordered.oldest(mark, cells),
        }
    }

    /// The frames that overlap `window`, in the order of time.
    pub fn overlapping(&self, window: Window, mark: &Mark) -> Vec<Held> {
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
