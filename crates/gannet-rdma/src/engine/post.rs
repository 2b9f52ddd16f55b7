//! Descriptors: what the host asks for.

use gannet_lattice::Node;
use gannet_memory::Refusal;
use thiserror::Error;

use super::Engine;
use crate::completion::Request;
use crate::memory::PhysicalMemory;
use crate::operations::{Kind, Operation};

/// Descriptor of a PUT: local memory by physical address, far memory by virtual address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// Physical address of the data. They must not change before the completion.
    pub source: u64,
    /// Node to write to.
    pub destination: Node,
    /// Process there.
    pub process: u16,
    /// Virtual address there.
    pub address: u64,
    /// Bytes; a PUT of none only notifies.
    pub length: u32,
    /// Told with both completions.
    pub tag: u32,
}

/// Descriptor of a GET: both memories by virtual address, since the data come as a PUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// Node to read from.
    pub source: Node,
    /// Process there.
    pub process: u16,
    /// Virtual address there.
    pub address: u64,
    /// Process of this node that the data are for.
    pub local_process: u16,
    /// Virtual address that they are for.
    pub local_address: u64,
    /// Bytes.
    pub length: u32,
    /// Told with the completion.
    pub tag: u32,
}

/// Why a descriptor is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PostError {
    /// Too much is under way, or too few completions were polled.
    #[error("the queue of posts is full; poll completions and post again")]
    Full,
    /// The machine has no such node.
    #[error("{0} is not in the machine: the limits of the engine say how many nodes it has")]
    NoSuchNode(Node),
    /// The source of a PUT is not memory.
    #[error(
        "{length} bytes from physical address {source_address:#x} are not in the memory of the engine"
    )]
    OutsideMemory {
        /// Physical address asked for.
        source_address: u64,
        /// Bytes asked for.
        length: u32,
    },
    /// The memory that a GET is to write is not registered so.
    #[error("the local memory of a GET: {0}")]
    Local(#[from] Refusal),
    /// The far address has more bits than a packet has room for.
    #[error("{0:#x} is no virtual address: it has more than 48 bits")]
    Address(u64),
}

impl<M: PhysicalMemory> Engine<M> {
    /// Posts a PUT. Its [`TxDone`](crate::Completion::TxDone) carries the request given.
    ///
    /// # Errors
    /// When the descriptor is wrong or there is no room for it; nothing has happened then.
    pub fn post_put(&mut self, now: u64, put: &Put) -> Result<Request, PostError> {
        self.put(now, put, false)
    }

    /// Posts a PUT of which the other node tells nobody; its tag comes back with its own completion only.
    ///
    /// # Errors
    /// As [`post_put`](Self::post_put).
    pub fn post_quiet_put(&mut self, now: u64, put: &Put) -> Result<Request, PostError> {
        self.put(now, put, true)
    }

    fn put(&mut self, now: u64, put: &Put, is_quiet: bool) -> Result<Request, PostError> {
        if !self.memory.contains(put.source, put.length.into()) {
            let (source_address, length) = (put.source, put.length);
            return Err(PostError::OutsideMemory { source_address, length });
        }
        let kind = Kind::Put { source: put.source, is_quiet };
        self.post(now, kind, put.destination, (put.process, put.address), put.length, put.tag)
    }

    /// Posts a GET. Its [`GetDone`](crate::Completion::GetDone) carries the request given.
    ///
    /// # Errors
    /// When the descriptor is wrong or there is no room for it; nothing has happened then.
    pub fn post_get(&mut self, now: u64, get: &Get) -> Result<Request, PostError> {
        let (process, address) = (get.local_process, get.local_address);
        self.translation.buffers.check(process, address, get.length.into(), true)?;
        let kind = Kind::Get { process, address };
        self.post(now, kind, get.source, (get.process, get.address), get.length, get.tag)
    }

    fn post(
        &mut self,
        now: u64,
        kind: Kind,
        peer: Node,
        place: (u16, u64),
        length: u32,
        tag: u32,
    ) -> Result<Request, PostError> {
        if !self.is_node(peer.0) {
            return Err(PostError::NoSuchNode(peer));
        }
        if place.1.saturating_add(length.into()) > 1 << gannet_memory::tlb::ADDRESS_BITS {
            return Err(PostError::Address(place.1));
        }
        let is_full = self.operations.posts() == self.configuration.limits.posts;
        if is_full || self.free_completions() == 0 {
            return Err(PostError::Full);
        }
        let flow = self.flow_to(peer.0);
        self.now = self.now.max(now);
        let request = self.operations.insert(Operation::new(kind, flow, place, length, tag));
        self.enqueue(flow, request.0);
        self.start_reads();
        Ok(request)
    }

    /// Lets an operation wait for its turn to be put in packets.
    pub(super) fn enqueue(&mut self, index: u32, request: u32) {
        let flow = &mut self.flows[index as usize];
        flow.backlog.push(&mut self.operations, request);
        self.mark_ready(index);
    }
}
