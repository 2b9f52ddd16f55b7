//! What becomes of each message: judged, counted, and its datagrams noted as arrivals.

use std::net::SocketAddr;
use std::ops::Range;

use gannet_memory::Cell;

use crate::landed::Landed;
use crate::source::SourceDrop;
use crate::sys::arrival_counter::Tally;
use crate::sys::receive::Received;
use crate::udp::allow::AllowList;
use crate::udp::segments::Segments;

/// The ring of a UDP source with its account and its judgement.
pub(super) struct Intake {
    pub(super) landed: Landed,
    allow: AllowList,
    taken: Tally,
    /// Bytes that may still come as coalesced messages after coalescing was switched off. The
    /// kernel then no longer tells the length of their datagrams.
    residue: usize,
    residue_is_few: bool,
    /// Sender of each arrival of this poll, if somebody asks for it.
    senders: Option<Vec<Option<SocketAddr>>>,
    /// Sender of the last message.
    sender: Option<SocketAddr>,
}

impl Intake {
    pub(super) fn new(landed: Landed, allow: AllowList) -> Self {
        Self {
            landed,
            allow,
            taken: Tally::default(),
            residue: 0,
            residue_is_few: false,
            senders: None,
            sender: None,
        }
    }

    /// Whether the engine has to ask for the sender of each message.
    pub(super) fn with_sender(&self) -> bool {
        !self.allow.is_open() || self.senders.is_some()
    }

    /// Keeps the sender of each arrival from now on.
    pub(super) fn keep_senders(&mut self) {
        self.senders = Some(Vec::new());
    }

    /// Sender of an arrival of this poll, if it is kept.
    pub(super) fn sender(&self, arrival: usize) -> Option<SocketAddr> {
        *self.senders.as_ref()?.get(arrival)?
    }

    /// Begins a poll.
    pub(super) fn clear(&mut self) {
        self.landed.clear();
        self.senders.iter_mut().for_each(Vec::clear);
    }

    /// Notes a datagram of the last message.
    #[inline]
    pub(super) fn arrive(&mut self, cell: Cell, len: usize) {
        self.landed.arrive(cell, len);
        if let Some(senders) = &mut self.senders {
            senders.push(self.sender);
        }
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

    /// Counts a message, and says where its datagrams lie and which of them are to be landed.
    pub(super) fn judge(&mut self, received: &Received) -> (Segments, Range<usize>) {
        let lengths = self.landed.lengths().clone();
        self.sender = received.sender;
        let (mut segment, mut untold) = (received.segment, false);
        if self.residue > 0 && segment.is_none() {
            self.residue = self.residue.saturating_sub(received.len);
            let longest = *lengths.end();
            // What is longer than a frame may be a frame with a shorter datagram behind it, or one
            // long datagram. Where few come together it is taken for the latter.
            if *lengths.start() < longest {
                untold = true;
            } else if !self.residue_is_few || received.len >= 2 * longest {
                segment = Some(longest);
            }
        }
        let segments = Segments::of(received.len, segment);
        let datagrams = segments.count as u64;
        self.taken.messages += 1;
        self.taken.datagrams += datagrams;
        let Landed { account, counters, .. } = &self.landed;
        counters.messages.add(1);
        account.offer(datagrams);
        if !self.allow.allows(received.sender) {
            account.discard(SourceDrop::ForeignAddress, datagrams);
            return (segments, 0..0);
        }
        if untold {
            // One datagram or several, and nobody knows where each ends.
            account.discard(SourceDrop::KernelQueue, datagrams);
            counters.unsized_drops.add(1);
            return (segments, 0..0);
        }
        let taken = segments.within(&lengths);
        account.deliver(taken.len() as u64);
        counters.bytes.add(segments.bytes(&taken).len() as u64);
        if taken.len() < segments.count {
            let wrong = SourceDrop::of_len(received.len);
            account.discard(wrong, datagrams - taken.len() as u64);
        }
        (segments, taken)
    }
}
