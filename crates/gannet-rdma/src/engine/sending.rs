//! From descriptors to packets.

use gannet_lattice::Node;
use gannet_wire::rdma::{HEADER_LEN, Operation as Says, Repr};

use super::{Engine, Read};
use crate::completion::Reason;
use crate::configuration::Limits;
use crate::memory::{Extents, PhysicalMemory};
use crate::operations::{Kind, Operation};
use crate::send_window::Slot;

/// What the header of a link says of a packet that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Node to route the packet to.
    pub destination: Node,
    /// Virtual address of its data at the destination; 0 if it has none or the destination alone
    /// knows.
    pub address: u64,
    /// Bytes of end-to-end header and data.
    pub length: usize,
}

/// A packet that was handed out and is still to be [written](Engine::write_packet).
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Unwritten {
    /// What the header of a link says of it.
    pub outgoing: Outgoing,
    header: Repr,
    extents: Extents,
}

impl<M: PhysicalMemory> Engine<M> {
    /// Writes the next packet for the link to the start of `out`, if there is one.
    ///
    /// # Panics
    /// When `out` is shorter than [`HEADER_LEN`] and the `data_bytes` of the configuration together.
    pub fn next_packet(&mut self, now: u64, out: &mut [u8]) -> Option<Outgoing> {
        let packet = self.next_unwritten(now)?;
        self.write_packet(&packet, &mut out[..packet.outgoing.length]);
        Some(packet.outgoing)
    }

    /// The next packet for the link, if there is one, to be written before anything else is asked of the engine.
    #[inline]
    pub fn next_unwritten(&mut self, now: u64) -> Option<Unwritten> {
        self.advance(now);
        loop {
            let packet = self.control_packet().or_else(|| self.data_packet());
            self.start_reads();
            // Packets that were no longer wanted may have kept others from being read.
            if packet.is_some() || !self.has_packet() {
                return packet;
            }
        }
    }

    /// Writes a packet to `out`, which has its length.
    ///
    /// # Panics
    /// When `out` is shorter.
    pub fn write_packet(&self, packet: &Unwritten, out: &mut [u8]) {
        let out = &mut out[..packet.outgoing.length];
        packet.header.seal_written(out, |mut data, mut sum| {
            for (physical, bytes) in packet.extents.iter() {
                let (piece, rest) = std::mem::take(&mut data).split_at_mut(bytes);
                (sum, data) = (self.memory.read_summed(physical, piece, sum), rest);
            }
            sum
        });
    }

    /// A packet that only acknowledges or refuses; none where the next one with data does that as well.
    #[inline]
    fn control_packet(&mut self) -> Option<Unwritten> {
        let index = self.control.pop_front()?;
        self.flow(index).is_in_control = false;
        if !self.flow(index).receive.has_refusal() && self.is_next(index) {
            return None;
        }
        let refusal = self.flow(index).receive.take_refusal();
        if self.flow(index).receive.has_refusal() {
            self.mark_control(index);
        }
        let header = self.header(index);
        let header = match refusal {
            Some((sequence, request, reason)) => {
                let tag = reason.number();
                Repr { operation: Says::Refused, sequence, request, tag, ..header }
            }
            None => header,
        };
        self.counters.control += 1;
        let destination = Node(header.destination);
        let outgoing = Outgoing { destination, address: 0, length: HEADER_LEN };
        Some(Unwritten { outgoing, header, extents: Extents::default() })
    }

    /// Whether the next packet that has been read is one of this flow, and still wanted.
    fn is_next(&self, index: u32) -> bool {
        self.reads.front().is_some_and(|read| {
            let is_ready = read.flow == index && read.ready_at <= self.now;
            is_ready && self.wanted(read).is_some()
        })
    }

    /// What a packet that has been read carries, if it still has something to tell.
    fn wanted(&self, read: &Read) -> Option<Slot> {
        let send = &self.flows[read.flow as usize].send;
        let slot = send.slot(read.sequence).copied()?;
        (send.epoch == read.epoch && send.is_wanted(read.sequence)).then_some(slot)
    }

    /// The next packet that has been read and is still wanted.
    #[inline]
    fn data_packet(&mut self) -> Option<Unwritten> {
        while let Some(read) = self.reads.front().copied() {
            if read.ready_at > self.now {
                return None;
            }
            self.reads.pop_front();
            if let Some(slot) = self.wanted(&read) {
                return Some(self.with_data(&read, slot));
            }
        }
        None
    }

    #[inline]
    fn with_data(&mut self, read: &Read, slot: Slot) -> Unwritten {
        let operation = self.operations.find(slot.request).copied();
        let says = packet_header(&slot, operation.as_ref());
        let carries = matches!(says.operation, Says::Put | Says::QuietPut | Says::Reply);
        let extents = if carries { read.extents } else { Extents::default() };
        let length = HEADER_LEN + extents.bytes();
        let common = self.header(read.flow);
        let header = Repr {
            epoch: common.epoch,
            acknowledged_epoch: common.acknowledged_epoch,
            source: common.source,
            destination: common.destination,
            acknowledged: common.acknowledged,
            selective: common.selective,
            sequence: read.sequence,
            ..says
        };
        let send = &mut self.flows[read.flow as usize].send;
        let expires = send.sent(read.sequence, self.now, &self.configuration.replay);
        self.timer_at = self.timer_at.min(expires);
        let is_put = matches!(header.operation, Says::Put | Says::QuietPut);
        let address = if is_put { header.base + u64::from(header.offset) } else { 0 };
        let outgoing = Outgoing { destination: Node(header.destination), address, length };
        Unwritten { outgoing, header, extents }
    }

    /// Gives idle DMA engines something to read.
    #[inline]
    pub(super) fn start_reads(&mut self) {
        while self.may_read() && self.read_dma.idle_at() <= self.now {
            self.start_next_read();
        }
    }

    /// Whether a flow waits for a DMA engine, and the packet that would be read has a place to wait for the link.
    #[inline]
    pub(super) fn may_read(&self) -> bool {
        !self.ready.is_empty() && self.reads.len() < self.configuration.limits.transmit_queue
    }

    fn start_next_read(&mut self) {
        let Some(index) = self.ready.pop_front() else { return };
        self.flow(index).is_ready = false;
        if let Some(sequence) = self.next_sequence(index) {
            self.start_read(index, sequence);
            self.mark_ready(index);
        }
    }

    /// A packet to be sent again, or else the next one of the operation whose turn it is.
    fn next_sequence(&mut self, index: u32) -> Option<u32> {
        let Limits { data_bytes, window, .. } = self.configuration.limits;
        let flow = &mut self.flows[index as usize];
        if let Some(sequence) = flow.send.take_pending() {
            return Some(sequence);
        }
        if !flow.send.has_room(window) {
            return None;
        }
        let request = flow.backlog.first(&self.operations)?;
        let operation = self.operations.find(request)?;
        let slot = pack(operation, request, data_bytes as u32);
        if operation.is_packed {
            flow.backlog.remove(&mut self.operations, request);
        }
        self.counters.sent += 1;
        Some(flow.send.push(slot))
    }

    #[inline]
    fn start_read(&mut self, index: u32, sequence: u32) {
        let flow = &self.flows[index as usize];
        let epoch = flow.send.epoch;
        let Some(&slot) = flow.send.slot(sequence) else { return };
        let timing = self.configuration.timing;
        let claim = self.read_dma.claim(self.now);
        let mut ready = claim.start;
        if slot.offset == 0 && !timing.prefetch {
            ready += timing.read_latency_ns;
        }
        let extents = self.find_source(&mut ready, &slot);
        let bytes = extents.bytes();
        if bytes > 0 {
            ready += timing.read_latency_ns;
        }
        let done = self.read_dma.transfer(claim, ready, bytes);
        // The link takes packets in the order in which they were begun.
        let ready_at = self.reads.back().map_or(done, |before| before.ready_at.max(done));
        self.reads.push_back(Read { flow: index, epoch, sequence, extents, ready_at });
    }

    /// Where the data of a packet lie. A reply whose memory is no longer registered turns into a
    /// refusal.
    #[inline]
    fn find_source(&mut self, ready: &mut u64, slot: &Slot) -> Extents {
        let length = usize::from(slot.length);
        let Some(operation) = self.operations.find(slot.request) else { return Extents::default() };
        match operation.kind {
            Kind::Put { source, .. } => {
                Extents::contiguous(source + u64::from(slot.offset), length)
            }
            Kind::Get { .. } => Extents::default(),
            Kind::Reply { .. } => {
                let (process, address) = (operation.process, operation.base);
                let address = address + u64::from(slot.offset);
                let found = self.translation.translate(ready, process, address, length, false);
                found.unwrap_or_else(|refusal| {
                    self.refuse_reply(slot.request, Reason::Access(refusal));
                    Extents::default()
                })
            }
        }
    }

    fn refuse_reply(&mut self, request: u32, reason: Reason) {
        let Some(operation) = self.operations.find(request) else { return };
        (operation.refused, operation.is_packed) = (Some(reason), true);
        let flow = operation.flow as usize;
        self.flows[flow].backlog.remove(&mut self.operations, request);
    }
}

/// Takes the next packet out of an operation.
fn pack(operation: &mut Operation, request: u32, data_bytes: u32) -> Slot {
    operation.outstanding += 1;
    let offset = operation.packed;
    let length = match operation.kind {
        Kind::Get { .. } => 0,
        _ => (operation.length - offset).min(data_bytes),
    };
    operation.packed += length;
    operation.is_packed =
        operation.packed == operation.length || matches!(operation.kind, Kind::Get { .. });
    Slot::new(request, offset, length as u16)
}

/// What a packet says, but for where it goes and what it acknowledges.
fn packet_header(slot: &Slot, operation: Option<&Operation>) -> Repr {
    let Some(operation) = operation else {
        return Repr { operation: Says::Skip, ..Repr::default() };
    };
    let header = Repr {
        base: operation.base,
        process: operation.process,
        offset: slot.offset,
        length: operation.length,
        tag: operation.tag,
        request: slot.request,
        ..Repr::default()
    };
    match (operation.kind, operation.refused) {
        (Kind::Put { is_quiet: false, .. }, _) => Repr { operation: Says::Put, ..header },
        (Kind::Put { is_quiet: true, .. }, _) => Repr { operation: Says::QuietPut, ..header },
        (Kind::Get { .. }, _) => Repr { operation: Says::Get, ..header },
        (Kind::Reply { request }, None) => Repr { operation: Says::Reply, request, ..header },
        (Kind::Reply { request }, Some(reason)) => {
            Repr { operation: Says::ReplyRefused, request, tag: reason.number(), ..header }
        }
    }
}
