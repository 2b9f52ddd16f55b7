//! A socket for who sends and receives bytes of its own, several datagrams at a time.

use std::io::{self, ErrorKind};
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use crate::sys::coalesced::{receive, receive_datagram, send};
use crate::sys::receive::MESSAGE_LEN_MAX;
use crate::sys::send;
use crate::sys::socket::Socket;

/// A UDP socket that passes datagrams of one length to and from the kernel as one message, and never waits.
#[derive(Debug)]
pub struct CoalescedSocket {
    socket: Socket,
    /// Whether the kernel cuts messages into datagrams.
    cuts: bool,
    /// Who alone is heard, if that was said.
    other: Option<Other>,
}

/// The only one that a socket hears.
#[derive(Debug)]
struct Other {
    address: SocketAddr,
    /// Has the address of the socket for all others, and drops what they send.
    refusing: Socket,
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
        Ok(Self { socket, cuts, other: None })
    }

    /// The same for who has nothing to say to anybody but `other`, and hears nobody else: what others send meets no answer, takes no memory,
    /// and is [counted](Self::refused). What goes to `other`, or comes from it, needs no way to be looked up each time.
    ///
    /// Where the system lets no second socket be there, this one is alone, and hears anybody.
    ///
    /// # Errors
    /// The same, or when `other` cannot be reached from there.
    pub fn bind_between(address: &SocketAddr, other: &SocketAddr) -> io::Result<Self> {
        let refusing = Socket::new(address)?;
        refusing.refuse_all()?;
        refusing.bind(address)?;
        let address = refusing.local_address()?;
        let socket = Socket::new(&address)?;
        // Until it has a target anybody would be heard.
        socket.refuse_all()?;
        // The one that is bound last is found first. No third one may be bound there before these two are, nor behind them.
        refusing.set_reusable(true)?;
        socket.set_reusable(true)?;
        let Self { socket, cuts, .. } = match Self::set_up(socket, &address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                drop(refusing);
                return Self::bind(&address);
            }
            made => made?,
        };
        refusing.set_reusable(false)?;
        socket.set_reusable(false)?;
        socket.connect(other)?;
        socket.accept_all()?;
        Ok(Self { socket, cuts, other: Some(Other { address: *other, refusing }) })
    }

    /// Messages of others than the one who alone is heard, modulo 2^32.
    pub fn refused(&self) -> u32 {
        let refusing = self.other.as_ref().map(|other| &other.refusing);
        // Kernels before 4.12 do not count them by socket.
        refusing.and_then(|socket| socket.queue().ok()).map_or(0, |queue| queue.drops)
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
        let is_other = self.other.as_ref().is_some_and(|other| other.address == *to);
        let to = (!is_other).then_some(to);
        let mut sent = send(&self.socket, message, datagram, to);
        use ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
        // A report on what was sent before, as that nobody has the port, or that it was too long.
        if sent.as_ref().is_err_and(|error| !matches!(error.kind(), WouldBlock | Interrupted)) {
            sent = send(&self.socket, message, datagram, to);
        }
        match sent {
            Ok(()) => Ok(true),
            Err(error) => match error.kind() {
                WouldBlock | Interrupted | ConnectionRefused => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Whether the kernel is to hand over several datagrams as one message, as it does from the beginning; gives whether it does so now. It goes on while
    /// a message waits that it may have made before: of how many datagrams that is, it tells only as long as it makes others.
    pub fn coalesce(&self, wanted: bool) -> bool {
        let set = |on| self.socket.set_coalescing(on).is_ok();
        if wanted { set(true) } else { set(false) && self.socket.has_waiting() && set(true) }
    }

    /// Receives the next message into `buffer`, if one is there.
    ///
    /// # Errors
    /// When the socket is broken.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Message>> {
        let other = self.other.as_ref().map(|other| other.address);
        let received = receive(&self.socket, buffer, other.is_none())?;
        let Some(received) = received else { return Ok(None) };
        let bytes = received.len;
        let datagram = received.segment.unwrap_or(bytes).clamp(1, bytes.max(1));
        let unknown = || io::Error::other("the sender has no IP address");
        let sender = other.or(received.sender).ok_or_else(unknown)?;
        Ok(Some(Message { bytes, datagram, sender }))
    }

    /// The same where messages are not coalesced: faster, if one alone is heard.
    ///
    /// # Errors
    /// When the socket is broken.
    pub fn receive_datagram(&self, buffer: &mut [u8]) -> io::Result<Option<Message>> {
        let Some(Other { address, .. }) = self.other else { return self.receive(buffer) };
        let datagram = receive_datagram(&self.socket, buffer)?;
        Ok(datagram.map(|bytes| Message { bytes, datagram: bytes.max(1), sender: address }))
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

    #[test]
    fn who_hears_one_alone_refuses_and_counts_all_others() {
        let bind = || CoalescedSocket::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let stranger = bind();
        // Nobody else takes a port here while it is free.
        let there = CoalescedSocket::bind(&"127.77.77.77:0".parse().unwrap()).unwrap();
        let other = there.address().unwrap();
        let here = CoalescedSocket::bind_between(&"127.0.0.1:0".parse().unwrap(), &other).unwrap();
        let address = here.address().unwrap();
        let mut room = vec![0; CoalescedSocket::ROOM];
        for number in 0..5 {
            assert!(stranger.send(&[9; 100], 100, &address).unwrap());
            assert!(there.send(&[number; 100], 100, &address).unwrap());
            let message = std::iter::repeat_with(|| here.receive(&mut room).unwrap());
            assert_eq!(message.flatten().next().unwrap().sender, other);
            assert_eq!(room[0], number);
        }
        while here.refused() < 5 {}
        assert_eq!(here.refused(), 5);
        let taken = CoalescedSocket::bind(&address).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        // That nobody is there keeps nothing from being sent.
        drop(there);
        for _ in 0..3 {
            assert!(here.send(&[1; 8], 8, &other).unwrap());
        }
        let there = CoalescedSocket::bind(&other).unwrap();
        assert!(here.send(&[2; 8], 8, &other).unwrap());
        let message = std::iter::repeat_with(|| there.receive(&mut room).unwrap());
        assert_eq!(message.flatten().next().unwrap().sender, address);
        // Others can still be written to.
        assert!(here.send(&[3; 8], 8, &stranger.address().unwrap()).unwrap());
        let message = std::iter::repeat_with(|| stranger.receive(&mut room).unwrap());
        assert_eq!(message.flatten().next().unwrap().bytes, 8);
    }
}
