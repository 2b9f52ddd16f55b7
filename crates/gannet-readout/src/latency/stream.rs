//! Windows of time cut out of one stream.

use std::sync::Arc;

use gannet_memory::{Cell, Overwritten, Reader};

use super::index::Shared;

/// A half-open span of time, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First tick inside.
    pub begin: u64,
    /// First tick after.
    pub end: u64,
}

impl Window {
    /// Whether it holds anything, and no more than `ticks_max` ticks.
    pub fn is_valid(self, ticks_max: u64) -> bool {
        self.begin < self.end && self.end - self.begin <= ticks_max
    }
}

/// Time stamps of the oldest and the newest frame that a buffer holds, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First tick of the oldest frame.
    pub oldest: u64,
    /// First tick of the newest frame.
    pub newest: u64,
}

/// The one reader of an index.
#[derive(Debug)]
pub struct IndexReader {
    shared: Arc<Shared>,
    /// Number of the oldest frame that may still be there; only moves back for late frames.
    oldest: u64,
    /// Frames may be there that are older than the newest by more than the index is long.
    leapt: bool,
}

impl IndexReader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, oldest: 0, leapt: false }
    }
}

/// The latency buffer of one stream: its index, and with it the clop in which its frames lie.
#[derive(Debug)]
pub struct StreamBuffer {
    index: IndexReader,
    frame_bytes: usize,
}

impl StreamBuffer {
    /// Buffer of the stream that `index` describes, with frames of `frame_bytes` bytes.
    pub fn new(index: IndexReader, frame_bytes: usize) -> Self {
        Self { index, frame_bytes }
    }

    /// Length of a frame in ticks.
    pub fn ticks_per_frame(&self) -> u64 {
        self.index.shared.ticks_per_frame()
    }

    /// Time stamp of the newest frame, without looking for the oldest.
    pub fn newest(&self) -> Option<u64> {
        self.index.shared.newest()
    }

    /// Oldest and newest frame held, or `None` when there is none.
    pub fn extent(&mut self) -> Option<Extent> {
        let shared = &self.index.shared;
        self.index.leapt |= shared.take_leapt();
        let (newest, cells) = (shared.newest()?, shared.cells()?);
        if self.index.leapt {
            match self.before_leap(newest, cells) {
                Some(oldest) => return Some(Extent { oldest, newest }),
                None => self.index.leapt = false,
            }
        }
        let newest_number = newest / shared.ticks_per_frame();
        let least = newest_number.saturating_sub(shared.capacity() - 1);
        let start = self.index.oldest.min(shared.take_backfilled()).max(least);
        // Time that began anew in the past leaves the mark in the future.
        let start = if start > newest_number { least } else { start };
        for number in start..=newest_number {
            if let Some((oldest, cell)) = shared.find(number)
                && cells.is_intact(cell)
            {
                self.index.oldest = number;
                return Some(Extent { oldest, newest });
            }
        }
        self.index.oldest = newest_number;
        None
    }

    /// The oldest frame that is there, where time has leapt ahead by more than the index is long.
    fn before_leap(&self, newest: u64, cells: &Reader) -> Option<u64> {
        let shared = &self.index.shared;
        let intact =
            shared.all().filter(|(start, cell)| *start <= newest && cells.is_intact(*cell));
        let oldest = intact.map(|(start, _)| start).min()?;
        let steps = (newest - oldest) / shared.ticks_per_frame();
        (steps >= shared.capacity()).then_some(oldest)
    }

    /// Appends to `out` every whole frame that overlaps `window`, in the order of time, and
    /// returns how many frames were overwritten under the reader's eyes; those are left out.
    ///
    /// A frame overlaps when it begins before `window.end` and ends after `window.begin`.
    pub fn cut(&self, window: Window, out: &mut Vec<u8>) -> u64 {
        let shared = &self.index.shared;
        let (Some(newest), Some(cells)) = (shared.newest(), shared.cells()) else { return 0 };
        if window.begin >= window.end {
            return 0;
        }
        let length = shared.ticks_per_frame();
        let is_in = |(start, _): &(u64, Cell)| {
            *start < window.end && start.saturating_add(length) > window.begin
        };
        if self.index.leapt {
            let mut found: Vec<_> = shared.all().filter(is_in).collect();
            found.retain(|(start, _)| *start <= newest);
            found.sort_unstable();
            return self.copy(found.into_iter(), cells, out);
        }
        // A frame that starts in the middle of the numbering grid may begin up to one length
        // before the grid cell of the first tick.
        let newest_number = newest / length;
        let first = (window.begin / length)
            .saturating_sub(1)
            .max(newest_number.saturating_sub(shared.capacity() - 1));
        let last = ((window.end - 1) / length).min(newest_number);
        let found = (first..=last).filter_map(|number| shared.find(number)).filter(is_in);
        self.copy(found, cells, out)
    }

    /// Appends the frames in these cells to `out`, and returns how many were overwritten.
    fn copy(
        &self,
        found: impl Iterator<Item = (u64, Cell)>,
        cells: &Reader,
        out: &mut Vec<u8>,
    ) -> u64 {
        let mut overwritten = 0;
        for (_, cell) in found {
            let used = out.len();
            out.resize(used + self.frame_bytes, 0);
            if let Err(Overwritten) = cells.copy(cell, &mut out[used..]) {
                out.truncate(used);
                overwritten += 1;
            }
        }
        overwritten
    }
}
