//! Packets on their way to the other end of a cable.

use std::io;
use std::net::SocketAddr;

use gannet_ingest::udp::{CoalescedSocket, Outbox};
use gannet_wire::rdma::{HEADER_LEN, Header, Operation};

/// Bytes of the number before a packet.
pub(super) const NUMBER_LEN: usize = 8;

/// Where packets go, and those that wait for the socket.
#[derive(Debug)]
pub(super) struct Outgoing {
    to: SocketAddr,
    number: [u8; NUMBER_LEN],
    outbox: Outbox,
}

impl Outgoing {
    pub fn new(to: SocketAddr, number: u64) -> Self {
        Self { to, number: number.to_le_bytes(), outbox: Outbox::default() }
    }

    /// Sends all that `packet` gives, which writes a packet to memory and gives its length; gives whether
    /// the socket has taken all.
    pub fn send_all(
        &mut self,
        socket: &CoalescedSocket,
        mut packet: impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> io::Result<bool> {
        let write = |room: &mut [u8]| {
            room[..NUMBER_LEN].copy_from_slice(&self.number);
            Some(NUMBER_LEN + packet(&mut room[NUMBER_LEN..])?)
        };
        // A packet of data says again what the acknowledgement before it says.
        let replaces =
            |before: &[u8], next: &[u8]| is_ack(before) && next.len() > NUMBER_LEN + HEADER_LEN;
        self.outbox.send_all(socket, &self.to, write, replaces)
    }
}

/// Whether a datagram only acknowledges.
fn is_ack(datagram: &[u8]) -> bool {
    let header = datagram.get(NUMBER_LEN..NUMBER_LEN + HEADER_LEN);
    header.is_some_and(|header| Header::new_unchecked(header).operation() == Operation::Ack)
}
