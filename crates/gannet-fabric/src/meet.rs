//! How two endpoints of a backend meet at a place that both know.

mod reception;

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

pub use self::reception::{Reception, Strangers};
use crate::endpoint::{Endpoint, Level, Peer};
use crate::exchange::{JoinError, Side};
use crate::local::{self, Listener};
use crate::ofi::provider::{Choice, ChooseError, Wanted, choose};
use crate::ofi::{self, Library, Ofi};
use crate::own::Limits;
use crate::shm::Shm;
use crate::tcp;
use crate::torus::{self, Torus, here};
use crate::trust::Trust;
use crate::udp::{self, Udp};

/// A place at which endpoints of one backend meet: one listens, others connect.
pub trait Meet: Clone + Send + 'static {
    /// One end.
    type Endpoint: Endpoint + Send + 'static;
    /// Who waits for others.
    type Listener: Send + Sync + 'static;
    /// Who has come, and has not said who it is.
    type Caller: Send + 'static;

    /// Listens at the place.
    ///
    /// # Errors
    /// When it is taken, or none that can be listened at.
    fn listen(&self) -> io::Result<Self::Listener>;

    /// The place as people write it, of one who listens.
    fn place(&self, listener: &Self::Listener) -> String;

    /// Waits for somebody to come, no longer than `wait`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when nobody comes.
    fn come(&self, listener: &Self::Listener, wait: Duration) -> io::Result<Self::Caller>;

    /// The socket of who has come, by which a meeting can be ended; none where a meeting never waits.
    fn socket<'a>(&self, caller: &'a Self::Caller) -> Option<BorrowedFd<'a>> {
        let _ = caller;
        None
    }

    /// Joins an endpoint of its own to who has come, within the deadline of the limits.
    ///
    /// # Errors
    /// When who has come may not join.
    fn join(
        &self,
        caller: Self::Caller,
        limits: &Limits,
        trust: &Trust,
    ) -> Result<(Self::Endpoint, Peer), JoinError>;

    /// Joins an endpoint of its own to the next that comes within `wait`. A [`Reception`] meets several at a time.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when nobody comes; else when who comes may not join.
    fn accept(
        &self,
        listener: &Self::Listener,
        wait: Duration,
        limits: &Limits,
        trust: &Trust,
    ) -> Result<(Self::Endpoint, Peer), JoinError> {
        self.join(self.come(listener, wait)?, limits, trust)
    }

    /// Joins an endpoint to the one that listens.
    ///
    /// # Errors
    /// When nobody listens, or does not let this one join.
    fn connect(&self, limits: &Limits, trust: &Trust) -> Result<(Self::Endpoint, Peer), JoinError>;

    /// Whether anybody listens.
    ///
    /// # Errors
    /// When that cannot be asked.
    fn is_listening(&self) -> io::Result<bool>;
}

/// What a failure to connect says about who listens.
fn answer<T>(connected: io::Result<T>) -> io::Result<bool> {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NotFound, TimedOut};
    match connected {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            ConnectionRefused | HostUnreachable | NotFound | TimedOut => Ok(false),
            _ => Err(error),
        },
    }
}

/// Meeting over shared memory, at the path of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverShm(pub PathBuf);

impl Meet for OverShm {
    type Endpoint = Shm;
    type Listener = Listener;
    type Caller = OwnedFd;

    /// A socket that a process has left behind, which was killed, is replaced; who listens there takes the
    /// question for somebody who did not join.
    fn listen(&self) -> io::Result<Listener> {
        let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        // Files of other kinds refuse as well.
        let is_socket = || self.0.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
        match Listener::bind(&self.0) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && is_socket()
                    && local::connected(&self.0).is_err_and(is_refused) =>
            {
                std::fs::remove_file(&self.0)?;
                Listener::bind(&self.0)
            }
            bound => bound,
        }
    }

    fn place(&self, _: &Listener) -> String {
        self.0.display().to_string()
    }

    fn come(&self, listener: &Listener, wait: Duration) -> io::Result<OwnedFd> {
        listener.accept(wait)
    }

    fn socket<'a>(&self, caller: &'a OwnedFd) -> Option<BorrowedFd<'a>> {
        Some(caller.as_fd())
    }

    fn join(
        &self,
        caller: OwnedFd,
        limits: &Limits,
        trust: &Trust,
    ) -> Result<(Shm, Peer), JoinError> {
        let mut endpoint = Shm::new(limits.clone());
        let peer = endpoint.join(caller, Side::Accepting, trust)?;
        Ok((endpoint, peer))
    }

    fn connect(&self, limits: &Limits, trust: &Trust) -> Result<(Shm, Peer), JoinError> {
        let mut endpoint = Shm::new(limits.clone());
        let peer = endpoint.connect(&self.0, trust)?;
        Ok((endpoint, peer))
    }

    fn is_listening(&self) -> io::Result<bool> {
        answer(local::connected(&self.0))
    }
}

/// Meeting over UDP, at the address of a TCP socket: a host, or its number, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverUdp(pub String);

/// Time within which a host says whether a port of it is taken.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

impl OverUdp {
    fn address(&self) -> io::Result<SocketAddr> {
        let nowhere = || io::Error::from(io::ErrorKind::AddrNotAvailable);
        self.0.to_socket_addrs()?.next().ok_or_else(nowhere)
    }

    /// An endpoint for one at `address`, or of it.
    fn endpoint(address: &SocketAddr, limits: &Limits) -> io::Result<Udp> {
        let any = match address {
            SocketAddr::V4(_) => "0.0.0.0:0",
            SocketAddr::V6(_) => "[::]:0",
        };
        Udp::bind(&any.parse().map_err(io::Error::other)?, limits.clone())
    }
}

impl Meet for OverUdp {
    type Endpoint = Udp;
    type Listener = tcp::Listener;
    type Caller = TcpStream;

    fn listen(&self) -> io::Result<tcp::Listener> {
        tcp::Listener::bind(self.address()?)
    }

    fn place(&self, listener: &tcp::Listener) -> String {
        listener.address().map_or_else(|_| self.0.clone(), |address| address.to_string())
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
    ) -> Result<(Udp, Peer), JoinError> {
        let address = caller.local_addr()?;
        let connection = tcp::answer(caller, trust, udp::BACKEND, limits.deadline)?;
        let mut endpoint = Self::endpoint(&address, limits)?;
        let peer = endpoint.join(connection)?;
        Ok((endpoint, peer))
    }

    fn connect(&self, limits: &Limits, trust: &Trust) -> Result<(Udp, Peer), JoinError> {
        let address = self.address()?;
        let mut endpoint = Self::endpoint(&address, limits)?;
        let peer = endpoint.connect(address, trust)?;
        Ok((endpoint, peer))
    }

    fn is_listening(&self) -> io::Result<bool> {
        answer(TcpStream::connect_timeout(&self.address()?, ANSWER_WITHIN))
    }
}

/// Meeting over a provider of libfabric, at the address of a TCP socket: a host, or its number, and a port.
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

    /// Whether there is a provider for endpoints of these limits on this host.
    ///
    /// # Errors
    /// What keeps it from being used.
    pub fn check(&self, limits: &Limits) -> Result<(), ChooseError> {
        self.endpoint(limits).map(drop)
    }

    fn endpoint(&self, limits: &Limits) -> Result<Ofi, ChooseError> {
        Ok(Ofi::new(self.choice()?, Level::Sent, limits.clone()))
    }
}

impl Meet for OverOfi {
    type Endpoint = Ofi;
    type Listener = tcp::Listener;
    type Caller = TcpStream;

    /// The provider is chosen now: that takes a second with some libraries, and who connects does not wait so long.
    fn listen(&self) -> io::Result<tcp::Listener> {
        self.choice().map_err(io::Error::other)?;
        tcp::Listener::bind(&self.place)
    }

    fn place(&self, listener: &tcp::Listener) -> String {
        listener.address().map_or_else(|_| self.place.clone(), |address| address.to_string())
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
    ) -> Result<(Ofi, Peer), JoinError> {
        let connection = tcp::answer(caller, trust, ofi::BACKEND, limits.deadline)?;
        let mut endpoint = self.endpoint(limits)?;
        let peer = endpoint.join(connection)?;
        Ok((endpoint, peer))
    }

    fn connect(&self, limits: &Limits, trust: &Trust) -> Result<(Ofi, Peer), JoinError> {
        let mut endpoint = self.endpoint(limits)?;
        let peer = endpoint.connect(&self.place, trust)?;
        Ok((endpoint, peer))
    }

    fn is_listening(&self) -> io::Result<bool> {
        OverUdp(self.place.clone()).is_listening()
    }
}

/// Meeting over a torus of hosts, at the address of a TCP socket: a host, or its number, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverTorus {
    /// The address.
    pub place: String,
    /// Socket of the node of this host for processes; that of the only node, or the one that the environment names
    /// ([`here::NODE_VARIABLE`]), without one.
    pub node: Option<PathBuf>,
}

impl OverTorus {
    /// Whether there is a node to use on this host.
    ///
    /// # Errors
    /// When there is none, or there are several and none is named.
    pub fn check(&self) -> io::Result<()> {
        let node = self.node()?;
        let nobody = |error| {
            // Of another kind: what is not there is no directory of the place to meet.
            io::Error::other(format!("no node of a torus listens at {}: {error}", node.display()))
        };
        local::connected(&node).map(drop).map_err(nobody)
    }

    fn node(&self) -> io::Result<PathBuf> {
        self.node.clone().map_or_else(|| here::node().map_err(io::Error::other), Ok)
    }

    fn endpoint(&self, limits: &Limits) -> io::Result<Torus> {
        Ok(Torus::new(self.node()?, limits.clone()))
    }

    fn udp(&self) -> OverUdp {
        OverUdp(self.place.clone())
    }
}

impl Meet for OverTorus {
    type Endpoint = Torus;
    type Listener = tcp::Listener;
    type Caller = TcpStream;

    /// Whether the node listens is found out now, and not by who comes.
    fn listen(&self) -> io::Result<tcp::Listener> {
        self.check()?;
        self.udp().listen()
    }

    fn place(&self, listener: &tcp::Listener) -> String {
        self.udp().place(listener)
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
    ) -> Result<(Torus, Peer), JoinError> {
        let connection = tcp::answer(caller, trust, torus::BACKEND, limits.deadline)?;
        let mut endpoint = self.endpoint(limits)?;
        let peer = endpoint.join(connection)?;
        Ok((endpoint, peer))
    }

    fn connect(&self, limits: &Limits, trust: &Trust) -> Result<(Torus, Peer), JoinError> {
        let mut endpoint = self.endpoint(limits)?;
        let peer = endpoint.connect(&self.place, trust)?;
        Ok((endpoint, peer))
    }

    fn is_listening(&self) -> io::Result<bool> {
        self.udp().is_listening()
    }
}
