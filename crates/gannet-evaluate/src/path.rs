//! Where the sockets of an experiment are: all on loopback, or one host behind the other in network namespaces.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{self, Command};
use std::thread;

use gannet_torus_live::udp::UdpPort;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::Serialize;

use crate::sys::namespace::leave_network;

/// Headers of IPv4 and UDP.
const HEADERS: usize = 20 + 8;

/// What joins the hosts of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// All are one host, and its loopback interface joins it with itself.
    Loopback,
    /// Each has a network namespace of its own, and a virtual cable (veth) joins it with the next one. Takes the rights of root.
    Namespaces,
}

/// Hosts in a row, and a cable from each to the next one.
pub(crate) struct Path {
    hosts: Vec<Host>,
    /// Addresses of the two ends of each cable.
    cables: Vec<[IpAddr; 2]>,
}

enum Host {
    Here,
    /// In this namespace, which lasts as long as it is open.
    Namespace(File),
}

impl Path {
    /// Hosts for so many cables, which carry datagrams of `datagram_bytes` whole.
    pub fn lay(medium: Medium, cables: usize, datagram_bytes: usize) -> io::Result<Self> {
        match medium {
            Medium::Loopback => Ok(Self::loopback(cables)),
            Medium::Namespaces => Self::namespaces(cables, datagram_bytes + HEADERS),
        }
    }

    /// All on one host.
    pub fn loopback(cables: usize) -> Self {
        Self {
            hosts: (0..=cables).map(|_| Host::Here).collect(),
            cables: vec![[Ipv4Addr::LOCALHOST.into(); 2]; cables],
        }
    }

    fn namespaces(cables: usize, mtu: usize) -> io::Result<Self> {
        let namespaces = (0..=cables).map(|_| namespace()).collect::<io::Result<Vec<_>>>()?;
        // What `ip` knows them by.
        let name = |it: &File| format!("/proc/{}/fd/{}", process::id(), it.as_raw_fd());
        let names = namespaces.iter().map(name).collect::<Vec<_>>();
        let hosts = namespaces.into_iter().map(Host::Namespace).collect();
        // Addresses for measurements, RFC 2544.
        let ends = |cable| [1, 2].map(|end| Ipv4Addr::new(198, 18, cable, end).into());
        let path = Self { hosts, cables: (0..cables as u8).map(ends).collect() };
        for cable in 0..cables {
            let [near, far] = path.ends(cable);
            let there = &names[far.host];
            path.at(near.host, || {
                ip(&format!("link add far type veth peer name near netns {there}"))
            })?;
            for (end, device) in [(near, "far"), (far, "near")] {
                path.at(end.host, || {
                    ip(&format!("address add {}/30 dev {device}", end.address))?;
                    ip(&format!("link set {device} mtu {mtu} up"))
                })?;
            }
        }
        Ok(path)
    }

    /// How many cables it has.
    pub fn cables(&self) -> usize {
        self.cables.len()
    }

    fn ends(&self, cable: usize) -> [End; 2] {
        let [near, far] = self.cables[cable];
        [End { host: cable, address: near }, End { host: cable + 1, address: far }]
    }

    /// The address of a socket of this port as the other end of the cable sees it that leads to the host before, or else to the next one.
    pub fn address(&self, host: usize, is_before: bool, port: u16) -> SocketAddr {
        let address = if is_before { self.cables[host - 1][1] } else { self.cables[host][0] };
        SocketAddr::new(address, port)
    }

    /// Where a socket of the host is bound that all of its cables reach.
    pub fn any_address(&self, host: usize) -> SocketAddr {
        let address = match self.hosts[host] {
            Host::Here => Ipv4Addr::LOCALHOST,
            Host::Namespace(_) => Ipv4Addr::UNSPECIFIED,
        };
        (address, 0).into()
    }

    /// What `open` gives on a host. What it opens stays there.
    pub fn at<T: Send>(
        &self,
        host: usize,
        open: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let Host::Namespace(namespace) = &self.hosts[host] else { return open() };
        let enter_and_open = || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            open()
        };
        in_thread(enter_and_open)
    }

    /// The two ends of a cable of the torus, with frames of at most `frame_bytes`.
    pub fn ports(&self, cable: usize, frame_bytes: usize) -> io::Result<[UdpPort; 2]> {
        let mut opened = self.open_ports(cable);
        for _ in 0..10 {
            // Others may take an address before it is opened.
            if opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) {
                opened = self.open_ports(cable);
            }
        }
        Ok(opened?.map(|port| port.with_frames_of(frame_bytes)))
    }

    fn open_ports(&self, cable: usize) -> io::Result<[UdpPort; 2]> {
        let ends = self.ends(cable);
        // Both are held until both are known, so that they differ.
        let [near, far] = ends.map(|end| self.at(end.host, || UdpSocket::bind((end.address, 0))));
        let (near, far) = (near?, far?);
        let [a, b] = [near.local_addr()?, far.local_addr()?];
        drop((near, far));
        let near = self.at(ends[0].host, || UdpPort::open(a, b))?;
        let far = self.at(ends[1].host, || UdpPort::open(b, a))?;
        Ok([near, far])
    }
}

/// An end of a cable.
#[derive(Clone, Copy)]
struct End {
    host: usize,
    address: IpAddr,
}

/// A network namespace of its own for a host, with nothing in it.
fn namespace() -> io::Result<File> {
    let make = || {
        leave_network()?;
        File::open("/proc/thread-self/ns/net")
    };
    in_thread(make).map_err(|error| {
        let what =
            format!("no network namespace can be made, which takes the rights of root: {error}");
        io::Error::new(error.kind(), what)
    })
}

/// What `work` gives on a thread that ends with it.
fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let ended = |_| Err(io::Error::other("the thread ended"));
    thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(ended))
}

/// Lets `ip` do what its arguments say.
fn ip(arguments: &str) -> io::Result<()> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output
        .map_err(|error| io::Error::new(error.kind(), format!("`ip` of iproute2: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("`ip {arguments}`: {}", said.trim())))
}
