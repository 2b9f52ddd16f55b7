//! A cable of UDP datagrams between two addresses: any network, no rights.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use gannet_ingest::udp::{CoalescedSocket, Outbox};
use rustix::net::sockopt;

use crate::port::Port;

/// Memory asked for frames that wait in the socket.
const BUFFER_BYTES: u64 = 8 << 20;
/// Headers of IP and UDP in front of a frame.
const IPV4_HEADERS: u32 = 20 + 8;
const IPV6_HEADERS: u32 = 40 + 8;

/// An end of a cable over UDP.
#[derive(Debug)]
pub struct UdpPort {
    socket: CoalescedSocket,
    peer: SocketAddr,
    outbox: Outbox,
    room: Box<[u8]>,
    frame_bytes: usize,
    window_bytes: usize,
    strangers: u64,
}

impl UdpPort {
    /// An end at `local` of the cable whose other end is at `peer`, with frames as long as the path carries whole.
    ///
    /// # Errors
    /// When the address is not of this host, or taken, or `peer` cannot be reached from it.
    pub fn open(local: SocketAddr, peer: SocketAddr) -> io::Result<Self> {
        let socket = CoalescedSocket::bind(&local)?;
        let window_bytes = socket.set_buffers(BUFFER_BYTES)? as usize;
        let frame_bytes = path_bytes(&local, &peer)?;
        Ok(Self {
            socket,
            peer,
            outbox: Outbox::default(),
            room: vec![0; CoalescedSocket::ROOM].into_boxed_slice(),
            frame_bytes,
            window_bytes,
            strangers: 0,
        })
    }

    /// Where this end is.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.address()
    }

    /// The same with frames of at most `bytes`.
    #[must_use]
    pub fn with_frames_of(mut self, bytes: usize) -> Self {
        self.frame_bytes = self.frame_bytes.min(bytes);
        self
    }
}

/// Longest datagram from `local` to `peer` that the network of this host does not cut.
fn path_bytes(local: &SocketAddr, peer: &SocketAddr) -> io::Result<usize> {
    let probe = std::net::UdpSocket::bind((local.ip(), 0))?;
    probe.connect(peer)?;
    let bytes = match peer {
        SocketAddr::V4(_) => sockopt::ip_mtu(&probe)?.saturating_sub(IPV4_HEADERS),
        SocketAddr::V6(_) => sockopt::ipv6_mtu(&probe)?.saturating_sub(IPV6_HEADERS),
    };
    Ok((bytes as usize).min(CoalescedSocket::BYTES_MAX))
}

impl Port for UdpPort {
    fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    fn send(&mut self, next: &mut dyn FnMut(&mut [u8]) -> usize) -> io::Result<bool> {
        let Self { socket, peer, outbox, frame_bytes, .. } = self;
        let write = |room: &mut [u8]| Some(next(&mut room[..*frame_bytes])).filter(|&len| len > 0);
        outbox.send_all(socket, peer, write, |_, _| false)
    }

    /// Takes one message of the socket: what it has brought is acknowledged, or passed on, while others come.
    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        let Some(message) = self.socket.receive(&mut self.room)? else { return Ok(true) };
        let frames = self.room[..message.bytes].chunks(message.datagram);
        if message.sender == self.peer {
            frames.for_each(take);
        } else {
            self.strangers += frames.len() as u64;
        }
        Ok(false)
    }

    fn strangers(&self) -> u64 {
        self.strangers
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.descriptor()
    }
}
