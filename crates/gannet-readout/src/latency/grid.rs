//! Frames a fixed step apart: each has its place by its number, which is its time in steps.

use gannet_memory::Reader;

use super::entry::{Change, Entry, Held, Mark, Placement};
use super::window::Window;

/// The frames of a stream by their numbers.
#[derive(Debug)]
pub(super) struct Grid {
    entries: Box<[Entry]>,
    ticks_per_frame: u64,
    /// What each reader has yet to learn.
    changes: Box<[Change]>,
}

impl Grid {
    pub fn new(frames: usize, ticks_per_frame: u64, readers: usize) -> Self {
        Self {
            entries: (0..frames.next_power_of_two()).map(|_| Entry::empty()).collect(),
            ticks_per_frame,
            changes: Change::none(readers),
        }
    }

    /// Enters a frame, which becomes the newest if it `advances`.
    #[inline]
    pub fn insert(&self, frame: Held, newest: Option<u64>, advances: bool) -> Placement {
        let number = self.number(frame.begin);
        let newest = newest.map_or(number, |newest| self.number(newest));
        if !advances && newest - number >= self.capacity() {
            return Placement::TooOld;
        }
        let entry = self.entry(number);
        let before = entry.get();
        entry.put(frame);
        if !advances {
            self.changes.iter().for_each(|change| change.note(number));
        } else if number.saturating_sub(newest) >= self.capacity() {
            self.changes.iter().for_each(Change::note_leap);
        }
        let same_number = before.is_some_and(|before| self.number(before.begin) == number);
        if same_number { Placement::Displaced } else { Placement::Stored }
    }

    /// Time of the oldest frame that is there, with `newest` as the newest.
    pub fn oldest(&self, newest: u64, mark: &mut Mark, cells: &Reader) -> Option<u64> {
        let change = &self.changes[mark.reader];
        mark.leapt |= change.take_leap();
        if mark.leapt {
            match self.before_leap(newest, cells) {
                Some(oldest) => return Some(oldest),
                None => mark.leapt = false,
            }
        }
        let newest_number = self.number(newest);
        let least = newest_number.saturating_sub(self.capacity() - 1);
        let start = mark.oldest.min(change.take()).max(least);
        // Time that began anew in the past leaves the mark in the future.
        let start = if start > newest_number { least } else { start };
        for number in start..=newest_number {
            if let Some(frame) = self.find(number)
                && cells.is_intact(frame.cell)
            {
                mark.oldest = number;
                return Some(frame.begin);
            }
        }
        mark.oldest = newest_number;
        None
    }

    /// The oldest frame that is there, where time has leapt ahead by more than the index is long.
    fn before_leap(&self, newest: u64, cells: &Reader) -> Option<u64> {
        let intact =
            self.all().filter(|frame| frame.begin <= newest && cells.is_intact(frame.cell));
        let oldest = intact.map(|frame| frame.begin).min()?;
        let steps = (newest - oldest) / self.ticks_per_frame;
        (steps >= self.capacity()).then_some(oldest)
    }

    /// Appends the frames that overlap `window` to `found`, in the order of time.
    pub fn overlapping(&self, window: Window, newest: u64, mark: &Mark, found: &mut Vec<Held>) {
        let length = self.ticks_per_frame;
        let is_in = |frame: &Held| {
            frame.begin < window.end && frame.begin.saturating_add(length) > window.begin
        };
        if mark.leapt {
            found.extend(self.all().filter(is_in).filter(|frame| frame.begin <= newest));
            found.sort_unstable_by_key(|frame| frame.begin);
            return;
        }
        // A frame that starts in the middle of the numbering grid may begin up to one length
        // before the grid cell of the first tick.
        let newest_number = self.number(newest);
        let first = self
            .number(window.begin)
            .saturating_sub(1)
            .max(newest_number.saturating_sub(self.capacity() - 1));
        let last = self.number(window.end - 1).min(newest_number);
        found.extend((first..=last).filter_map(|number| self.find(number)).filter(is_in));
    }

    /// Number of frames that there is room for.
    fn capacity(&self) -> u64 {
        self.entries.len() as u64
    }

    fn number(&self, begin: u64) -> u64 {
        begin / self.ticks_per_frame
    }

    /// All frames that are there, in no order.
    fn all(&self) -> impl Iterator<Item = Held> {
        self.entries.iter().filter_map(Entry::get)
    }

    /// Frame `number`, if it is there.
    fn find(&self, number: u64) -> Option<Held> {
        self.entry(number).get().filter(|frame| self.number(frame.begin) == number)
    }

    /// Entry in which frame `number` has its place.
    fn entry(&self, number: u64) -> &Entry {
        &self.entries[(number & (self.capacity() - 1)) as usize]
    }
}
