//! The part that all sources share: the ring, the arrivals of a poll, and the account.

use std::net::SocketAddr;
use std::sync::Arc;

use gannet_measure::ledger::Account;
use gannet_memory::{Cell, Producer};
use gannet_wire::network::{Refusal, UdpPayload};

use crate::source::{Arrival, Counters, DropSizes, Facts, SourceDrop};
use crate::udp::AllowList;

/// Arrivals after which a poll stops looking for more: few enough that the frames are still in
/// the second-level cache when they are processed (32 x 7200 bytes = 225 KiB). What the kernel
/// copied them from is in that cache, too.
pub(crate) const BATCH_FRAMES: usize = 32;

/// Lands frames in a ring and keeps the account.
#[derive(Debug)]
pub(crate) struct Lander {
    pub(crate) producer: Producer,
    pub(crate) frame_len: usize,
    pub(crate) account: Arc<Account<SourceDrop>>,
    pub(crate) counters: Arc<Counters>,
    arrivals: Vec<Arrival>,
}

impl Lander {
    /// `arrivals_max` is the largest number of arrivals of one poll.
    pub(crate) fn new(producer: Producer, frame_len: usize, arrivals_max: usize) -> Self {
        let arrivals = Vec::with_capacity(arrivals_max);
        Self { producer, frame_len, account: Arc::default(), counters: Arc::default(), arrivals }
    }

    /// Begins a poll.
    pub(crate) fn clear(&mut self) {
        self.arrivals.clear();
    }

    /// The arrivals of this poll so far.
    pub(crate) fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Whether this poll has found enough.
    pub(crate) fn is_full(&self) -> bool {
        self.arrivals.len() >= BATCH_FRAMES
    }

    /// Notes a frame that lies, or will lie when the poll ends, in `cell`.
    #[inline]
    pub(crate) fn arrive(&mut self, cell: Cell) {
        debug_assert!(self.arrivals.len() < self.arrivals.capacity(), "arrivals are bounded");
        self.arrivals.push(Arrival { cell, len: self.frame_len as u32 });
    }

    /// The cell `n` after the head.
    #[inline]
    pub(crate) fn cell_after(&self, n: u64) -> Cell {
        Cell(self.producer.head().0 + n)
    }

    /// Counts a datagram of `len` bytes, which is not the length of a frame.
    pub(crate) fn refuse(&self, len: usize) {
        self.account.offer(1);
        self.account.discard(SourceDrop::of_len(len), 1);
    }

    /// Counts a datagram, and copies it into a cell if it is a frame.
    pub(crate) fn land(&mut self, datagram: &[u8]) {
        if datagram.len() != self.frame_len {
            return self.refuse(datagram.len());
        }
        self.account.offer(1);
        let cell = self.producer.land(datagram);
        self.arrive(cell);
        self.account.deliver(1);
    }

    /// Judges the UDP payload of a packet, and lands it if it is a frame. Other packets than UDP over
    /// IPv4 are passed over.
    pub(crate) fn land_packet(
        &mut self,
        allow: &mut AllowList,
        payload: Result<UdpPayload<'_>, Refusal>,
    ) {
        let reason = match payload {
            Err(Refusal::NotIpv4 { .. } | Refusal::NotUdp { .. }) => return,
            Err(Refusal::Fragment { .. }) => SourceDrop::Fragment,
            Err(_) => SourceDrop::Malformed,
            Ok(found) if !allow.allows(Some(SocketAddr::V4(found.source))) => {
                SourceDrop::ForeignAddress
            }
            Ok(found) => return self.land(found.payload),
        };
        self.account.offer(1);
        self.account.discard(reason, 1);
    }

    /// Notes that a frame of this poll was moved to another cell.
    pub(crate) fn moved(&mut self, from: Cell, to: Cell) {
        let arrivals = self.arrivals.iter_mut().rev();
        arrivals.filter(|arrival| arrival.cell == from).for_each(|arrival| arrival.cell = to);
    }

    /// The facts of a source that has no socket.
    pub(crate) fn facts(&self, name: String, engine: &'static str) -> Facts {
        Facts {
            name,
            engine,
            refusals: Vec::new(),
            address: None,
            frame_len: self.frame_len,
            cells: self.producer.geometry().capacity(),
            pages: self.producer.pages(),
            kernel_buffer: None,
            drop_sizes: DropSizes::None,
        }
    }
}
