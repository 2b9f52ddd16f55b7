//! What a receiver makes of what its sender tells: which cells hold frames, which are lost, and how far there is
//! leave.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use gannet_ingest::SourceDrop;

use super::config::Policy;
use super::leave::Ring;

/// Part of the leave that is given at a time.
const BATCHES: u64 = 8;

/// A frame that nobody has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub cell: u64,
    /// Bytes of it; none when the cell holds nothing that is taken.
    pub len: Option<u32>,
}

/// What a word of the sender adds to the account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Frames that it dropped.
    pub dropped: u64,
    /// Why its frame is not taken, if it is not.
    pub refused: Option<SourceDrop>,
}

/// The ring as its receiver sees it.
#[derive(Debug)]
pub(super) struct Intake {
    ring: Ring,
    lengths: RangeInclusive<usize>,
    policy: Policy,
    /// Cells for which there is leave at most.
    ahead: u64,
    /// First cell of which a frame may still be taken.
    head: u64,
    /// Cell of the next frame of the sender.
    next: u64,
    /// First cell without leave.
    end: u64,
    /// Frames offered to the present sender.
    offered: u64,
    waiting: VecDeque<Waiting>,
}

impl Intake {
    /// A ring without frames, of which `ahead` cells may wait to be written or looked at.
    pub fn new(ring: Ring, lengths: RangeInclusive<usize>, policy: Policy, ahead: u64) -> Self {
        let waiting = VecDeque::with_capacity(ahead as usize);
        Self { ring, lengths, policy, ahead, head: 0, next: 0, end: 0, offered: 0, waiting }
    }

    /// Begins at a cell.
    #[cfg(test)]
    pub fn start_at(&mut self, cell: u64) {
        (self.head, self.next, self.end) = (cell, cell, cell);
    }

    /// Begins with another sender; gives the cell of its first frame.
    pub fn begin(&mut self) -> u64 {
        self.offered = 0;
        self.next
    }

    /// First cell that is not yet taken.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// First cell without leave.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Most frames that can wait.
    pub fn ahead(&self) -> u64 {
        self.ahead
    }

    /// Takes a word: that `bytes` bytes lie at `offset`, or if there are none, only the count of all frames.
    #[inline]
    pub fn hear(&mut self, offset: u64, bytes: u64, count: u32) -> Told {
        let (frame, new) = (bytes > 0, count.wrapping_sub(self.offered as u32));
        if new > u32::MAX / 2 || (frame && new == 0) {
            return Told { dropped: 0, refused: frame.then_some(SourceDrop::OutOfTurn) };
        }
        self.offered += u64::from(new);
        let dropped = u64::from(new) - u64::from(frame);
        if !frame {
            return Told { dropped, refused: None };
        }
        let cell = self.next;
        if cell >= self.end || offset != self.ring.offset(cell) {
            return Told { dropped, refused: Some(SourceDrop::OutsideWindow) };
        }
        self.next += 1;
        let is_taken = self.lengths.contains(&(bytes as usize));
        self.waiting.push_back(Waiting { cell, len: is_taken.then_some(bytes as u32) });
        let refused = (!is_taken).then_some(SourceDrop::of_len(bytes as usize));
        Told { dropped, refused }
    }

    /// The oldest frame that waits.
    #[inline]
    pub fn take(&mut self) -> Option<(u64, u32)> {
        loop {
            let Waiting { cell, len } = self.waiting.pop_front()?;
            self.head = cell + 1;
            if let Some(len) = len {
                return Some((cell, len));
            }
        }
    }

    /// Gives up the oldest frames that wait, if the policy asks for it; gives how many.
    pub fn give_up(&mut self) -> u64 {
        let waiting = self.waiting.len() as u64;
        if self.policy == Policy::CreditStop || waiting <= self.ahead / 4 * 3 {
            return 0;
        }
        let mut frames = 0;
        for Waiting { cell, len } in self.waiting.drain(..(waiting - self.ahead / 2) as usize) {
            self.head = cell + 1;
            frames += u64::from(len.is_some());
        }
        frames
    }

    /// The end of the cells for which leave is to be given now, if it is worth a word.
    pub fn leave(&self) -> Option<u64> {
        let end = self.head + self.ahead;
        (end - self.end >= (self.ahead / BATCHES).max(1)).then_some(end)
    }

    /// Notes that leave was given for all cells before `end`.
    pub fn left(&mut self, end: u64) {
        self.end = end;
    }
}
