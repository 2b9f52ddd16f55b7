//! The PUTs and GETs under way, and the answers to GETs of other nodes.

use super::completion::{Reason, Request};

/// Stands for no operation in links between them.
pub(super) const NONE: u16 = u16::MAX;
/// Most operations of a table.
const OPERATIONS_MAX: usize = NONE as usize;

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sends from a local physical address.
    Put { source: u64 },
    /// Asks for data, to be written at a local virtual address.
    Get { process: u16, address: u64 },
    /// Sends from a local virtual address what `request` of the other node asked for.
    Reply { request: u32 },
}

/// An operation on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub kind: Kind,
    /// Index of the flow of packets that it belongs to.
    pub flow: u16,
    /// Process and virtual address of the message, on the far node; of a reply, on this one.
    pub process: u16,
    pub base: u64,
    /// Bytes.
    pub length: u32,
    pub tag: u32,
    /// Bytes put in packets.
    pub packed: u32,
    /// Whether all packets are made.
    pub is_packed: bool,
    /// Packets made and not acknowledged.
    pub outstanding: u32,
    /// When a GET fails that hears nothing.
    pub deadline: u64,
    /// Why the rest of a reply is not sent.
    pub refused: Option<Reason>,
    /// The next one that waits to be put in packets.
    next: u16,
}

impl Operation {
    pub fn new(kind: Kind, flow: u16, place: (u16, u64), length: u32, tag: u32) -> Self {
        Self {
            kind,
            flow,
            process: place.0,
            base: place.1,
            length,
            tag,
            packed: 0,
            is_packed: false,
            outstanding: 0,
            deadline: u64::MAX,
            refused: None,
            next: NONE,
        }
    }

    /// Whether a descriptor of this node made it.
    pub fn is_post(&self) -> bool {
        !matches!(self.kind, Kind::Reply { .. })
    }
}

/// A table of operations, found by [`Request`]. Requests are not used again soon: they count how
/// often their place was taken.
#[derive(Clone, Debug)]
pub(super) struct Operations {
    slots: Vec<(u16, Option<Operation>)>,
    free: Vec<u16>,
    posts: usize,
}

impl Operations {
    /// An empty table. Requests of a node that started anew differ by its `epoch` from those that
    /// it may still get answers to.
    pub fn new(posts_max: usize, replies_max: usize, epoch: u8) -> Self {
        let count = posts_max + replies_max;
        assert!(count <= OPERATIONS_MAX, "at most {OPERATIONS_MAX} posts and replies");
        Self {
            slots: vec![(u16::from(epoch) << 8, None); count],
            free: (0..count as u16).rev().collect(),
            posts: 0,
        }
    }

    /// Number of operations that descriptors of this node made.
    pub fn posts(&self) -> usize {
        self.posts
    }

    /// Number of replies.
    pub fn replies(&self) -> usize {
        self.slots.len() - self.free.len() - self.posts
    }

    /// Adds an operation. The callers keep posts and replies within their limits.
    pub fn insert(&mut self, operation: Operation) -> Request {
        let index = self.free.pop().expect("posts and replies are limited when they are made");
        let slot = &mut self.slots[usize::from(index)];
        // 0 is no request: packets without an operation have it.
        slot.0 = slot.0.wrapping_add(1).max(1);
        slot.1 = Some(operation);
        self.posts += usize::from(operation.is_post());
        Request(u32::from(slot.0) << 16 | u32::from(index))
    }

    pub fn find(&mut self, request: u32) -> Option<&mut Operation> {
        let slot = self.slots.get_mut((request & 0xffff) as usize)?;
        if u32::from(slot.0) != request >> 16 {
            return None;
        }
        slot.1.as_mut()
    }

    pub fn remove(&mut self, request: u32) -> Option<Operation> {
        let operation = *self.find(request)?;
        self.slots[(request & 0xffff) as usize].1 = None;
        self.free.push(request as u16);
        self.posts -= usize::from(operation.is_post());
        Some(operation)
    }

    /// A request for which `is` holds, if there is one.
    pub fn any(&self, is: impl Fn(&Operation) -> bool) -> Option<u32> {
        let slots = self.slots.iter().enumerate();
        let mut taken = slots.filter_map(|(index, slot)| Some((index, slot.0, slot.1.as_ref()?)));
        let (index, generation, _) = taken.find(|(_, _, operation)| is(operation))?;
        Some(u32::from(generation) << 16 | index as u32)
    }

    /// Earliest deadline of all operations.
    pub fn deadline(&self) -> u64 {
        let operations = self.slots.iter().filter_map(|slot| slot.1.as_ref());
        operations.map(|operation| operation.deadline).min().unwrap_or(u64::MAX)
    }
}

/// The operations of one flow that wait to be put in packets, first posted first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog {
    first: u16,
    last: u16,
}

impl Backlog {
    pub const EMPTY: Self = Self { first: NONE, last: NONE };

    pub fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// The request at the front.
    pub fn first(&self, operations: &Operations) -> Option<u32> {
        let slot = operations.slots.get(usize::from(self.first))?;
        Some(u32::from(slot.0) << 16 | u32::from(self.first))
    }

    pub fn push(&mut self, operations: &mut Operations, request: u32) {
        let index = request as u16;
        if let Some(operation) = operations.find(request) {
            operation.next = NONE;
        }
        match operations.slots.get_mut(usize::from(self.last)) {
            Some((_, Some(last))) => last.next = index,
            _ => self.first = index,
        }
        self.last = index;
    }

    /// Takes the front away if it is `request`.
    pub fn pop(&mut self, operations: &mut Operations, request: u32) {
        if self.first != request as u16 || self.is_empty() {
            return;
        }
        self.first = operations.find(request).map_or(NONE, |operation| operation.next);
        if self.is_empty() {
            self.last = NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(flow: u16) -> Operation {
        Operation::new(Kind::Put { source: 0 }, flow, (0, 0), 1, 0)
    }

    #[test]
    fn a_request_is_not_found_after_its_end() {
        let mut operations = Operations::new(1, 1, 0);
        let first = operations.insert(put(0)).0;
        let reply = Operation { kind: Kind::Reply { request: 9 }, ..put(1) };
        let second = operations.insert(reply).0;
        assert_eq!((operations.posts(), operations.replies()), (1, 1));
        assert_eq!(operations.any(|operation| operation.flow == 1), Some(second));
        assert!(operations.remove(first).is_some() && operations.remove(first).is_none());
        let third = operations.insert(put(0)).0;
        assert_ne!(first, third);
        assert!(operations.find(first).is_none() && operations.find(third).is_some());
        assert!(operations.find(0).is_none() && operations.find(u32::MAX).is_none());
    }

    #[test]
    fn a_backlog_keeps_the_order() {
        let mut operations = Operations::new(4, 0, 255);
        let requests: Vec<u32> = (0..3).map(|_| operations.insert(put(0)).0).collect();
        let mut backlog = Backlog::EMPTY;
        for &request in &requests {
            backlog.push(&mut operations, request);
        }
        backlog.pop(&mut operations, requests[1]);
        for &request in &requests {
            assert_eq!(backlog.first(&operations), Some(request));
            backlog.pop(&mut operations, request);
        }
        assert!(backlog.is_empty() && backlog.first(&operations).is_none());
        backlog.push(&mut operations, requests[2]);
        assert_eq!(backlog.first(&operations), Some(requests[2]));
    }
}
