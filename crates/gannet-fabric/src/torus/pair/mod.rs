//! What an endpoint has of another one: a user of the node of this host, and what goes by it.

mod joining;
mod windows;

use std::collections::VecDeque;
use std::time::Duration;

use gannet_lattice::Node;
use gannet_memory::Refusal;
use gannet_wire::exchange::Message;
use gannet_wire::torus_user::Outcome;

use super::credit::{Credit, PROBE, TAKEN, WORD_LEN, Word};
use super::user::{self, Place, User, UserError, View};
use crate::endpoint::{Completion, Failure, Key, Local, PostError, Request};
use crate::own::{Own, Returns};
use crate::tcp::Connection;
use crate::windows::Windows;

/// Most operations to one endpoint that the node has, for which no completion was taken: some less than a process may have, for words.
const POSTS: usize = 240;
/// Time for a byte on the slowest path that is waited for, ns: 10 MB/s.
const NS_PER_BYTE: u64 = 100;

/// An operation to be posted, with its own side, and the immediate of a PUT that tells.
#[derive(Clone, Copy, Debug)]
pub(super) enum Posted {
    Put(Local, Option<u32>),
    Get(Local),
}

/// An operation that was posted.
#[derive(Debug)]
struct Operation {
    request: Request,
    posted: Option<user::Request>,
    /// Window of the other side that it needs.
    key: Option<Key>,
    bytes: u64,
    /// Whether the other side is told.
    tells: bool,
    outcome: Option<Result<(), Failure>>,
}

/// A window of this side, as the other side reaches it.
#[derive(Debug)]
struct Viewed {
    key: Key,
    view: View,
    address: u64,
    bytes: u64,
}

/// A PUT of the other side that tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub key: Key,
    pub offset: u64,
    pub bytes: u64,
    pub immediate: u32,
}

/// The last operation to the own node: when it is done, all that was done before the other side ended has been told.
#[derive(Clone, Copy, Debug)]
struct Barrier {
    posted: Option<user::Request>,
    since: u64,
    is_over: bool,
}

/// Another endpoint.
#[derive(Debug)]
pub(super) struct Pair {
    connection: Connection,
    user: User,
    /// Where this host was when they met.
    place: Place,
    /// Where the other side and its words are.
    far: user::Remote,
    words: user::RegionId,
    words_address: u64,
    credit: Credit,
    /// The word that is under way: one at a time, or an earlier one could come later.
    word: Option<user::Request>,
    /// The regions of the endpoint, as the node calls them.
    regions: Vec<user::RegionId>,
    views: Vec<Viewed>,
    /// Windows of the other side, which begin at the virtual address that it has told.
    windows: Windows,
    /// Those that it takes back, until no operation needs them.
    closing: Vec<Key>,
    /// Not told to be done, in the order of posting.
    operations: VecDeque<Operation>,
    pub returned: Returns,
    /// When an operation was done last, or the first of those under way was posted.
    since: u64,
    windows_max: usize,
    barrier: Option<Barrier>,
    /// Why it is used no more.
    pub ending: Option<Failure>,
}

impl Pair {
    /// Posts an operation on `bytes` bytes from `offset` of a window of the other side.
    #[inline]
    pub fn post(
        &mut self,
        own: &mut Own,
        now: u64,
        posted: Posted,
        (key, offset, bytes): (Key, u64, u64),
    ) -> Result<Request, PostError> {
        let writes = matches!(posted, Posted::Put(..));
        let address = self.windows.find(key, offset, bytes, writes)?.offset;
        let full = PostError::Full { queue: "operations" };
        if self.operations.len() >= 2 * POSTS || self.user.under_way() >= POSTS {
            return Err(full);
        }
        let tells = matches!(posted, Posted::Put(_, Some(_)));
        if tells && !self.credit.has_room() {
            return Err(PostError::Full { queue: "events" });
        }
        let far = user::Remote { address, ..self.far };
        let near = |local: Local| user::Local {
            region: self.regions[local.region.0 as usize],
            offset: local.offset,
        };
        // An operation has no more bytes than 32 bits count.
        let length = bytes as u32;
        let asked = match posted {
            Posted::Put(from, Some(immediate)) => self.user.put(near(from), far, length, immediate),
            Posted::Put(from, None) => self.user.put_quietly(near(from), far, length),
            Posted::Get(to) => self.user.get(far, near(to), length),
        };
        let asked = asked.map_err(|error| {
            if !matches!(error, UserError::Full) {
                self.ending.get_or_insert(Failure::Node);
            }
            full
        })?;
        self.credit.posted += u64::from(tells);
        let key = Some(key);
        Ok(self.push(own, now, |request| Operation {
            request,
            posted: Some(asked),
            key,
            bytes,
            tells,
            outcome: None,
        }))
    }

    /// Posts an operation that is done when all before it are.
    pub fn flush(&mut self, own: &mut Own, now: u64) -> Result<Request, PostError> {
        if self.operations.len() >= 2 * POSTS {
            return Err(PostError::Full { queue: "operations" });
        }
        let outcome = Some(Ok(()));
        Ok(self.push(own, now, |request| Operation {
            request,
            posted: None,
            key: None,
            bytes: 0,
            tells: false,
            outcome,
        }))
    }

    #[inline]
    fn push(
        &mut self,
        own: &mut Own,
        now: u64,
        operation: impl FnOnce(Request) -> Operation,
    ) -> Request {
        if self.operations.is_empty() {
            self.since = now;
        }
        let request = own.request();
        self.operations.push_back(operation(request));
        request
    }

    /// Takes what the node tells, up to the next event of the other side; `refused` counts those of others.
    pub fn event(&mut self, refused: &mut u64) -> Option<Event> {
        while let Some(completion) = self.user.poll() {
            match completion {
                user::Completion::Done { request, outcome } => self.note(request, outcome),
                user::Completion::Arrived { node, address, length, tag } => {
                    let bytes = u64::from(length);
                    let viewed = self.viewed(address, bytes).filter(|_| node == self.far.node);
                    let Some((key, offset)) = viewed else {
                        *refused += 1;
                        continue;
                    };
                    self.credit.taken += 1;
                    return Some(Event { key, offset, bytes, immediate: tag });
                }
                // Who keeps to the events that find room misses none of them.
                user::Completion::Missed(_) => {
                    self.ending.get_or_insert(Failure::Protocol);
                }
            }
        }
        None
    }

    /// Takes note of what has become of a post.
    fn note(&mut self, done: user::Request, outcome: Outcome) {
        if self.word == Some(done) {
            self.word = None;
            return;
        }
        if let Some(barrier) = self.barrier.as_mut().filter(|it| it.posted == Some(done)) {
            barrier.is_over = true;
            return;
        }
        let outcome = match outcome {
            Outcome::Done => Ok(()),
            Outcome::OutOfRange => Err(Failure::Refused(Refusal::OutOfRange)),
            Outcome::ReadOnly => Err(Failure::Refused(Refusal::ReadOnly)),
            Outcome::Unknown | Outcome::Invalid => Err(Failure::Refused(Refusal::Unknown)),
            Outcome::Busy => Err(Failure::Unresponsive),
            Outcome::Unreachable => Err(*self.ending.get_or_insert(Failure::Unresponsive)),
            Outcome::Ended => Err(*self.ending.get_or_insert(Failure::Node)),
        };
        let mut operations = self.operations.iter_mut();
        if let Some(operation) = operations.find(|operation| operation.posted == Some(done)) {
            operation.outcome = Some(outcome);
            if operation.tells && matches!(outcome, Err(Failure::Refused(_))) {
                self.credit.posted -= 1;
            }
        }
    }

    /// The first operation, if it is done.
    pub fn done(&mut self, now: u64) -> Option<Completion> {
        let first = self.operations.pop_front_if(|operation| operation.outcome.is_some())?;
        self.since = now;
        Some(Completion::Done { request: first.request, outcome: first.outcome? })
    }

    /// All operations that are left, of which nobody will tell.
    pub fn rest(self, failure: Failure) -> impl Iterator<Item = Completion> {
        self.operations.into_iter().map(move |Operation { request, outcome, .. }| {
            let outcome = outcome.unwrap_or(Err(failure));
            Completion::Done { request, outcome }
        })
    }

    /// Says how many events were taken, if it is time to.
    pub fn tell_taken(&mut self) {
        if self.credit.is_to_tell() && self.word.is_none() {
            self.credit.stage();
            self.word = self.write(TAKEN, self.far).ok();
        }
    }

    /// PUTs a word of this side.
    fn write(&mut self, word: Word, far: user::Remote) -> Result<user::Request, UserError> {
        let from = user::Local { region: self.words, offset: word.source };
        let far = user::Remote { address: far.address + word.target, ..far };
        self.user.put_quietly(from, far, WORD_LEN)
    }

    /// Whether all events have been told that had arrived when the other side ended. The node tells things in their order: what it
    /// tells last is a PUT to this side itself.
    pub fn is_drained(&mut self, now: u64, deadline: Duration) -> bool {
        let barrier =
            *self.barrier.get_or_insert(Barrier { posted: None, since: now, is_over: false });
        if barrier.posted.is_none() {
            let (node, process) = (self.place.node, self.user.process());
            let own = user::Remote { node, process, address: self.words_address };
            let posted = self.write(PROBE, own).ok();
            self.barrier = Some(Barrier { posted, ..barrier });
        }
        let has_waited = now.saturating_sub(barrier.since) > deadline.as_nanos() as u64;
        barrier.is_over || self.user.has_ended() || has_waited
    }

    /// Refuses an endpoint to which nothing gets done for longer than the deadline, or that takes no events.
    pub fn watch(&mut self, now: u64, deadline: Duration) -> Result<(), Failure> {
        self.user.hear();
        let is_there = |place: Place| place == self.place;
        if self.user.has_ended() || !self.user.place().is_none_or(is_there) {
            return Err(Failure::Node);
        }
        if let Some(first) = self.operations.front() {
            let more = NS_PER_BYTE.saturating_mul(first.bytes);
            if now.saturating_sub(self.since) > deadline.as_nanos() as u64 + more {
                return Err(Failure::Unresponsive);
            }
        }
        self.credit.watch(now, deadline)
    }

    pub fn tell(&mut self, message: &Message) -> Result<(), Failure> {
        self.connection.tell(message, 2 * self.windows_max)
    }

    /// The next message of the other side; those of this one go on.
    pub fn hear(&mut self) -> Result<Option<Message>, Failure> {
        self.connection.empty_outbox()?;
        if self.returned.len() > self.windows_max {
            return Ok(None);
        }
        self.connection.hear()
    }

    /// The node of the other side.
    pub fn node(&self) -> Node {
        self.far.node
    }
}
