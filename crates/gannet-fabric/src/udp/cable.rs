//! The cable between two endpoints: a connection for messages, and where datagrams go.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use gannet_ingest::udp::CoalescedSocket;
use gannet_wire::exchange::{Message, UdpAddress};
use gannet_wire::rdma::{DATA_LEN_MAX, HEADER_LEN};
use gannet_wire::record::Record;
use rustix::net::sockopt;
use rustix::rand::{GetRandomFlags, getrandom};

use super::outgoing::{NUMBER_LEN, Outgoing};
use crate::endpoint::Failure;
use crate::exchange::{JoinError, Side, hear_address, tell_address};
use crate::packet;
use crate::tcp::Connection;

/// Bits of a number that are the slot of its owner.
const SLOT_BITS: u32 = 16;
/// Bytes that a path has to carry in a datagram.
const DATA_MIN: usize = 512;

/// Slot of the endpoint that a datagram of this number is for.
pub(super) fn slot(number: u64) -> usize {
    (number & ((1 << SLOT_BITS) - 1)) as usize
}

/// What joins two endpoints.
#[derive(Debug)]
pub struct Cable {
    connection: Connection,
    /// Where its datagrams come from, and which number they begin with.
    address: SocketAddr,
    number: u64,
    pub(super) outgoing: Outgoing,
}

impl Cable {
    /// Agrees with the other side of a connection on a cable, and on the bytes of data in a packet.
    pub(super) fn agree(
        mut connection: Connection,
        slot: usize,
        port: u16,
        datagram_max: usize,
    ) -> Result<(Self, usize), JoinError> {
        let mut number = [0; 8];
        getrandom(&mut number, GetRandomFlags::empty()).map_err(io::Error::from)?;
        let number = u64::from_ne_bytes(number) << SLOT_BITS | slot as u64;
        let datagram_max = datagram_max as u32;
        let mut own = [0; UdpAddress::LEN];
        UdpAddress { port, datagram_max, number }.emit(&mut own);
        tell_address(&mut connection, &own)?;
        let theirs = hear_address(&mut connection)?;
        let theirs = UdpAddress::parse(&theirs).map_err(|_| JoinError::Address)?;
        let mut address = connection.peer()?;
        address.set_port(theirs.port);
        let datagram = path_datagram(&address)?.min(theirs.datagram_max as usize);
        let data_bytes = datagram.saturating_sub(NUMBER_LEN + HEADER_LEN).min(DATA_LEN_MAX);
        if data_bytes < DATA_MIN {
            return Err(JoinError::Address);
        }
        connection.stop_waiting()?;
        let outgoing = Outgoing::new(address, theirs.number);
        Ok((Self { connection, address, number, outgoing }, data_bytes))
    }

    /// Whether datagrams of this number and sender are its own.
    #[inline]
    pub(super) fn sends(&self, number: u64, sender: &SocketAddr) -> bool {
        let is_sender = (self.address.ip(), self.address.port()) == (sender.ip(), sender.port());
        self.number == number && is_sender
    }
}

impl packet::Cable for Cable {
    fn side(&self) -> Side {
        self.connection.side()
    }

    fn tell(&mut self, message: &Message, waiting_max: usize) -> Result<(), Failure> {
        self.connection.tell(message, waiting_max)
    }

    fn empty_outbox(&mut self) -> Result<(), Failure> {
        self.connection.empty_outbox()
    }

    fn hear(&mut self) -> Result<Option<Message>, Failure> {
        self.connection.hear()
    }
}

/// Longest datagram on the path to `to` that is not cut.
fn path_datagram(to: &SocketAddr) -> io::Result<usize> {
    let socket = match to {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?,
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?,
    };
    socket.connect(to)?;
    // Headers of IP and of UDP.
    let payload = match to {
        SocketAddr::V4(_) => sockopt::ip_mtu(&socket)?.saturating_sub(20 + 8),
        SocketAddr::V6(_) => sockopt::ipv6_mtu(&socket)?.saturating_sub(40 + 8),
    };
    Ok((payload as usize).min(CoalescedSocket::BYTES_MAX))
}
