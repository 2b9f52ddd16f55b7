//! Datagrams on their way to a socket, as many of one length as go at once.

use std::io;
use std::net::SocketAddr;

use gannet_ingest::udp::CoalescedSocket;
use gannet_wire::rdma::{HEADER_LEN, Header, Operation};

/// Bytes of the number before a packet.
pub(super) const NUMBER_LEN: usize = 8;

/// A message that is put together.
#[derive(Debug)]
pub(super) struct Outgoing {
    to: SocketAddr,
    number: [u8; NUMBER_LEN],
    bytes: Vec<u8>,
    /// Datagrams of the message that is complete but for more of their length.
    count: usize,
    /// Bytes of each of them.
    datagram: usize,
    /// Bytes of all, of which the last may be shorter.
    len: usize,
    /// Bytes of the datagram behind them, that is too long for their message or waits for another.
    next: usize,
}

impl Outgoing {
    pub fn new(to: SocketAddr, number: u64) -> Self {
        let bytes = vec![0; 2 * CoalescedSocket::BYTES_MAX];
        let number = number.to_le_bytes();
        Self { to, number, bytes, count: 0, datagram: 0, len: 0, next: 0 }
    }

    /// Sends all that `packet` gives, which writes a packet to memory and gives its length; gives whether
    /// the socket has taken all.
    pub fn send_all(
        &mut self,
        socket: &CoalescedSocket,
        mut packet: impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> io::Result<bool> {
        loop {
            if self.is_closed(socket) && !self.send(socket)? {
                return Ok(false);
            }
            if self.next == 0 {
                let room = &mut self.bytes[self.len..];
                room[..NUMBER_LEN].copy_from_slice(&self.number);
                let Some(len) = packet(&mut room[NUMBER_LEN..]) else {
                    return Ok(self.len == 0 || self.send(socket)?);
                };
                self.next = NUMBER_LEN + len;
            }
            self.append();
        }
    }

    /// Whether nothing more can go with the message.
    fn is_closed(&self, socket: &CoalescedSocket) -> bool {
        self.next > 0
            || self.len < self.count * self.datagram
            || self.count >= socket.datagrams_max()
            || self.len + self.datagram > CoalescedSocket::BYTES_MAX
    }

    /// Takes the next datagram into the message, if it may go with it.
    fn append(&mut self) {
        let last = self.len.checked_sub(self.datagram).filter(|_| self.count > 0);
        if last.is_some_and(|last| self.is_ack(last) && self.next > NUMBER_LEN + HEADER_LEN) {
            // A packet of data says again what the acknowledgement before it says.
            let (from, to) = (self.len, self.len - self.datagram);
            self.bytes.copy_within(from..from + self.next, to);
            (self.len, self.count) = (to, self.count - 1);
        }
        if self.count == 0 {
            self.datagram = self.next;
        }
        if self.next <= self.datagram {
            (self.len, self.count) = (self.len + self.next, self.count + 1);
            self.next = 0;
        }
    }

    /// Whether the datagram at `at` only acknowledges.
    fn is_ack(&self, at: usize) -> bool {
        let header = &self.bytes[at + NUMBER_LEN..][..HEADER_LEN];
        Header::new_unchecked(header).operation() == Operation::Ack
    }

    /// Sends the message; gives whether the socket has taken it.
    fn send(&mut self, socket: &CoalescedSocket) -> io::Result<bool> {
        let taken =
            self.len == 0 || socket.send(&self.bytes[..self.len], self.datagram, &self.to)?;
        if taken {
            self.bytes.copy_within(self.len..self.len + self.next, 0);
            (self.len, self.count) = (0, 0);
        }
        Ok(taken)
    }
}
