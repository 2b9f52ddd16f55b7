//! IP over the torus: packets of a network device go by PUT into a ring of the host that has their address.
//!
//! Every node has an address by its place ([`Addresses`]), and keeps a ring of bytes for each other one. Who sends knows what of
//! it is free, since the other side tells up to which packet it has taken them. A packet that finds no room waits for a moment, and
//! the device with it, so that programs that send too fast are slowed down and not robbed; then it is dropped and counted, as are
//! all to that node until it takes one again.
//!
//! In front of each packet goes its virtio-net header, from device to device: the kernel that sends leaves check sums and
//! segmentation to the one that takes.

mod lane;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::AddAssign;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use gannet_lattice::Node;
use gannet_memory::SharedRegion;
use gannet_wire::torus_user::Outcome;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;

use self::lane::Lane;
use crate::addresses::Addresses;
use crate::user::{Completion, Local, Place, Reach, RegionId, Remote, User, UserError};

/// Number of the process that carries IP at each node.
pub const PROCESS: u16 = 1;
/// Length of the virtio-net header in front of each packet, bytes (`struct virtio_net_hdr` of linux/virtio_net.h).
pub const VNET_HEADER_LEN: usize = 10;
/// Longest packet with its virtio-net header, bytes.
pub const PACKET_MAX: usize = VNET_HEADER_LEN + 65_535;
/// Bytes of all rings for other nodes together, and of the shortest and longest of them.
const RINGS_BYTES: u64 = 16 << 20;
const RING_BYTES_MIN: u64 = 256 << 10;
const RING_BYTES_MAX: u64 = 2 << 20;
/// Virtual address of the rings, in order of the nodes. It stands for what lies in them: at 2 TiB are those of versions whose
/// packets have no header in front, which this one neither reaches nor is reached by.
pub const RINGS_ADDRESS: u64 = 4 << 40;
/// Virtual address to which nodes tell what they have taken.
const TAKEN_ADDRESS: u64 = 3 << 40;
/// Packets that are taken from the device before what has arrived has its turn.
const PACKETS_AT_ONCE: usize = 16;
/// Posts under way beyond which packets wait in the device. Each may have a packet of its own.
const POSTS_MAX: usize = 192;
/// Memory for a packet of the device, bytes: whole pages.
const SLOT_BYTES: u64 = PACKET_MAX.next_multiple_of(4096) as u64;
/// A node is told what was taken when it is so much of its ring.
const TELL_PART: u64 = 4;
/// How long the other side may take to say that it has taken a packet.
const PATIENCE_NS: u64 = 1_000_000_000;
/// How long a packet waits for room at its node, while those to other nodes wait with it.
const ROOM_NS: u64 = 50_000_000;
/// Shortest packet with its virtio-net header, bytes.
const PACKET_MIN: usize = VNET_HEADER_LEN + 20;
/// Where the address of the destination stands, bytes.
const DESTINATION: usize = VNET_HEADER_LEN + 16;

/// What has become of packets. Those offered by the device are sent or dropped for a reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets that the device has offered.
    pub offered: u64,
    /// Packets that are in memory of the other node, and their bytes of IP.
    pub sent: u64,
    /// See `sent`.
    pub sent_bytes: u64,
    /// Packets that are no IPv4.
    pub other_protocol: u64,
    /// Packets for an address that no node has.
    pub no_node: u64,
    /// Packets that found no room at the other node.
    pub full: u64,
    /// Packets of which the torus says that they have perhaps not arrived.
    pub failed: u64,
    /// Packets that have arrived and were handed to the device, and their bytes of IP.
    pub delivered: u64,
    /// See `delivered`.
    pub delivered_bytes: u64,
    /// Arrivals that are no packet.
    pub malformed: u64,
    /// Arrived packets that the device did not take.
    pub refused: u64,
    /// Arrivals, packets or not, that were not told, since this process took none for too long.
    pub missed: u64,
}

impl Counters {
    /// Packets of the device that were dropped here.
    pub fn dropped(&self) -> u64 {
        self.other_protocol + self.no_node + self.full + self.failed
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, more: Self) {
        let Self {
            offered,
            sent,
            sent_bytes,
            other_protocol,
            no_node,
            full,
            failed,
            delivered,
            delivered_bytes,
            malformed,
            refused,
            missed,
        } = more;
        self.offered += offered;
        self.sent += sent;
        self.sent_bytes += sent_bytes;
        self.other_protocol += other_protocol;
        self.no_node += no_node;
        self.full += full;
        self.failed += failed;
        self.delivered += delivered;
        self.delivered_bytes += delivered_bytes;
        self.malformed += malformed;
        self.refused += refused;
        self.missed += missed;
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "sent       {:>12} packets, {} bytes", self.sent, self.sent_bytes)?;
        writeln!(f, "delivered  {:>12} packets, {} bytes", self.delivered, self.delivered_bytes)?;
        let dropped = [
            ("no IPv4", self.other_protocol),
            ("for no node", self.no_node),
            ("no room there", self.full),
            ("not arrived", self.failed),
            ("no packets", self.malformed),
            ("not taken by the device", self.refused),
            ("not told in time", self.missed),
        ];
        for (why, count) in dropped.into_iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "dropped    {count:>12} {why}")?;
        }
        Ok(())
    }
}

/// Bytes of the ring for each node of a machine of so many, the same at all of them.
pub fn ring_bytes(nodes: u64) -> u64 {
    1 << (RINGS_BYTES / nodes.max(1)).clamp(RING_BYTES_MIN, RING_BYTES_MAX).ilog2()
}

/// A packet of the device, in memory that the node of this host reads.
#[derive(Clone, Copy, Debug)]
struct Packet {
    slot: u32,
    /// Bytes, with the virtio-net header.
    length: u32,
}

impl Packet {
    /// Where it lies, bytes.
    fn offset(self) -> u64 {
        u64::from(self.slot) * SLOT_BYTES
    }
}

/// A packet of the device that waits for room at its node.
#[derive(Debug)]
struct Held {
    node: Node,
    packet: Packet,
    since: u64,
}

/// What was posted.
#[derive(Clone, Copy, Debug)]
enum Posted {
    Packet { node: Node, number: u32, packet: Packet },
    Taken { node: Node },
}

/// What is to be told to a node: up to which packet this one has taken them.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    number: u32,
    /// Bytes of packets that it was not told of.
    untold: u64,
    is_under_way: bool,
}

/// What carries packets between a device and the torus.
///
/// A device is a descriptor by which each read(2) gives a packet, and each write(2) takes one, and which never waits. In front of a
/// packet is its virtio-net header of [`VNET_HEADER_LEN`] bytes, which says what is left to do for the device that takes it: the check sum
/// of TCP or UDP, and how to cut a packet of TCP over IPv4 into segments. It may come from any host of the machine, so a device has to refuse
/// headers that make no sense, as the kernel does.
#[derive(Debug)]
pub struct Tunnel {
    user: User,
    place: Place,
    addresses: Addresses,
    ring_bytes: u64,
    rings: RegionId,
    /// Memory for packets of the device. What was freed last is taken first, since caches still have it.
    slots: RegionId,
    free_slots: Vec<u32>,
    lanes: Vec<Lane>,
    taken: Vec<Taken>,
    posted: HashMap<u32, Posted>,
    held: Option<Held>,
    began: Instant,
    expire_at: u64,
    counters: Counters,
}

impl Tunnel {
    /// Carries packets for a process that has a place in the machine, with addresses that begin with `first`.
    ///
    /// # Errors
    /// When memory for the rings cannot be had or registered.
    pub fn new(mut user: User, place: Place, first: u8) -> Result<Self, UserError> {
        let nodes = place.lattice.nodes() as u64;
        let ring_bytes = ring_bytes(nodes);
        let memory = |bytes: u64| {
            SharedRegion::new(bytes as usize)
                .map_err(|error| UserError::System(io::Error::other(error)))
        };
        let rings = user.register(memory(ring_bytes * nodes)?, RINGS_ADDRESS, Reach::Write)?;
        user.register(memory(1)?, TAKEN_ADDRESS, Reach::Write)?;
        let slots = user.register(memory(SLOT_BYTES * POSTS_MAX as u64)?, 0, Reach::Own)?;
        Ok(Self {
            user,
            place,
            addresses: Addresses { first, lattice: place.lattice },
            ring_bytes,
            rings,
            slots,
            free_slots: (0..POSTS_MAX as u32).collect(),
            lanes: (0..nodes).map(|_| Lane::new(ring_bytes)).collect(),
            taken: vec![Taken::default(); nodes as usize],
            posted: HashMap::new(),
            held: None,
            began: Instant::now(),
            expire_at: 0,
            counters: Counters::default(),
        })
    }

    /// What has become of packets.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether it has to be made anew: the node has ended, or the host has another place.
    pub fn is_over(&self) -> bool {
        self.user.has_ended() || self.user.place().is_some_and(|place| place != self.place)
    }

    /// Carries what is there both ways, and sleeps for at most `most` if there is nothing.
    ///
    /// # Errors
    /// When the device is gone, or the system cannot wait.
    pub fn step(&mut self, device: &impl AsFd, most: Duration) -> io::Result<()> {
        self.expire();
        let arrived = self.take(device);
        let came = self.send(device)?;
        if arrived || came {
            return Ok(());
        }
        let takes_more = self.user.under_way() < POSTS_MAX && self.held.is_none();
        let mut most = most;
        if self.held.is_some() {
            most = most.min(Duration::from_nanos(ROOM_NS));
        }
        if self.taken.iter().any(|taken| taken.untold > 0) {
            most = most.min(Duration::from_nanos(self.expire_at.saturating_sub(self.now())));
        }
        // That posts are done is worth waking up for only if something waits for it.
        let part = self.ring_bytes / TELL_PART;
        let must_tell = self.taken.iter().any(|taken| taken.untold >= part);
        let may_sleep = match takes_more && !must_tell && self.user.under_way() < POSTS_MAX / 2 {
            true => self.user.may_sleep_until_arrival(),
            false => self.user.may_sleep(),
        };
        if !may_sleep {
            return Ok(());
        }
        let [woken, line] = self.user.descriptors();
        let wanted = if takes_more { PollFlags::IN } else { PollFlags::empty() };
        let mut descriptors = [
            PollFd::from_borrowed_fd(woken, PollFlags::IN),
            PollFd::from_borrowed_fd(line, PollFlags::IN),
            PollFd::new(device, wanted),
        ];
        wait(&mut descriptors, most)?;
        self.user.woken();
        Ok(())
    }

    /// Ends it: takes what has arrived and what is done of what was posted, for which it waits for at most `most`; gives what has become of
    /// packets. What is under way even then counts as perhaps not arrived, so that each packet that was offered is accounted for.
    ///
    /// # Errors
    /// When the system cannot wait.
    pub fn finish(mut self, device: &impl AsFd, most: Duration) -> io::Result<Counters> {
        let begin = Instant::now();
        loop {
            self.take(device);
            let left = most.saturating_sub(begin.elapsed());
            if self.posted.is_empty() || left.is_zero() || self.user.has_ended() {
                break;
            }
            if self.user.may_sleep() {
                let [woken, line] = self.user.descriptors();
                wait(
                    &mut [woken, line].map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN)),
                    left,
                )?;
                self.user.woken();
            }
        }
        let is_packet = |posted: &Posted| matches!(posted, Posted::Packet { .. });
        self.counters.failed += self.posted.drain().filter(|(_, it)| is_packet(it)).count() as u64;
        self.counters.full += u64::from(self.held.is_some());
        Ok(self.counters)
    }

    /// Frees from time to time what other nodes do not speak of any more, and tells them what was taken, however little.
    fn expire(&mut self) {
        let now = self.now();
        if now >= self.expire_at {
            self.expire_at = now + PATIENCE_NS / 10;
            for lane in &mut self.lanes {
                lane.expire(now, PATIENCE_NS);
            }
            self.tell_taken(1);
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Takes what has arrived and what was done; gives whether anything was.
    fn take(&mut self, device: &impl AsFd) -> bool {
        let (mut was_any, mut were_missed) = (false, false);
        while let Some(completion) = self.user.poll() {
            was_any = true;
            match completion {
                Completion::Done { request, outcome } => self.done(request.0, outcome),
                Completion::Arrived { node, address: TAKEN_ADDRESS, tag, .. } => {
                    if let Some(lane) = self.lanes.get_mut(node.index()) {
                        lane.taken(tag);
                    }
                }
                Completion::Arrived { node, address, length, tag } => {
                    self.arrived(device, node, address, length, tag);
                }
                Completion::Missed(count) => {
                    self.counters.missed += count;
                    were_missed = true;
                }
            }
        }
        if was_any {
            // Nobody knows how many bytes those had that were missed.
            self.tell_taken(if were_missed { 1 } else { self.ring_bytes / TELL_PART });
        }
        was_any
    }

    fn done(&mut self, request: u32, outcome: Outcome) {
        match self.posted.remove(&request) {
            Some(Posted::Packet { node, number, packet }) => {
                self.free(packet);
                if outcome == Outcome::Done {
                    self.counters.sent += 1;
                    self.counters.sent_bytes += u64::from(packet.length) - VNET_HEADER_LEN as u64;
                } else {
                    self.counters.failed += 1;
                    self.lanes[node.index()].failed(number);
                }
            }
            Some(Posted::Taken { node }) => {
                let taken = &mut self.taken[node.index()];
                taken.is_under_way = false;
                if outcome != Outcome::Done {
                    taken.untold = taken.untold.max(1);
                }
            }
            None => {}
        }
    }

    /// Hands a packet that has come from another node to the device.
    fn arrived(&mut self, device: &impl AsFd, node: Node, address: u64, length: u32, number: u32) {
        let offset = address.wrapping_sub(RINGS_ADDRESS);
        let length = length as usize;
        let is_own = offset / self.ring_bytes == u64::from(node.0);
        let is_packet = (PACKET_MIN..=PACKET_MAX).contains(&length);
        if node.index() >= self.lanes.len() || !is_own || !is_packet {
            self.counters.malformed += 1;
            return;
        }
        match self.user.region(self.rings).write_to(offset as usize, length, device) {
            Ok(_) => {
                self.counters.delivered += 1;
                self.counters.delivered_bytes += (length - VNET_HEADER_LEN) as u64;
            }
            Err(_) => self.counters.refused += 1,
        }
        let taken = &mut self.taken[node.index()];
        (taken.number, taken.untold) = (number, taken.untold + length as u64);
        let part = self.ring_bytes / TELL_PART;
        if taken.untold >= part {
            self.tell_taken(part);
        }
    }

    /// Tells nodes of which `least` bytes of packets or more were taken that they were.
    fn tell_taken(&mut self, least: u64) {
        let source = Local { region: self.slots, offset: 0 };
        for (node, taken) in (0..).map(Node).zip(&mut self.taken) {
            if taken.untold < least || taken.is_under_way {
                continue;
            }
            let target = Remote { node, process: PROCESS, address: TAKEN_ADDRESS };
            if let Ok(request) = self.user.put(source, target, 0, taken.number) {
                (taken.untold, taken.is_under_way) = (0, true);
                self.posted.insert(request.0, Posted::Taken { node });
            }
        }
    }

    /// Sends packets of the device; gives whether there were any.
    fn send(&mut self, device: &impl AsFd) -> io::Result<bool> {
        let was_held = self.held.is_some();
        if !self.release() {
            return Ok(false);
        }
        for packets in 0..PACKETS_AT_ONCE {
            let is_full = self.user.under_way() >= POSTS_MAX || self.held.is_some();
            let Some(&slot) = self.free_slots.last().filter(|_| !is_full) else {
                return Ok(packets > 0 || was_held);
            };
            let mut packet = Packet { slot, length: 0 };
            let slots = self.user.region(self.slots);
            match slots.read_from(packet.offset() as usize, PACKET_MAX, device) {
                Ok(length) => packet.length = length as u32,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(packets > 0 || was_held);
                }
                Err(error) => return Err(error),
            }
            self.free_slots.pop();
            self.send_packet(packet);
        }
        Ok(true)
    }

    fn send_packet(&mut self, packet: Packet) {
        self.counters.offered += 1;
        let mut header = [0; PACKET_MIN];
        self.user.region(self.slots).read(packet.offset() as usize, &mut header);
        if (packet.length as usize) < PACKET_MIN || header[VNET_HEADER_LEN] >> 4 != 4 {
            self.counters.other_protocol += 1;
            return self.free(packet);
        }
        let destination: [u8; 4] = header[DESTINATION..].try_into().expect("there are four bytes");
        let Some(node) = self.addresses.node(destination.into()) else {
            self.counters.no_node += 1;
            return self.free(packet);
        };
        let since = self.now();
        if self.put(node, packet, since) {
            return;
        }
        if self.lanes[node.index()].is_stuck() {
            self.counters.full += 1;
            self.free(packet);
        } else {
            self.held = Some(Held { node, packet, since });
        }
    }

    /// Sends the packet that waits, or drops it when its time is over; gives whether none waits any more.
    fn release(&mut self) -> bool {
        let Some(held) = self.held.take() else { return true };
        let now = self.now();
        if self.put(held.node, held.packet, now) {
            return true;
        }
        if now.saturating_sub(held.since) < ROOM_NS {
            self.held = Some(held);
            return false;
        }
        self.lanes[held.node.index()].set_stuck();
        self.counters.full += 1;
        self.free(held.packet);
        true
    }

    /// Sends a packet to a node; gives whether it found room there.
    fn put(&mut self, node: Node, packet: Packet, now: u64) -> bool {
        let lane = &mut self.lanes[node.index()];
        let Some((at, number)) = lane.place(packet.length as usize, now) else { return false };
        let there = RINGS_ADDRESS + self.ring_bytes * u64::from(self.place.node.0) + at;
        let source = Local { region: self.slots, offset: packet.offset() };
        let target = Remote { node, process: PROCESS, address: there };
        match self.user.put(source, target, packet.length, number) {
            Ok(request) => {
                self.posted.insert(request.0, Posted::Packet { node, number, packet });
            }
            Err(_) => {
                self.counters.failed += 1;
                lane.failed(number);
                self.free(packet);
            }
        }
        true
    }

    /// Gives the memory of a packet to another one.
    fn free(&mut self, packet: Packet) {
        self.free_slots.push(packet.slot);
    }
}

/// Sleeps until one of these is ready, for at most `most`.
fn wait(descriptors: &mut [PollFd<'_>], most: Duration) -> io::Result<()> {
    let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
    match poll(descriptors, Some(&most)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
