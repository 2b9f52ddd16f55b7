//! The socket of an endpoint.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use gannet_ingest::udp::CoalescedSocket;
use gannet_rdma::Engine;

use super::cable::{Cable, slot};
use super::outgoing::NUMBER_LEN;
use crate::packet::{Memory, Pairs, Port};

/// How often an endpoint looks for messages of the others, in nanoseconds.
const LOOK_NS: u64 = 100_000;
/// Messages of the socket that are taken at a look.
const MESSAGES_MAX: usize = 16;
/// Memory asked for datagrams that wait.
const BUFFER_BYTES: u64 = 8 << 20;
/// Part of that memory that a datagram may take: a window of 32 with what the kernel adds to each.
const BUFFER_DATAGRAMS: u64 = 40;

/// A socket, and the time as it passes.
#[derive(Debug)]
pub struct Socket {
    socket: CoalescedSocket,
    pub(super) datagram_max: usize,
    /// For a message of the socket.
    room: Vec<u8>,
    begin: Instant,
    look_at: u64,
}

impl Socket {
    pub(super) fn bind(address: &SocketAddr) -> io::Result<Self> {
        let socket = CoalescedSocket::bind(address)?;
        let buffer = 2 * socket.set_buffers(BUFFER_BYTES)? / BUFFER_DATAGRAMS;
        Ok(Self {
            socket,
            datagram_max: (buffer as usize).clamp(1024, CoalescedSocket::BYTES_MAX),
            room: vec![0; CoalescedSocket::ROOM],
            begin: Instant::now(),
            look_at: 0,
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.address()
    }
}

impl Port for Socket {
    type Cable = Cable;

    const NAME: &'static str = "udp";

    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    fn reach(&mut self, _now_ns: u64) {}

    fn send(&self, cable: &mut Cable, now: u64, engine: &mut Engine<Memory>) {
        let packet = |out: &mut [u8]| engine.next_packet(now, out).map(|packet| packet.length);
        // What the kernel refuses is asked again, until the other side is given up.
        let _ = cable.outgoing.send_all(&self.socket, packet);
    }

    fn receive(&mut self, pairs: &mut Pairs<'_, Cable>) -> bool {
        for _ in 0..MESSAGES_MAX {
            let Ok(Some(message)) = self.socket.receive(&mut self.room) else { return true };
            if message.bytes == 0 {
                pairs.stranger();
            }
            for datagram in self.room[..message.bytes].chunks(message.datagram) {
                let Some((number, packet)) = datagram.split_first_chunk::<NUMBER_LEN>() else {
                    pairs.stranger();
                    continue;
                };
                let number = u64::from_le_bytes(*number);
                let is_its_own = |cable: &Cable| cable.sends(number, &message.sender);
                pairs.packet(slot(number), packet, is_its_own);
            }
        }
        false
    }

    fn is_time_to_look(&mut self, now: u64) -> bool {
        let is_time = now >= self.look_at;
        if is_time {
            self.look_at = now + LOOK_NS;
        }
        is_time
    }

    fn due(&self, _now: u64) -> u64 {
        self.look_at
    }
}
