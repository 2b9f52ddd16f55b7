//! The RDMA engine of a node: descriptors, completions and time.

mod arriving;
mod post;
mod sending;

use std::collections::VecDeque;

use gannet_lattice::Node;
use gannet_memory::{RegisterError, Registration, Tlb};
use gannet_wire::rdma::Repr;
use serde::Serialize;
use thiserror::Error;

use super::completion::{Completion, Failure, Request};
use super::configuration::Configuration;
use super::epoch::Epoch;
use super::memory::{Dma, Extents, PhysicalMemory, Translation};
use super::operations::{Backlog, Kind, Operation, Operations};
use super::receive_window::{ReceiveWindow, WINDOW_MAX};
use super::send_window::{Expiry, SendWindow};

pub use post::{Get, PostError, Put};
pub use sending::{Outgoing, Unwritten};

/// Counts of what happened, since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets with data or a request sent for the first time.
    pub sent: u64,
    /// Packets sent again because an acknowledgement did not come in time.
    pub timeouts: u64,
    /// Packets sent again because later ones had overtaken them.
    pub overtaken: u64,
    /// Packets that only acknowledge or refuse.
    pub control: u64,
    /// Arrived packets whose bytes were damaged, or that are longer than a page.
    pub corrupt: u64,
    /// Arrived packets that are for another node.
    pub misdelivered: u64,
    /// Arrived packets that had arrived before.
    pub duplicates: u64,
    /// Arrived packets of another epoch, or further ahead than allowed.
    pub stale: u64,
    /// Arrived packets dropped because the receive queue was full.
    pub overruns: u64,
    /// Arrived packets of what is no node of the machine.
    pub strangers: u64,
    /// Arrived packets refused with a reason.
    pub refused: u64,
    /// Arrived data that this node no longer wants.
    pub unwanted: u64,
    /// Completions dropped because the queue was full ([`Overflow::Drop`](super::Overflow::Drop)).
    pub completions_dropped: u64,
    /// Times that a node was given up.
    pub given_up: u64,
}

/// Why a buffer cannot be registered with an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RegistrationError {
    /// The table refuses it.
    #[error(transparent)]
    Table(#[from] RegisterError),
    /// A page lies outside the memory of the engine.
    #[error("the page at physical address {0:#x} is not in the memory of the engine")]
    OutsideMemory(u64),
}

/// Packets to and from one other node.
#[derive(Clone, Debug)]
struct Flow {
    peer: u32,
    send: SendWindow,
    receive: ReceiveWindow,
    backlog: Backlog,
    /// Whether the flow waits in [`Engine::ready`].
    is_ready: bool,
    /// Whether the flow waits in [`Engine::control`].
    is_in_control: bool,
    /// Whether the flow waits in [`Engine::held`].
    is_held: bool,
}

/// A packet read from memory, or being read.
#[derive(Clone, Copy, Debug)]
struct Read {
    flow: u32,
    epoch: Epoch,
    sequence: u32,
    extents: Extents,
    ready_at: u64,
}

/// A packet being written to memory.
#[derive(Clone, Copy, Debug)]
struct Write {
    flow: u32,
    epoch: Epoch,
    sequence: u32,
    done_at: u64,
}

/// The RDMA engine of a node. See the [crate](crate) for what it promises.
///
/// Times are in nanoseconds from any origin and must not go back from one call to the next.
#[derive(Clone, Debug)]
pub struct Engine<M> {
    configuration: Configuration,
    memory: M,
    translation: Translation,
    flows: Vec<Flow>,
    /// The flow of each node that has one.
    flow_of: Box<[Option<u32>]>,
    operations: Operations,
    /// Answers to GETs that have arrived and are not yet operations.
    answers_to_come: usize,
    /// The operations of the packets that were acknowledged last.
    acknowledged: Vec<u32>,
    completions: VecDeque<Completion>,
    /// Flows with a completion that waits for room in the queue, in turn.
    held: VecDeque<u32>,
    read_dma: Dma,
    reads: VecDeque<Read>,
    write_dma: Dma,
    writes: VecDeque<Write>,
    /// Flows with packets to read, in turn.
    ready: VecDeque<u32>,
    /// Flows with an acknowledgement or refusal to tell.
    control: VecDeque<u32>,
    /// No acknowledgement, packet or GET is due before.
    timer_at: u64,
    /// No GET is due before.
    gets_at: u64,
    now: u64,
    counters: Counters,
}

impl<M: PhysicalMemory> Engine<M> {
    /// An engine that reads and writes `memory`.
    ///
    /// # Panics
    /// When [`Configuration::check`] finds a parameter out of its range.
    pub fn new(configuration: Configuration, memory: M) -> Self {
        if let Err(error) = configuration.check() {
            panic!("{error}");
        }
        let (limits, timing) = (&configuration.limits, &configuration.timing);
        Self {
            translation: Translation::new(&configuration.translation, limits, timing),
            flows: Vec::with_capacity(limits.nodes),
            flow_of: vec![None; limits.nodes].into(),
            operations: Operations::new(limits.posts, limits.replies, configuration.epoch),
            answers_to_come: 0,
            acknowledged: Vec::with_capacity(WINDOW_MAX as usize),
            completions: VecDeque::with_capacity(limits.completions),
            held: VecDeque::with_capacity(limits.nodes),
            read_dma: Dma::new(timing.read_engines, timing.read_bytes_per_s),
            reads: VecDeque::with_capacity(limits.transmit_queue),
            write_dma: Dma::new(timing.write_engines, timing.write_bytes_per_s),
            writes: VecDeque::with_capacity(limits.receive_queue),
            ready: VecDeque::with_capacity(limits.nodes),
            control: VecDeque::with_capacity(limits.nodes),
            timer_at: u64::MAX,
            gets_at: u64::MAX,
            now: 0,
            counters: Counters::default(),
            configuration,
            memory,
        }
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory, to be filled by the host.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The memory, to go on with in another engine.
    pub fn into_memory(self) -> M {
        self.memory
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The cache of address translations, with its counts of hits and misses.
    pub fn tlb(&self) -> &Tlb {
        &self.translation.tlb
    }

    /// Lets other nodes access a buffer.
    ///
    /// # Errors
    /// When the table refuses it or a page lies outside the memory.
    pub fn register(&mut self, buffer: &Registration) -> Result<(), RegistrationError> {
        let page_bytes = self.translation.buffers.page_size().bytes();
        let outside = |&&page: &&u64| !self.memory.contains(page, page_bytes);
        if let Some(&page) = buffer.pages.iter().find(outside) {
            return Err(RegistrationError::OutsideMemory(page));
        }
        Ok(self.translation.buffers.register(buffer)?)
    }

    /// Ends the access to the buffer of `process` that starts at `start`; gives whether there was
    /// one. Packets of an answer that are being read, at most the transmit queue, still leave.
    pub fn deregister(&mut self, process: u16, start: u64) -> bool {
        let pages = self.translation.buffers.deregister(process, start);
        if let Some(pages) = pages.clone() {
            self.translation.tlb.invalidate(process, pages);
        }
        pages.is_some()
    }

    /// Takes note that the node `peer` has begun anew, and numbers its packets from `epoch` on: what was posted to it before
    /// fails as unreachable, and packets to it and from it are counted anew. Without this call the nodes find that out
    /// themselves, when their patience is over.
    pub fn renewed(&mut self, peer: Node, epoch: u8) {
        if !self.is_node(peer.0) {
            return;
        }
        let (index, epoch) = (self.flow_to(peer.0), Epoch::first(epoch));
        // It may have been heard already.
        if self.flow(index).receive.epoch() != epoch {
            self.answers_to_come -= self.flow(index).receive.restart(epoch);
        }
        self.flow(index).send.disown();
        self.give_up(index);
    }

    /// Sends all packets again that were not told to have arrived: many were lost, as when others carry them on by other routes
    /// from now on. It is no attempt that counts.
    pub fn resend(&mut self) {
        for index in 0..self.flows.len() as u32 {
            self.flow(index).send.resend();
            self.mark_ready(index);
        }
    }

    /// All events that are there, or that find room while these are taken, oldest first. With
    /// [`take`](Iterator::take) a batch of them.
    pub fn completions(&mut self) -> impl Iterator<Item = Completion> {
        std::iter::from_fn(|| self.poll_completion())
    }

    /// Whether there is an event.
    pub fn has_completion(&self) -> bool {
        !self.completions.is_empty()
    }

    /// The next event, oldest first.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        let completion = self.completions.pop_front()?;
        while self.free_completions() > 0
            && let Some(index) = self.held.pop_front()
        {
            self.flow(index).is_held = false;
            if self.deliver(index) {
                self.mark_control(index);
            }
        }
        Some(completion)
    }

    /// Goes on to `now` without a packet in or out.
    #[inline]
    pub fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.settle_writes();
        if self.now >= self.timer_at {
            self.run_timers();
        }
        self.start_reads();
    }

    /// When the engine has to be called next if nothing arrives or is posted; `None` if never.
    ///
    /// Packets that wait for the link ([`Engine::has_packet`]) are not counted: only the link
    /// knows when it takes them.
    pub fn next_deadline(&self) -> Option<u64> {
        let times = [
            self.timer_at,
            self.writes.front().map_or(u64::MAX, |write| write.done_at),
            self.reads
                .iter()
                .map(|read| read.ready_at)
                .find(|&at| at > self.now)
                .unwrap_or(u64::MAX),
            if self.may_read() { self.read_dma.idle_at() } else { u64::MAX },
        ];
        times.into_iter().min().filter(|&at| at != u64::MAX)
    }

    /// Whether a packet waits for the link.
    pub fn has_packet(&self) -> bool {
        !self.control.is_empty() || self.reads.front().is_some_and(|read| read.ready_at <= self.now)
    }

    fn flow(&mut self, index: u32) -> &mut Flow {
        &mut self.flows[index as usize]
    }

    /// Whether the machine has a node of this number.
    fn is_node(&self, number: u32) -> bool {
        (number as usize) < self.configuration.limits.nodes
    }

    /// The flow to and from `peer`, a node of the machine.
    fn flow_to(&mut self, peer: u32) -> u32 {
        if let Some(flow) = self.flow_of[peer as usize] {
            return flow;
        }
        let index = self.flows.len() as u32;
        self.flows.push(Flow {
            peer,
            send: SendWindow::new(Epoch::first(self.configuration.epoch)),
            receive: ReceiveWindow::new(),
            backlog: Backlog::EMPTY,
            is_ready: false,
            is_in_control: false,
            is_held: false,
        });
        self.flow_of[peer as usize] = Some(index);
        index
    }

    /// Puts the flow in turn to be read from, if it has a packet that may be sent.
    fn mark_ready(&mut self, index: u32) {
        let window = self.configuration.limits.window;
        let flow = self.flow(index);
        let may_send =
            flow.send.has_pending() || (!flow.backlog.is_empty() && flow.send.has_room(window));
        if may_send && !flow.is_ready {
            flow.is_ready = true;
            self.ready.push_back(index);
        }
    }

    /// Has the flow tell the other node what it has received, or refused.
    fn mark_control(&mut self, index: u32) {
        let flow = self.flow(index);
        if !flow.is_in_control {
            flow.is_in_control = true;
            self.control.push_back(index);
        }
    }

    /// Header of a packet of the flow, with all that it has to acknowledge.
    fn header(&mut self, index: u32) -> Repr {
        let source = self.configuration.node.0;
        let flow = self.flow(index);
        let (acknowledged_epoch, acknowledged, selective) = flow.receive.acknowledge();
        Repr {
            epoch: flow.send.epoch.number(),
            acknowledged_epoch: acknowledged_epoch.number(),
            source,
            destination: flow.peer,
            acknowledged,
            selective,
            ..Repr::default()
        }
    }

    /// Acts on acknowledgements, packets and GETs whose time has come.
    fn run_timers(&mut self) {
        for index in 0..self.flows.len() as u32 {
            self.run_flow_timers(index);
        }
        if self.now >= self.gets_at {
            self.run_get_timers();
        }
        let replay = &self.configuration.replay;
        let deadline = |flow: &Flow| flow.send.deadline(replay).min(flow.receive.acknowledge_at);
        let flows = self.flows.iter().map(deadline).min().unwrap_or(u64::MAX);
        self.timer_at = flows.min(self.gets_at);
    }

    fn run_get_timers(&mut self) {
        while let Some(request) = self.operations.any(|it| it.deadline <= self.now) {
            self.give_up_get(request);
        }
        while let Some(request) = self.operations.any(|it| it.retry_at <= self.now) {
            self.ask_again(request);
        }
        self.gets_at = self.operations.deadline();
    }

    /// Looks after GETs at `at`, if not before.
    fn look_after_gets(&mut self, at: u64) {
        self.gets_at = self.gets_at.min(at);
        self.timer_at = self.timer_at.min(at);
    }

    fn run_flow_timers(&mut self, index: u32) {
        let (now, replay) = (self.now, self.configuration.replay);
        let flow = self.flow(index);
        if flow.receive.acknowledge_at <= now {
            flow.receive.acknowledge_at = u64::MAX;
            self.mark_control(index);
        }
        match self.flow(index).send.expire(now, &replay) {
            Expiry::Replay(0) => {}
            Expiry::Replay(count) => {
                self.counters.timeouts += u64::from(count);
                self.mark_ready(index);
            }
            Expiry::GiveUp => self.give_up(index),
        }
    }

    /// Fails all that was posted to the node of a flow.
    fn give_up(&mut self, index: u32) {
        self.flow(index).send.give_up();
        // Empty packets of an earlier time may have been given up, which concerns nobody.
        let is_loss = self.operations.any(|it| it.flow == index).is_some();
        self.counters.given_up += u64::from(is_loss);
        while let Some(request) = self.operations.any(|it| it.flow == index) {
            self.complete(request, Err(Failure::Unreachable));
        }
    }

    /// Fails a GET that has waited long enough for its answer, or for the other node to take it.
    fn give_up_get(&mut self, request: u32) {
        let Some(&mut Operation { flow, refused, .. }) = self.operations.find(request) else {
            return;
        };
        self.flow(flow).send.abandon(request);
        self.mark_ready(flow);
        self.complete(request, Err(refused.map_or(Failure::Unreachable, Failure::Refused)));
    }

    /// Lets a GET ask again that has found the other node busy.
    fn ask_again(&mut self, request: u32) {
        let Some(operation) = self.operations.find(request) else { return };
        (operation.retry_at, operation.is_packed) = (u64::MAX, false);
        let flow = operation.flow;
        self.enqueue(flow, request);
    }

    /// Ends an operation and tells the host if it had posted it.
    fn complete(&mut self, request: u32, outcome: Result<(), Failure>) {
        let Some(&mut Operation { kind, flow, tag, .. }) = self.operations.find(request) else {
            return;
        };
        self.flows[flow as usize].backlog.remove(&mut self.operations, request);
        self.operations.remove(request);
        let peer = Node(self.flow(flow).peer);
        let request = Request(request);
        let completion = match kind {
            Kind::Put { .. } => Completion::TxDone { request, destination: peer, tag, outcome },
            Kind::Get { .. } => Completion::GetDone { request, source: peer, tag, outcome },
            Kind::Reply { .. } => return,
        };
        self.completions.push_back(completion);
    }

    /// Room in the completion queue that no post has taken for itself.
    fn free_completions(&self) -> usize {
        let taken = self.completions.len() + self.operations.posts();
        self.configuration.limits.completions.saturating_sub(taken)
    }
}
