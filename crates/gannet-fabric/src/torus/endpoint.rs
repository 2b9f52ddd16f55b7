//! The endpoint.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use gannet_lattice::Node;
use gannet_memory::SharedRegion;
use gannet_wire::exchange::Message;

use super::pair::{Event, Pair, Posted};
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
/// Most bytes of an operation.
const BYTES_MAX: u64 = u32::MAX as u64;
/// Most regions, and most windows: together less than the node lets a process have.
const REGIONS_MAX: usize = 31;
const WINDOWS_MAX: usize = 32;

/// An endpoint over a torus of hosts, by the node of this host.
#[derive(Debug)]
pub struct Torus {
    own: Own,
    peers: Peers<Pair>,
    /// The socket of the node for processes.
    node: PathBuf,
    begin: Instant,
    look_at: u64,
}

impl Torus {
    /// An endpoint that is joined to nobody, and uses the node that listens at `node` for processes. No more than 31 regions and
    /// 32 windows are taken, whatever the limits say.
    ///
    /// # Panics
    /// When a limit is 0, or the number of events is not a power of two from 2 to 2^20.
    pub fn new(node: impl Into<PathBuf>, limits: Limits) -> Self {
        let regions = limits.regions.min(REGIONS_MAX);
        let windows = limits.windows.min(WINDOWS_MAX);
        let limits = Limits { regions, windows, ..limits };
        Self {
            peers: Peers::new(limits.peers),
            own: Own::new(limits, Keys::System),
            node: node.into(),
            begin: Instant::now(),
            look_at: 0,
        }
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.own.counters
    }

    /// The node of an endpoint that is joined.
    pub fn node_of(&mut self, peer: Peer) -> Option<Node> {
        self.peers.find(peer).map(|pair| pair.node())
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Adds what an endpoint tells to `completions`, and lets go of one that has ended after its last word.
    fn take(&mut self, slot: usize, completions: &mut Vec<Completion>) {
        let now = self.now();
        let Some((peer, pair)) = self.peers.at(slot) else { return };
        let has_room = |completions: &Vec<Completion>| completions.len() < completions.capacity();
        while has_room(completions)
            && let Some(event) = pair.event(&mut self.own.counters.refused)
        {
            let Event { key, offset, bytes, immediate } = event;
            completions.push(Completion::Notified { peer, key, offset, bytes, immediate });
        }
        pair.tell_taken();
        while has_room(completions)
            && let Some(done) = pair.done(now)
        {
            completions.push(done);
        }
        if let Some(failure) = pair.ending
            && has_room(completions)
            && pair.is_drained(now, self.own.limits.deadline)
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
        let Some((peer, pair)) = self.peers.at(slot) else { return Ok(()) };
        while let Some(key) = pair.window_free()? {
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
        self.own.check(source, bytes, BYTES_MAX)?;
        let now = self.now();
        let pair = joined(&mut self.peers, target.peer)?;
        let place = (target.key, target.offset, bytes);
        pair.post(&mut self.own, now, Posted::Put(source, immediate), place)
    }
}

impl Joins for Torus {
    const BACKEND: u32 = 4;

    fn deadline(&self) -> Duration {
        self.own.limits.deadline
    }

    // When no node listens, it is in no machine, or the other endpoint is not reached over it.
    fn join(&mut self, connection: Connection) -> Result<Peer, JoinError> {
        let slot = self.peers.free()?;
        let mut pair = Pair::join(connection, &self.node, &self.own.limits)?;
        let mut ending = Ok(());
        for region in &self.own.regions {
            ending = ending.and_then(|()| pair.add_region(region));
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

impl Endpoint for Torus {
    fn facts(&self) -> Facts {
        Facts {
            backend: "torus",
            done_is: Level::Placed,
            bytes_max: BYTES_MAX,
            limit: "128 packets under way from node to node for each round trip",
        }
    }

    fn add_region(&mut self, region: SharedRegion) -> Result<RegionId, SharedRegion> {
        let region = self.own.add_region(region)?;
        for slot in self.peers.slots() {
            if let Some((_, pair)) = self.peers.at(slot)
                && pair.ending.is_none()
            {
                pair.ending = pair.add_region(self.own.region(region)).err();
            }
        }
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
        self.own.check(target, bytes, BYTES_MAX)?;
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
        if now >= self.look_at {
            self.look_at = now + LOOK_NS;
            let deadline = self.own.limits.deadline;
            for slot in self.peers.slots() {
                if self.peers.at(slot).is_none_or(|(_, pair)| pair.ending.is_some()) {
                    continue;
                }
                let heard = self.hear(slot).and_then(|()| self.settle(slot));
                if let Some((_, pair)) = self.peers.at(slot) {
                    pair.tell_taken();
                    let ending = heard.and_then(|()| pair.watch(now, deadline)).err();
                    pair.ending = pair.ending.or(ending);
                }
            }
        }
        Some(now_ns.saturating_add(self.look_at - now.min(self.look_at)))
    }
}
