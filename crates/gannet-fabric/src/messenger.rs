//! Messages between two endpoints: each opens a ring of slots that the other one puts them into.
//!
//! A message lies in the next slot of the receiver's ring, and its notification tells how long it is. Behind the
//! slots lies a word that is never read: a notification of it says how many messages the other side has taken, so
//! that their slots are free again. Nothing waits, and no more messages are under way than there are slots. Who takes
//! none of those that are under way for longer than a deadline is given up, even if it still lives.

use std::time::Duration;

use gannet_memory::{Access, RegionError, SharedRegion};
use thiserror::Error;

use crate::endpoint::{
    Completion, Endpoint, Failure, Key, Local, OpenError, Opening, Peer, PostError, Put, RegionId,
    Remote, Request, Window,
};

/// Name of the ring of a messenger among the windows of an endpoint.
const LABEL: u32 = u32::from_le_bytes(*b"ring");
/// Bytes behind the slots.
const WORD_BYTES: u64 = 8;
/// Completions that are taken at a look.
const LOOK: usize = 256;
/// Most time between two looks that counts against the other side: in what is beyond, this one was away.
const AWAY_NS: u64 = 100_000_000;

/// Size of a ring; both sides have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Messages that find room.
    pub slots: u32,
    /// Bytes of the longest message.
    pub slot_bytes: u32,
}

impl Ring {
    fn slots_bytes(self) -> u64 {
        u64::from(self.slots) * u64::from(self.slot_bytes)
    }

    fn bytes(self) -> u64 {
        self.slots_bytes() + WORD_BYTES
    }

    /// Where a message begins.
    fn place(self, message: u64) -> u64 {
        message % u64::from(self.slots) * u64::from(self.slot_bytes)
    }
}

/// Why there can be no messenger.
#[derive(Debug, Error)]
pub enum SetupError {
    /// Its memory cannot be had.
    #[error(transparent)]
    Memory(#[from] RegionError),
    /// The endpoint has as many regions as may be.
    #[error("the endpoint has as many regions as may be")]
    Regions,
    /// Its ring cannot be opened to the other side.
    #[error(transparent)]
    Window(#[from] OpenError),
}

/// Exchanges messages with another endpoint.
pub struct Messenger {
    endpoint: Box<dyn Endpoint + Send>,
    peer: Peer,
    ring: Ring,
    inbox: RegionId,
    inbox_key: Key,
    outbox: RegionId,
    /// Ring of the other side, once that has told it.
    target: Option<Window>,
    /// Messages that were sent, of which so many may be changed here and so many were taken there.
    sent: u64,
    done: u64,
    taken_there: u64,
    /// Lengths of messages that came and were not taken, by their place in the ring.
    lengths: Vec<u32>,
    /// Messages that came, that were taken of these, and that the other side knows to be taken.
    came: u64,
    taken: u64,
    told: u64,
    /// Word that tells of taken messages, while it is under way.
    telling: Option<Request>,
    completions: Vec<Completion>,
    deadline_ns: u64,
    /// When this side looked last, and for how long messages have been under way since of which none was taken.
    looked_ns: u64,
    untaken_ns: u64,
    ended: Option<Failure>,
}

impl Messenger {
    /// A messenger of an endpoint that is joined to `peer` and used for nothing else. The other side is given up when
    /// it takes no message for longer than `deadline`.
    ///
    /// # Errors
    /// When its memory cannot be had or opened.
    ///
    /// # Panics
    /// When the ring has no slots, or slots of no bytes or more than an operation moves.
    pub fn new(
        mut endpoint: Box<dyn Endpoint + Send>,
        peer: Peer,
        ring: Ring,
        deadline: Duration,
    ) -> Result<Self, SetupError> {
        let slot_bytes_max = endpoint.facts().bytes_max;
        assert!(
            ring.slots > 0 && (1..=slot_bytes_max).contains(&ring.slot_bytes.into()),
            "{ring:?}"
        );
        let mut add = || {
            let region = SharedRegion::new(ring.bytes() as usize)?;
            endpoint.add_region(region).map_err(|_| SetupError::Regions)
        };
        let (inbox, outbox) = (add()?, add()?);
        let start = Local { region: inbox, offset: 0 };
        let opening = Opening { start, bytes: ring.bytes(), access: Access::Write, label: LABEL };
        let inbox_key = endpoint.open_window(&opening)?;
        Ok(Self {
            endpoint,
            peer,
            ring,
            inbox,
            inbox_key,
            outbox,
            target: None,
            sent: 0,
            done: 0,
            taken_there: 0,
            lengths: vec![0; ring.slots as usize],
            came: 0,
            taken: 0,
            told: 0,
            telling: None,
            completions: Vec::with_capacity(LOOK),
            deadline_ns: u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX),
            looked_ns: 0,
            untaken_ns: 0,
            ended: None,
        })
    }

    /// Bytes of the longest message.
    pub fn message_len_max(&self) -> usize {
        self.ring.slot_bytes as usize
    }

    /// Whether a message can be sent now.
    pub fn has_room(&self) -> bool {
        let free = |count: u64| self.sent - count < self.ring.slots.into();
        self.ended.is_none() && self.target.is_some() && free(self.done) && free(self.taken_there)
    }

    /// Messages that were sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Messages that the other side has taken of these.
    pub fn taken_there(&self) -> u64 {
        self.taken_there
    }

    /// Whether the other side was told of all messages that were taken here.
    pub fn has_told_taken(&self) -> bool {
        self.told == self.taken && self.telling.is_none()
    }

    /// Sends a message; gives whether it did, or has to be asked again later.
    ///
    /// # Panics
    /// When the message is empty or longer than a slot.
    pub fn send(&mut self, message: &[u8]) -> bool {
        assert!((1..=self.message_len_max()).contains(&message.len()), "length of a message");
        let (true, Some(target)) = (self.has_room(), self.target) else { return false };
        let offset = self.ring.place(self.sent);
        self.endpoint.region(self.outbox).write(offset as usize, message);
        let target = Remote { peer: self.peer, key: target.key, offset };
        let source = Local { region: self.outbox, offset };
        let put = Put { source, target, bytes: message.len() as u64 };
        let posted = self.endpoint.put_notify(&put, self.sent as u32);
        self.posted(posted).inspect(|_| self.sent += 1).is_some()
    }

    /// Takes the next message that came, into `message`; gives whether there was one.
    pub fn receive(&mut self, message: &mut Vec<u8>) -> bool {
        if self.taken == self.came {
            return false;
        }
        let slot = (self.taken % u64::from(self.ring.slots)) as usize;
        message.resize(self.lengths[slot] as usize, 0);
        let place = self.ring.place(self.taken) as usize;
        self.endpoint.region(self.inbox).read(place, message);
        self.taken += 1;
        true
    }

    /// Lets the endpoint do what is due, and looks what came.
    ///
    /// # Errors
    /// When the other side has left, or does not keep to the rules; it stays so.
    pub fn step(&mut self, now_ns: u64) -> Result<(), Failure> {
        self.endpoint.progress(now_ns);
        let taken_before = self.taken_there;
        loop {
            let mut completions = std::mem::take(&mut self.completions);
            self.endpoint.poll(&mut completions);
            let is_full = completions.len() == completions.capacity();
            completions.drain(..).for_each(|completion| self.hear(completion));
            self.completions = completions;
            if !is_full {
                break;
            }
        }
        self.tell_taken();
        self.watch(now_ns, self.taken_there > taken_before);
        self.ended.map_or(Ok(()), Err)
    }

    /// Gives the other side up when it has taken nothing for too long of what it was sent.
    fn watch(&mut self, now_ns: u64, has_taken: bool) {
        let passed_ns = now_ns.saturating_sub(self.looked_ns).min(AWAY_NS);
        self.looked_ns = now_ns;
        let is_idle = has_taken || self.taken_there == self.sent;
        self.untaken_ns = if is_idle { 0 } else { self.untaken_ns + passed_ns };
        if self.untaken_ns > self.deadline_ns {
            self.fail(Failure::Unresponsive);
        }
    }

    fn hear(&mut self, completion: Completion) {
        match completion {
            Completion::WindowOpened { window, .. } => {
                let is_ring = window.label == LABEL && window.access == Access::Write;
                match is_ring && window.bytes == self.ring.bytes() && self.target.is_none() {
                    true => self.target = Some(window),
                    false => self.fail(Failure::Protocol),
                }
            }
            Completion::Notified { key, offset, bytes, immediate, .. }
                if key == self.inbox_key && self.notified(offset, bytes, immediate) => {}
            Completion::Notified { .. } | Completion::WindowClosed { .. } => {
                self.fail(Failure::Protocol);
            }
            Completion::Done { outcome: Err(failure), .. } | Completion::Left { failure, .. } => {
                self.fail(failure);
            }
            Completion::Done { request, .. } => match self.telling == Some(request) {
                true => self.telling = None,
                false => self.done += 1,
            },
            _ => {}
        }
    }

    /// Takes note of a message, or of what the other side has taken; gives whether that can be.
    fn notified(&mut self, offset: u64, bytes: u64, immediate: u32) -> bool {
        if offset == self.ring.slots_bytes() {
            let more = u64::from(immediate.wrapping_sub(self.taken_there as u32));
            self.taken_there += more;
            return self.taken_there <= self.sent;
        }
        let has_room = self.came - self.taken < u64::from(self.ring.slots);
        let fits = (1..=u64::from(self.ring.slot_bytes)).contains(&bytes);
        if !has_room || !fits || offset != self.ring.place(self.came) {
            return false;
        }
        self.lengths[(self.came % u64::from(self.ring.slots)) as usize] = bytes as u32;
        self.came += 1;
        true
    }

    /// Tells the other side what was taken, when that is much or nothing else is left.
    fn tell_taken(&mut self) {
        let news = self.taken - self.told;
        let is_due = news > 0 && (self.taken == self.came || 2 * news > self.ring.slots.into());
        let (Some(target), true, None) = (self.target, is_due, self.telling) else { return };
        let offset = self.ring.slots_bytes();
        let target = Remote { peer: self.peer, key: target.key, offset };
        let source = Local { region: self.outbox, offset };
        let put = Put { source, target, bytes: WORD_BYTES };
        let posted = self.endpoint.put_notify(&put, self.taken as u32);
        if let Some(request) = self.posted(posted) {
            self.telling = Some(request);
            self.told = self.taken;
        }
    }

    /// What was posted; nothing where a queue is full.
    fn posted(&mut self, posted: Result<Request, PostError>) -> Option<Request> {
        match posted {
            Ok(request) => Some(request),
            Err(PostError::Full { .. }) => None,
            Err(PostError::NotJoined(_)) => {
                self.fail(Failure::Ended);
                None
            }
            Err(_) => {
                self.fail(Failure::Protocol);
                None
            }
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.ended.get_or_insert(failure);
    }
}
