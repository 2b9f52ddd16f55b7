//! Meeting at the address of a TCP socket.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use super::{Meet, answer};
use crate::endpoint::{Endpoint, Level, Peer};
use crate::exchange::JoinError;
use crate::local;
use crate::ofi::provider::{Choice, ChooseError, Wanted, choose};
use crate::ofi::{Library, Ofi};
use crate::own::Limits;
use crate::tcp::{self, Joins};
use crate::torus::{Torus, here};
use crate::trust::Trust;
use crate::udp::Udp;

/// Time within which a host says whether a port of it is taken.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// An address at which endpoints of a backend meet by TCP: a host, or its number, and a port.
pub trait Address: Clone + Send + 'static {
    /// One end.
    type Endpoint: Endpoint + Joins + Send + 'static;

    /// The address.
    fn address(&self) -> &str;

    /// Finds out, and does, what an endpoint needs of this host before the other one waits for it.
    ///
    /// # Errors
    /// When it is not there.
    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    /// An endpoint that is joined to nobody, of a host that is met at `local`.
    ///
    /// # Errors
    /// When the system has none.
    fn endpoint(&self, local: SocketAddr, limits: &Limits) -> Result<Self::Endpoint, JoinError>;
}

impl<A: Address> Meet for A {
    type Endpoint = A::Endpoint;
    type Listener = tcp::Listener;
    type Caller = TcpStream;

    fn listen(&self) -> io::Result<tcp::Listener> {
        self.prepare()?;
        tcp::Listener::bind(self.address())
    }

    fn place(&self, listener: &tcp::Listener) -> String {
        listener.address().map_or_else(|_| self.address().to_owned(), |address| address.to_string())
    }

    fn come(&self, listener: &tcp::Listener, wait: Duration) -> io::Result<TcpStream> {
        listener.come(wait)
    }

    fn socket<'a>(&self, caller: &'a TcpStream) -> Option<BorrowedFd<'a>> {
        Some(caller.as_fd())
    }

    fn join(
        &self,
        caller: TcpStream,
        limits: &Limits,
        trust: &Trust,
    ) -> Result<(A::Endpoint, Peer), JoinError> {
        let local = caller.local_addr()?;
        let connection = tcp::answer(caller, trust, A::Endpoint::BACKEND, limits.deadline)?;
        let mut endpoint = self.endpoint(local, limits)?;
        let peer = endpoint.join(connection)?;
        Ok((endpoint, peer))
    }

    fn connect(&self, limits: &Limits, trust: &Trust) -> Result<(A::Endpoint, Peer), JoinError> {
        self.prepare()?;
        let connection =
            tcp::connect(self.address(), trust, A::Endpoint::BACKEND, limits.deadline)?;
        let mut endpoint = self.endpoint(connection.local()?, limits)?;
        let peer = endpoint.join(connection)?;
        Ok((endpoint, peer))
    }

    fn is_listening(&self) -> io::Result<bool> {
        let mut addresses = self.address().to_socket_addrs()?;
        let first = addresses.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        answer(TcpStream::connect_timeout(&first, ANSWER_WITHIN))
    }
}

/// Meeting over UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverUdp(pub String);

impl Address for OverUdp {
    type Endpoint = Udp;

    fn address(&self) -> &str {
        &self.0
    }

    /// It sends from the address by which the other one knows this host, which may have several.
    fn endpoint(&self, mut local: SocketAddr, limits: &Limits) -> Result<Udp, JoinError> {
        local.set_port(0);
        Ok(Udp::bind(&local, limits.clone())?)
    }
}

/// Meeting over a provider of libfabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverOfi {
    /// The address.
    pub place: String,
    /// Name of the provider; the best one that can be used without one.
    pub provider: Option<String>,
}

impl OverOfi {
    fn choice(&self) -> Result<Choice, ChooseError> {
        let wanted = Wanted { provider: self.provider.clone(), address: None };
        choose(&Library::open()?, &wanted)
    }
}

impl Address for OverOfi {
    type Endpoint = Ofi;

    fn address(&self) -> &str {
        &self.place
    }

    /// The provider is chosen now: that takes a second with some libraries, and who connects does not wait so long.
    fn prepare(&self) -> io::Result<()> {
        self.choice().map(drop).map_err(io::Error::other)
    }

    fn endpoint(&self, _: SocketAddr, limits: &Limits) -> Result<Ofi, JoinError> {
        Ok(Ofi::new(self.choice()?, Level::Sent, limits.clone()))
    }
}

/// Meeting over a torus of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverTorus {
    /// The address.
    pub place: String,
    /// Socket of the node of this host for processes; that of the only node, or the one that the environment names
    /// ([`here::NODE_VARIABLE`]), without one.
    pub node: Option<PathBuf>,
}

impl OverTorus {
    fn node(&self) -> io::Result<PathBuf> {
        self.node.clone().map_or_else(|| here::node().map_err(io::Error::other), Ok)
    }
}

impl Address for OverTorus {
    type Endpoint = Torus;

    fn address(&self) -> &str {
        &self.place
    }

    /// Whether a node of this host listens is found out now, and not by who comes.
    fn prepare(&self) -> io::Result<()> {
        let node = self.node()?;
        let nobody = |error| {
            // Of another kind: what is not there is no directory of the place to meet.
            io::Error::other(format!("no node of a torus listens at {}: {error}", node.display()))
        };
        local::connected(&node).map(drop).map_err(nobody)
    }

    fn endpoint(&self, _: SocketAddr, limits: &Limits) -> Result<Torus, JoinError> {
        Ok(Torus::new(self.node()?, limits.clone()))
    }
}
