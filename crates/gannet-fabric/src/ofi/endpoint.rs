//! The endpoint.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gannet_memory::SharedRegion;
use gannet_wire::exchange::Message;

use super::pair::{Pair, Posted, bytes_max};
use super::provider::Choice;
use super::ring::Event;
use super::sys::{Mapped, Reach};
use crate::endpoint::{
    Completion, Endpoint, Facts, Failure, Get, Key, Level, OpenError, Opening, Peer, PostError,
    Put, RegionId, Request,
};
use crate::exchange::JoinError;
use crate::own::{Counters, Limits, Own};
use crate::peers::Peers;
use crate::tcp::{Connection, Joins};
use crate::windows::Keys;

/// How often an endpoint looks for messages of the others, in nanoseconds.
const LOOK_NS: u64 = 100_000;
/// Messages of an endpoint that are taken at a look.
const MESSAGES_MAX: usize = 16;

/// An endpoint over libfabric.
///
/// Each endpoint that it is joined to has an endpoint of the provider of its own, with queue, memory and keys, so
/// that whatever happens to one of them is nothing to the others.
#[derive(Debug)]
pub struct Ofi {
    own: Own,
    peers: Peers<Pair>,
    choice: Choice,
    level: Level,
    bytes_max: u64,
    is_ordered: bool,
    /// The regions as providers have them.
    mapped: Vec<Arc<Mapped>>,
    begin: Instant,
    look_at: u64,
}

impl Ofi {
    /// An endpoint that is joined to nobody. Operations are done when they are [`Level::Sent`], if no more is asked for
    /// and the provider keeps writes in order, else when they are [`Level::Placed`].
    ///
    /// # Panics
    /// When a limit is 0, or the number of events is not a power of two from 2 to 2^20.
    pub fn new(choice: Choice, level: Level, limits: Limits) -> Self {
        let bytes_max = bytes_max(&choice.info);
        let is_ordered = choice.info.orders(bytes_max).write_after_write;
        Self {
            peers: Peers::new(limits.peers),
            own: Own::new(limits, Keys::System),
            choice,
            level: if is_ordered { level.min(Level::Placed) } else { Level::Placed },
            bytes_max,
            is_ordered,
            mapped: Vec::new(),
            begin: Instant::now(),
            look_at: 0,
        }
    }

    /// The provider.
    pub fn provider(&self) -> &Choice {
        &self.choice
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.own.counters
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Adds what an endpoint tells to `completions`, and lets go of one that has ended after its last word.
    fn take(&mut self, slot: usize, completions: &mut Vec<Completion>) {
        let now = self.now();
        let Some((peer, pair)) = self.peers.at(slot) else { return };
        pair.work(now);
        let has_room = |completions: &Vec<Completion>| completions.len() < completions.capacity();
        while has_room(completions)
            && let Some(event) = pair.event()
        {
            let Event { key, offset, bytes, immediate } = event;
            let bytes = u64::from(bytes);
            match self.own.windows.find(key, offset, bytes, true) {
                Ok(_) => {
                    completions.push(Completion::Notified { peer, key, offset, bytes, immediate })
                }
                Err(_) => self.own.counters.refused += 1,
            }
        }
        while has_room(completions)
            && let Some(done) = pair.done(now)
        {
            completions.push(done);
        }
        if let Some(failure) = pair.ending
            && pair.is_silent()
            && has_room(completions)
        {
            self.leave(peer, failure);
        }
    }

    /// Lets go of another endpoint.
    fn leave(&mut self, peer: Peer, failure: Failure) {
        if let Some(pair) = self.peers.remove(peer) {
            pair.rest(failure).for_each(|completion| self.own.push(completion));
            self.own.left(peer, failure);
        }
    }

    /// Acts on the messages of an endpoint.
    fn hear(&mut self, slot: usize) -> Result<(), Failure> {
        for _ in 0..MESSAGES_MAX {
            // Messages wait where completions do not find room.
            let has_room = self.own.room() > 0;
            let Some((peer, pair)) = self.peers.at(slot).filter(|_| has_room) else { break };
            match pair.hear()? {
                None => break,
                Some(Message::Region { region, base, key }) => {
                    pair.reach_told(region, Reach { base, key })
                }
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
    fn settle(&mut self, slot: usize, now: u64) -> Result<(), Failure> {
        let Some((peer, pair)) = self.peers.at(slot) else { return Ok(()) };
        while let Some(key) = pair.window_free(now)? {
            self.own.push(Completion::WindowClosed { peer, key });
        }
        while let Some(key) = pair.window_returned() {
            pair.withdraw(key);
            self.own.returned(peer, key);
        }
        Ok(())
    }

    #[inline]
    fn place(&mut self, put: &Put, immediate: Option<u32>) -> Result<Request, PostError> {
        let &Put { source, target, bytes } = put;
        self.own.check(source, bytes, self.bytes_max)?;
        let now = self.now();
        let pair = joined(&mut self.peers, target.peer)?;
        let place = (target.key, target.offset, bytes);
        pair.post(&mut self.own, now, Posted::Put(source, immediate), place)
    }
}

impl Joins for Ofi {
    const BACKEND: u32 = 3;

    fn deadline(&self) -> Duration {
        self.own.limits.deadline
    }

    // When the provider does not reach it, which is tried both ways.
    fn join(&mut self, connection: Connection) -> Result<Peer, JoinError> {
        let slot = self.peers.free()?;
        let info = self.choice.met_at(connection.local()?.ip())?;
        let mut pair = Pair::join(connection, &info, self.level, &self.own.limits)?;
        let mut ending = Ok(());
        for region in &self.mapped {
            ending = ending.and_then(|()| pair.add_region(region.clone()));
        }
        for (key, opening) in &self.own.openings {
            ending = ending.and_then(|()| pair.open(*key, opening));
        }
        pair.ending = ending.err();
        Ok(self.peers.insert(slot, pair))
    }
}

/// An endpoint that has not ended.
#[inline]
fn joined(peers: &mut Peers<Pair>, peer: Peer) -> Result<&mut Pair, PostError> {
    let pair = peers.find(peer).filter(|pair| pair.ending.is_none());
    pair.ok_or(PostError::NotJoined(peer))
}

impl Endpoint for Ofi {
    fn facts(&self) -> Facts {
        Facts {
            backend: "ofi",
            done_is: self.level,
            bytes_max: self.bytes_max,
            limit: match self.is_ordered {
                true => "the provider of libfabric",
                false => "the provider of libfabric, which is waited for before each event",
            },
        }
    }

    fn add_region(&mut self, region: SharedRegion) -> Result<RegionId, SharedRegion> {
        let Ok(mapped) = Mapped::new(&region) else { return Err(region) };
        let region = self.own.add_region(region)?;
        let mapped = Arc::new(mapped);
        for slot in self.peers.slots() {
            if let Some((_, pair)) = self.peers.at(slot)
                && pair.ending.is_none()
                && let Err(failure) = pair.add_region(mapped.clone())
            {
                pair.ending = Some(failure);
            }
        }
        self.mapped.push(mapped);
        Ok(region)
    }

    fn region(&self, region: RegionId) -> &SharedRegion {
        self.own.region(region)
    }

    fn open_window(&mut self, opening: &Opening) -> Result<Key, OpenError> {
        let key = self.own.open(opening)?;
        for slot in self.peers.slots() {
            if let Some((_, pair)) = self.peers.at(slot)
                && pair.ending.is_none()
            {
                pair.ending = pair.open(key, opening).err();
            }
        }
        Ok(key)
    }

    fn close_window(&mut self, key: Key) -> bool {
        let peers = self.peers.numbers();
        let is_open = self.own.close(key, &peers);
        for peer in peers.into_iter().filter(|_| is_open) {
            if let Ok(pair) = joined(&mut self.peers, peer) {
                pair.ending = pair.tell(&Message::Close { key: key.0 }).err();
            }
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
        let &Get { source, target, bytes } = get;
        self.own.check(target, bytes, self.bytes_max)?;
        let now = self.now();
        let pair = joined(&mut self.peers, source.peer)?;
        let place = (source.key, source.offset, bytes);
        pair.post(&mut self.own, now, Posted::Get(target), place)
    }

    fn flush(&mut self, peer: Peer) -> Result<Request, PostError> {
        let now = self.now();
        joined(&mut self.peers, peer)?.flush(&mut self.own, now)
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.own.take(completions);
        for slot in self.peers.slots() {
            self.take(slot, completions);
        }
        self.own.take(completions);
    }

    fn progress(&mut self, now_ns: u64) -> Option<u64> {
        let now = self.now();
        let is_time = now >= self.look_at;
        if is_time {
            self.look_at = now + LOOK_NS;
        }
        let deadline = self.own.limits.deadline;
        for slot in self.peers.slots() {
            let Some((_, pair)) = self.peers.at(slot) else { continue };
            pair.work(now);
            if !is_time || pair.ending.is_some() {
                continue;
            }
            let heard = self.hear(slot).and_then(|()| self.settle(slot, now));
            if let Some((_, pair)) = self.peers.at(slot) {
                let ending = heard.and_then(|()| pair.watch(now, deadline)).err();
                pair.ending = pair.ending.or(ending);
            }
        }
        Some(now_ns.saturating_add(self.look_at - now.min(self.look_at)))
    }
}
