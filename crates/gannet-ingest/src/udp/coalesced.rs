//! A socket for who sends and receives bytes of its own, several datagrams at a time.

use std::io::{self, ErrorKind};
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use crate::sys::coalesced::{receive, send};
use crate::sys::receive::MESSAGE_LEN_MAX;
use crate::sys::send;
use crate::sys::socket::Socket;

/// A UDP socket that passes datagrams of one length to and from the kernel as one message, and never waits.
#[derive(Debug)]
pub struct CoalescedSocket {
    socket: Socket,
    /// Whether the kernel cuts messages into datagrams.
    cuts: bool,
}

/// A message that was received: datagrams of one length one behind the other, the last perhaps shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Bytes in all.
    pub bytes: usize,
    /// Bytes of each datagram but the last, at least 1.
    pub datagram: usize,
    /// Who has sent it.
    pub sender: SocketAddr,
}

impl CoalescedSocket {
    /// Most bytes of a datagram, and of all that are sent at once: the longest UDP payload over IPv4.
    pub const BYTES_MAX: usize = send::MESSAGE_LEN_MAX;
    /// Most datagrams sent at once.
    pub const DATAGRAMS_MAX: usize = send::SEGMENTS_MAX;
    /// Bytes for a message that is received, however long it is.
    pub const ROOM: usize = MESSAGE_LEN_MAX;

    /// A socket at `address`, coalesced as far as the kernel can.
    ///
    /// # Errors
    /// When the address is not of this host, or taken.
    pub fn bind(address: &SocketAddr) -> io::Result<Self> {
        Self::set_up(Socket::new(address)?, address)
    }

    /// The same at all IPv6 addresses that `interface` has, or will have, and for what comes by it alone.
    ///
    /// # Errors
    /// When there is no such interface, or the port is taken there.
    pub fn bind_at(interface: &str, port: u16) -> io::Result<Self> {
        let address = (Ipv6Addr::UNSPECIFIED, port).into();
        let socket = Socket::new(&address)?;
        socket.confine(interface)?;
        Self::set_up(socket, &address)
    }

    fn set_up(socket: Socket, address: &SocketAddr) -> io::Result<Self> {
        // Kernels before 4.18 and 5.0 do without.
        let cuts = socket.set_segment_len(0).is_ok();
        let _ = socket.set_coalescing(true);
        socket.bind(address)?;
        Ok(Self { socket, cuts })
    }

    /// Where it is.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()
    }

    /// Asks for `bytes` of memory for messages that wait to be taken, and as many for those on their way out;
    /// gives what was obtained for the former.
    ///
    /// # Errors
    /// When the system refuses any.
    pub fn set_buffers(&self, bytes: u64) -> io::Result<u64> {
        self.socket.set_send_buffer(bytes)?;
        self.socket.set_receive_buffer(bytes)
    }

    /// What becomes readable when a message comes.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.descriptor()
    }

    /// Most datagrams that [`send`](Self::send) takes at once here.
    pub fn datagrams_max(&self) -> usize {
        if self.cuts { Self::DATAGRAMS_MAX } else { 1 }
    }

    /// Sends `message` as datagrams of `datagram` bytes, the last perhaps shorter; gives whether the kernel
    /// has taken it, which it has not while its memory is full.
    ///
    /// # Errors
    /// When the kernel will not send it.
    pub fn send(&self, message: &[u8], datagram: usize, to: &SocketAddr) -> io::Result<bool> {
        match send(&self.socket, message, datagram, to) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            // A report that somebody's port is closed, which came before this.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Receives the next message into `buffer`, if one is there.
    ///
    /// # Errors
    /// When the socket is broken.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Message>> {
        let Some(received) = receive(&self.socket, buffer)? else { return Ok(None) };
        let bytes = received.len;
        let datagram = received.segment.unwrap_or(bytes).clamp(1, bytes.max(1));
        let unknown = || io::Error::other("the sender has no IP address");
        Ok(Some(Message { bytes, datagram, sender: received.sender.ok_or_else(unknown)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_arrive_as_they_were_cut() {
        let bind = || CoalescedSocket::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let (here, there) = (bind(), bind());
        let (from, to) = (here.address().unwrap(), there.address().unwrap());
        let bytes: Vec<u8> = (0..10_050).map(|at| (at / 100) as u8).collect();
        if here.datagrams_max() == 1 {
            let why = "the kernel does not cut messages";
            return gannet_measure::testing::skipped("datagrams that go as one message", why);
        }
        // 50 of 100 bytes twice, and half of one.
        assert!(here.send(&bytes[..5000], 100, &to).unwrap());
        assert!(here.send(&bytes[5000..], 100, &to).unwrap());
        let (mut got, mut room) = (Vec::new(), vec![0; CoalescedSocket::ROOM]);
        while got.len() < 101 {
            let Some(message) = there.receive(&mut room).unwrap() else { continue };
            assert_eq!(message.sender, from);
            got.extend(room[..message.bytes].chunks(message.datagram).map(<[u8]>::to_vec));
        }
        assert_eq!(got, bytes.chunks(100).map(<[u8]>::to_vec).collect::<Vec<_>>());
        assert_eq!(there.receive(&mut room).unwrap(), None);
        assert!(here.send(b"", 0, &to).unwrap());
        let empty = there.receive(&mut room).unwrap().unwrap();
        assert_eq!((empty.bytes, empty.datagram), (0, 1));
    }
}
