//! What an endpoint has of another one: the cable between them, and what goes over it.

use std::collections::VecDeque;
use std::time::Duration;

use gannet_lattice::Node;
use gannet_memory::{Access, Registration};
use gannet_rdma::{Completion as Event, Configuration, Engine, Failure as Fault, Reason};
use gannet_wire::exchange::{self, Message};

use super::memory::Memory;
use super::{Cable, Port};
use crate::endpoint::{Completion, Failure, Key, Local, PostError, RegionId, Request, Window};
use crate::exchange::Side;
use crate::own::{Limits, Own, Returns};
use crate::windows::{PAGES, PAGES_MAX, Windows, parts};

/// Most operations to one endpoint that are not done.
const POSTS: usize = 256;
/// Shortest time to wait for an acknowledgement, and the first one: longer than a processor is usually away, of which
/// round trips before say nothing.
const TIMEOUT_NS: u64 = 1_000_000;
/// Time for a byte on the slowest path that is waited for, ns: 10 MB/s.
const NS_PER_BYTE: u64 = 100;

/// What an operation is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    /// Window of the other side that it needs.
    pub key: Option<Key>,
    pub bytes: u64,
    /// Whether the other side is told.
    pub tells: bool,
}

/// An operation that was posted.
#[derive(Debug)]
struct Operation {
    request: Request,
    engine: Option<gannet_rdma::Request>,
    needs: Needs,
    outcome: Option<Result<(), Failure>>,
}

/// Another endpoint.
#[derive(Debug)]
pub struct Pair<C> {
    pub(super) cable: C,
    /// Bytes of data in a packet.
    data_bytes: usize,
    engine: Engine<Memory>,
    /// Windows of the other one.
    pub(super) windows: Windows,
    /// Those that it takes back, until no operation needs them.
    closing: Vec<Key>,
    /// Not told to be done, in the order of posting.
    operations: VecDeque<Operation>,
    /// Events posted, and events taken.
    posted: u64,
    taken: u64,
    pub(super) returned: Returns,
    /// When an operation was done last, or the first of those under way was posted.
    since: u64,
    windows_max: usize,
    /// Why it is used no more.
    pub(super) ending: Option<Failure>,
}

impl<C: Cable> Pair<C> {
    /// What goes over a cable that takes packets with so many bytes of data.
    pub(super) fn new(cable: C, data_bytes: usize, limits: &Limits) -> Self {
        let configuration = configuration(cable.side(), data_bytes, limits);
        Self {
            cable,
            data_bytes,
            engine: Engine::new(configuration, Memory::default()),
            windows: Windows::new(limits.windows),
            closing: Vec::new(),
            operations: VecDeque::new(),
            posted: 0,
            taken: 0,
            returned: Returns::default(),
            since: 0,
            windows_max: limits.windows,
            ending: None,
        }
    }

    /// Bytes of data in a packet.
    pub(super) fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Counts of the engine.
    pub(super) fn traffic(&self) -> &gannet_rdma::Counters {
        self.engine.counters()
    }

    /// Lets the engine work with the regions of the endpoint.
    #[inline]
    fn with<T>(&mut self, own: &mut Own, work: impl FnOnce(&mut Engine<Memory>) -> T) -> T {
        std::mem::swap(&mut self.engine.memory_mut().regions, &mut own.regions);
        let result = work(&mut self.engine);
        std::mem::swap(&mut self.engine.memory_mut().regions, &mut own.regions);
        result
    }

    /// Lets the engine reach the first `bytes` bytes of a place by `key`.
    pub(super) fn register(
        &mut self,
        own: &mut Own,
        key: Key,
        (place, start): (usize, Local),
        bytes: u64,
        access: Access,
    ) -> Result<(), Failure> {
        self.engine.memory_mut().set(place, start);
        let (process, start) = parts(key);
        let (pages, writable) = (Memory::pages(place, bytes), access == Access::Write);
        for process in [process, process | 1] {
            let window = Registration { process, start, length: bytes, writable, pages: &pages };
            let registered = self.with(own, |engine| engine.register(&window));
            registered.map_err(|_| Failure::Resources)?;
        }
        Ok(())
    }

    pub(super) fn deregister(&mut self, key: Key) {
        let (process, start) = parts(key);
        self.engine.deregister(process, start);
        self.engine.deregister(process | 1, start);
    }

    /// Gives the engine a packet that has come.
    #[inline]
    pub(super) fn packet_in(&mut self, own: &mut Own, now: u64, packet: &[u8]) {
        self.with(own, |engine| engine.packet_in(now, packet));
    }

    /// Sends what the port takes.
    pub(super) fn transmit<P: Port<Cable = C>>(&mut self, own: &mut Own, now: u64, port: &P) {
        std::mem::swap(&mut self.engine.memory_mut().regions, &mut own.regions);
        port.send(&mut self.cable, now, &mut self.engine);
        std::mem::swap(&mut self.engine.memory_mut().regions, &mut own.regions);
    }

    /// When the engine wants to go on.
    pub(super) fn due(&self) -> u64 {
        self.engine.next_deadline().unwrap_or(u64::MAX)
    }

    /// Posts an operation of `bytes` bytes for which `post` makes a descriptor; `None` for one that is done
    /// when all before it are.
    #[inline]
    pub(super) fn post(
        &mut self,
        own: &mut Own,
        now: u64,
        needs: Needs,
        post: impl FnOnce(
            &mut Engine<Memory>,
        ) -> Option<Result<gannet_rdma::Request, gannet_rdma::PostError>>,
    ) -> Result<Request, PostError> {
        let full = PostError::Full { queue: "operations" };
        if self.operations.len() >= 2 * POSTS {
            return Err(full);
        }
        let posted = self.with(own, post).transpose();
        let engine = posted.map_err(|error| match error {
            gannet_rdma::PostError::Full => full,
            // The endpoint has tested it.
            _ => PostError::Local { offset: 0, bytes: needs.bytes },
        })?;
        if self.operations.is_empty() {
            self.since = now;
        }
        let request = own.request();
        let outcome = engine.is_none().then_some(Ok(()));
        self.operations.push_back(Operation { request, engine, needs, outcome });
        self.posted += u64::from(needs.tells);
        Ok(request)
    }

    /// Whether only one operation is under way.
    pub(super) fn is_first(&self) -> bool {
        self.operations.len() == 1
    }

    /// The next event of the other side: process, address, bytes and immediate of a PUT that tells.
    pub(super) fn event(&mut self) -> Option<(u16, u64, u32, u32)> {
        while let Some(event) = self.engine.poll_completion() {
            match event {
                Event::RxDone { process, address, length, tag, .. } if process & 1 == 1 => {
                    self.taken += 1;
                    return Some((process & !1, address, length, tag));
                }
                Event::RxDone { .. } => {}
                Event::TxDone { request, outcome, .. }
                | Event::GetDone { request, outcome, .. } => {
                    self.note(request, outcome);
                }
            }
        }
        None
    }

    fn note(&mut self, request: gannet_rdma::Request, outcome: Result<(), Fault>) {
        let outcome = outcome.map_err(|fault| match fault {
            Fault::Refused(Reason::Access(refusal)) => Failure::Refused(refusal),
            Fault::Refused(Reason::Busy) => Failure::Unresponsive,
            Fault::Unreachable => {
                self.ending.get_or_insert(Failure::Unresponsive);
                Failure::Unresponsive
            }
        });
        let mut operations = self.operations.iter_mut();
        if let Some(operation) = operations.find(|operation| operation.engine == Some(request)) {
            operation.outcome = Some(outcome);
            if operation.needs.tells && matches!(outcome, Err(Failure::Refused(_))) {
                self.posted -= 1;
            }
        }
    }

    /// The first operation, if it is done.
    pub(super) fn done(&mut self, now: u64) -> Option<Completion> {
        let first = self.operations.pop_front_if(|operation| operation.outcome.is_some())?;
        self.since = now;
        Some(Completion::Done { request: first.request, outcome: first.outcome? })
    }

    /// All operations that are left, of which nobody will tell.
    pub(super) fn rest(self, failure: Failure) -> impl Iterator<Item = Completion> {
        self.operations.into_iter().map(move |Operation { request, outcome, .. }| {
            let outcome = outcome.unwrap_or(Err(failure));
            Completion::Done { request, outcome }
        })
    }

    /// When an endpoint is given up to which nothing gets done until then.
    pub(super) fn patience_ends(&self, deadline: Duration) -> u64 {
        let Some(first) = self.operations.front() else { return u64::MAX };
        let patience = deadline.as_nanos() as u64 + NS_PER_BYTE.saturating_mul(first.needs.bytes);
        self.since.saturating_add(patience)
    }

    /// Refuses an endpoint to which nothing gets done for longer than the deadline.
    pub(super) fn watch(&self, now: u64, deadline: Duration) -> Result<(), Failure> {
        match now > self.patience_ends(deadline) {
            true => Err(Failure::Unresponsive),
            false => Ok(()),
        }
    }

    pub(super) fn tell(&mut self, message: &Message) -> Result<(), Failure> {
        self.cable.tell(message, 2 * self.windows_max)
    }

    /// The next message of the other side; those of this one go on.
    pub(super) fn hear(&mut self) -> Result<Option<Message>, Failure> {
        self.cable.empty_outbox()?;
        if self.returned.len() > self.windows_max {
            return Ok(None);
        }
        self.cable.hear()
    }

    pub(super) fn window_opened(&mut self, told: &exchange::Window) -> Result<Window, Failure> {
        let access = if told.is_writable { Access::Write } else { Access::Read };
        let (key, start) = (Key(told.key), Local { region: RegionId(0), offset: 0 });
        let entered = self.windows.enter(key, start, told.bytes, access);
        entered.map_err(|_| Failure::Protocol)?;
        Ok(Window { key, bytes: told.bytes, access, label: told.label })
    }

    /// Stops using a window of the other one, if it is one.
    pub(super) fn window_closed(&mut self, key: Key) {
        if self.windows.remove(key) {
            self.closing.push(key);
        }
    }

    /// A window that no operation needs any more, of which the other side is told so.
    pub(super) fn window_free(&mut self) -> Result<Option<Key>, Failure> {
        let is_needed =
            |key: &Key| self.operations.iter().any(|operation| operation.needs.key == Some(*key));
        let Some(at) = self.closing.iter().position(|key| !is_needed(key)) else {
            return Ok(None);
        };
        let (key, events) = (self.closing.remove(at), self.posted);
        self.tell(&Message::Closed { key: key.0, events })?;
        Ok(Some(key))
    }

    /// A window that the other side has returned, and of which all events were taken.
    pub(super) fn window_returned(&mut self) -> Option<Key> {
        self.returned.settled(self.taken)
    }
}

/// The far end of the cable, seen from `side`.
pub(super) fn far(side: Side) -> Node {
    match side {
        Side::Accepting => Node(0),
        Side::Connecting => Node(1),
    }
}

impl<C: Cable> Pair<C> {
    /// The other end.
    pub(super) fn far(&self) -> Node {
        far(self.cable.side())
    }
}

fn configuration(side: Side, data_bytes: usize, limits: &Limits) -> Configuration {
    let near = Node(1 - far(side).0);
    let mut configuration = Configuration::new(near);
    let deadline_ns = limits.deadline.as_nanos() as u64;
    let window = configuration.limits.window;
    configuration.limits = gannet_rdma::Limits {
        nodes: 2,
        posts: POSTS,
        replies: POSTS,
        completions: POSTS + limits.events,
        receive_queue: window as usize,
        transmit_queue: window as usize,
        data_bytes,
        window,
        // Each window, and each region for what is got, under two processes.
        buffers: 2 * (limits.windows + limits.regions),
        pages: 4 * PAGES_MAX,
    };
    configuration.translation.page_size = PAGES;
    let replay = &mut configuration.replay;
    (replay.timeout_ns, replay.timeout_min_ns) = (TIMEOUT_NS, TIMEOUT_NS);
    replay.timeout_max_ns = (deadline_ns / 8).max(TIMEOUT_NS);
    replay.get_timeout_ns = deadline_ns;
    let (mut waited, mut wait, mut attempts) = (0, TIMEOUT_NS, 0u8);
    while waited < deadline_ns && attempts < u8::MAX {
        (waited, attempts) = (waited + wait, attempts + 1);
        wait = (2 * wait).min(replay.timeout_max_ns);
    }
    replay.attempts = attempts.max(1);
    configuration
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_with_the_deadline() {
        for deadline in
            [Duration::from_millis(1), Duration::from_millis(500), Duration::from_secs(9)]
        {
            let limits = Limits { deadline, ..Limits::default() };
            let configuration = configuration(Side::Accepting, 4096, &limits);
            configuration.check().unwrap();
            let replay = configuration.replay;
            let waits = (1..=u32::from(replay.attempts))
                .map(|sends| (replay.timeout_ns << (sends - 1).min(32)).min(replay.timeout_max_ns));
            let waited = waits.sum::<u64>();
            let deadline_ns = deadline.as_nanos() as u64;
            assert!(waited >= deadline_ns && waited <= deadline_ns * 5 / 4, "{waited}");
        }
    }
}
