//! The backends that can be measured.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use gannet_fabric::meet::Reception;
use gannet_fabric::ofi::Ofi;
use gannet_fabric::udp::Udp;
use gannet_fabric::{Limits, Meet, OverOfi, OverShm, OverTorus, OverUdp, Peer, Trust, tcp};
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
    /// A live torus, by the nodes of its hosts.
    Torus,
    /// A path that is described, in virtual time.
    Sim,
}

impl Backend {
    /// Whether processes need a secret to meet.
    pub fn needs_secret(self) -> bool {
        matches!(self, Self::Udp | Self::Ofi | Self::Torus)
    }
}

/// A place of a backend at which what is measured meets.
pub(super) trait Measured: Meet {
    /// A place of this host at which another process can listen.
    fn free() -> io::Result<String>;

    /// What carries an endpoint, where the backend has a choice.
    fn provider(_endpoint: &Self::Endpoint) -> Option<String> {
        None
    }

    /// Bytes of data in a packet between endpoints that are joined, if there are packets.
    fn packet_bytes(_endpoint: &mut Self::Endpoint, _peer: Peer) -> Option<usize> {
        None
    }

    /// Removes what a process that was ended may have left.
    fn clear(&self) {}

    /// Listens until an endpoint was joined. Strangers are turned away, and logged; nobody is served
    /// beside the one, and the place can be used again.
    fn accept_one(&self, place: &str, trust: &Trust) -> Result<(Self::Endpoint, Peer), Error> {
        let listener = self.listen().map_err(Error::listen(place))?;
        let mut reception = Reception::new(self.clone(), limits(), trust.clone());
        reception.next(&listener, CONNECT_WITHIN).ok_or(Error::Nobody(CONNECT_WITHIN))
    }
}

pub(super) fn limits() -> Limits {
    Limits { deadline: Duration::from_secs(5), ..Limits::default() }
}

/// An address of loopback that is free now, and not given to the next one that asks for any.
fn free_address() -> io::Result<String> {
    let listener = tcp::Listener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.address()?.to_string())
}

impl Measured for OverShm {
    fn free() -> io::Result<String> {
        let name = format!("gannet-bench-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        path.into_os_string().into_string().map_err(|_| io::ErrorKind::InvalidFilename.into())
    }

    fn clear(&self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Measured for OverUdp {
    fn free() -> io::Result<String> {
        free_address()
    }

    fn packet_bytes(endpoint: &mut Udp, peer: Peer) -> Option<usize> {
        endpoint.packet_bytes(peer)
    }
}

impl Measured for OverOfi {
    fn free() -> io::Result<String> {
        free_address()
    }

    fn provider(endpoint: &Ofi) -> Option<String> {
        Some(endpoint.provider().info.provider())
    }
}

impl Measured for OverTorus {
    fn free() -> io::Result<String> {
        free_address()
    }
}
