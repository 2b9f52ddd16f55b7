//! The other end of a cable at an interface of this host, which is found and not told.

use std::fs;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

use gannet_ingest::interface_state;
use gannet_ingest::udp::CoalescedSocket;
use gannet_wire::neighbour::{is_call, is_message};
use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt;

/// UDP port at both ends of a cable between interfaces.
pub const PORT: u16 = 4700;
/// Group of the link to which an end calls: `gannet` in ASCII behind the prefix of groups that nobody has assigned.
pub const GROUP: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0x6761, 0x6e6e, 0x6574);

/// Why an interface is no end of a cable, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// There is none of this name.
    #[error("there is no such interface; `ip link` lists those of this host")]
    NoSuch,
    /// Its other end is this host.
    #[error(
        "this interface leads back to this host and is no cable; nodes of one host are joined by addresses, such as \
         127.0.0.1:4701=127.0.0.1:4702"
    )]
    Loopback,
    /// It was not set up.
    #[error("the interface is down; set it up by `ip link set {0} up`")]
    Down(String),
    /// It has no IPv6.
    #[error(
        "IPv6 is off there, over which the other end is found; `sysctl net.ipv6.conf.{0}.disable_ipv6=0` lets the \
         kernel give it a link-local address, which is all that is needed"
    )]
    NoIpv6(String),
    /// Another socket has the port.
    #[error("UDP port {PORT} is taken there; is another node of a torus at this interface?")]
    Taken,
    /// What the system said else.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// What a socket at an interface needs to know of it.
pub(super) struct Interface {
    pub(super) socket: CoalescedSocket,
    pub(super) index: u32,
    /// Longest IPv6 packet, bytes.
    pub(super) mtu: usize,
}

impl Interface {
    pub(super) fn open(name: &str) -> Result<Self, InterfaceError> {
        let state = interface_state(name).ok_or(InterfaceError::NoSuch)?;
        if state.is_loopback {
            return Err(InterfaceError::Loopback);
        }
        if !state.is_up {
            return Err(InterfaceError::Down(name.into()));
        }
        let setting =
            |what: &str| fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/{what}"));
        let mtu = setting("mtu").ok().and_then(|text| text.trim().parse().ok());
        let is_off = setting("disable_ipv6").map_or(true, |text| text.trim() != "0");
        let mtu = mtu.filter(|_| !is_off).ok_or_else(|| InterfaceError::NoIpv6(name.into()))?;
        let socket = CoalescedSocket::bind_at(name, PORT).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => InterfaceError::Taken,
            _ => InterfaceError::System(error),
        })?;
        let index = name_to_index(socket.descriptor(), name).map_err(io::Error::from)?;
        let wanted = |result: rustix::io::Result<()>| result.map_err(io::Error::from);
        wanted(sockopt::set_ipv6_add_membership(socket.descriptor(), &GROUP, index))?;
        // A call is for the other end, and not for who else is at this one.
        wanted(sockopt::set_ipv6_multicast_loop(socket.descriptor(), false))?;
        Ok(Self { socket, index, mtu })
    }
}

/// Whose a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// Perhaps of the other end.
    OtherEnd,
    /// Of somebody else on the link, who calls: that is to be told.
    Third,
    /// Of somebody of whom nothing is taken.
    Nobody,
}

/// Who is at the other end: whoever has proved it, until it has been silent for some time. Then whoever is on the link is heard, and
/// spoken to, until one has proved it again.
#[derive(Debug)]
pub(super) struct Meeting {
    interface: String,
    index: u32,
    silence: Duration,
    met: Option<(SocketAddr, Instant)>,
    /// Who has sent what was taken last, if that is another one.
    candidate: Option<SocketAddr>,
}

impl Meeting {
    pub(super) fn new(interface: &str, index: u32, silence: Duration) -> Self {
        Self { interface: interface.into(), index, silence, met: None, candidate: None }
    }

    /// The name of the interface.
    pub(super) fn interface(&self) -> &str {
        &self.interface
    }

    /// The same for the interface that has the name now, if that is another one: a driver was loaded again, or a virtual interface made anew.
    /// None while it is not up.
    pub(super) fn anew(&self, socket: &CoalescedSocket) -> Option<(CoalescedSocket, Self)> {
        let index = name_to_index(socket.descriptor(), &self.interface).ok()?;
        let Interface { socket, index, .. } =
            (index != self.index).then(|| Interface::open(&self.interface).ok())??;
        Some((socket, Self::new(&self.interface, index, self.silence)))
    }

    /// Whose message it is that `sender` has sent, and that begins with `datagram`.
    pub(super) fn hears(&mut self, sender: SocketAddr, datagram: &[u8]) -> Sender {
        self.candidate = None;
        let is_local = is_local(&sender);
        match &mut self.met {
            Some((met, at)) if *met == sender => *at = Instant::now(),
            Some((_, at)) if at.elapsed() < self.silence => {
                return if is_local && is_call(datagram) { Sender::Third } else { Sender::Nobody };
            }
            _ if is_local && is_message(datagram) => self.candidate = Some(sender),
            _ => return Sender::Nobody,
        }
        Sender::OtherEnd
    }

    /// Whoever was heard last has proved to be the other end.
    pub(super) fn confirm(&mut self) {
        if let Some(candidate) = self.candidate.take() {
            self.met = Some((candidate, Instant::now()));
        }
    }

    /// Where to speak to the other end.
    pub(super) fn place(&self) -> SocketAddr {
        match self.met {
            Some((met, at)) if at.elapsed() < self.silence => met,
            _ => self.group(),
        }
    }

    /// The address of the other end on the link, if it was met.
    pub(super) fn address(&self) -> Option<Ipv6Addr> {
        match self.met?.0 {
            SocketAddr::V6(met) => Some(*met.ip()),
            SocketAddr::V4(_) => None,
        }
    }

    /// Whoever is on the link.
    pub(super) fn group(&self) -> SocketAddr {
        SocketAddrV6::new(GROUP, PORT, 0, self.index).into()
    }
}

/// Whether an address is one of the link alone, so that who has it is at the other end of the cable.
fn is_local(address: &SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn end(host: u16) -> SocketAddr {
        (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host), PORT).into()
    }

    fn hears(meeting: &mut Meeting, sender: SocketAddr, datagram: &[u8]) -> bool {
        meeting.hears(sender, datagram) == Sender::OtherEnd
    }

    #[test]
    fn nobody_takes_the_place_of_the_other_end_who_has_not_proved_to_be_it() {
        let silence = Duration::from_millis(20);
        let mut meeting = Meeting::new("eth1", 7, silence);
        let message = b"GTN\x01\0\0\0\0";
        assert!(hears(&mut meeting, end(1), message) && hears(&mut meeting, end(2), message));
        assert!(!hears(&mut meeting, end(1), b"a frame"), "nobody was met");
        assert_eq!((meeting.place(), meeting.address()), (meeting.group(), None));
        assert!(hears(&mut meeting, end(2), message));
        meeting.confirm();
        assert_eq!(meeting.place(), end(2));
        assert!(hears(&mut meeting, end(2), b"a frame") && !hears(&mut meeting, end(1), message));
        let call = b"GTN\x01\x01\0\0\0";
        assert_eq!(meeting.hears(end(1), call), Sender::Third);
        meeting.confirm();
        assert_eq!(meeting.place(), end(2), "who calls is only told");
        thread::sleep(2 * silence);
        // After a silence others may be the other end, and the one that was met, too.
        for _ in 0..3 {
            assert!(hears(&mut meeting, end(1), message));
            assert_eq!(meeting.place(), meeting.group());
        }
        assert!(hears(&mut meeting, end(2), b"a frame"));
        meeting.confirm();
        assert_eq!(meeting.place(), end(2), "it is there again");
        thread::sleep(2 * silence);
        assert!(hears(&mut meeting, end(1), message));
        meeting.confirm();
        assert_eq!(meeting.place(), end(1));
        let SocketAddr::V6(met) = end(1) else { unreachable!() };
        assert_eq!(meeting.address(), Some(*met.ip()));
    }
}
