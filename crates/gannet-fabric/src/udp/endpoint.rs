//! The endpoint, and how it meets others.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use super::cable::Cable;
use super::socket::Socket;
use crate::endpoint::Peer;
use crate::exchange::JoinError;
use crate::own::Limits;
use crate::packet::PacketEndpoint;
use crate::tcp::{self, Connection, Listener};
use crate::trust::Trust;
use crate::windows::Keys;

/// Number of this backend in a hello.
pub(crate) const BACKEND: u32 = 2;

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

    /// Waits for an endpoint at a listener, and joins it.
    ///
    /// # Errors
    /// When none comes in time, or it may not join.
    pub fn accept(&mut self, listener: &Listener, trust: &Trust) -> Result<Peer, JoinError> {
        let connection = listener.accept(trust, BACKEND, self.own.limits.deadline)?;
        self.join(connection)
    }

    /// Joins the endpoint that listens at `address`.
    ///
    /// # Errors
    /// When nobody listens there, or does not let this one join.
    pub fn connect(
        &mut self,
        address: impl ToSocketAddrs,
        trust: &Trust,
    ) -> Result<Peer, JoinError> {
        let connection = tcp::connect(address, trust, BACKEND, self.own.limits.deadline)?;
        self.join(connection)
    }

    /// Joins the endpoint at the other end of a connection.
    ///
    /// # Errors
    /// When it does not tell how to reach it, or cannot be reached.
    pub fn join(&mut self, connection: Connection) -> Result<Peer, JoinError> {
        self.join_by(|endpoint, slot| {
            let port = endpoint.address()?.port();
            Cable::agree(connection, slot, port, endpoint.port.datagram_max)
        })
    }
}
