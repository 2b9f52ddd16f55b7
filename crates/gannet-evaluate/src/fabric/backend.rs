//! The backends that can be measured.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use gannet_fabric::ofi::provider::{ChooseError, Wanted, choose};
use gannet_fabric::ofi::{Library, Ofi};
use gannet_fabric::shm::{self, Shm};
use gannet_fabric::udp::Udp;
use gannet_fabric::{Endpoint, JoinError, Level, Limits, Peer, Trust, tcp};
use serde::{Deserialize, Serialize};

use super::Error;

/// Time within which somebody has to connect.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);

/// What carries the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Memory that two processes share.
    Shm,
    /// Sockets of any two hosts.
    Udp,
    /// A provider of libfabric.
    Ofi,
    /// A path that is described, in virtual time.
    Sim,
}

impl Backend {
    /// Whether processes need a secret to meet.
    pub fn needs_secret(self) -> bool {
        matches!(self, Self::Udp | Self::Ofi)
    }
}

/// How endpoints of a backend meet.
pub(super) trait Meet {
    /// One end.
    type Endpoint: Endpoint;

    /// A place of this host at which another process can listen.
    fn place(&self) -> io::Result<String>;

    /// What carries an endpoint, where the backend has a choice.
    fn provider(&self, _endpoint: &Self::Endpoint) -> Option<String> {
        None
    }

    /// Removes what may be left at a place.
    fn clear(&self, _place: &str) {}

    /// Joins the endpoint that listens at a place.
    fn connect(&self, place: &str, trust: &Trust) -> Result<(Self::Endpoint, Peer), JoinError>;

    /// Listens at a place until an endpoint was joined.
    fn accept(&self, place: &str, trust: &Trust) -> Result<(Self::Endpoint, Peer), Error>;

    /// Bytes of data in a packet between endpoints that are joined, if there are packets.
    fn packet_bytes(&self, _endpoint: &mut Self::Endpoint, _peer: Peer) -> Option<usize> {
        None
    }
}

pub(super) fn limits() -> Limits {
    Limits { deadline: Duration::from_secs(5), ..Limits::default() }
}

/// Asks for an endpoint until one has come.
fn wait(mut accept: impl FnMut() -> Result<Peer, JoinError>) -> Result<Peer, Error> {
    let begin = Instant::now();
    loop {
        match accept() {
            Ok(peer) => return Ok(peer),
            Err(JoinError::System(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                if begin.elapsed() > CONNECT_WITHIN {
                    return Err(Error::Nobody(CONNECT_WITHIN));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Meeting over shared memory, at the path of a socket.
pub(super) struct OverShm;

impl Meet for OverShm {
    type Endpoint = Shm;

    fn place(&self) -> io::Result<String> {
        let name = format!("gannet-bench-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        path.into_os_string().into_string().map_err(|_| io::ErrorKind::InvalidFilename.into())
    }

    fn clear(&self, place: &str) {
        let _ = std::fs::remove_file(place);
    }

    fn connect(&self, place: &str, trust: &Trust) -> Result<(Shm, Peer), JoinError> {
        let mut endpoint = Shm::new(limits());
        let peer = endpoint.connect(Path::new(place), trust)?;
        Ok((endpoint, peer))
    }

    fn accept(&self, place: &str, trust: &Trust) -> Result<(Shm, Peer), Error> {
        let listener = shm::Listener::bind(Path::new(place)).map_err(Error::listen(place))?;
        let mut endpoint = Shm::new(limits());
        let peer = wait(|| endpoint.accept(&listener, trust))?;
        Ok((endpoint, peer))
    }
}

/// An address of loopback that is free now, and not given to the next one that asks for any.
fn free_place() -> io::Result<String> {
    let listener = tcp::Listener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.address()?.to_string())
}

/// Meeting over UDP, at the address of a TCP socket.
pub(super) struct OverUdp;

impl OverUdp {
    /// An endpoint for one at `address`, or of it.
    fn endpoint(address: &SocketAddr) -> io::Result<Udp> {
        let any = match address {
            SocketAddr::V4(_) => "0.0.0.0:0",
            SocketAddr::V6(_) => "[::]:0",
        };
        Udp::bind(&any.parse().map_err(io::Error::other)?, limits())
    }

    fn address(place: &str) -> io::Result<SocketAddr> {
        let nowhere = || io::Error::from(io::ErrorKind::AddrNotAvailable);
        place.to_socket_addrs()?.next().ok_or_else(nowhere)
    }
}

impl Meet for OverUdp {
    type Endpoint = Udp;

    fn packet_bytes(&self, endpoint: &mut Udp, peer: Peer) -> Option<usize> {
        endpoint.packet_bytes(peer)
    }

    fn place(&self) -> io::Result<String> {
        free_place()
    }

    fn connect(&self, place: &str, trust: &Trust) -> Result<(Udp, Peer), JoinError> {
        let address = Self::address(place)?;
        let mut endpoint = Self::endpoint(&address)?;
        let peer = endpoint.connect(address, trust)?;
        Ok((endpoint, peer))
    }

    fn accept(&self, place: &str, trust: &Trust) -> Result<(Udp, Peer), Error> {
        let bind = || {
            let address = Self::address(place)?;
            Ok((tcp::Listener::bind(address)?, Self::endpoint(&address)?))
        };
        let (listener, mut endpoint) = bind().map_err(Error::listen(place))?;
        let peer = wait(|| endpoint.accept(&listener, trust))?;
        Ok((endpoint, peer))
    }
}

/// Meeting over a provider of libfabric, at the address of a TCP socket.
pub(super) struct OverOfi {
    /// Its name; the best one that can be used without one.
    pub provider: Option<String>,
}

impl OverOfi {
    /// An endpoint whose operations are done when they are sent, as those of a bare loop are.
    fn endpoint(&self) -> Result<Ofi, ChooseError> {
        let wanted = Wanted { provider: self.provider.clone(), address: None };
        let choice = choose(&Library::open()?, &wanted)?;
        Ok(Ofi::new(choice, Level::Sent, limits()))
    }
}

impl Meet for OverOfi {
    type Endpoint = Ofi;

    fn place(&self) -> io::Result<String> {
        free_place()
    }

    fn provider(&self, endpoint: &Ofi) -> Option<String> {
        Some(endpoint.provider().info.provider())
    }

    fn connect(&self, place: &str, trust: &Trust) -> Result<(Ofi, Peer), JoinError> {
        let mut endpoint = self.endpoint()?;
        let peer = endpoint.connect(place, trust)?;
        Ok((endpoint, peer))
    }

    fn accept(&self, place: &str, trust: &Trust) -> Result<(Ofi, Peer), Error> {
        let listener = tcp::Listener::bind(place).map_err(Error::listen(place))?;
        let mut endpoint = self.endpoint()?;
        let peer = wait(|| endpoint.accept(&listener, trust))?;
        Ok((endpoint, peer))
    }
}
