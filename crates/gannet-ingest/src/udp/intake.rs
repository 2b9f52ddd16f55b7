//! What becomes of each message: judged, counted, and its frames noted as arrivals.

use gannet_memory::Cell;

use crate::lander::Lander;
use crate::source::SourceDrop;
use crate::sys::arrival_counter::Tally;
use crate::sys::receive::Received;
use crate::udp::allow::AllowList;
use crate::udp::segments::{Frames, Segments};

/// The ring of a UDP source with its account and its judgement.
pub(super) struct Intake {
    pub(super) lander: Lander,
    allow: AllowList,
    taken: Tally,
    /// Bytes that may still come as coalesced messages after coalescing was switched off. The
    /// kernel then no longer tells the length of their datagrams.
    residue: usize,
    residue_is_few: bool,
}

impl Intake {
    pub(super) fn new(lander: Lander, allow: AllowList) -> Self {
        Self { lander, allow, taken: Tally::default(), residue: 0, residue_is_few: false }
    }

    /// Whether the engine has to ask for the sender of each message.
    pub(super) fn with_sender(&self) -> bool {
        !self.allow.is_open()
    }

    /// Messages and datagrams taken from the kernel so far.
    pub(super) fn taken(&self) -> Tally {
        self.taken
    }

    /// Expects coalesced messages without a word about it, up to `bytes` of them; only a `few` of
    /// them if datagrams did not come together before.
    pub(super) fn expect_residue(&mut self, bytes: usize, few: bool) {
        self.residue = bytes;
        self.residue_is_few = few;
    }

    /// Counts a message and says which frames of it are to be landed.
    pub(super) fn judge(&mut self, received: &Received) -> Frames {
        let frame_len = self.lander.frame_len;
        let mut segment = received.segment;
        if self.residue > 0 && segment.is_none() {
            self.residue = self.residue.saturating_sub(received.len);
            // What is longer than a frame may be a frame with a shorter datagram behind it, or one
            // long datagram. Where few come together it is taken for the latter.
            if !self.residue_is_few || received.len >= 2 * frame_len {
                segment = Some(frame_len);
            }
        }
        let segments = Segments::of(received.len, segment, frame_len);
        let datagrams = segments.datagrams;
        self.taken.messages += 1;
        self.taken.datagrams += datagrams;
        self.lander.counters.messages.add(1);
        let account = &self.lander.account;
        account.offer(datagrams);
        if !self.allow.allows(received.sender) {
            account.discard(SourceDrop::ForeignAddress, datagrams);
            return Frames::Leading(0);
        }
        let frames = segments.frame_count();
        account.deliver(frames);
        if frames < datagrams {
            account.discard(SourceDrop::of_len(received.len), datagrams - frames);
        }
        segments.frames
    }

    /// Notes `count` frames in the cells from `first` on.
    pub(super) fn arrive(&mut self, first: Cell, count: usize) {
        (0..count as u64).for_each(|index| self.lander.arrive(Cell(first.0 + index)));
    }
}
