//! The two counters of a clop: which cells may be read, and which were given away for writing.

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// Which of the numbered cells hold frames, for any thread to ask.
///
/// It works as a sequence lock does. The writer announces what it will overwrite before it writes
/// ([`Writer::reserve_to`]) and publishes afterwards ([`Writer::commit_to`]). A reader asks
/// [`is_intact`](Self::is_intact), copies, and asks [`is_still_intact`](Self::is_still_intact): if
/// the copy saw a single byte of a later frame, the second question sees the reservation that came
/// before it. The bytes themselves are read and written as relaxed atomics, so that the race is
/// defined.
#[derive(Debug)]
pub(crate) struct Window {
    capacity: u64,
    /// First cell that nobody has leave to write.
    reserved: AtomicU64,
    /// First cell that does not hold a frame yet.
    committed: AtomicU64,
}

impl Window {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { capacity, reserved: AtomicU64::new(0), committed: AtomicU64::new(0) }
    }

    /// Whether `cell` holds a frame that nobody was given leave to overwrite.
    #[inline]
    pub(crate) fn is_intact(&self, cell: u64) -> bool {
        cell < self.committed.load(Ordering::Acquire) && self.is_kept(cell)
    }

    /// Whether all that was read of an intact `cell` so far is of its frame.
    #[inline]
    pub(crate) fn is_still_intact(&self, cell: u64) -> bool {
        fence(Ordering::Acquire);
        self.is_kept(cell)
    }

    /// Oldest intact cell, and the cell after the newest.
    pub(crate) fn extent(&self) -> (u64, u64) {
        let committed = self.committed.load(Ordering::Acquire);
        let oldest = self.reserved.load(Ordering::Relaxed).saturating_sub(self.capacity);
        (oldest.min(committed), committed)
    }

    #[inline]
    fn is_kept(&self, cell: u64) -> bool {
        self.reserved.load(Ordering::Relaxed) <= cell + self.capacity
    }
}

/// The one that moves a window.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    reserved: u64,
    committed: u64,
}

impl Writer {
    /// First cell that does not hold a frame yet.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.committed
    }

    /// Whether `cell` is reserved and not yet published.
    pub(crate) fn is_open(&self, cell: u64) -> bool {
        (self.committed..self.reserved).contains(&cell)
    }

    /// Announces that all cells before `end` may be written.
    ///
    /// # Panics
    /// When more cells than there are would be open for writing.
    pub(crate) fn reserve_to(&mut self, window: &Window, end: u64) {
        assert!(end <= self.committed + window.capacity, "the ring is too small");
        if end > self.reserved {
            self.reserved = end;
            window.reserved.store(end, Ordering::Relaxed);
            // A reader that sees any byte written after this also sees the reservation. The kernel
            // writes cells too: the fence is one of the processor, not only of the compiler.
            fence(Ordering::SeqCst);
        }
    }

    /// Publishes every cell before `end`.
    ///
    /// # Panics
    /// When cells would be published that were not reserved, or the head would move back.
    pub(crate) fn commit_to(&mut self, window: &Window, end: u64) {
        assert!((self.committed..=self.reserved).contains(&end), "commit outside the reservation");
        self.committed = end;
        window.committed.store(end, Ordering::Release);
    }
}

/// What a process does that writes cells on behalf of a producer, after it was given leave and before it
/// writes: who sees any byte of it then sees the reservation, too.
#[inline]
pub(crate) fn heed_leave() {
    fence(Ordering::Release);
}
