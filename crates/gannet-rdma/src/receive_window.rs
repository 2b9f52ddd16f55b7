//! Packets that came from one node, until all before them have come.

use super::completion::Reason;
use super::epoch::Epoch;

/// What is to be done when all packets up to this one are in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Nothing: the packet fills a place.
    #[default]
    Nothing,
    /// A piece of a PUT; its end is told unless it is quiet.
    Put { piece: Piece, process: u16, address: u64, tag: u32, is_quiet: bool },
    /// A GET of the other node is to be answered.
    Answer { request: u32, process: u16, address: u64, length: u32, tag: u32 },
    /// A piece of the answer to a GET of this node.
    Reply { piece: Piece },
    /// A GET of this node has failed.
    ReplyRefused { request: u32, reason: Reason },
}

impl Delivery {
    /// Whether it leads to more than going on.
    pub fn is_end(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Put { piece, .. } | Self::Reply { piece } => piece.is_last(),
            Self::Answer { .. } | Self::ReplyRefused { .. } => true,
        }
    }
}

/// Which part of its message a packet has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub request: u32,
    pub offset: u32,
    pub bytes: u32,
    /// Bytes of the message.
    pub length: u32,
}

impl Piece {
    pub fn is_last(&self) -> bool {
        self.offset + self.bytes == self.length
    }
}

/// How far the message has come whose pieces are delivered.
///
/// A sender that gives a message up fills the places of its missing pieces. Then the last piece
/// may well be there, but the message is not whole.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    request: u32,
    bytes: u32,
}

/// What a sequence number says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It has not been here.
    Fresh,
    /// It has.
    Duplicate,
    /// It is further ahead than may be; its sender does not keep to the window.
    Beyond,
    /// It belongs to another epoch: one that is over, or one whose beginning this node has missed.
    Stale,
}

/// A bit for each packet of a window.
pub(super) type Mask = u128;

/// Most packets that may be under way from one node to another.
pub const WINDOW_MAX: u32 = Mask::BITS;

/// The next [`WINDOW_MAX`] packets of an epoch. Bit `i` of a mask speaks of number `next + i`.
#[derive(Clone, Debug)]
pub(super) struct ReceiveWindow {
    /// None before the first packet.
    epoch: Epoch,
    next: u32,
    /// Accepted.
    arrived: Mask,
    /// Accepted, and their data are in memory.
    placed: Mask,
    deliveries: [Delivery; WINDOW_MAX as usize],
    /// Refused, and their sender is to be told.
    refused: Mask,
    /// Request and reason of these.
    refusals: [(u32, Reason); WINDOW_MAX as usize],
    progress: Progress,
    /// Packets placed since the last acknowledgement.
    unacknowledged: u8,
    /// When they are to be acknowledged.
    pub acknowledge_at: u64,
}

impl ReceiveWindow {
    pub fn new() -> Self {
        Self {
            epoch: Epoch::NONE,
            next: 0,
            arrived: 0,
            placed: 0,
            deliveries: [Delivery::Nothing; WINDOW_MAX as usize],
            refused: 0,
            refusals: [(0, Reason::Busy); WINDOW_MAX as usize],
            progress: Progress::default(),
            unacknowledged: 0,
            acknowledge_at: u64::MAX,
        }
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether a packet begins a new count of the numbers. Its number is then one of the first:
    /// a larger one says that its sender goes on with what this node has forgotten.
    pub fn is_restart(&self, epoch: Epoch, sequence: u32) -> bool {
        epoch.is_after(self.epoch) && sequence < WINDOW_MAX
    }

    /// Begins a new count; gives the number of answers that will not be asked for again.
    pub fn restart(&mut self, epoch: Epoch) -> usize {
        let answers = self.deliveries.iter().filter(|it| matches!(it, Delivery::Answer { .. }));
        let answers = answers.count();
        *self = Self { epoch, ..Self::new() };
        answers
    }

    pub fn classify(&self, epoch: Epoch, sequence: u32) -> Arrival {
        let index = sequence.wrapping_sub(self.next);
        if self.epoch != epoch {
            Arrival::Stale
        } else if index >= 1 << 31 {
            Arrival::Duplicate
        } else if index >= WINDOW_MAX {
            Arrival::Beyond
        } else if self.arrived >> index & 1 == 1 {
            Arrival::Duplicate
        } else {
            Arrival::Fresh
        }
    }

    /// Accepts a fresh packet.
    pub fn arrive(&mut self, sequence: u32, delivery: Delivery) {
        debug_assert!(sequence.wrapping_sub(self.next) < WINDOW_MAX);
        let bit = 1 << sequence.wrapping_sub(self.next);
        self.arrived |= bit;
        self.refused &= !bit;
        self.deliveries[(sequence % WINDOW_MAX) as usize] = delivery;
    }

    /// Refuses a fresh packet.
    pub fn refuse(&mut self, sequence: u32, request: u32, reason: Reason) {
        debug_assert!(sequence.wrapping_sub(self.next) < WINDOW_MAX);
        self.refused |= 1 << sequence.wrapping_sub(self.next);
        self.refusals[(sequence % WINDOW_MAX) as usize] = (request, reason);
    }

    /// Takes the first refusal to be told: sequence number, request and reason.
    pub fn take_refusal(&mut self) -> Option<(u32, u32, Reason)> {
        let sequence = self.next.wrapping_add(self.refused.trailing_zeros());
        let (request, reason) = self.refusals[(sequence % WINDOW_MAX) as usize];
        let is_some = self.has_refusal();
        self.refused &= self.refused.wrapping_sub(1);
        is_some.then_some((sequence, request, reason))
    }

    pub fn has_refusal(&self) -> bool {
        self.refused != 0
    }

    /// Notes that the data of an accepted packet are in memory. Gives whether that is news to tell
    /// at once: something is out of order, has ended, or `ack_packets` have come.
    pub fn place(&mut self, epoch: Epoch, sequence: u32, ack_packets: u8) -> bool {
        if self.epoch != epoch {
            return false;
        }
        self.placed |= 1 << sequence.wrapping_sub(self.next);
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        self.placed & self.placed.wrapping_add(1) != 0
            || self.deliveries[(sequence % WINDOW_MAX) as usize].is_end()
            || self.unacknowledged >= ack_packets
    }

    /// The delivery whose turn it is.
    pub fn front(&self) -> Option<Delivery> {
        (self.placed & 1 == 1).then(|| self.deliveries[(self.next % WINDOW_MAX) as usize])
    }

    /// Takes note of a piece in its turn; gives whether it and all before it of its message came.
    pub fn is_whole_so_far(&mut self, piece: &Piece) -> bool {
        let is_next = (piece.request, piece.offset) == (self.progress.request, self.progress.bytes);
        let is_whole = piece.offset == 0 || is_next;
        let bytes = if is_whole { piece.offset + piece.bytes } else { 0 };
        self.progress = Progress { request: if is_whole { piece.request } else { 0 }, bytes };
        is_whole
    }

    /// Goes on to the next one.
    pub fn advance(&mut self) {
        self.deliveries[(self.next % WINDOW_MAX) as usize] = Delivery::Nothing;
        self.next = self.next.wrapping_add(1);
        (self.arrived, self.placed) = (self.arrived >> 1, self.placed >> 1);
        self.refused >>= 1;
    }

    /// Epoch, next number and those of the later ones that a header speaks of, for a packet that tells them; none is owed after
    /// that.
    pub fn acknowledge(&mut self) -> (Epoch, u32, u32) {
        (self.unacknowledged, self.acknowledge_at) = (0, u64::MAX);
        (self.epoch, self.next, self.placed as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_epoch_begins_with_its_first_numbers() {
        let epoch = Epoch::first;
        let mut window = ReceiveWindow::new();
        assert!(!window.is_restart(epoch(7), WINDOW_MAX));
        assert!(window.is_restart(epoch(7), WINDOW_MAX - 1));
        window.restart(epoch(250));
        assert!(window.is_restart(epoch(251), 0) && window.is_restart(epoch(3), 0));
        assert!(!window.is_restart(epoch(250), 0) && !window.is_restart(epoch(249), 0));
        assert!(!window.is_restart(epoch(251), WINDOW_MAX));
        assert_eq!(window.classify(epoch(249), 0), Arrival::Stale);
        let (process, address, length, tag) = (0, 0, 0, 0);
        window.arrive(0, Delivery::Answer { request: 1, process, address, length, tag });
        assert_eq!(window.restart(epoch(251)), 1);
        assert!(!window.place(epoch(250), 0, 1) && window.front().is_none());
    }

    #[test]
    fn a_message_without_one_of_its_pieces_is_not_whole() {
        let mut window = ReceiveWindow::new();
        let mut whole = |request, offset| {
            window.is_whole_so_far(&Piece { request, offset, bytes: 10, length: 30 })
        };
        assert!(whole(1, 0) && whole(1, 10) && whole(1, 20));
        assert!(whole(2, 0) && !whole(2, 20) && !whole(2, 10));
        assert!(!whole(3, 10) && !whole(3, 20));
        assert!(whole(4, 0) && !whole(5, 10) && whole(6, 0));
    }

    #[test]
    fn each_refusal_is_told_once_unless_its_packet_was_accepted_after_all() {
        let mut window = ReceiveWindow::new();
        window.restart(Epoch::first(1));
        window.next = u32::MAX;
        let unknown = Reason::Access(gannet_memory::Refusal::Unknown);
        for (sequence, reason) in [(30, unknown), (0, unknown), (1, Reason::Busy), (0, unknown)] {
            window.refuse(sequence, sequence + 100, reason);
        }
        window.arrive(1, Delivery::Nothing);
        window.arrive(u32::MAX, Delivery::Nothing);
        window.advance();
        assert_eq!(window.take_refusal(), Some((0, 100, unknown)));
        assert!(window.has_refusal());
        assert_eq!(window.take_refusal(), Some((30, 130, unknown)));
        assert_eq!(window.take_refusal(), None);
    }

    proptest! {
        #[test]
        fn every_number_is_delivered_once_and_in_order(
            start: u32,
            steps in proptest::collection::vec(0u32..40, 1..400),
        ) {
            let mut window = ReceiveWindow::new();
            window.restart(Epoch::first(1));
            window.next = start;
            let mut seen = BTreeSet::new();
            let mut delivered = 0;
            for step in steps {
                // Numbers around the next one, some old and some too far ahead.
                let number = (delivered + u64::from(step)).saturating_sub(5);
                let sequence = start.wrapping_add(number as u32);
                let expected = match number {
                    _ if seen.contains(&number) => Arrival::Duplicate,
                    _ if number >= delivered + u64::from(WINDOW_MAX) => Arrival::Beyond,
                    _ => Arrival::Fresh,
                };
                prop_assert_eq!(window.classify(Epoch::first(1), sequence), expected);
                if expected != Arrival::Fresh {
                    continue;
                }
                seen.insert(number);
                let tag = number as u32;
                let piece = Piece { request: 1, offset: 0, bytes: 0, length: 0 };
                window.arrive(
                    sequence, Delivery::Put { piece, process: 0, address: 0, tag, is_quiet: false },
                );
                prop_assert!(window.place(Epoch::first(1), sequence, 4));
                while let Some(Delivery::Put { tag, .. }) = window.front() {
                    prop_assert_eq!(u64::from(tag), delivered);
                    prop_assert!(seen.contains(&delivered));
                    delivered += 1;
                    window.advance();
                }
                prop_assert!(!seen.contains(&delivered));
            }
        }
    }
}
