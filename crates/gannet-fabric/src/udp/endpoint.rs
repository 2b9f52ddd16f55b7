//! The endpoint, and how it meets others.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::cable::Cable;
use super::socket::Socket;
use crate::endpoint::Peer;
use crate::exchange::JoinError;
use crate::own::Limits;
use crate::packet::PacketEndpoint;
use crate::tcp::{Connection, Joins};
use crate::windows::Keys;

/// An endpoint over UDP.
pub type Udp = PacketEndpoint<Socket>;

impl Udp {
    /// An endpoint that is joined to nobody, with a socket at `address`; port 0 lets the system choose one.
    ///
    /// # Errors
    /// When the address is not of this host, or taken.
    ///
    /// # Panics
    /// When a limit is 0 or more than 65536 peers, or the number of events is not a power of two from 2 to
    /// 2^20.
    pub fn bind(address: &SocketAddr, limits: Limits) -> io::Result<Self> {
        assert!(limits.peers <= 1 << 16, "more peers than a datagram can name");
        Ok(Self::over(Socket::bind(address)?, limits, Keys::System))
    }

    /// Where its socket is.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.port.address()
    }
}

impl Joins for Udp {
    const BACKEND: u32 = 2;

    fn deadline(&self) -> Duration {
        self.own.limits.deadline
    }

    // When it does not tell how to reach it, or cannot be reached.
    fn join(&mut self, connection: Connection) -> Result<Peer, JoinError> {
        self.join_by(|endpoint, slot| {
            let port = endpoint.address()?.port();
            Cable::agree(connection, slot, port, endpoint.port.datagram_max)
        })
    }
}
