//! The PUTs and GETs under way, and the answers to GETs of other nodes.

use super::completion::{Reason, Request};

/// Stands for no operation in links between them.
pub(super) const NONE: u16 = u16::MAX;

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sends from a local physical address; the other node tells nobody of a quiet one.
    Put { source: u64, is_quiet: bool },
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
    pub flow: u32,
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
    /// When a GET asks again that has found the other node busy.
    pub retry_at: u64,
    /// How often it has.
    pub busy: u8,
    /// Why the rest of a reply is not sent, or a GET was not taken.
    pub refused: Option<Reason>,
    /// Whether it is in the [`Backlog`] of its flow.
    is_queued: bool,
    /// The next one there.
    next: u16,
}

impl Operation {
    pub fn new(kind: Kind, flow: u32, place: (u16, u64), length: u32, tag: u32) -> Self {
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
            retry_at: u64::MAX,
            busy: 0,
            refused: None,
            is_queued: false,
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
        debug_assert!(count < usize::from(NONE));
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

    /// Takes out an operation, which must not be in a backlog any more.
    pub fn remove(&mut self, request: u32) -> Option<Operation> {
        let operation = *self.find(request)?;
        debug_assert!(!operation.is_queued, "the backlog would go on with another operation");
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

    /// When the first of all operations fails or asks again.
    pub fn deadline(&self) -> u64 {
        let operations = self.slots.iter().filter_map(|slot| slot.1.as_ref());
        operations.map(|it| it.deadline.min(it.retry_at)).min().unwrap_or(u64::MAX)
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
            (operation.is_queued, operation.next) = (true, NONE);
        }
        match operations.slots.get_mut(usize::from(self.last)) {
            Some((_, Some(last))) => last.next = index,
            _ => self.first = index,
        }
        self.last = index;
    }

    /// Takes `request` out, if it is in. Mostly it is the front.
    pub fn remove(&mut self, operations: &mut Operations, request: u32) {
        let index = request as u16;
        let Some(operation) = operations.find(request).filter(|it| it.is_queued) else { return };
        operation.is_queued = false;
        let next = operation.next;
        let before = self.before(operations, index);
        match operations.slots.get_mut(usize::from(before)) {
            Some((_, Some(before))) => before.next = next,
            _ => self.first = next,
        }
        if self.last == index {
            self.last = before;
        }
    }

    /// The one before `index`; none before the front.
    fn before(&self, operations: &Operations, index: u16) -> u16 {
        let (mut before, mut at) = (NONE, self.first);
        while at != index
            && let Some((_, Some(operation))) = operations.slots.get(usize::from(at))
        {
            (before, at) = (at, operation.next);
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(flow: u32) -> Operation {
        Operation::new(Kind::Put { source: 0, is_quiet: false }, flow, (0, 0), 1, 0)
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
    fn a_backlog_keeps_the_order_of_those_that_stay() {
        for left_out in 0..4 {
            let mut operations = Operations::new(4, 0, 255);
            let mut requests: Vec<u32> = (0..4).map(|_| operations.insert(put(0)).0).collect();
            let mut backlog = Backlog::EMPTY;
            for &request in &requests {
                backlog.push(&mut operations, request);
            }
            let gone = requests.remove(left_out);
            backlog.remove(&mut operations, gone);
            backlog.remove(&mut operations, gone);
            backlog.push(&mut operations, gone);
            requests.push(gone);
            for &request in &requests {
                assert_eq!(backlog.first(&operations), Some(request), "without {left_out}");
                backlog.remove(&mut operations, request);
            }
            assert!(backlog.is_empty() && backlog.first(&operations).is_none());
            backlog.push(&mut operations, requests[2]);
            assert_eq!(backlog.first(&operations), Some(requests[2]));
        }
    }
}
