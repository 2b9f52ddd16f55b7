//! IP over the torus: packets of a network device go by PUT into a ring of the host that has their address.
//!
//! Every node has an address by its place ([`Addresses`](crate::addresses::Addresses)), and keeps a ring of bytes for each other one. Who sends knows what of
//! it is free, since the other side tells up to which packet it has taken them. A packet that finds no room waits for a moment, and
//! the device with it, so that programs that send too fast are slowed down and not robbed; then it is dropped and counted, as are
//! all to that node until it takes one again.
//!
//! In front of each packet goes its virtio-net header, from device to device: the kernel that sends leaves check sums and
//! segmentation to the one that takes.
//!
//! A [`Tunnel`] is what a process has that makes the device, for which it takes rights; the node of its host, which has none, moves the packets
//! on its own thread (`Carrier`), so that nobody is woken between the device and the cables.

mod carrier;
mod lane;

use std::fmt;
use std::io;
use std::ops::AddAssign;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use gannet_memory::SharedRegion;
use serde::Serialize;

pub(crate) use self::carrier::{Carrier, Memory};
use crate::user::{DeviceId, Place, Reach, RegionId, User, UserError};

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
/// Packets of the device under way beyond which more wait there. Each has memory of its own.
const PACKETS_MAX: u32 = 192;
/// Memory for a packet of the device, bytes: whole pages.
const SLOT_BYTES: u64 = PACKET_MAX.next_multiple_of(4096) as u64;
/// Bytes in front of that memory, where the node says what has become of packets.
const REPORT_BYTES: u64 = 4096;
/// Memory for packets of the device, bytes.
const BUFFERS_BYTES: u64 = REPORT_BYTES + SLOT_BYTES * PACKETS_MAX as u64;

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
}

impl Counters {
    const WORDS: usize = 11;

    /// As a node writes them into memory of the process.
    fn words(self) -> [u64; Self::WORDS] {
        [
            self.offered,
            self.sent,
            self.sent_bytes,
            self.other_protocol,
            self.no_node,
            self.full,
            self.failed,
            self.delivered,
            self.delivered_bytes,
            self.malformed,
            self.refused,
        ]
    }

    fn of_words(words: [u64; Self::WORDS]) -> Self {
        let [
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
        ] = words;
        Self {
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
        }
    }

    /// Packets of the device that were dropped here.
    pub fn dropped(&self) -> u64 {
        self.other_protocol + self.no_node + self.full + self.failed
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, more: Self) {
        let (own, more) = (self.words(), more.words());
        *self = Self::of_words(std::array::from_fn(|at| own[at] + more[at]));
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

/// What a process has that carries packets between a network device and the torus, by the node of its host.
///
/// A device is a descriptor by which each read(2) gives a packet, and each write(2) takes one. In front of a packet is its virtio-net header of
/// [`VNET_HEADER_LEN`] bytes, which says what is left to do for the device that takes it: the check sum of TCP or UDP, and how to cut a packet of TCP
/// over IPv4 into segments. It may come from any host of the machine, so a device has to refuse headers that make no sense, as the kernel does.
#[derive(Debug)]
pub struct Tunnel {
    user: User,
    /// How often the place had become another one before.
    moves: u64,
    buffers: RegionId,
    device: DeviceId,
}

impl Tunnel {
    /// Carries packets of `device` for a process that has a place in the machine, with addresses that begin with `first`. From now on the
    /// device never waits for whoever reads or writes it.
    ///
    /// # Errors
    /// When memory for packets cannot be had, or the node refuses to carry them. [`UserError::Ended`] when the node has ended, or has another place
    /// by now.
    pub fn new(
        mut user: User,
        place: Place,
        first: u8,
        device: &impl AsFd,
    ) -> Result<Self, UserError> {
        let moves = user.moves();
        let begun = Self::begin(&mut user, place, first, device.as_fd());
        if user.has_ended() || user.moves() != moves || user.place() != Some(place) {
            return Err(UserError::Ended);
        }
        let (buffers, device) = begun?;
        Ok(Self { user, moves, buffers, device })
    }

    fn begin(
        user: &mut User,
        place: Place,
        first: u8,
        device: BorrowedFd<'_>,
    ) -> Result<(RegionId, DeviceId), UserError> {
        let nodes = place.lattice.nodes() as u64;
        let memory = |bytes: u64| {
            SharedRegion::new(bytes as usize)
                .map_err(|error| UserError::System(io::Error::other(error)))
        };
        let bytes = ring_bytes(nodes) * nodes;
        let rings = user.register(memory(bytes)?, 0, Reach::Own)?;
        let buffers = user.register(memory(BUFFERS_BYTES)?, 0, Reach::Own)?;
        let device = user.carry(device, rings, buffers, first)?;
        // A packet that came before the node carries them would be lost.
        user.register(memory(1)?, TAKEN_ADDRESS, Reach::Write)?;
        user.view(rings, (0, bytes), RINGS_ADDRESS, Reach::Write)?;
        Ok((buffers, device))
    }

    /// What has become of packets. Those under way when the node has ended have perhaps not arrived.
    pub fn counters(&self) -> Counters {
        let mut bytes = [0; 8 * (Counters::WORDS + 1)];
        self.user.region(self.buffers).read(0, &mut bytes);
        let (words, _) = bytes.as_chunks();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let under_way = words.next().expect("it is the first word");
        let mut counters = Counters::of_words(std::array::from_fn(|_| words.next().unwrap_or(0)));
        if self.user.has_ended() {
            counters.failed += under_way;
        }
        counters
    }

    /// Sleeps until the node says something, or for `most`.
    ///
    /// # Errors
    /// When the system cannot wait.
    pub fn wait(&mut self, most: Duration) -> io::Result<()> {
        while self.user.poll().is_some() {}
        self.user.wait(most)
    }

    /// Whether it has to be made anew: the node has ended, or the host has another place.
    pub fn is_over(&self) -> bool {
        self.user.has_ended() || self.user.moves() != self.moves
    }

    /// Whether packets are carried no more although the host has its place: the device is gone.
    pub fn is_gone(&self) -> bool {
        !self.is_over() && !self.user.is_carried(self.device)
    }

    /// Ends it, once what has arrived is delivered and what was sent is done, or after a moment; gives what has become of packets. Each that was
    /// offered is accounted for.
    pub fn finish(mut self) -> Counters {
        // Who does not answer has ended, and says no more.
        let _ended = self.user.take_back(self.device);
        self.counters()
    }
}
