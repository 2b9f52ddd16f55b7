//! Datagrams on their way to a socket, as many of one length as go at once.

use std::io;
use std::net::SocketAddr;

use super::coalesced::CoalescedSocket;

/// A message that is put together, and the datagram that does not go with it.
#[derive(Debug)]
pub struct Outbox {
    bytes: Box<[u8]>,
    /// Datagrams of the message that is complete but for more of their length.
    count: usize,
    /// Bytes of each of them.
    datagram: usize,
    /// Bytes of all, of which the last may be shorter.
    len: usize,
    /// Bytes of the datagram behind them, that is too long for their message or waits for another.
    next: usize,
}

impl Default for Outbox {
    fn default() -> Self {
        let bytes = vec![0; 2 * CoalescedSocket::BYTES_MAX].into_boxed_slice();
        Self { bytes, count: 0, datagram: 0, len: 0, next: 0 }
    }
}

impl Outbox {
    /// Sends all datagrams that `write` gives, which writes one to memory and gives its length, to `to`; gives
    /// whether the socket has taken all.
    ///
    /// A datagram takes the place of the one before it if `replaces` says of both that it tells all that
    /// that one does.
    ///
    /// # Errors
    /// When the kernel will not send.
    pub fn send_all(
        &mut self,
        socket: &CoalescedSocket,
        to: &SocketAddr,
        mut write: impl FnMut(&mut [u8]) -> Option<usize>,
        replaces: impl Fn(&[u8], &[u8]) -> bool,
    ) -> io::Result<bool> {
        loop {
            if self.is_closed(socket) && !self.send(socket, to)? {
                return Ok(false);
            }
            if self.next == 0 {
                let Some(len) = write(&mut self.bytes[self.len..]) else {
                    return Ok(self.len == 0 || self.send(socket, to)?);
                };
                self.next = len;
            }
            self.append(&replaces);
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
    fn append(&mut self, replaces: impl Fn(&[u8], &[u8]) -> bool) {
        let last = self.len.checked_sub(self.datagram).filter(|_| self.count > 0);
        if let Some(last) = last
            && let (before, next) = self.bytes[last..self.len + self.next].split_at(self.datagram)
            && replaces(before, next)
        {
            self.bytes.copy_within(self.len..self.len + self.next, last);
            (self.len, self.count) = (last, self.count - 1);
        }
        if self.count == 0 {
            self.datagram = self.next;
        }
        if self.next <= self.datagram {
            (self.len, self.count) = (self.len + self.next, self.count + 1);
            self.next = 0;
        }
    }

    /// Sends the message; gives whether the socket has taken it.
    fn send(&mut self, socket: &CoalescedSocket, to: &SocketAddr) -> io::Result<bool> {
        let taken = self.len == 0 || socket.send(&self.bytes[..self.len], self.datagram, to)?;
        if taken {
            self.bytes.copy_within(self.len..self.len + self.next, 0);
            (self.len, self.count) = (0, 0);
        }
        Ok(taken)
    }
}
