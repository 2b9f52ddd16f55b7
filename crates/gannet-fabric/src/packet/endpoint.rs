//! The endpoint, over any port.

use gannet_memory::{Access, Refusal, SharedRegion};
use gannet_rdma as rdma;
use gannet_wire::exchange::{self, Message};

use super::memory::Memory;
use super::pair::{Needs, Pair};
use super::{Cable, Port};
use crate::endpoint::{
    Completion, Endpoint, Facts, Failure, Get, Key, Level, Local, OpenError, Opening, Peer,
    PostError, Put, RegionId, Remote, Request,
};
use crate::exchange::JoinError;
use crate::own::{Counters, Limits, Own};
use crate::peers::Peers;
use crate::windows::{Keys, parts};

/// Messages of an endpoint that are taken at a look.
const MESSAGES_MAX: usize = 16;
/// Most bytes of an operation.
const BYTES_MAX: u64 = u32::MAX as u64;

/// An endpoint whose data go as packets of the engine.
#[derive(Debug)]
pub struct PacketEndpoint<P: Port> {
    pub(crate) own: Own,
    peers: Peers<Pair<P::Cable>>,
    pub(crate) port: P,
    /// Keys by which what is got reaches the regions; nobody is told of them.
    local: Vec<Key>,
    /// Windows by their place, counted after those of the regions.
    places: Vec<Option<(Key, Opening)>>,
    /// Whether no packet was left that has come.
    is_drained: bool,
}

impl<P: Port> PacketEndpoint<P> {
    /// An endpoint that is joined to nobody.
    ///
    /// # Panics
    /// When a limit is 0, or the number of events is not a power of two from 2 to 2^20.
    pub(crate) fn over(port: P, limits: Limits, keys: Keys) -> Self {
        Self {
            peers: Peers::new(limits.peers),
            own: Own::new(limits, keys),
            port,
            local: Vec::new(),
            places: Vec::new(),
            is_drained: false,
        }
    }

    /// Joins the endpoint at the other end of the cable that `plug` gives, with the bytes of data that it takes in a
    /// packet; `plug` is given the place of the pair.
    pub(crate) fn join_by(
        &mut self,
        plug: impl FnOnce(&mut Self, usize) -> Result<(P::Cable, usize), JoinError>,
    ) -> Result<Peer, JoinError> {
        let slot = self.peers.free()?;
        let (cable, data_bytes) = plug(self, slot)?;
        let mut pair = Pair::new(cable, data_bytes, &self.own.limits);
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
        self.peers.find(peer).map(|pair| pair.data_bytes())
    }

    /// What the engine has sent to an endpoint and got from it, and how often again.
    pub fn traffic(&mut self, peer: Peer) -> Option<rdma::Counters> {
        self.peers.find(peer).map(|pair| *pair.traffic())
    }

    /// The cable to an endpoint.
    pub(crate) fn cable(&mut self, peer: Peer) -> Option<&mut P::Cable> {
        self.peers.find(peer).map(|pair| &mut pair.cable)
    }

    /// Gives the engines what has come.
    fn receive(&mut self) {
        let now = self.port.now();
        let mut pairs = Pairs { peers: &mut self.peers, own: &mut self.own, now };
        self.is_drained = self.port.receive(&mut pairs);
    }

    fn transmit(&mut self) {
        let now = self.port.now();
        for slot in self.peers.slots() {
            if let Some((_, pair)) = self.peers.at(slot) {
                pair.transmit(&mut self.own, now, &self.port);
            }
        }
    }

    /// Adds what an endpoint tells to `completions`, and lets go of one that has ended after its last word.
    fn take(&mut self, slot: usize, completions: &mut Vec<Completion>) {
        let now = self.port.now();
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
        let now = self.port.now();
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
            pair.transmit(&mut self.own, now, &self.port);
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

/// Sends what was posted, as far as the port takes it.
impl<P: Port> Drop for PacketEndpoint<P> {
    fn drop(&mut self) {
        self.transmit();
    }
}

/// The pairs of an endpoint, for packets that have come.
#[derive(Debug)]
pub struct Pairs<'a, C> {
    peers: &'a mut Peers<Pair<C>>,
    own: &'a mut Own,
    now: u64,
}

impl<C: Cable> Pairs<'_, C> {
    /// Gives a packet to the pair in a slot, any number, if `is_its_own` says so of the cable; else it is a stranger's.
    #[inline]
    pub fn packet(&mut self, slot: usize, packet: &[u8], is_its_own: impl FnOnce(&C) -> bool) {
        match self.peers.at(slot) {
            Some((_, pair)) if is_its_own(&pair.cable) => {
                pair.packet_in(self.own, self.now, packet)
            }
            _ => self.stranger(),
        }
    }

    /// Counts what nobody of those that are joined has sent.
    pub fn stranger(&mut self) {
        self.own.counters.strangers += 1;
    }

    /// Gives each pair the packets that `next` takes from its cable.
    pub fn packets(&mut self, mut next: impl FnMut(&mut C) -> Option<Vec<u8>>) {
        for slot in self.peers.slots() {
            let Some((_, pair)) = self.peers.at(slot) else { continue };
            while let Some(packet) = next(&mut pair.cable) {
                pair.packet_in(self.own, self.now, &packet);
            }
        }
    }
}

/// An endpoint that has not ended.
#[inline]
fn joined<C: Cable>(peers: &mut Peers<Pair<C>>, peer: Peer) -> Result<&mut Pair<C>, PostError> {
    let pair = peers.find(peer).filter(|pair| pair.ending.is_none());
    pair.ok_or(PostError::NotJoined(peer))
}

/// Lets what is got reach a region.
fn register_region(
    pair: &mut Pair<impl Cable>,
    own: &mut Own,
    region: usize,
    key: Key,
) -> Result<(), Failure> {
    let start = Local { region: RegionId(region as u32), offset: 0 };
    let bytes = own.regions[region].len() as u64;
    pair.register(own, key, (region, start), bytes, Access::Write)
}

/// Opens a window to an endpoint.
fn open_to(
    pair: &mut Pair<impl Cable>,
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

impl<P: Port> Endpoint for PacketEndpoint<P> {
    fn facts(&self) -> Facts {
        Facts {
            backend: P::NAME,
            done_is: Level::Placed,
            bytes_max: BYTES_MAX,
            limit: "32 packets under way to an endpoint for each round trip",
        }
    }

    fn add_region(&mut self, region: SharedRegion) -> Result<RegionId, SharedRegion> {
        // Without random numbers nothing can be got into it, nor windows be opened.
        let Ok(key) = self.own.keys.draw() else { return Err(region) };
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
        let now = self.port.now();
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
            pair.transmit(&mut self.own, now, &self.port);
        }
        Ok(request)
    }

    fn flush(&mut self, peer: Peer) -> Result<Request, PostError> {
        let now = self.port.now();
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
        self.port.reach(now_ns);
        self.receive();
        self.transmit();
        let now = self.port.now();
        let deadline = self.own.limits.deadline;
        if self.port.is_time_to_look(now) {
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
        let pairs = self.peers.slots().filter_map(|slot| {
            let (_, pair) = self.peers.at(slot)?;
            Some(pair.due().min(pair.patience_ends(deadline).saturating_add(1)))
        });
        let next = pairs.min().unwrap_or(u64::MAX).min(self.port.due(now));
        (next < u64::MAX).then(|| now_ns.saturating_add(next.saturating_sub(now)))
    }
}
