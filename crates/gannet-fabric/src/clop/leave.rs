//! What a sender may write: the cells that it was given leave for.

/// Cells of a far clop, as a window shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    /// Bytes of a cell.
    pub cell_bytes: u64,
    /// How many there are.
    pub cells: u64,
}

impl Ring {
    /// Where cell number `cell` begins, bytes.
    #[inline]
    pub fn offset(&self, cell: u64) -> u64 {
        cell % self.cells * self.cell_bytes
    }
}

/// The count of frames of a sender, and the cells that it may write.
#[derive(Clone, Debug)]
pub(super) struct Leave {
    ring: Ring,
    /// Cell of the next frame.
    next: u64,
    /// First cell without leave.
    end: u64,
    /// Frames offered, sent or dropped.
    offered: u64,
}

impl Leave {
    /// A sender that begins at cell `next` and has leave up to the one with these low bits; `None` when that is
    /// more than the ring has.
    pub fn new(ring: Ring, next: u64, low: u32) -> Option<Self> {
        let mut leave = Self { ring, next, end: next, offered: 0 };
        leave.extend(low).then_some(leave)
    }

    /// Takes leave for all cells before the one with these low bits; gives whether that is leave at all.
    pub fn extend(&mut self, low: u32) -> bool {
        let end = self.end + u64::from(low.wrapping_sub(self.end as u32));
        let is_leave = end - self.next <= self.ring.cells;
        if is_leave {
            self.end = end;
        }
        is_leave
    }

    /// Where the next frame goes, if there is leave, and the count that goes with it.
    #[inline]
    pub fn next(&self) -> Option<(u64, u32)> {
        (self.next < self.end).then(|| (self.ring.offset(self.next), (self.offered + 1) as u32))
    }

    /// Counts the frame that was sent there.
    #[inline]
    pub fn sent(&mut self) {
        self.next += 1;
        self.offered += 1;
    }

    /// Counts frames that were not sent.
    pub fn dropped(&mut self, frames: u64) {
        self.offered += frames;
    }

    /// The count of all frames.
    pub fn count(&self) -> u32 {
        self.offered as u32
    }

    /// Longest frame.
    pub fn frame_bytes(&self) -> u64 {
        self.ring.cell_bytes
    }
}
