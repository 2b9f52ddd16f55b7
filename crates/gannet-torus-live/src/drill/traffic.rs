//! What a host of a drill sends to all others, and what it makes of what they send.

use std::sync::Arc;

use gannet_lattice::{DIMENSIONS, Node};
use gannet_measure::random::Random;
use gannet_memory::Registration;
use gannet_rdma::{Completion, Engine, PhysicalMemory, Put, RegistrationError, Request};
use gannet_wire::neighbour::{HostId, Order};

use super::ledger;
use super::shared::Shared;

/// Bytes of a PUT: several packets.
const LENGTH: usize = 12_000;
/// Bytes of the memory for one.
const SLOT: u64 = 12_288;
const PAGE: u64 = 4096;
/// Where the memory lies, in every host, to which the others send.
const ADDRESS: u64 = 2 << 40;

/// A PUT under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    request: Request,
    tag: u32,
    /// Number of the last fault when it was posted.
    round: u64,
}

/// The traffic of a host: to each other one a PUT at a time, of bytes that the other one knows.
#[derive(Debug)]
pub(crate) struct Traffic {
    own: usize,
    life: u64,
    shared: Arc<Shared>,
    /// Where in the memory of the node its own begins.
    base: u64,
    pending: Vec<Option<Pending>>,
    next_at: u64,
    round: u64,
    tag: u32,
    bytes: Box<[u8]>,
    wanted: Box<[u8]>,
}

/// The number that a host of a drill has for all.
pub(super) fn id(host: usize) -> HostId {
    HostId(host as u64 + 1)
}

/// The host that has a number.
pub(super) fn host(id: HostId) -> Option<usize> {
    usize::try_from(id.0).ok()?.checked_sub(1)
}

/// The bytes of a PUT.
fn fill(bytes: &mut [u8], put: ledger::Put, destination: usize) {
    let ends = (put.source as u64) << 32 | destination as u64;
    let mut random = Random::stream(put.life.wrapping_mul(0x9e37_79b9) ^ ends, put.tag.into());
    let (life, rest) = bytes.split_at_mut(size_of::<u64>());
    life.copy_from_slice(&put.life.to_le_bytes());
    for chunk in rest.chunks_mut(size_of::<u64>()) {
        chunk.copy_from_slice(&random.bits().to_le_bytes()[..chunk.len()]);
    }
}

impl Traffic {
    pub(super) fn new(own: usize, life: u64, shared: Arc<Shared>) -> Self {
        let pending = vec![None; shared.hosts];
        let room = || vec![0; LENGTH].into_boxed_slice();
        let (base, next_at, round, tag) = (0, 0, 0, 0);
        let (bytes, wanted) = (room(), room());
        Self { own, life, shared, base, pending, next_at, round, tag, bytes, wanted }
    }

    /// Bytes of memory that it needs.
    pub(crate) fn memory_bytes(&self) -> usize {
        2 * self.shared.hosts * SLOT as usize
    }

    /// Another node is there, whose memory from `base` on is for this.
    ///
    /// # Errors
    /// When the node does not take the memory.
    pub(crate) fn begin<M: PhysicalMemory>(
        &mut self,
        engine: &mut Engine<M>,
        base: u64,
    ) -> Result<(), RegistrationError> {
        self.base = base;
        let length = self.shared.hosts as u64 * SLOT;
        let pages: Vec<u64> = (base..base + length).step_by(PAGE as usize).collect();
        let buffer =
            Registration { process: 0, start: ADDRESS, length, writable: true, pages: &pages };
        // What the last node had under way went with it.
        for Pending { tag, .. } in self.pending.iter_mut().filter_map(Option::take) {
            let put = ledger::Put { source: self.own, life: self.life, tag };
            self.shared.ledger().tell(put, false);
        }
        engine.register(&buffer)
    }

    /// When it wants to send.
    pub(crate) fn next_at(&self) -> u64 {
        self.next_at
    }

    /// Takes an event of the engine.
    pub(crate) fn take(&mut self, completion: &Completion, memory: &impl PhysicalMemory) {
        match *completion {
            Completion::TxDone { request, outcome, .. } => {
                let is_it = |it: &Option<Pending>| it.is_some_and(|it| it.request == request);
                let Some(to) = self.pending.iter().position(is_it) else { return };
                let Some(Pending { tag, round, .. }) = self.pending[to].take() else { return };
                let put = ledger::Put { source: self.own, life: self.life, tag };
                self.shared.ledger().tell(put, outcome.is_ok());
                if outcome.is_ok() {
                    self.shared.flows(self.own, to, round);
                }
            }
            Completion::RxDone { address, length, tag, .. } if address >= ADDRESS => {
                let from = ((address - ADDRESS) / SLOT) as usize;
                self.check(from, length, tag, memory);
            }
            _ => {}
        }
    }

    fn check(&mut self, from: usize, length: u32, tag: u32, memory: &impl PhysicalMemory) {
        memory.read(self.base + from as u64 * SLOT, &mut self.bytes);
        let life = self.bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let put = ledger::Put { source: from, life, tag };
        fill(&mut self.wanted, put, self.own);
        let is_right = length as usize == LENGTH && self.bytes == self.wanted;
        let bytes = if is_right { Ok(LENGTH as u64) } else { Err(()) };
        self.shared.ledger().arrive(put, self.own, self.life, bytes);
    }

    /// Posts to each host that can be reached and has nothing under way from here, when it is time.
    pub(crate) fn post<M: PhysicalMemory>(
        &mut self,
        engine: &mut Engine<M>,
        order: &Order,
        now: u64,
    ) {
        let round = self.shared.round();
        if round == self.round && now < self.next_at {
            return;
        }
        (self.round, self.next_at) = (round, now + self.shared.pace_ns);
        if !self.shared.is_sending() {
            return;
        }
        for (at, node) in order.nodes.iter().enumerate() {
            let is_alive = node.dead >> DIMENSIONS == 0;
            let to = host(node.host).filter(|&to| is_alive && to != self.own);
            let Some(to) = to.filter(|&to| self.pending.get(to).is_some_and(Option::is_none))
            else {
                continue;
            };
            let put = ledger::Put { source: self.own, life: self.life, tag: self.tag };
            fill(&mut self.bytes, put, to);
            let source = self.base + (self.shared.hosts + to) as u64 * SLOT;
            engine.memory_mut().write(source, &self.bytes);
            let post = Put {
                source,
                destination: Node(at as u32),
                process: 0,
                address: ADDRESS + self.own as u64 * SLOT,
                length: LENGTH as u32,
                tag: self.tag,
            };
            // Without room for it there will be some the next time.
            let Ok(request) = engine.post_put(now, &post) else { continue };
            self.shared.ledger().post(put, to);
            self.pending[to] = Some(Pending { request, tag: self.tag, round });
            self.tag = self.tag.wrapping_add(1);
        }
    }
}
