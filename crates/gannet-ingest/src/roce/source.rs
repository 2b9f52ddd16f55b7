//! The source behind one port of RoCEv2.

use std::net::{SocketAddr, SocketAddrV4};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use gannet_measure::clock::Clock;
use gannet_measure::ledger::Reason;
use gannet_wire::roce::invariant_crc::SocketCheck;
use gannet_wire::roce::{BASE_LEN, CRC_LEN, HEADERS_LEN_MAX, Packet};

use super::DATA_LEN_MAX;
use super::config::RoceConfig;
use super::connection::{Connection, Fate, Window};
use crate::Error;
use crate::landed::{BATCH_FRAMES, Landed};
use crate::source::{Landing, Source, SourceDrop};
use crate::udp::{self, UdpSource};

/// Bytes that a packet may have.
const PACKET_LENGTHS: RangeInclusive<usize> =
    BASE_LEN + CRC_LEN..=HEADERS_LEN_MAX + DATA_LEN_MAX + CRC_LEN;

/// Cells of the window that a source shows where `cells` datagrams are to be kept.
pub fn window_cells(cells: u64) -> u64 {
    cells.max(2 * BATCH_FRAMES as u64)
}

/// Takes RDMA WRITEs from a UDP socket.
pub struct RoceSource {
    landed: Landed,
    packets: UdpSource,
    /// The next of the packets that the last poll brought.
    next: usize,
    /// What the account of the packets said so far, in the order of the reasons.
    dropped: Vec<u64>,
    /// Packets that the kernel dropped and that were not found missing yet.
    explained: u64,
    connections: Vec<Connection>,
    window: Window,
    check: Option<SocketCheck>,
    address: SocketAddrV4,
}

impl RoceSource {
    /// Makes the source. Nothing can be sent to it before it is bound.
    ///
    /// # Errors
    /// When a number is out of range, or socket or memory cannot be had.
    pub fn open(
        config: &RoceConfig,
        landing: Landing,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        config.check()?;
        let cells = Landing { lengths: PACKET_LENGTHS, cells: 1 };
        let mut packets = udp::prepare(&config.udp(), cells, None, clock)?.remove(0);
        packets.keep_senders();
        let below = packets.landed().facts();
        let name = format!("roce {}", config.listen);
        let cells = window_cells(landing.cells);
        let lengths = landing.lengths.clone();
        let mut landed =
            Landed::new(Landing { cells, ..landing }, BATCH_FRAMES, name, below.engine)?;
        landed.facts.refusals.clone_from(&below.refusals);
        landed.facts.kernel_buffer = below.kernel_buffer;
        landed.facts.drop_sizes = below.drop_sizes;
        let window = Window {
            key: config.key,
            start: config.start,
            cell_bytes: *lengths.end() as u64,
            cells,
            lengths,
        };
        let mut queue_pairs = config.queue_pairs.clone();
        queue_pairs.sort_unstable();
        queue_pairs.dedup();
        Ok(Self {
            landed,
            packets,
            next: 0,
            dropped: vec![0; SourceDrop::ALL.len()],
            explained: 0,
            connections: queue_pairs.into_iter().map(Connection::new).collect(),
            window,
            check: config.check_crc.then(SocketCheck::default),
            address: config.listen,
        })
    }

    /// Address that the socket is bound to, or is to be bound to.
    pub fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Takes over what the packets' own account says of drops, and what it counts.
    fn keep_books(&mut self) {
        let below = self.packets.landed();
        let account = below.account();
        for (reason, before) in SourceDrop::ALL.iter().zip(&mut self.dropped) {
            let now = account.dropped(*reason);
            let new = now - std::mem::replace(before, now);
            self.landed.discard(*reason, new);
            if *reason == SourceDrop::KernelQueue {
                self.explained += new;
            }
        }
        let (above, below) = (&self.landed.counters, below.counters());
        let pairs = [
            (&above.messages, &below.messages),
            (&above.unsized_drops, &below.unsized_drops),
            (&above.coalescing_switches, &below.coalescing_switches),
        ];
        pairs.into_iter().for_each(|(above, below)| above.add(below.get() - above.get()));
    }

    /// Judges packet `index` of the last poll, and lands the message that it ends.
    fn take(&mut self, index: usize) {
        let Self { landed, packets, connections, explained, .. } = self;
        let arrival = packets.landed().arrivals()[index];
        let bytes = packets.landed().producer().bytes(arrival.cell, arrival.len as usize);
        let (Ok(packet), Some(SocketAddr::V4(sender))) =
            (Packet::new_checked(bytes), packets.sender(index))
        else {
            return landed.discard(SourceDrop::Malformed, 1);
        };
        // The headers first, as the check sum is of all bytes: what they refuse costs the same however long it
        // is. Of a packet that is wrong in both the reason is that of its headers, which is true of it as it
        // came; only what would have been taken otherwise is counted as damaged.
        let Ok(own) =
            connections.binary_search_by_key(&packet.queue_pair(), Connection::queue_pair)
        else {
            return landed.discard(SourceDrop::WrongQueuePair, 1);
        };
        let connection = &mut connections[own];
        let now_ns = packets.landed().arrival_ns();
        let admitted = match connection.admit(&self.window, sender, now_ns, &packet) {
            Ok(admitted) => admitted,
            Err(reason) => return landed.discard(reason, 1),
        };
        let is_right = |check: &mut SocketCheck| check.is_right(sender, self.address, &packet);
        if !self.check.as_mut().is_none_or(is_right) {
            return landed.discard(SourceDrop::BadCheckSum, 1);
        }
        let taken = connection.take(&self.window, admitted, &packet);
        let (missing, unfinished) = (u64::from(taken.missing), taken.unfinished);
        match taken.fate {
            Fate::Kept => {}
            Fate::Refused(reason) => landed.discard(reason, 1),
            Fate::Message(message) => landed.land(message),
        }
        let by_kernel = missing.min(*explained);
        *explained -= by_kernel;
        landed.discard(SourceDrop::Missing, missing - by_kernel);
        landed.discard(SourceDrop::Unfinished, unfinished);
    }

    /// Whether all packets of the last poll were looked at.
    fn is_done(&self) -> bool {
        self.next == self.packets.landed().arrivals().len()
    }
}

impl Source for RoceSource {
    fn bind(&mut self) -> Result<(), Error> {
        self.packets.bind()?;
        if let SocketAddr::V4(address) = self.packets.address() {
            self.address = address;
        }
        self.landed.facts.name = format!("roce {}", self.address);
        self.landed.facts.address = Some(self.address.into());
        Ok(())
    }

    fn start(&mut self) -> Result<(), Error> {
        self.bind()?;
        self.packets.start()?;
        self.keep_books();
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> Result<usize, Error> {
        self.landed.clear();
        if self.is_done() {
            self.next = 0;
            self.packets.poll(wait)?;
            self.landed.arrival_ns = self.packets.landed().arrival_ns();
            self.keep_books();
        }
        while !self.is_done() && !self.landed.is_full() {
            self.take(self.next);
            self.next += 1;
        }
        if self.is_exhausted() {
            let unfinished = self.connections.iter_mut().map(Connection::abandon).sum();
            self.landed.discard(SourceDrop::Unfinished, unfinished);
        }
        Ok(self.landed.arrivals().len())
    }

    fn landed(&self) -> &Landed {
        &self.landed
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.packets.stop()
    }

    fn is_exhausted(&self) -> bool {
        self.packets.is_exhausted() && self.is_done()
    }
}
