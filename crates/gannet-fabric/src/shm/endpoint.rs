//! The endpoint.

use std::collections::{HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use gannet_memory::{Access, Refusal, SharedRegion};
use gannet_wire::exchange::{self, Message};

use super::listener::{Listener, connected};
use super::peer::{Joint, Returned};
use super::ring::Event;
use crate::endpoint::{
    Completion, Endpoint, Facts, Failure, Get, Key, Level, Local, OpenError, Opening, Peer,
    PostError, Put, RegionId, Remote, Request,
};
use crate::exchange::{JoinError, Side, Trust};
use crate::windows::Windows;

/// How often an endpoint looks for messages of the others, in nanoseconds.
const LOOK_NS: u64 = 100_000;
/// Messages of an endpoint that are taken at a look.
const MESSAGES_MAX: usize = 16;
/// Most bytes of an operation, as an event tells them.
const BYTES_MAX: u64 = u32::MAX as u64;

/// Sizes and patience of an endpoint.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most endpoints that are joined.
    pub peers: usize,
    /// Most regions of its own.
    pub regions: usize,
    /// Most windows of its own, and of each other endpoint.
    pub windows: usize,
    /// Most completions that wait to be taken.
    pub completions: usize,
    /// Most events of another endpoint that wait to be taken; a power of two.
    pub events: usize,
    /// Time after which another endpoint is given up that does not answer, or takes no events.
    pub deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            peers: 64,
            regions: 64,
            windows: 256,
            completions: 4096,
            events: 4096,
            deadline: Duration::from_secs(2),
        }
    }
}

/// Counts of what happened, since the endpoint was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events of bytes that lie in no open window.
    pub refused: u64,
    /// Endpoints that have left, or were given up.
    pub left: u64,
}

/// An endpoint over shared memory.
#[derive(Debug)]
pub struct Shm {
    limits: Limits,
    regions: Vec<SharedRegion>,
    /// Windows that are open, or not yet returned.
    windows: Windows,
    openings: Vec<(Key, Opening)>,
    /// Windows that were closed, and who still may use them.
    closing: Vec<(Key, HashSet<u32>)>,
    /// By number modulo the most there may be.
    peers: Vec<Option<(Peer, Joint)>>,
    /// Places of the list above that were ever used.
    joined_slots: usize,
    joined: u32,
    completions: VecDeque<Completion>,
    requests: u64,
    look_at: u64,
    counters: Counters,
}

impl Shm {
    /// An endpoint that is joined to nobody.
    ///
    /// # Panics
    /// When a limit is 0, or the number of events is not a power of two from 2 to 2^20.
    pub fn new(limits: Limits) -> Self {
        let sizes = [limits.peers, limits.regions, limits.windows, limits.completions];
        assert!(sizes.iter().all(|&size| size > 0), "a limit is 0");
        assert!(limits.events.is_power_of_two() && (2..=1 << 20).contains(&limits.events));
        Self {
            regions: Vec::new(),
            windows: Windows::new(limits.windows),
            openings: Vec::new(),
            closing: Vec::new(),
            peers: (0..limits.peers).map(|_| None).collect(),
            joined_slots: 0,
            joined: 0,
            completions: VecDeque::new(),
            requests: 0,
            look_at: 0,
            counters: Counters::default(),
            limits,
        }
    }

    /// Waits for an endpoint at a socket, and joins it.
    ///
    /// # Errors
    /// When none comes in time, or it may not join.
    pub fn accept(&mut self, listener: &Listener, trust: &Trust) -> Result<Peer, JoinError> {
        let socket = listener.accept(&self.limits)?;
        self.join(socket, Side::Accepting, trust)
    }

    /// Joins the endpoint that listens at `path`.
    ///
    /// # Errors
    /// When nobody listens there, or does not let this one join.
    pub fn connect(&mut self, path: &Path, trust: &Trust) -> Result<Peer, JoinError> {
        self.join(connected(path)?, Side::Connecting, trust)
    }

    /// Joins the endpoint at the other end of a socket that keeps messages apart.
    ///
    /// # Errors
    /// When it may not join, or does not answer.
    pub fn join(&mut self, socket: OwnedFd, side: Side, trust: &Trust) -> Result<Peer, JoinError> {
        let free = self.peers.iter().position(Option::is_none);
        let slot = free.ok_or(JoinError::TooMany(self.limits.peers))?;
        let joint = Joint::meet(socket, side, trust, &self.limits)?;
        // Numbers are not used again soon: each is its slot and how often one was given.
        let peer = Peer(self.joined * self.limits.peers as u32 + slot as u32);
        self.joined = (self.joined + 1) % (u32::MAX / self.limits.peers as u32);
        self.peers[slot] = Some((peer, joint));
        self.joined_slots = self.joined_slots.max(slot + 1);
        for (key, opening) in self.openings.clone() {
            self.tell_window(peer, key, &opening);
        }
        Ok(peer)
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn joined_peers(&self) -> Vec<Peer> {
        self.peers.iter().flatten().map(|&(peer, _)| peer).collect()
    }

    /// The region of bytes of this endpoint, if it has them.
    #[inline]
    fn own(&self, place: Local, bytes: u64) -> Option<&SharedRegion> {
        let region = self.regions.get(place.region.0 as usize)?;
        let end = place.offset.checked_add(bytes)?;
        (end <= region.len() as u64).then_some(region)
    }

    fn tell_window(&mut self, peer: Peer, key: Key, opening: &Opening) {
        let Local { region, offset } = opening.start;
        let memory = &self.regions[region.0 as usize];
        let window = exchange::Window {
            key: key.0,
            bytes: opening.bytes,
            offset,
            region_bytes: memory.len() as u64,
            region: region.0,
            label: opening.label,
            is_writable: opening.access == Access::Write,
        };
        match memory.descriptor(opening.access) {
            Ok(file) => self.tell(peer, Message::Window(window), Some(file)),
            Err(_) => self.end(peer, Failure::Resources),
        }
    }

    fn tell(&mut self, peer: Peer, message: Message, file: Option<OwnedFd>) {
        let told = joint(&mut self.peers, peer).map(|joint| joint.tell(message, file));
        if let Some(Err(failure)) = told {
            self.end(peer, failure);
        }
    }

    /// Uses an endpoint no more; it is let go when its last events were taken.
    fn end(&mut self, peer: Peer, failure: Failure) {
        if let Some(joint) = joint(&mut self.peers, peer) {
            joint.ending = Some(failure);
        }
    }

    /// Lets go of another endpoint.
    fn leave(&mut self, peer: Peer, failure: Failure) {
        let slot = peer.0 as usize % self.peers.len();
        self.peers[slot] = None;
        self.counters.left += 1;
        self.completions.push_back(Completion::Left { peer, failure });
        let keys: Vec<Key> = self.closing.iter().map(|&(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.returned(peer, key));
    }

    /// Notes that an endpoint uses a closed window no more.
    fn returned(&mut self, peer: Peer, key: Key) {
        let Some(at) = self.closing.iter().position(|&(closed, _)| closed == key) else { return };
        self.closing[at].1.remove(&peer.0);
        if self.closing[at].1.is_empty() {
            self.closing.swap_remove(at);
            self.windows.remove(key);
            self.completions.push_back(Completion::WindowReturned { key });
        }
    }

    /// Acts on the messages of an endpoint.
    fn hear(&mut self, slot: usize) -> Result<(), Failure> {
        for _ in 0..MESSAGES_MAX {
            // Messages wait where completions do not find room.
            let has_room = self.completions.len() < self.limits.completions;
            let Some((peer, joint)) = &mut self.peers[slot] else { return Ok(()) };
            joint.empty_outbox()?;
            if !has_room || joint.returned.len() > self.limits.windows {
                return Ok(());
            }
            let Some((message, file)) = joint.hear()? else { return Ok(()) };
            let peer = *peer;
            match message {
                Message::Window(told) => {
                    let window = joint.window_opened(told, file)?;
                    self.completions.push_back(Completion::WindowOpened { peer, window });
                }
                Message::Close { key } => {
                    if joint.window_closed(Key(key))? {
                        let closed = Completion::WindowClosed { peer, key: Key(key) };
                        self.completions.push_back(closed);
                    }
                }
                Message::Closed { key, events } => {
                    joint.returned.push_back(Returned { key: Key(key), events });
                }
                Message::Hello { .. } | Message::Proof { .. } | Message::Events { .. } => {
                    return Err(Failure::Protocol);
                }
            }
        }
        Ok(())
    }

    /// Adds events of an endpoint to `completions`, and lets go of one that has ended after its last.
    fn take_events(&mut self, slot: usize, completions: &mut Vec<Completion>) {
        let Some((peer, joint)) = &mut self.peers[slot] else { return };
        let peer = *peer;
        while completions.len() < completions.capacity() {
            let Some(Event { key, offset, bytes, immediate }) = joint.inbound.pop() else {
                if let Some(failure) = joint.ending {
                    self.leave(peer, failure);
                }
                return;
            };
            let bytes = u64::from(bytes);
            match self.windows.find(key, offset, bytes, true) {
                Ok(_) => {
                    let notified = Completion::Notified { peer, key, offset, bytes, immediate };
                    completions.push(notified);
                }
                Err(_) => self.counters.refused += 1,
            }
        }
    }

    /// Takes note of windows that an endpoint has returned, of which all events were taken.
    fn settle_returned(&mut self, slot: usize) {
        while let Some((peer, joint)) = &mut self.peers[slot]
            && let Some(&Returned { key, events }) = joint.returned.front()
            && joint.inbound.taken() >= events
        {
            let peer = *peer;
            joint.returned.pop_front();
            self.returned(peer, key);
        }
    }

    /// Adds what waits of the completions.
    fn take_completions(&mut self, completions: &mut Vec<Completion>) {
        let room = completions.capacity() - completions.len();
        let count = room.min(self.completions.len());
        completions.extend(self.completions.drain(..count));
    }

    /// Copies, tells of it, and notes that it is done.
    #[inline]
    fn place(&mut self, put: &Put, immediate: Option<u32>) -> Result<Request, PostError> {
        let &Put { source, target: Remote { peer, key, offset }, bytes } = put;
        self.check(source, bytes)?;
        let joint = joint(&mut self.peers, peer).ok_or(PostError::NotJoined(peer))?;
        let place = joint.windows.find(key, offset, bytes, true)?;
        if immediate.is_some() && !joint.outbound.has_room() {
            joint.is_full();
            return Err(PostError::Full { queue: "events" });
        }
        let memory = joint.memory(place).ok_or(Refusal::Unknown)?;
        let from = &self.regions[source.region.0 as usize];
        from.copy_to(source.offset as usize, memory, place.offset as usize, bytes as usize);
        if let Some(immediate) = immediate {
            joint.outbound.push(Event { key, offset, bytes: bytes as u32, immediate });
        }
        Ok(self.done())
    }

    /// Tests the own side of an operation, and that its completion finds room.
    #[inline]
    fn check(&self, place: Local, bytes: u64) -> Result<(), PostError> {
        if self.completions.len() >= self.limits.completions {
            return Err(PostError::Full { queue: "completions" });
        }
        if bytes > BYTES_MAX {
            return Err(PostError::TooLong { bytes, bytes_max: BYTES_MAX });
        }
        let Local { offset, .. } = place;
        self.own(place, bytes).map(|_| ()).ok_or(PostError::Local { offset, bytes })
    }

    #[inline]
    fn done(&mut self) -> Request {
        self.requests += 1;
        let request = Request(self.requests);
        self.completions.push_back(Completion::Done { request, outcome: Ok(()) });
        request
    }
}

/// What there is of an endpoint that has not ended.
#[inline]
fn joint(peers: &mut [Option<(Peer, Joint)>], peer: Peer) -> Option<&mut Joint> {
    let slot = peer.0 as usize % peers.len();
    match &mut peers[slot] {
        Some((number, joint)) if *number == peer && joint.ending.is_none() => Some(joint),
        _ => None,
    }
}

impl Endpoint for Shm {
    fn facts(&self) -> Facts {
        Facts {
            backend: "shm",
            done_is: Level::Placed,
            bytes_max: BYTES_MAX,
            limit: "copying in memory",
        }
    }

    fn add_region(&mut self, region: SharedRegion) -> Result<RegionId, SharedRegion> {
        if self.regions.len() >= self.limits.regions {
            return Err(region);
        }
        self.regions.push(region);
        Ok(RegionId(self.regions.len() as u32 - 1))
    }

    fn region(&self, region: RegionId) -> &SharedRegion {
        &self.regions[region.0 as usize]
    }

    fn open_window(&mut self, opening: &Opening) -> Result<Key, OpenError> {
        let &Opening { start, bytes, access, .. } = opening;
        let refuse = OpenError::Local { offset: start.offset, bytes };
        self.own(start, bytes).filter(|_| bytes > 0).ok_or(refuse)?;
        let key = Windows::draw().map_err(|error| OpenError::Random(error.raw_os_error()))?;
        let too_many = OpenError::TooMany { windows_max: self.limits.windows };
        // Two keys in one page of addresses, which can hardly be, look like too many windows.
        self.windows.enter(key, start, bytes, access).map_err(|_| too_many)?;
        self.openings.push((key, *opening));
        for peer in self.joined_peers() {
            self.tell_window(peer, key, opening);
        }
        Ok(key)
    }

    fn close_window(&mut self, key: Key) -> bool {
        let Some(at) = self.openings.iter().position(|&(open, _)| open == key) else {
            return false;
        };
        self.openings.swap_remove(at);
        let peers = self.joined_peers();
        if peers.is_empty() {
            self.windows.remove(key);
            self.completions.push_back(Completion::WindowReturned { key });
            return true;
        }
        self.closing.push((key, peers.iter().map(|peer| peer.0).collect()));
        for peer in peers {
            self.tell(peer, Message::Close { key: key.0 }, None);
        }
        true
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
        self.check(target, bytes)?;
        let joint = joint(&mut self.peers, peer).ok_or(PostError::NotJoined(peer))?;
        let place = joint.windows.find(key, offset, bytes, false)?;
        let memory = joint.memory(place).ok_or(Refusal::Unknown)?;
        let to = &self.regions[target.region.0 as usize];
        memory.copy_to(place.offset as usize, to, target.offset as usize, bytes as usize);
        Ok(self.done())
    }

    fn flush(&mut self, peer: Peer) -> Result<Request, PostError> {
        if self.completions.len() >= self.limits.completions {
            return Err(PostError::Full { queue: "completions" });
        }
        joint(&mut self.peers, peer).ok_or(PostError::NotJoined(peer))?;
        Ok(self.done())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.take_completions(completions);
        for slot in 0..self.joined_slots {
            self.take_events(slot, completions);
            self.settle_returned(slot);
        }
        self.take_completions(completions);
    }

    fn progress(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns < self.look_at {
            return Some(self.look_at);
        }
        self.look_at = now_ns + LOOK_NS;
        let deadline_ns = self.limits.deadline.as_nanos() as u64;
        for slot in 0..self.joined_slots {
            let is_ending = matches!(&self.peers[slot], Some((_, joint)) if joint.ending.is_some());
            if is_ending {
                continue;
            }
            let heard = self.hear(slot);
            if let Some((_, joint)) = &mut self.peers[slot] {
                joint.ending = heard.and_then(|()| joint.watch(now_ns, deadline_ns)).err();
            }
        }
        Some(self.look_at)
    }
}
