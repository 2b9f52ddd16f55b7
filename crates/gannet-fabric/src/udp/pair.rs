//! What an endpoint has of another one: the cable between them, and what goes over it.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use gannet_ingest::udp::CoalescedSocket;
use gannet_lattice::Node;
use gannet_memory::{Access, Registration};
use gannet_rdma::{Completion as Event, Configuration, Engine, Failure as Fault, Reason};
use gannet_wire::exchange::{self, Message, UdpAddress};
use gannet_wire::rdma::{DATA_LEN_MAX, HEADER_LEN, WINDOW};
use gannet_wire::record::Record;
use rustix::net::sockopt;
use rustix::rand::{GetRandomFlags, getrandom};

use super::memory::Memory;
use super::outgoing::{NUMBER_LEN, Outgoing};
use crate::endpoint::{Completion, Failure, Key, Local, PostError, RegionId, Request, Window};
use crate::exchange::{JoinError, Side, hear_address, tell_address};
use crate::own::{Limits, Own, Returns};
use crate::tcp::Connection;
use crate::windows::{PAGES, PAGES_MAX, Windows, parts};

/// Most operations to one endpoint that are not done.
const POSTS: usize = 256;
/// First time to wait for an acknowledgement: longer than a processor is usually away.
const TIMEOUT_NS: u64 = 1_000_000;
/// Bits of a number that are the slot of its owner.
const SLOT_BITS: u32 = 16;
/// Bytes that a path has to carry in a datagram.
const DATA_MIN: usize = 512;
/// Time for a byte on the slowest path that is waited for, ns: 10 MB/s.
const NS_PER_BYTE: u64 = 100;

/// Slot of the endpoint that a datagram of this number is for.
pub(super) fn slot(number: u64) -> usize {
    (number & ((1 << SLOT_BITS) - 1)) as usize
}

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
pub(super) struct Pair {
    connection: Connection,
    /// Bytes of data in a packet.
    pub data_bytes: usize,
    /// Where its datagrams come from, and which number they begin with.
    address: SocketAddr,
    number: u64,
    engine: Engine<Memory>,
    outgoing: Outgoing,
    /// Windows of the other one.
    pub windows: Windows,
    /// Those that it takes back, until no operation needs them.
    closing: Vec<Key>,
    /// Not told to be done, in the order of posting.
    operations: VecDeque<Operation>,
    /// Events posted, and events taken.
    posted: u64,
    taken: u64,
    pub returned: Returns,
    /// When an operation was done last, or the first of those under way was posted.
    since: u64,
    windows_max: usize,
    /// Why it is used no more.
    pub ending: Option<Failure>,
}

impl Pair {
    /// Agrees with the other side of a connection on a cable.
    pub fn join(
        mut connection: Connection,
        slot: usize,
        port: u16,
        datagram_max: usize,
        limits: &Limits,
    ) -> Result<Self, JoinError> {
        let mut number = [0; 8];
        getrandom(&mut number, GetRandomFlags::empty()).map_err(io::Error::from)?;
        let number = u64::from_ne_bytes(number) << SLOT_BITS | slot as u64;
        let datagram_max = datagram_max as u32;
        let mut own = [0; UdpAddress::LEN];
        UdpAddress { port, datagram_max, number }.emit(&mut own);
        tell_address(&mut connection, &own)?;
        let theirs = hear_address(&mut connection)?;
        let theirs = UdpAddress::parse(&theirs).map_err(|_| JoinError::Address)?;
        let address = SocketAddr::new(connection.peer()?, theirs.port);
        let datagram = path_datagram(&address)?.min(theirs.datagram_max as usize);
        let data_bytes = datagram.saturating_sub(NUMBER_LEN + HEADER_LEN).min(DATA_LEN_MAX);
        if data_bytes < DATA_MIN {
            return Err(JoinError::Address);
        }
        connection.stop_waiting()?;
        let configuration = configuration(connection.side(), data_bytes, limits);
        Ok(Self {
            connection,
            data_bytes,
            address,
            number,
            engine: Engine::new(configuration, Memory::default()),
            outgoing: Outgoing::new(address, theirs.number),
            windows: Windows::new(limits.windows),
            closing: Vec::new(),
            operations: VecDeque::new(),
            posted: 0,
            taken: 0,
            returned: Returns::default(),
            since: 0,
            windows_max: limits.windows,
            ending: None,
        })
    }

    /// Whether datagrams of this number and sender are its own.
    #[inline]
    pub fn sends(&self, number: u64, sender: &SocketAddr) -> bool {
        let is_sender = (self.address.ip(), self.address.port()) == (sender.ip(), sender.port());
        self.number == number && is_sender
    }

    /// Counts of the engine.
    pub fn traffic(&self) -> &gannet_rdma::Counters {
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
    pub fn register(
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

    pub fn deregister(&mut self, key: Key) {
        let (process, start) = parts(key);
        self.engine.deregister(process, start);
        self.engine.deregister(process | 1, start);
    }

    pub fn packet_in(&mut self, own: &mut Own, now: u64, packet: &[u8]) {
        self.with(own, |engine| engine.packet_in(now, packet));
    }

    /// Sends what the socket takes.
    pub fn transmit(&mut self, own: &mut Own, now: u64, socket: &CoalescedSocket) {
        std::mem::swap(&mut self.engine.memory_mut().regions, &mut own.regions);
        let Self { engine, outgoing, .. } = self;
        let packet = |out: &mut [u8]| engine.next_packet(now, out).map(|packet| packet.length);
        // What the kernel refuses is asked again, until the other side is given up.
        let _ = outgoing.send_all(socket, packet);
        std::mem::swap(&mut self.engine.memory_mut().regions, &mut own.regions);
    }

    /// When the engine wants to go on.
    pub fn deadline(&self) -> Option<u64> {
        self.engine.next_deadline()
    }

    /// Posts an operation of `bytes` bytes for which `post` makes a descriptor; `None` for one that is done
    /// when all before it are.
    #[inline]
    pub fn post(
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
    pub fn is_first(&self) -> bool {
        self.operations.len() == 1
    }

    /// The next event of the other side: process, address, bytes and immediate of a PUT that tells.
    pub fn event(&mut self) -> Option<(u16, u64, u32, u32)> {
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

    /// Refuses an endpoint to which nothing gets done for longer than the deadline.
    pub fn watch(&self, now: u64, deadline: Duration) -> Result<(), Failure> {
        let Some(first) = self.operations.front() else { return Ok(()) };
        let patience = deadline.as_nanos() as u64 + NS_PER_BYTE.saturating_mul(first.needs.bytes);
        if now.saturating_sub(self.since) > patience {
            return Err(Failure::Unresponsive);
        }
        Ok(())
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

    pub fn window_opened(&mut self, told: &exchange::Window) -> Result<Window, Failure> {
        let access = if told.is_writable { Access::Write } else { Access::Read };
        let (key, start) = (Key(told.key), Local { region: RegionId(0), offset: 0 });
        let entered = self.windows.enter(key, start, told.bytes, access);
        entered.map_err(|_| Failure::Protocol)?;
        Ok(Window { key, bytes: told.bytes, access, label: told.label })
    }

    /// Stops using a window of the other one, if it is one.
    pub fn window_closed(&mut self, key: Key) {
        if self.windows.remove(key) {
            self.closing.push(key);
        }
    }

    /// A window that no operation needs any more, of which the other side is told so.
    pub fn window_free(&mut self) -> Result<Option<Key>, Failure> {
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
    pub fn window_returned(&mut self) -> Option<Key> {
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

impl Pair {
    /// The other end.
    pub fn far(&self) -> Node {
        far(self.connection.side())
    }
}

fn configuration(side: Side, data_bytes: usize, limits: &Limits) -> Configuration {
    let near = Node(1 - far(side).0);
    let mut configuration = Configuration::new(near);
    let deadline_ns = limits.deadline.as_nanos() as u64;
    configuration.limits = gannet_rdma::Limits {
        nodes: 2,
        posts: POSTS,
        replies: POSTS,
        completions: POSTS + limits.events,
        receive_queue: WINDOW as usize,
        transmit_queue: WINDOW as usize,
        data_bytes,
        // Each window, and each region for what is got, under two processes.
        buffers: 2 * (limits.windows + limits.regions),
        pages: 4 * PAGES_MAX,
    };
    configuration.translation.page_size = PAGES;
    let replay = &mut configuration.replay;
    replay.timeout_ns = TIMEOUT_NS;
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

/// Longest datagram on the path to `to` that is not cut.
fn path_datagram(to: &SocketAddr) -> io::Result<usize> {
    let socket = match to {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?,
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?,
    };
    socket.connect(to)?;
    // Headers of IP and of UDP.
    let payload = match to {
        SocketAddr::V4(_) => sockopt::ip_mtu(&socket)?.saturating_sub(20 + 8),
        SocketAddr::V6(_) => sockopt::ipv6_mtu(&socket)?.saturating_sub(40 + 8),
    };
    Ok((payload as usize).min(CoalescedSocket::BYTES_MAX))
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
