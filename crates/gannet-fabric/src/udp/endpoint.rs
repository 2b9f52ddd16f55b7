//! The endpoint.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Instant;

use gannet_ingest::udp::CoalescedSocket;
use gannet_memory::{Access, Refusal, SharedRegion};
use gannet_rdma as rdma;
use gannet_wire::exchange::{self, Message};

use super::memory::Memory;
use super::outgoing::NUMBER_LEN;
use super::pair::{Needs, Pair, slot};
use crate::endpoint::{
    Completion, Endpoint, Facts, Failure, Get, Key, Level, Local, OpenError, Opening, Peer,
    PostError, Put, RegionId, Remote, Request,
};
use crate::exchange::JoinError;
use crate::own::{Counters, Limits, Own};
use crate::peers::Peers;
use crate::tcp::{self, Connection, Listener};
use crate::trust::Trust;
use crate::windows::{Windows, parts};

/// Number of this backend in a hello.
pub(crate) const BACKEND: u32 = 2;
/// How often an endpoint looks for messages of the others, in nanoseconds.
const LOOK_NS: u64 = 100_000;
/// Messages of an endpoint, and of the socket, that are taken at a look.
const MESSAGES_MAX: usize = 16;
/// Most bytes of an operation.
const BYTES_MAX: u64 = u32::MAX as u64;
/// Memory asked for datagrams that wait.
const BUFFER_BYTES: u64 = 8 << 20;
/// Part of that memory that a datagram may take: a window of 32 with what the kernel adds to each.
const BUFFER_DATAGRAMS: u64 = 40;

/// An endpoint over UDP.
#[derive(Debug)]
pub struct Udp {
    own: Own,
    peers: Peers<Pair>,
    socket: CoalescedSocket,
    datagram_max: usize,
    /// For a message of the socket.
    room: Vec<u8>,
    /// Keys by which what is got reaches the regions; nobody is told of them.
    local: Vec<Key>,
    /// Windows by their place, counted after those of the regions.
    places: Vec<Option<(Key, Opening)>>,
    /// Whether nothing was left in the socket.
    is_drained: bool,
    begin: Instant,
    look_at: u64,
}

impl Udp {
    /// An endpoint that is joined to nobody, with a socket at `address`; port 0 lets the system choose one.
    ///
    /// # Errors
    /// When the address is not of this host, or taken.
    ///
    /// # Panics
    /// When a limit is 0 or more than 65536 peers, or the number of events is not a power of two from 2 to
    /// 2^20.
    pub fn bind(address: &SocketAddr, limits: Limits) -> io::Result<Self> {
        assert!(limits.peers <= 1 << 16, "more peers than a datagram can name");
        let socket = CoalescedSocket::bind(address)?;
        let buffer = 2 * socket.set_buffers(BUFFER_BYTES)? / BUFFER_DATAGRAMS;
        Ok(Self {
            peers: Peers::new(limits.peers),
            own: Own::new(limits),
            socket,
            datagram_max: (buffer as usize).clamp(1024, CoalescedSocket::BYTES_MAX),
            room: vec![0; CoalescedSocket::ROOM],
            local: Vec::new(),
            places: Vec::new(),
            is_drained: false,
            begin: Instant::now(),
            look_at: 0,
        })
    }

    /// Where its socket is.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.address()
    }

    /// Waits for an endpoint at a listener, and joins it.
    ///
    /// # Errors
    /// When none comes in time, or it may not join.
    pub fn accept(&mut self, listener: &Listener, trust: &Trust) -> Result<Peer, JoinError> {
        let connection = listener.accept(trust, BACKEND, self.own.limits.deadline)?;
        self.join(connection)
    }

    /// Joins the endpoint that listens at `address`.
    ///
    /// # Errors
    /// When nobody listens there, or does not let this one join.
    pub fn connect(
        &mut self,
        address: impl ToSocketAddrs,
        trust: &Trust,
    ) -> Result<Peer, JoinError> {
        let connection = tcp::connect(address, trust, BACKEND, self.own.limits.deadline)?;
        self.join(connection)
    }

    /// Joins the endpoint at the other end of a connection.
    ///
    /// # Errors
    /// When it does not tell how to reach it, or cannot be reached.
    pub fn join(&mut self, connection: Connection) -> Result<Peer, JoinError> {
        let slot = self.peers.free()?;
        let port = self.address()?.port();
        let mut pair = Pair::join(connection, slot, port, self.datagram_max, &self.own.limits)?;
        let mut ending = Ok(());
        for (region, &key) in self.local.iter().enumerate() {
            ending = ending.and(register_region(&mut pair, &mut self.own, region, key));
        }
        for (place, window) in self.places.iter().enumerate() {
            if let Some((key, opening)) = window {
                let open = &self.own.openings;
                if open.iter().any(|(open, _)| open == key) {
                    let place = self.own.limits.regions + place;
                    ending = ending.and(open_to(&mut pair, &mut self.own, place, *key, opening));
                }
            }
        }
        pair.ending = ending.err();
        Ok(self.peers.insert(slot, pair))
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.own.counters
    }

    /// Bytes of data in a packet to an endpoint, as the path between them allows.
    pub fn packet_bytes(&mut self, peer: Peer) -> Option<usize> {
        self.peers.find(peer).map(|pair| pair.data_bytes)
    }

    /// What the engine has sent to an endpoint and got from it, and how often again.
    pub fn traffic(&mut self, peer: Peer) -> Option<rdma::Counters> {
        self.peers.find(peer).map(|pair| *pair.traffic())
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Gives the engines what the socket has.
    fn receive(&mut self) {
        let now = self.now();
        for _ in 0..MESSAGES_MAX {
            let Ok(Some(message)) = self.socket.receive(&mut self.room) else {
                self.is_drained = true;
                return;
            };
            if message.bytes == 0 {
                self.own.counters.strangers += 1;
            }
            for datagram in self.room[..message.bytes].chunks(message.datagram) {
                let pair =
                    datagram.split_first_chunk::<NUMBER_LEN>().and_then(|(number, packet)| {
                        let number = u64::from_le_bytes(*number);
                        let (_, pair) = self.peers.at(slot(number))?;
                        pair.sends(number, &message.sender).then_some((pair, packet))
                    });
                match pair {
                    Some((pair, packet)) => pair.packet_in(&mut self.own, now, packet),
                    None => self.own.counters.strangers += 1,
                }
            }
        }
        self.is_drained = false;
    }

    fn transmit(&mut self) {
        let now = self.now();
        for slot in self.peers.slots() {
            if let Some((_, pair)) = self.peers.at(slot) {
                pair.transmit(&mut self.own, now, &self.socket);
            }
        }
    }

    /// Adds what an endpoint tells to `completions`, and lets go of one that has ended after its last word.
    fn take(&mut self, slot: usize, completions: &mut Vec<Completion>) {
        let now = self.now();
        let Some((peer, pair)) = self.peers.at(slot) else { return };
        loop {
            while completions.len() < completions.capacity()
                && let Some(done) = pair.done(now)
            {
                completions.push(done);
            }
            if completions.len() == completions.capacity() {
                return;
            }
            let Some((process, address, bytes, immediate)) = pair.event() else { break };
            let bytes = u64::from(bytes);
            let window = self.own.windows.holding(process, address);
            let is_open = |&(key, offset): &(Key, u64)| {
                self.own.windows.find(key, offset, bytes, true).is_ok()
            };
            match window.filter(is_open) {
                Some((key, offset)) => {
                    completions.push(Completion::Notified { peer, key, offset, bytes, immediate })
                }
                None => self.own.counters.refused += 1,
            }
        }
        while completions.len() < completions.capacity()
            && let Some(done) = pair.done(now)
        {
            completions.push(done);
        }
        if let Some(failure) = pair.ending
            && self.is_drained
            && completions.len() < completions.capacity()
        {
            self.leave(peer, failure);
        }
    }

    /// Lets go of another endpoint.
    fn leave(&mut self, peer: Peer, failure: Failure) {
        if let Some(pair) = self.peers.remove(peer) {
            pair.rest(failure).for_each(|completion| self.own.push(completion));
            self.own.left(peer, failure);
            self.sweep();
        }
    }

    /// Takes windows from the engines that nobody uses any more.
    fn sweep(&mut self) {
        for place in 0..self.places.len() {
            let Some((key, _)) = self.places[place] else { continue };
            if self.own.windows.find(key, 0, 0, false) == Err(Refusal::Unknown) {
                self.places[place] = None;
                for slot in self.peers.slots() {
                    if let Some((_, pair)) = self.peers.at(slot) {
                        pair.deregister(key);
                    }
                }
            }
        }
    }

    /// Acts on the messages of an endpoint, and on what was to wait for its operations.
    fn hear(&mut self, slot: usize) -> Result<(), Failure> {
        for _ in 0..MESSAGES_MAX {
            // Messages wait where completions do not find room.
            let has_room = self.own.room() > 0;
            let Some((peer, pair)) = self.peers.at(slot).filter(|_| has_room) else { break };
            match pair.hear()? {
                None => break,
                Some(Message::Window(told)) => {
                    let window = pair.window_opened(&told)?;
                    self.own.push(Completion::WindowOpened { peer, window });
                }
                Some(Message::Close { key }) => pair.window_closed(Key(key)),
                Some(Message::Closed { key, events }) => pair.returned.push(Key(key), events),
                Some(_) => return Err(Failure::Protocol),
            }
        }
        Ok(())
    }

    /// Takes note of windows that are used no more, here or there.
    fn settle(&mut self, slot: usize) -> Result<(), Failure> {
        while let Some((peer, pair)) = self.peers.at(slot)
            && let Some(key) = pair.window_free()?
        {
            self.own.push(Completion::WindowClosed { peer, key });
        }
        let mut is_swept = true;
        while let Some((peer, pair)) = self.peers.at(slot)
            && let Some(key) = pair.window_returned()
        {
            self.own.returned(peer, key);
            is_swept = false;
        }
        if !is_swept {
            self.sweep();
        }
        Ok(())
    }

    #[inline]
    fn place(&mut self, put: &Put, immediate: Option<u32>) -> Result<Request, PostError> {
        let &Put { source, target: Remote { peer, key, offset }, bytes } = put;
        self.own.check(source, bytes, BYTES_MAX)?;
        let now = self.now();
        let pair = joined(&mut self.peers, peer)?;
        pair.windows.find(key, offset, bytes, true)?;
        let (process, address) = parts(key);
        let put = rdma::Put {
            source: Memory::address(source.region.0 as usize, source.offset),
            destination: pair.far(),
            process: process | u16::from(immediate.is_some()),
            address: address + offset,
            length: bytes as u32,
            tag: immediate.unwrap_or(0),
        };
        let needs = Needs { key: Some(key), bytes, tells: immediate.is_some() };
        let request =
            pair.post(&mut self.own, now, needs, |engine| Some(engine.post_put(now, &put)))?;
        // One alone goes at once, and more of them together.
        if pair.is_first() {
            pair.transmit(&mut self.own, now, &self.socket);
        }
        Ok(request)
    }

    /// Tells an endpoint, and uses it no more when that fails.
    fn tell(&mut self, peer: Peer, message: &Message) {
        if let Some(pair) = self.peers.find(peer)
            && let Err(failure) = pair.tell(message)
        {
            pair.ending.get_or_insert(failure);
        }
    }
}

/// Sends what was posted, as far as the socket takes it.
impl Drop for Udp {
    fn drop(&mut self) {
        self.transmit();
    }
}

/// An endpoint that has not ended.
#[inline]
fn joined(peers: &mut Peers<Pair>, peer: Peer) -> Result<&mut Pair, PostError> {
    let pair = peers.find(peer).filter(|pair| pair.ending.is_none());
    pair.ok_or(PostError::NotJoined(peer))
}

/// Lets what is got reach a region.
fn register_region(pair: &mut Pair, own: &mut Own, region: usize, key: Key) -> Result<(), Failure> {
    let start = Local { region: RegionId(region as u32), offset: 0 };
    let bytes = own.regions[region].len() as u64;
    pair.register(own, key, (region, start), bytes, Access::Write)
}

/// Opens a window to an endpoint.
fn open_to(
    pair: &mut Pair,
    own: &mut Own,
    place: usize,
    key: Key,
    opening: &Opening,
) -> Result<(), Failure> {
    let &Opening { start, bytes, access, label } = opening;
    pair.register(own, key, (place, start), bytes, access)?;
    pair.tell(&Message::Window(exchange::Window {
        key: key.0,
        bytes,
        label,
        is_writable: access == Access::Write,
        ..exchange::Window::default()
    }))
}

impl Endpoint for Udp {
    fn facts(&self) -> Facts {
        Facts {
            backend: "udp",
            done_is: Level::Placed,
            bytes_max: BYTES_MAX,
            limit: "32 packets under way to an endpoint for each round trip",
        }
    }

    fn add_region(&mut self, region: SharedRegion) -> Result<RegionId, SharedRegion> {
        // Without random numbers nothing can be got into it, nor windows be opened.
        let Ok(key) = Windows::draw() else { return Err(region) };
        let region = self.own.add_region(region)?;
        self.local.push(key);
        for slot in self.peers.slots() {
            if let Some((_, pair)) = self.peers.at(slot)
                && let Err(failure) = register_region(pair, &mut self.own, region.0 as usize, key)
            {
                pair.ending.get_or_insert(failure);
            }
        }
        Ok(region)
    }

    fn region(&self, region: RegionId) -> &SharedRegion {
        self.own.region(region)
    }

    fn open_window(&mut self, opening: &Opening) -> Result<Key, OpenError> {
        let key = self.own.open(opening)?;
        let free = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        self.places.resize(self.places.len().max(free + 1), None);
        self.places[free] = Some((key, *opening));
        let place = self.own.limits.regions + free;
        for slot in self.peers.slots() {
            if let Some((_, pair)) = self.peers.at(slot)
                && let Err(failure) = open_to(pair, &mut self.own, place, key, opening)
            {
                pair.ending.get_or_insert(failure);
            }
        }
        Ok(key)
    }

    fn close_window(&mut self, key: Key) -> bool {
        let peers = self.peers.numbers();
        let is_open = self.own.close(key, &peers);
        for peer in peers.into_iter().filter(|_| is_open) {
            self.tell(peer, &Message::Close { key: key.0 });
        }
        self.sweep();
        is_open
    }

    #[inline]
    fn put(&mut self, put: &Put) -> Result<Request, PostError> {
        self.place(put, None)
    }

    #[inline]
    fn put_notify(&mut self, put: &Put, immediate: u32) -> Result<Request, PostError> {
        self.place(put, Some(immediate))
    }

    fn get(&mut self, get: &Get) -> Result<Request, PostError> {
        let &Get { source: Remote { peer, key, offset }, target, bytes } = get;
        self.own.check(target, bytes, BYTES_MAX)?;
        let now = self.now();
        let local = self.local[target.region.0 as usize];
        let pair = joined(&mut self.peers, peer)?;
        pair.windows.find(key, offset, bytes, false)?;
        let ((process, address), (local_process, local_address)) = (parts(key), parts(local));
        let get = rdma::Get {
            source: pair.far(),
            process,
            address: address + offset,
            local_process,
            local_address: local_address + target.offset,
            length: bytes as u32,
            tag: 0,
        };
        let needs = Needs { key: Some(key), bytes, tells: false };
        let request =
            pair.post(&mut self.own, now, needs, |engine| Some(engine.post_get(now, &get)))?;
        if pair.is_first() {
            pair.transmit(&mut self.own, now, &self.socket);
        }
        Ok(request)
    }

    fn flush(&mut self, peer: Peer) -> Result<Request, PostError> {
        let now = self.now();
        let pair = joined(&mut self.peers, peer)?;
        pair.post(&mut self.own, now, Needs::default(), |_| None)
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.own.take(completions);
        // What the last call has received is acknowledged by what was posted since, if anything was.
        self.transmit();
        self.receive();
        for slot in self.peers.slots() {
            self.take(slot, completions);
        }
        self.own.take(completions);
    }

    fn progress(&mut self, now_ns: u64) -> Option<u64> {
        self.receive();
        self.transmit();
        let now = self.now();
        if now >= self.look_at {
            self.look_at = now + LOOK_NS;
            let deadline = self.own.limits.deadline;
            for slot in self.peers.slots() {
                if self.peers.at(slot).is_none_or(|(_, pair)| pair.ending.is_some()) {
                    continue;
                }
                let heard = self.hear(slot).and_then(|()| self.settle(slot));
                if let Some((_, pair)) = self.peers.at(slot) {
                    let ending = heard.and_then(|()| pair.watch(now, deadline)).err();
                    pair.ending = pair.ending.or(ending);
                }
            }
        }
        let deadlines = self.peers.slots().filter_map(|slot| self.peers.at(slot)?.1.deadline());
        let next = deadlines.min().unwrap_or(u64::MAX).min(self.look_at);
        Some(now_ns.saturating_add(next.saturating_sub(now)))
    }
}
