//! What moves packets between a device and the engine of a node, on the thread of the node.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use gannet_lattice::{Lattice, Node};
use gannet_wire::torus_user::{Operation, Outcome, Place, Post};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat, major, minor};

use super::lane::Lane;
use super::{
    BUFFERS_BYTES, Counters, PACKET_MAX, PACKETS_MAX, PROCESS, REPORT_BYTES, RINGS_ADDRESS,
    SLOT_BYTES, TAKEN_ADDRESS, VNET_HEADER_LEN, ring_bytes,
};
use crate::addresses::Addresses;
use crate::users::memory::{NodeMemory, Slot};

/// Numbers of `/dev/net/tun`.
const TUN: (u32, u32) = (10, 200);
/// Packets that are read from the device before what has arrived has its turn.
const PACKETS_AT_ONCE: usize = 16;
/// From one look at a device that had no packet to the next while the node does not sleep, ns.
const LOOK_NS: u64 = 20_000;
/// A node is told what was taken when it is so much of its ring.
const TELL_PART: u64 = 4;
/// How long the other side may take to say that it has taken a packet, ns.
const PATIENCE_NS: u64 = 1_000_000_000;
/// How long a packet waits for room at its node, while those to other nodes wait with it, ns.
const ROOM_NS: u64 = 50_000_000;
/// How long posts may be under way after the process has asked for the end, ns.
const END_NS: u64 = 100_000_000;
/// Shortest packet with its virtio-net header, bytes.
const PACKET_MIN: usize = VNET_HEADER_LEN + 20;
/// Where the address of the destination stands, bytes.
const DESTINATION: usize = VNET_HEADER_LEN + 16;

/// Memory of a process for packets, in that of the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Numbers by which the process calls both.
    pub regions: [u32; 2],
    /// To which other nodes put packets.
    pub rings: Slot,
    /// To which packets of the device are read.
    pub buffers: Slot,
}

/// A packet of the device, in the memory for these.
#[derive(Clone, Copy, Debug)]
struct Packet {
    slot: u32,
    /// Bytes, with the virtio-net header.
    length: u32,
    node: Node,
}

impl Packet {
    /// Where it lies, bytes.
    fn offset(self) -> u64 {
        offset_of(self.slot)
    }
}

fn offset_of(slot: u32) -> u64 {
    REPORT_BYTES + u64::from(slot) * SLOT_BYTES
}

/// What is to be told to a node: up to which packet this one has taken them.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    number: u32,
    /// Bytes of packets that it was not told of.
    untold: u64,
    /// It waits to be told, or that is under way.
    is_telling: bool,
}

/// What moves packets: a source of posts, to which is said what has become of them and what has arrived.
#[derive(Debug)]
pub(crate) struct Carrier {
    /// Number by which the process calls the device.
    pub number: u32,
    device: OwnedFd,
    node: Node,
    addresses: Addresses,
    ring_bytes: u64,
    memory: Memory,
    /// What was freed last is taken first, since caches still have it.
    free_slots: Vec<u32>,
    /// Packets under way, by slots: what was sent, and its number in the lane.
    sent: Vec<Option<(Packet, u32)>>,
    lanes: Vec<Lane>,
    taken: Vec<Taken>,
    to_tell: Vec<Node>,
    /// A packet that waits for room at its node, and since when.
    held: Option<(Packet, u64)>,
    /// When the device is looked at again, unless it wakes the node before.
    look_at: u64,
    /// Packets that were read since all others had their turn.
    read: usize,
    expire_at: u64,
    /// The device is gone.
    is_gone: bool,
    end_at: Option<u64>,
    counters: Counters,
    reported: Option<(u64, Counters)>,
}

impl Carrier {
    /// Moves packets of `device`, which the process calls `number`, for the node at `place`, by way of `memory`; none when that has not the lengths
    /// that it takes, or the place is none.
    pub fn new(
        (number, device): (u32, OwnedFd),
        place: Place,
        first: u8,
        (memory, all): (Memory, &NodeMemory),
    ) -> Option<Self> {
        let lattice = Lattice::new(place.sizes).ok()?;
        let (nodes, ring_bytes) = (lattice.nodes(), ring_bytes(lattice.nodes() as u64));
        let has = |slot, bytes| all.region(slot).is_some_and(|it| it.len() as u64 >= bytes);
        // Files of other kinds may make who reads them wait.
        let stat = fstat(&device).ok()?;
        let is_able = match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice => (major(stat.st_rdev), minor(stat.st_rdev)) == TUN,
            kind => kind == FileType::Socket,
        };
        if !is_able {
            return None;
        }
        // For kernels before 6.5, which cannot be asked not to wait by the call itself. The process can take the flag back.
        let flags = fcntl_getfl(&device).ok()?;
        fcntl_setfl(&device, flags | OFlags::NONBLOCK).ok()?;
        let fits =
            has(memory.rings, ring_bytes * nodes as u64) && has(memory.buffers, BUFFERS_BYTES);
        let is_place = (place.node as usize) < nodes;
        (fits && is_place).then(|| Self {
            number,
            device,
            node: Node(place.node),
            addresses: Addresses { first, lattice },
            ring_bytes,
            memory,
            free_slots: (0..PACKETS_MAX).collect(),
            sent: vec![None; PACKETS_MAX as usize],
            lanes: (0..nodes).map(|_| Lane::new(ring_bytes)).collect(),
            taken: vec![Taken::default(); nodes],
            to_tell: Vec::new(),
            held: None,
            look_at: 0,
            read: 0,
            expire_at: 0,
            is_gone: false,
            end_at: None,
            counters: Counters::default(),
            reported: None,
        })
    }

    /// The device, if it is to wake the node: it may have a packet, for which there is room.
    pub fn device(&self) -> Option<BorrowedFd<'_>> {
        self.takes_more().then(|| self.device.as_fd())
    }

    /// Whether it moves packets by way of the memory that the process calls so.
    pub fn uses(&self, region: u32) -> bool {
        self.memory.regions.contains(&region)
    }

    /// Whether the node is still at its place.
    pub fn is_at(&self, place: Option<Place>) -> bool {
        let (node, sizes) = (self.node.0, self.addresses.lattice.sizes());
        place.is_some_and(|place| (place.node, place.sizes) == (node, sizes))
    }

    /// Takes note that the device has a packet.
    pub fn woken(&mut self) {
        self.look_at = 0;
    }

    /// Sends no more, and ends when nothing is under way, or after a moment.
    pub fn end(&mut self, now: u64) {
        self.end_at.get_or_insert(now + END_NS);
        if let Some((packet, _)) = self.held.take() {
            self.drop_full(packet);
        }
    }

    /// Whether it has ended.
    pub fn is_over(&self, now: u64) -> bool {
        self.is_gone || self.end_at.is_some_and(|at| now >= at || self.under_way() == 0)
    }

    /// Whether there is nothing to do before a frame comes, the device has a packet or the deadline is over.
    pub fn may_sleep(&self) -> bool {
        self.to_tell.is_empty() && (self.look_at > 0 || !self.takes_more())
    }

    /// When there is something to do at the latest.
    pub fn next_deadline(&self) -> Option<u64> {
        let room = self.held.map(|(_, since)| since + ROOM_NS);
        let is_untold = self.taken.iter().any(|taken| taken.untold > 0);
        let expire = is_untold.then_some(self.expire_at);
        [room, expire, self.end_at].into_iter().flatten().min()
    }

    /// When it ends at the latest, if it is to.
    pub fn end_deadline(&self) -> Option<u64> {
        self.end_at
    }

    fn takes_more(&self) -> bool {
        let is_ending = self.is_gone || self.end_at.is_some();
        !is_ending && self.held.is_none() && !self.free_slots.is_empty()
    }

    /// Packets that have memory, that which waits for room included.
    fn under_way(&self) -> u64 {
        u64::from(PACKETS_MAX) - self.free_slots.len() as u64
    }

    /// The next post; none when there is none for now.
    pub fn next_post(&mut self, memory: &NodeMemory, now: u64) -> Option<Post> {
        self.expire(now);
        if let Some(node) = self.to_tell.pop() {
            let taken = &mut self.taken[node.index()];
            taken.untold = 0;
            return Some(Post {
                request: PACKETS_MAX + node.0,
                tag: taken.number,
                ..self.post(node, TAKEN_ADDRESS)
            });
        }
        if let Some((packet, since)) = self.held.take() {
            if let Some(post) = self.place(packet, now) {
                return Some(post);
            }
            if now.saturating_sub(since) < ROOM_NS {
                self.held = Some((packet, since));
                return None;
            }
            self.lanes[packet.node.index()].set_stuck();
            self.drop_full(packet);
        }
        while self.takes_more() && now >= self.look_at && self.read < PACKETS_AT_ONCE {
            let Some(packet) = self.next_packet(memory, now) else { continue };
            if let Some(post) = self.place(packet, now) {
                return Some(post);
            }
            if self.lanes[packet.node.index()].is_stuck() {
                self.drop_full(packet);
            } else {
                self.held = Some((packet, now));
            }
        }
        self.read = 0;
        None
    }

    /// Drops a packet for which there is no room.
    fn drop_full(&mut self, packet: Packet) {
        self.counters.full += 1;
        self.free_slots.push(packet.slot);
    }

    /// Reads a packet of the device; none when there is none, or it is to be dropped.
    fn next_packet(&mut self, memory: &NodeMemory, now: u64) -> Option<Packet> {
        let slot = *self.free_slots.last()?;
        let offset = offset_of(slot) as usize;
        let Some(region) = memory.region(self.memory.buffers) else {
            self.is_gone = true;
            return None;
        };
        let length = match region.read_from(offset, PACKET_MAX, &self.device) {
            Ok(0) => {
                self.is_gone = true;
                return None;
            }
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return None,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.look_at = now + LOOK_NS;
                return None;
            }
            Err(_) => {
                self.is_gone = true;
                return None;
            }
        };
        (self.look_at, self.read) = (0, self.read + 1);
        self.counters.offered += 1;
        let mut header = [0; PACKET_MIN];
        region.read(offset, &mut header);
        if length < PACKET_MIN || header[VNET_HEADER_LEN] >> 4 != 4 {
            self.counters.other_protocol += 1;
            return None;
        }
        let destination: [u8; 4] = header[DESTINATION..].try_into().expect("there are four bytes");
        let Some(node) = self.addresses.node(destination.into()) else {
            self.counters.no_node += 1;
            return None;
        };
        self.free_slots.pop();
        Some(Packet { slot, length: length as u32, node })
    }

    /// A post of a packet to its place at its node, if there is room.
    fn place(&mut self, packet: Packet, now: u64) -> Option<Post> {
        let (at, number) = self.lanes[packet.node.index()].place(packet.length as usize, now)?;
        self.sent[packet.slot as usize] = Some((packet, number));
        let there = RINGS_ADDRESS + self.ring_bytes * u64::from(self.node.0) + at;
        Some(Post {
            request: packet.slot,
            offset: packet.offset(),
            length: packet.length,
            tag: number,
            ..self.post(packet.node, there)
        })
    }

    /// A post of no bytes.
    fn post(&self, node: Node, address: u64) -> Post {
        Post {
            operation: Operation::Put,
            request: 0,
            node: node.0,
            process: PROCESS,
            address,
            region: self.memory.regions[1],
            offset: 0,
            length: 0,
            tag: 0,
        }
    }

    /// Takes note of what has become of a post.
    pub fn done(&mut self, request: u32, outcome: Outcome) {
        let is_done = outcome == Outcome::Done;
        if let Some(node) = request.checked_sub(PACKETS_MAX) {
            let taken = &mut self.taken[node as usize];
            taken.is_telling = false;
            if !is_done {
                taken.untold = taken.untold.max(1);
            }
            return self.tell_if_much(Node(node));
        }
        let Some((packet, number)) = self.sent[request as usize].take() else { return };
        self.free_slots.push(packet.slot);
        if is_done {
            self.counters.sent += 1;
            self.counters.sent_bytes += u64::from(packet.length) - VNET_HEADER_LEN as u64;
        } else {
            self.counters.failed += 1;
            self.lanes[packet.node.index()].failed(number);
        }
    }

    /// Takes what has come from another node: a packet, which it hands to the device, or word of what that has taken.
    pub fn arrived(
        &mut self,
        node: Node,
        address: u64,
        length: u32,
        tag: u32,
        memory: &NodeMemory,
    ) {
        if address == TAKEN_ADDRESS {
            if let Some(lane) = self.lanes.get_mut(node.index()) {
                lane.taken(tag);
            }
            return;
        }
        let offset = address.wrapping_sub(RINGS_ADDRESS);
        let is_own = offset / self.ring_bytes == u64::from(node.0);
        let is_packet = (PACKET_MIN..=PACKET_MAX).contains(&(length as usize));
        let rings = memory.region(self.memory.rings);
        let is_inside = |bytes: usize| offset + u64::from(length) <= bytes as u64;
        let Some(rings) = rings.filter(|it| is_own && is_packet && is_inside(it.len())) else {
            self.counters.malformed += 1;
            return;
        };
        let Some(taken) = self.taken.get_mut(node.index()) else {
            self.counters.malformed += 1;
            return;
        };
        match rings.write_to(offset as usize, length as usize, &self.device) {
            Ok(_) => {
                self.counters.delivered += 1;
                self.counters.delivered_bytes += u64::from(length) - VNET_HEADER_LEN as u64;
            }
            Err(_) => self.counters.refused += 1,
        }
        (taken.number, taken.untold) = (tag, taken.untold + u64::from(length));
        self.tell_if_much(node);
    }

    /// Tells a node what was taken if that is much of its ring.
    fn tell_if_much(&mut self, node: Node) {
        let taken = &mut self.taken[node.index()];
        if taken.untold >= self.ring_bytes / TELL_PART && !taken.is_telling {
            taken.is_telling = true;
            self.to_tell.push(node);
        }
    }

    /// Frees from time to time what other nodes do not speak of any more, and tells them what was taken, however little.
    fn expire(&mut self, now: u64) {
        if now < self.expire_at {
            return;
        }
        self.expire_at = now + PATIENCE_NS / 10;
        for lane in &mut self.lanes {
            lane.expire(now, PATIENCE_NS);
        }
        for (node, taken) in (0..).map(Node).zip(&mut self.taken) {
            if taken.untold > 0 && !taken.is_telling {
                taken.is_telling = true;
                self.to_tell.push(node);
            }
        }
    }

    /// Says in memory of the process what has become of packets, and how many are under way, if that is new.
    pub fn report(&mut self, memory: &NodeMemory) {
        let report = (self.under_way(), self.counters);
        if self.reported.replace(report) == Some(report) {
            return;
        }
        let Some(region) = memory.region(self.memory.buffers) else { return };
        let words = [report.0].into_iter().chain(report.1.words());
        for (offset, word) in (0..).step_by(8).zip(words) {
            region.write(offset, &word.to_le_bytes());
        }
    }

    /// Gives up what is under way, now that it is over: each packet that was offered is accounted for.
    pub fn give_up(mut self, memory: &NodeMemory) {
        self.counters.full += u64::from(self.held.is_some());
        self.counters.failed += self.under_way() - u64::from(self.held.is_some());
        (self.free_slots, self.held) = ((0..PACKETS_MAX).collect(), None);
        self.report(memory);
    }
}
