//! What all sources have: the ring, the arrivals of a poll, the account and the facts.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use gannet_measure::ledger::Account;
use gannet_memory::{Cell, Geometry, Producer, clop};
use gannet_wire::network::{Refusal, UdpPayload};

use crate::Error;
use crate::source::{Arrival, Counters, DropSizes, Facts, Landing, SourceDrop};
use crate::udp::AllowList;

/// Arrivals after which a poll stops looking for more: few enough that the frames are still in
/// the second-level cache when they are processed (32 x 7200 bytes = 225 KiB). What the kernel
/// copied them from is in that cache, too.
pub const BATCH_FRAMES: usize = 32;

/// What a source has landed so far, and what it is.
#[derive(Debug)]
pub struct Landed {
    pub(crate) producer: Producer,
    pub(crate) account: Arc<Account<SourceDrop>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) facts: Facts,
    pub(crate) arrival_ns: u64,
    arrivals: Vec<Arrival>,
}

impl Landed {
    /// Makes the ring of a source of this name and engine; `arrivals_max` is the largest number of
    /// arrivals of one poll.
    pub(crate) fn new(
        landing: Landing,
        arrivals_max: usize,
        name: String,
        engine: &'static str,
    ) -> Result<Self, Error> {
        landing.check()?;
        // The arrivals of a poll are intact until the next.
        let cells = landing.cells.max(2 * arrivals_max as u64);
        let geometry = Geometry { cell_bytes: *landing.lengths.end(), cells: cells as usize };
        let (producer, _) = clop(geometry).map_err(Error::Memory)?;
        Ok(Self::over(producer, landing.lengths, arrivals_max, name, engine))
    }

    /// What a source of another crate has, that lands datagrams of these `lengths` in a clop of its own.
    ///
    /// Each poll of it calls [`begin`](Self::begin), then [`deliver`](Self::deliver) for each that lies in a
    /// cell, which it commits, and [`discard`](Self::discard) for what is not.
    ///
    /// # Panics
    /// When a cell is shorter than the longest datagram.
    pub fn over(
        producer: Producer,
        lengths: RangeInclusive<usize>,
        arrivals_max: usize,
        name: String,
        engine: &'static str,
    ) -> Self {
        let Geometry { cell_bytes, cells } = producer.geometry();
        assert!(cell_bytes >= *lengths.end(), "a cell has room for the longest datagram");
        let facts = Facts {
            name,
            engine,
            refusals: Vec::new(),
            address: None,
            lengths,
            cells: cells as u64,
            pages: producer.pages(),
            kernel_buffer: None,
            drop_sizes: DropSizes::None,
        };
        Self {
            producer,
            account: Arc::default(),
            counters: Arc::default(),
            facts,
            arrival_ns: 0,
            arrivals: Vec::with_capacity(arrivals_max),
        }
    }

    /// The arrivals of the last poll in the order in which they came, a bounded number. Their
    /// cells are intact until the next poll.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Reading of the clock at the last poll, in ns; one for all its arrivals.
    pub fn arrival_ns(&self) -> u64 {
        self.arrival_ns
    }

    /// The clop in which the datagrams lie.
    pub fn producer(&self) -> &Producer {
        &self.producer
    }

    /// The clop, for its source to move on.
    pub fn producer_mut(&mut self) -> &mut Producer {
        &mut self.producer
    }

    /// The account of all datagrams: offered = delivered + dropped, exact once exhausted.
    pub fn account(&self) -> Arc<Account<SourceDrop>> {
        Arc::clone(&self.account)
    }

    /// Counts of what the engine does, for metrics and diagnosis.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// What the source is and what it was given, for reports.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The facts, for its source to complete.
    pub fn facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// Lengths of datagrams that are taken.
    pub(crate) fn lengths(&self) -> &RangeInclusive<usize> {
        &self.facts.lengths
    }

    /// Begins a poll at this reading of the clock, in ns.
    pub fn begin(&mut self, now_ns: u64) {
        self.clear();
        self.arrival_ns = now_ns;
    }

    /// Begins a poll.
    pub(crate) fn clear(&mut self) {
        self.arrivals.clear();
    }

    /// Whether this poll has found enough.
    pub fn is_full(&self) -> bool {
        self.arrivals.len() >= BATCH_FRAMES
    }

    /// Notes a datagram of `len` bytes that lies, or will lie when the poll ends, in `cell`.
    #[inline]
    pub(crate) fn arrive(&mut self, cell: Cell, len: usize) {
        debug_assert!(self.arrivals.len() < self.arrivals.capacity(), "arrivals are bounded");
        self.arrivals.push(Arrival { cell, len: len as u32 });
    }

    /// Counts a datagram of `len` bytes, which is not taken.
    pub(crate) fn refuse(&self, len: usize) {
        self.discard(SourceDrop::of_len(len), 1);
    }

    /// Delivers a datagram of `len` bytes that lies in `cell`, and counts it; its source commits the cell
    /// before its poll ends.
    #[inline]
    pub fn deliver(&mut self, cell: Cell, len: usize) {
        self.arrive(cell, len);
        self.account.offer(1);
        self.account.deliver(1);
        self.counters.bytes.add(len as u64);
    }

    /// Counts `count` datagrams that are not delivered.
    pub fn discard(&self, reason: SourceDrop, count: u64) {
        self.account.offer(count);
        self.account.discard(reason, count);
    }

    /// Counts a datagram, and copies it into a cell if its length is one of those taken.
    pub(crate) fn land(&mut self, datagram: &[u8]) {
        if !self.lengths().contains(&datagram.len()) {
            return self.refuse(datagram.len());
        }
        let cell = self.producer.land(datagram);
        self.deliver(cell, datagram.len());
    }

    /// Judges the UDP payload of a packet, and lands it if its length is one of those taken. Other
    /// packets than UDP over IPv4 are passed over.
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
        self.discard(reason, 1);
    }

    /// Notes that a datagram of this poll was moved to another cell.
    pub(crate) fn moved(&mut self, from: Cell, to: Cell) {
        let arrivals = self.arrivals.iter_mut().rev();
        arrivals.filter(|arrival| arrival.cell == from).for_each(|arrival| arrival.cell = to);
    }
}
