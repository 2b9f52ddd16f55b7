//! From packets to memory and completions.

use gannet_checksum::Crc32c;
use gannet_lattice::Node;
use gannet_wire::rdma::{Operation as Says, Packet, Repr};

use super::{Engine, Write};
use crate::completion::{Completion, Failure, Reason};
use crate::configuration::Overflow;
use crate::epoch::Epoch;
use crate::memory::{Claim, PhysicalMemory};
use crate::operations::{Kind, Operation};
use crate::receive_window::{Arrival, Delivery, Piece};

/// What an accepted packet leads to: when its place is known, bytes to be written, and what is
/// told when its turn comes.
struct Accepted {
    ready: u64,
    bytes: usize,
    delivery: Delivery,
}

impl<M: PhysicalMemory> Engine<M> {
    /// Whether the receive queue has room. A link with credits holds packets back while it has
    /// not; otherwise they are dropped, and sent again by their source.
    pub fn can_receive(&self) -> bool {
        self.writes.len() < self.configuration.limits.receive_queue
    }

    /// Takes the payload of a packet that a link has brought. What cannot be used is counted.
    pub fn packet_in(&mut self, now: u64, payload: &[u8]) {
        self.take(now, payload, |packet| packet.verify_checksum());
    }

    /// The same of a packet of a link of the torus, whose sum, padded to whole words, is known: no look at the data tells whether they are as
    /// they were sent.
    pub fn packet_in_summed(&mut self, now: u64, payload: &[u8], sum: Crc32c) {
        self.take(now, payload, |packet| packet.verify_by(sum));
    }

    fn take(&mut self, now: u64, payload: &[u8], is_intact: impl FnOnce(&Packet<&[u8]>) -> bool) {
        self.advance(now);
        let data_max = self.configuration.data_bytes_max();
        let packet = Packet::new_checked(payload).ok();
        let packet = packet.filter(|packet| packet.data().len() <= data_max && is_intact(packet));
        let Some(packet) = packet else {
            self.counters.corrupt += 1;
            return;
        };
        let header = Repr::parse(&packet.header());
        if header.destination != self.configuration.node.0 {
            self.counters.misdelivered += 1;
            return;
        }
        if !self.is_node(header.source) {
            self.counters.strangers += 1;
            return;
        }
        let index = self.flow_to(header.source);
        self.acknowledged(index, &header);
        match header.operation {
            Says::Ack => {}
            Says::Refused => self.refused(index, &header),
            _ => self.arrived(index, &header, packet.data()),
        }
        self.settle_writes();
        self.mark_ready(index);
        self.start_reads();
    }

    /// Ends what the other node has acknowledged.
    fn acknowledged(&mut self, index: u32, header: &Repr) {
        let (now, replay) = (self.now, &self.configuration.replay);
        let send = &mut self.flows[index as usize].send;
        let epoch = Epoch::from_number(header.acknowledged_epoch);
        let mut done = std::mem::take(&mut self.acknowledged);
        done.clear();
        let told = (epoch, header.acknowledged, header.selective);
        let overtaken = send.acknowledge(now, told, replay.reorder, |request| done.push(request));
        // Who answers is waited for anew, perhaps for a shorter time.
        self.timer_at = self.timer_at.min(send.deadline(replay));
        self.counters.overtaken += u64::from(overtaken);
        for &request in &done {
            let Some(operation) = self.operations.find(request) else { continue };
            operation.outstanding -= 1;
            if !operation.is_packed || operation.outstanding > 0 {
                continue;
            }
            if let Kind::Get { .. } = operation.kind {
                (operation.refused, operation.busy) = (None, 0);
                self.await_answer(request);
            } else {
                self.complete(request, Ok(()));
            }
        }
        self.acknowledged = done;
    }

    /// Gives a GET the time that an answer may take.
    fn await_answer(&mut self, request: u32) {
        let Some(operation) = self.operations.find(request) else { return };
        let deadline = self.now.saturating_add(self.configuration.replay.get_timeout_ns);
        operation.deadline = deadline;
        self.look_after_gets(deadline);
    }

    /// Ends a PUT or GET that the other node refuses. Its packets keep their numbers and say
    /// nothing any more, so that the numbers after them can be delivered.
    fn refused(&mut self, index: u32, header: &Repr) {
        let flow = &mut self.flows[index as usize];
        let concerns = flow.send.slot(header.sequence).is_some_and(|slot| {
            slot.request == header.request && header.acknowledged_epoch == flow.send.epoch.number()
        });
        let Some(operation) = self.operations.find(header.request).filter(|_| concerns) else {
            return;
        };
        flow.send.abandon(header.request);
        let reason = Reason::from_number(header.tag);
        if reason == Reason::Busy && matches!(operation.kind, Kind::Get { .. }) {
            self.ask_later(header.request);
        } else {
            self.complete(header.request, Err(Failure::Refused(reason)));
        }
    }

    /// Lets a GET wait that has found the other node busy.
    fn ask_later(&mut self, request: u32) {
        let Some(operation) = self.operations.find(request) else { return };
        (operation.outstanding, operation.refused) = (0, Some(Reason::Busy));
        operation.busy = operation.busy.saturating_add(1);
        let replay = self.configuration.replay;
        let wait = replay.backed_off(replay.timeout_ns, operation.busy.saturating_sub(1));
        let (retry_at, is_first) = (self.now.saturating_add(wait), operation.deadline == u64::MAX);
        operation.retry_at = retry_at;
        self.look_after_gets(retry_at);
        if is_first {
            self.await_answer(request);
        }
    }

    /// Accepts a numbered packet unless it was here before.
    fn arrived(&mut self, index: u32, header: &Repr, data: &[u8]) {
        let receive = &mut self.flows[index as usize].receive;
        let epoch = Epoch::from_number(header.epoch);
        if receive.is_restart(epoch, header.sequence) {
            self.answers_to_come -= receive.restart(epoch);
            self.forget_replies(index);
        }
        match self.flow(index).receive.classify(epoch, header.sequence) {
            Arrival::Fresh => {}
            Arrival::Duplicate => {
                self.counters.duplicates += 1;
                return self.mark_control(index);
            }
            Arrival::Beyond | Arrival::Stale => {
                // The answer tells the sender which epoch and number are expected.
                self.counters.stale += 1;
                return self.mark_control(index);
            }
        }
        if !self.can_receive() {
            self.counters.overruns += 1;
            return;
        }
        let claim = self.write_dma.claim(self.now);
        match self.accept(claim, index, header, data) {
            Ok(accepted) => self.begin_write(claim, index, header, accepted),
            Err(reason) => {
                self.counters.refused += 1;
                self.flow(index).receive.refuse(header.sequence, header.request, reason);
                self.mark_control(index);
            }
        }
    }

    /// Ends the answers to a node that has begun anew: it has forgotten its GETs, and may by now
    /// have given their requests to others.
    fn forget_replies(&mut self, index: u32) {
        while let Some(request) = self.operations.any(|it| it.flow == index && !it.is_post()) {
            self.flow(index).send.abandon(request);
            self.complete(request, Err(Failure::Unreachable));
        }
    }

    fn accept(
        &mut self,
        claim: Claim,
        index: u32,
        header: &Repr,
        data: &[u8],
    ) -> Result<Accepted, Reason> {
        let nothing = Accepted { ready: claim.start, bytes: 0, delivery: Delivery::Nothing };
        match header.operation {
            Says::Put | Says::QuietPut => self.accept_put(claim, header, data),
            Says::Get => self.accept_get(claim, header),
            // The other node answers what this one has asked before it began anew.
            Says::Reply | Says::ReplyRefused
                if header.acknowledged_epoch != self.flow(index).send.epoch.number() =>
            {
                self.counters.unwanted += 1;
                Ok(nothing)
            }
            Says::Reply => Ok(self.accept_reply(claim, index, header, data).unwrap_or(nothing)),
            Says::ReplyRefused => {
                let (request, reason) = (header.request, Reason::from_number(header.tag));
                let delivery = Delivery::ReplyRefused { request, reason };
                Ok(Accepted { delivery, ..nothing })
            }
            _ => Ok(nothing),
        }
    }

    fn accept_put(&mut self, claim: Claim, header: &Repr, data: &[u8]) -> Result<Accepted, Reason> {
        let address = header.base + u64::from(header.offset);
        let ready = self.write(claim, header.process, address, data)?;
        let &Repr { process, base: address, tag, .. } = header;
        let (piece, is_quiet) = (piece(header, data), header.operation == Says::QuietPut);
        let delivery = Delivery::Put { piece, process, address, tag, is_quiet };
        Ok(Accepted { ready, bytes: data.len(), delivery })
    }

    fn accept_get(&mut self, claim: Claim, header: &Repr) -> Result<Accepted, Reason> {
        let &Repr { process, base: address, length, tag, request, .. } = header;
        self.translation
            .buffers
            .check(process, address, length.into(), false)
            .map_err(Reason::Access)?;
        if self.operations.replies() + self.answers_to_come >= self.configuration.limits.replies {
            return Err(Reason::Busy);
        }
        self.answers_to_come += 1;
        let delivery = Delivery::Answer { request, process, address, length, tag };
        Ok(Accepted { ready: claim.start, bytes: 0, delivery })
    }

    /// Writes data that this node has asked for; `None` if it has not, or no longer wants them.
    fn accept_reply(
        &mut self,
        claim: Claim,
        index: u32,
        header: &Repr,
        data: &[u8],
    ) -> Option<Accepted> {
        let request = header.request;
        let wanted = self
            .operations
            .find(request)
            .filter(|operation| operation.flow == index && operation.length == header.length);
        let Some(Kind::Get { process, address }) = wanted.map(|operation| operation.kind) else {
            self.counters.unwanted += 1;
            return None;
        };
        self.await_answer(request);
        match self.write(claim, process, address + u64::from(header.offset), data) {
            Ok(ready) => {
                let delivery = Delivery::Reply { piece: piece(header, data) };
                Some(Accepted { ready, bytes: data.len(), delivery })
            }
            Err(reason) => {
                self.complete(request, Err(Failure::Refused(reason)));
                None
            }
        }
    }

    /// Copies data to a virtual address of this node; gives when the model knows the place.
    ///
    /// The bytes are in memory at once. Nobody is told before the model has written them.
    fn write(
        &mut self,
        claim: Claim,
        process: u16,
        address: u64,
        data: &[u8],
    ) -> Result<u64, Reason> {
        let mut ready = claim.start;
        let extents = self.translation.translate(&mut ready, process, address, data.len(), true);
        let mut rest = data;
        for (physical, bytes) in extents.map_err(Reason::Access)?.iter() {
            let (piece, after) = rest.split_at(bytes);
            self.memory.write(physical, piece);
            rest = after;
        }
        Ok(ready + self.configuration.timing.write_setup_ns)
    }

    fn begin_write(&mut self, claim: Claim, index: u32, header: &Repr, accepted: Accepted) {
        let Accepted { ready, bytes, delivery } = accepted;
        let done = self.write_dma.transfer(claim, ready, bytes);
        let done_at = self.writes.back().map_or(done, |before| before.done_at.max(done));
        let (epoch, sequence) = (Epoch::from_number(header.epoch), header.sequence);
        self.flow(index).receive.arrive(sequence, delivery);
        self.writes.push_back(Write { flow: index, epoch, sequence, done_at });
    }

    /// Takes note of the packets that are written by now.
    #[inline]
    pub(super) fn settle_writes(&mut self) {
        while let Some(write) = self.writes.pop_front_if(|write| write.done_at <= self.now) {
            self.settle_write(write);
        }
    }

    fn settle_write(&mut self, write: Write) {
        let replay = &self.configuration.replay;
        let acknowledge_at = self.now.saturating_add(replay.ack_delay_ns);
        let receive = &mut self.flows[write.flow as usize].receive;
        let is_news = receive.place(write.epoch, write.sequence, replay.ack_packets);
        receive.acknowledge_at = receive.acknowledge_at.min(acknowledge_at);
        self.timer_at = self.timer_at.min(acknowledge_at);
        if is_news {
            self.mark_control(write.flow);
        }
        self.deliver(write.flow);
    }

    /// Does what the packets ask whose turn has come; gives whether there were any.
    pub(super) fn deliver(&mut self, index: u32) -> bool {
        let mut is_news = false;
        while let Some(delivery) = self.flow(index).receive.front() {
            match delivery {
                Delivery::Nothing => {}
                Delivery::Put { piece, process, address, tag, is_quiet } => {
                    let is_told = piece.is_last() && !is_quiet;
                    if is_told && !self.has_room_for_completion() {
                        self.hold(index);
                        break;
                    }
                    let is_whole = self.flow(index).receive.is_whole_so_far(&piece);
                    if is_told && is_whole {
                        let source = Node(self.flow(index).peer);
                        let length = piece.length;
                        self.tell(Completion::RxDone { source, process, address, length, tag });
                    }
                }
                Delivery::Answer { request, process, address, length, tag } => {
                    self.answers_to_come -= 1;
                    let kind = Kind::Reply { request };
                    let reply = Operation::new(kind, index, (process, address), length, tag);
                    let reply = self.operations.insert(reply);
                    self.enqueue(index, reply.0);
                }
                Delivery::Reply { piece } => {
                    let is_whole = self.flow(index).receive.is_whole_so_far(&piece);
                    if piece.is_last() {
                        let outcome = if is_whole { Ok(()) } else { Err(Failure::Unreachable) };
                        self.get_done(index, piece.request, outcome);
                    }
                }
                Delivery::ReplyRefused { request, reason } => {
                    self.get_done(index, request, Err(Failure::Refused(reason)));
                }
            }
            self.flow(index).receive.advance();
            is_news = true;
        }
        is_news
    }

    /// Lets the flow wait for room in the completion queue.
    fn hold(&mut self, index: u32) {
        let flow = self.flow(index);
        if !flow.is_held {
            flow.is_held = true;
            self.held.push_back(index);
        }
    }

    /// Whether the completion of a PUT that has arrived may be told, or dropped, now.
    fn has_room_for_completion(&self) -> bool {
        self.free_completions() > 0 || self.configuration.overflow == Overflow::Drop
    }

    fn tell(&mut self, completion: Completion) {
        if self.free_completions() > 0 {
            self.completions.push_back(completion);
        } else {
            self.counters.completions_dropped += 1;
        }
    }

    fn get_done(&mut self, index: u32, request: u32, outcome: Result<(), Failure>) {
        let operation = self.operations.find(request);
        if operation.is_some_and(|it| it.flow == index && matches!(it.kind, Kind::Get { .. })) {
            self.complete(request, outcome);
        }
    }
}

/// Which part of its message a packet carries.
fn piece(header: &Repr, data: &[u8]) -> Piece {
    let &Repr { request, offset, length, .. } = header;
    Piece { request, offset, bytes: data.len() as u32, length }
}
