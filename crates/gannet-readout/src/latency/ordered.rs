//! Frames whose step varies: a ring of them in the order of time.
//!
//! A frame that is newer than all others goes to the end, which disturbs no reader: one that looks at
//! a place written again meanwhile notices it by the number of frames entered, and takes the frame
//! for gone. For a late frame those behind it move on by one place, and where time begins anew the
//! later ones are cut off; meanwhile the version is odd, and a reader that sees another version
//! after than before looks again, at a few frames at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use gannet_memory::{Cell, Reader};

use super::entry::{Change, Entry, Held, Mark, Placement};
use super::window::Window;

/// Frames that a reader looks at in one version.
const LOOK_FRAMES: usize = 64;

/// The frames of a stream in the order of time; of those that begin together, in that of their
/// cells.
#[derive(Debug)]
pub(super) struct Ordered {
    /// Frame `n` of the order has its place at `n` modulo the length; the place of the next one is
    /// not read.
    ring: Box<[Entry]>,
    longest_step: u64,
    /// Number of the next frame at the end.
    entered: AtomicU64,
    /// Least number that is held, if the ring is longer than that.
    least: AtomicU64,
    /// Odd while the order is changed elsewhere than at the end.
    version: AtomicU64,
    /// What each reader has yet to learn.
    changes: Box<[Change]>,
}

impl Ordered {
    pub fn new(frames: usize, longest_step: u64, readers: usize) -> Self {
        Self {
            ring: (0..(frames + 1).next_power_of_two()).map(|_| Entry::empty()).collect(),
            longest_step,
            entered: AtomicU64::new(0),
            least: AtomicU64::new(0),
            version: AtomicU64::new(0),
            changes: Change::none(readers),
        }
    }

    /// Enters a frame; with `restart` all later ones are forgotten.
    #[inline]
    pub fn insert(&self, frame: Held, restart: bool) -> Placement {
        let end = self.entered.load(Ordering::Relaxed);
        let is_newest = |last: u64| self.at(last).is_none_or(|last| key(&last) < key(&frame));
        if end.checked_sub(1).is_none_or(is_newest) {
            self.push(frame, end);
            return Placement::Stored;
        }
        self.insert_amid(frame, end, restart)
    }

    fn push(&self, frame: Held, end: u64) {
        self.entry(end).put(frame);
        self.entered.store(end + 1, Ordering::Release);
    }

    #[cold]
    fn insert_amid(&self, frame: Held, end: u64, restart: bool) -> Placement {
        let first = self.first(end);
        let number = self.partition(first, end, |held| key(held) < key(&frame));
        if !restart && number == first && end - first == self.capacity() {
            return Placement::TooOld;
        }
        let version = self.version.load(Ordering::Relaxed);
        // Each store behind this one releases, so a reader that sees any of them sees this, too.
        self.version.store(version + 1, Ordering::Relaxed);
        if restart {
            // What was held before it has been written over.
            self.least.store(first, Ordering::Release);
            self.push(frame, number);
        } else {
            for moved in (number..end).rev() {
                self.entry(moved)
                    .get()
                    .into_iter()
                    .for_each(|held| self.entry(moved + 1).put(held));
            }
            self.entry(number).put(frame);
            self.entered.store(end + 1, Ordering::Release);
        }
        self.changes.iter().for_each(|change| change.note(number));
        self.version.store(version + 2, Ordering::Release);
        Placement::Stored
    }

    /// Time of the oldest frame that is there.
    pub fn oldest(&self, mark: &mut Mark, cells: &Reader) -> Option<u64> {
        let changed = self.changes[mark.reader].take();
        let end = self.entered.load(Ordering::Acquire);
        mark.oldest = mark.oldest.min(changed).max(self.first(end)).min(end);
        while mark.oldest < end {
            if let Some(frame) = self.look(|| self.at(mark.oldest))
                && cells.is_intact(frame.cell)
            {
                return Some(frame.begin);
            }
            mark.oldest += 1;
        }
        None
    }

    /// Appends the frames that overlap `window` to `found`, in the order of time: a frame lasts
    /// until a later one begins, and at most the longest step.
    pub fn overlapping(&self, window: Window, found: &mut Vec<Held>) {
        let before = self.look(|| {
            let end = self.entered.load(Ordering::Acquire);
            let first = self.first(end);
            let number = self.partition(first, end, |held| held.begin <= window.begin);
            self.at(number.checked_sub(1).filter(|before| *before >= first)?)
        });
        let lasts = |held: &Held| held.begin.saturating_add(self.longest_step) > window.begin;
        let mut from = (before.filter(lasts).map_or(window.begin, |held| held.begin), Cell(0));
        loop {
            let part = self.look(|| self.part(from));
            found.extend(part.iter().filter(|held| held.begin < window.end));
            match part.last() {
                Some(last) if part.len() == LOOK_FRAMES && last.begin < window.end => {
                    from = (last.begin, Cell(last.cell.0 + 1));
                }
                _ => return,
            }
        }
    }

    /// Some frames from this place in the order on; fewer than [`LOOK_FRAMES`] at the end.
    fn part(&self, from: (u64, Cell)) -> Vec<Held> {
        let end = self.entered.load(Ordering::Acquire);
        let number = self.partition(self.first(end), end, |held| key(held) < from);
        (number..end).filter_map(|number| self.at(number)).take(LOOK_FRAMES).collect()
    }

    /// What is seen when the order is not changed meanwhile but at its end.
    fn look<T>(&self, see: impl Fn() -> T) -> T {
        loop {
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                let seen = see();
                if self.version.load(Ordering::Relaxed) == version {
                    return seen;
                }
            }
            thread::yield_now();
        }
    }

    /// Number of the first frame in `first..end` that is not `before`; frames that are gone are.
    fn partition(&self, first: u64, end: u64, before: impl Fn(&Held) -> bool) -> u64 {
        let (mut low, mut high) = (first, end);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.at(middle).as_ref().is_none_or(&before) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Frame `number` of the order, unless it is gone.
    fn at(&self, number: u64) -> Option<Held> {
        let held = self.entry(number).get();
        // Looked at after the entry: one that was written again before it was read is noticed here.
        let end = self.entered.load(Ordering::Relaxed);
        held.filter(|_| end.wrapping_sub(number) <= self.capacity())
    }

    /// Number of the oldest frame that is held, with `end` as the end.
    fn first(&self, end: u64) -> u64 {
        end.saturating_sub(self.capacity()).max(self.least.load(Ordering::Acquire))
    }

    /// Number of frames that there is room for.
    fn capacity(&self) -> u64 {
        self.ring.len() as u64 - 1
    }

    fn entry(&self, number: u64) -> &Entry {
        &self.ring[(number & (self.ring.len() as u64 - 1)) as usize]
    }
}

/// By which frames are ordered.
fn key(frame: &Held) -> (u64, Cell) {
    (frame.begin, frame.cell)
}
