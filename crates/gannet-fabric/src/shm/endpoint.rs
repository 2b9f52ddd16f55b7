//! The endpoint.

use std::os::fd::OwnedFd;
use std::path::Path;

use gannet_memory::{Access, Kind, Refusal, SharedRegion};
use gannet_wire::exchange::{self, Message};

use super::event::Event;
use super::peer::Joint;
use crate::endpoint::{
    Completion, Endpoint, Facts, Failure, Get, Key, Level, Local, OpenError, Opening, Peer,
    PostError, Put, RegionId, Remote, Request,
};
use crate::exchange::{JoinError, Side};
use crate::local::{Listener, connected};
use crate::own::{Counters, Limits, Own};
use crate::peers::Peers;
use crate::trust::Trust;
use crate::windows::Keys;

/// How often an endpoint looks for messages of the others, in nanoseconds.
const LOOK_NS: u64 = 100_000;
/// Messages of an endpoint that are taken at a look.
const MESSAGES_MAX: usize = 16;
/// Most bytes of an operation, as an event tells them.
const BYTES_MAX: u64 = u32::MAX as u64;

/// An endpoint over shared memory.
#[derive(Debug)]
pub struct Shm {
    own: Own,
    peers: Peers<Joint>,
    look_at: u64,
}

impl Shm {
    /// An endpoint that is joined to nobody.
    ///
    /// # Panics
    /// When a limit is 0, or the number of events is not a power of two from 2 to 2^20.
    pub fn new(limits: Limits) -> Self {
        Self { peers: Peers::new(limits.peers), own: Own::new(limits, Keys::System), look_at: 0 }
    }

    /// Waits for an endpoint at a socket, and joins it.
    ///
    /// # Errors
    /// When none comes in time, or it may not join.
    pub fn accept(&mut self, listener: &Listener, trust: &Trust) -> Result<Peer, JoinError> {
        let socket = listener.accept(self.own.limits.deadline)?;
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
        let slot = self.peers.free()?;
        let joint = Joint::meet(socket, side, trust, &self.own.limits)?;
        let peer = self.peers.insert(slot, joint);
        for (key, opening) in self.own.openings.clone() {
            self.tell_window(peer, key, &opening);
        }
        Ok(peer)
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.own.counters
    }

    fn tell_window(&mut self, peer: Peer, key: Key, opening: &Opening) {
        let Local { region, offset } = opening.start;
        let memory = self.own.region(region);
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
        self.peers.remove(peer);
        self.own.left(peer, failure);
    }

    /// Acts on the messages of an endpoint.
    fn hear(&mut self, slot: usize) -> Result<(), Failure> {
        for _ in 0..MESSAGES_MAX {
            // Messages wait where completions do not find room.
            let has_room = self.own.room() > 0;
            let Some((peer, joint)) = self.peers.at(slot) else { return Ok(()) };
            joint.empty_outbox()?;
            if !has_room || joint.returned.len() > self.own.limits.windows {
                return Ok(());
            }
            let Some((message, file)) = joint.hear()? else { return Ok(()) };
            match message {
                Message::Window(told) => {
                    let window = joint.window_opened(told, file)?;
                    self.own.push(Completion::WindowOpened { peer, window });
                }
                Message::Close { key } => {
                    if joint.window_closed(Key(key))? {
                        self.own.push(Completion::WindowClosed { peer, key: Key(key) });
                    }
                }
                Message::Closed { key, events } => {
                    joint.returned.push(Key(key), events);
                }
                _ => return Err(Failure::Protocol),
            }
        }
        Ok(())
    }

    /// Adds events of an endpoint to `completions`, and lets go of one that has ended after its last.
    fn take_events(&mut self, slot: usize, completions: &mut Vec<Completion>) {
        let Some((peer, joint)) = self.peers.at(slot) else { return };
        while completions.len() < completions.capacity() {
            let Some(event) = joint.inbound.pop().map(Event::from) else {
                if let Some(failure) = joint.ending {
                    self.leave(peer, failure);
                }
                return;
            };
            let Event { key, offset, bytes, immediate } = event;
            let bytes = u64::from(bytes);
            match self.own.windows.find(key, offset, bytes, true) {
                Ok(_) => {
                    let notified = Completion::Notified { peer, key, offset, bytes, immediate };
                    completions.push(notified);
                }
                Err(_) => self.own.counters.refused += 1,
            }
        }
    }

    /// Takes note of windows that an endpoint has returned, of which all events were taken.
    fn settle_returned(&mut self, slot: usize) {
        while let Some((peer, joint)) = self.peers.at(slot)
            && let Some(key) = joint.returned.settled(joint.inbound.taken())
        {
            self.own.returned(peer, key);
        }
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
        let from = self.own.region(source.region);
        from.copy_to(source.offset as usize, memory, place.offset as usize, bytes as usize);
        if let Some(immediate) = immediate {
            let event = Event { key, offset, bytes: bytes as u32, immediate };
            joint.outbound.push(event.into());
        }
        Ok(self.done())
    }

    /// Tests the own side of an operation, and that its completion finds room.
    #[inline]
    fn check(&self, place: Local, bytes: u64) -> Result<(), PostError> {
        self.has_room()?;
        self.own.check(place, bytes, BYTES_MAX)
    }

    #[inline]
    fn has_room(&self) -> Result<(), PostError> {
        if self.own.room() == 0 {
            return Err(PostError::Full { queue: "completions" });
        }
        Ok(())
    }

    #[inline]
    fn done(&mut self) -> Request {
        let request = self.own.request();
        self.own.push(Completion::Done { request, outcome: Ok(()) });
        request
    }
}

/// What there is of an endpoint that has not ended.
#[inline]
fn joint(peers: &mut Peers<Joint>, peer: Peer) -> Option<&mut Joint> {
    peers.find(peer).filter(|joint| joint.ending.is_none())
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
        self.own.add_region(region)
    }

    fn region(&self, region: RegionId) -> &SharedRegion {
        self.own.region(region)
    }

    fn open_window(&mut self, opening: &Opening) -> Result<Key, OpenError> {
        let region = self.own.at(opening.start, opening.bytes);
        if region.is_some_and(|region| region.kind() == Kind::File) {
            return Err(OpenError::Unsealed);
        }
        let key = self.own.open(opening)?;
        for peer in self.peers.numbers() {
            self.tell_window(peer, key, opening);
        }
        Ok(key)
    }

    fn close_window(&mut self, key: Key) -> bool {
        let peers = self.peers.numbers();
        let is_open = self.own.close(key, &peers);
        for peer in peers.into_iter().filter(|_| is_open) {
            self.tell(peer, Message::Close { key: key.0 }, None);
        }
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
        self.check(target, bytes)?;
        let joint = joint(&mut self.peers, peer).ok_or(PostError::NotJoined(peer))?;
        let place = joint.windows.find(key, offset, bytes, false)?;
        let memory = joint.memory(place).ok_or(Refusal::Unknown)?;
        let to = self.own.region(target.region);
        memory.copy_to(place.offset as usize, to, target.offset as usize, bytes as usize);
        Ok(self.done())
    }

    fn flush(&mut self, peer: Peer) -> Result<Request, PostError> {
        self.has_room()?;
        joint(&mut self.peers, peer).ok_or(PostError::NotJoined(peer))?;
        Ok(self.done())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.own.take(completions);
        for slot in self.peers.slots() {
            self.take_events(slot, completions);
            self.settle_returned(slot);
        }
        self.own.take(completions);
    }

    fn progress(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns < self.look_at {
            return Some(self.look_at);
        }
        self.look_at = now_ns + LOOK_NS;
        let deadline_ns = self.own.limits.deadline.as_nanos() as u64;
        for slot in self.peers.slots() {
            if self.peers.at(slot).is_none_or(|(_, joint)| joint.ending.is_some()) {
                continue;
            }
            let heard = self.hear(slot);
            if let Some((_, joint)) = self.peers.at(slot) {
                joint.ending = heard.and_then(|()| joint.watch(now_ns, deadline_ns)).err();
            }
        }
        Some(self.look_at)
    }
}
