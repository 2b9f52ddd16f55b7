//! Routes and addresses of the kernel, by netlink: what is asked of it, and what it answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{
    AddressAttribute, AddressHeader, AddressMessage, AddressScope, CacheInfo,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteScope, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::{METRIC, PROTOCOL};

/// How long the kernel may take to answer, which it does at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bits of an IPv4 address.
const BITS: u8 = 32;

/// A route of this program to one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub destination: Ipv4Addr,
    /// The neighbour on the link, and the number of the interface; none for what is used only where there is no such route, and
    /// says that the host cannot be reached.
    pub by: Option<(Ipv6Addr, u32)>,
    /// Where packets come from that programs of this host send without naming an address.
    pub source: Ipv4Addr,
}

/// An address of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub address: Ipv4Addr,
    /// Number of the interface.
    pub interface: u32,
}

/// What asks the kernel.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        set_socket_timeout(socket.as_fd(), Timeout::Recv, Some(PATIENCE))?;
        // Without it the kernel tells all routes, of which those of others are left out here.
        let _older = socket.set_netlink_get_strict_chk(true);
        Ok(Self { socket, sequence: 0 })
    }

    /// The number of an interface.
    pub fn index(&self, interface: &str) -> io::Result<u32> {
        Ok(name_to_index(self.socket.as_fd(), interface)?)
    }

    /// The name of an interface.
    pub fn name(&self, interface: u32) -> String {
        index_to_name(self.socket.as_fd(), interface)
            .unwrap_or_else(|_| format!("interface {interface}"))
    }

    /// The routes of this program.
    pub fn routes(&mut self) -> io::Result<Vec<Route>> {
        let mut filter = RouteMessage::default();
        filter.header.address_family = AddressFamily::Inet;
        filter.header.protocol = PROTOCOL.into();
        let told = self.ask(RouteNetlinkMessage::GetRoute(filter), NLM_F_DUMP)?;
        let own = told.iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route) => route_of(route),
            _ => None,
        });
        Ok(own.collect())
    }

    /// The IPv4 addresses of this host.
    pub fn addresses(&mut self) -> io::Result<Vec<Address>> {
        let mut filter = AddressMessage::default();
        filter.header.family = AddressFamily::Inet;
        let told = self.ask(RouteNetlinkMessage::GetAddress(filter), NLM_F_DUMP)?;
        let all = told.iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewAddress(address) => address_of(address),
            _ => None,
        });
        Ok(all.collect())
    }

    /// Writes a route, in the place of any other of this program to the same destination, which carries packets until then.
    pub fn write(&mut self, route: &Route) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRoute(message_of(route));
        self.ask(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE).map(drop)
    }

    pub fn remove(&mut self, route: &Route) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::DelRoute(message_of(route)), NLM_F_ACK).map(drop)
    }

    /// Gives an interface an address for so many seconds, or for so many more.
    pub fn lease(&mut self, interface: u32, address: Ipv4Addr, seconds: u32) -> io::Result<()> {
        let mut life = CacheInfo::default();
        (life.ifa_preferred, life.ifa_valid) = (seconds, seconds);
        let mut message = address_message(interface, address, BITS);
        message.attributes.push(AddressAttribute::CacheInfo(life));
        self.give(message)
    }

    /// Gives an interface an address, the first `prefix` bits of which all hosts behind it have in common.
    pub fn add(&mut self, interface: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        self.give(address_message(interface, address, prefix))
    }

    fn give(&mut self, message: AddressMessage) -> io::Result<()> {
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        self.ask(RouteNetlinkMessage::NewAddress(message), flags).map(drop)
    }

    pub fn release(&mut self, interface: u32, address: Ipv4Addr) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelAddress(address_message(interface, address, BITS));
        self.ask(message, NLM_F_ACK).map(drop)
    }

    /// Asks for something, and takes all that is answered.
    fn ask(
        &mut self,
        what: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        (header.flags, header.sequence_number) = (NLM_F_REQUEST | flags, self.sequence);
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(what));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(io::Error::other)?;
                let length = (message.header.length as usize).next_multiple_of(4).min(rest.len());
                rest = &rest[length.max(1)..];
                // An answer to a question that was given up.
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error.to_io());
                    }
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    _ => {}
                }
            }
        }
    }
}

fn message_of(route: &Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet,
        destination_prefix_length: BITS,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: PROTOCOL.into(),
        scope: RouteScope::Universe,
        kind: if route.by.is_some() { RouteType::Unicast } else { RouteType::Unreachable },
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::Inet(route.destination)),
        RouteAttribute::PrefSource(RouteAddress::Inet(route.source)),
        RouteAttribute::Priority(METRIC + u32::from(route.by.is_none())),
    ];
    if let Some((next_hop, interface)) = route.by {
        message.attributes.push(RouteAttribute::Oif(interface));
        message.attributes.push(RouteAttribute::Via(RouteVia::Inet6(next_hop)));
    }
    message
}

/// A route of this program; none if it is one of others.
fn route_of(message: &RouteMessage) -> Option<Route> {
    let RouteHeader { protocol, destination_prefix_length, table, .. } = message.header;
    if (protocol, destination_prefix_length, table)
        != (PROTOCOL.into(), BITS, RouteHeader::RT_TABLE_MAIN)
    {
        return None;
    }
    let mut destination = None;
    // One that was changed by hand lacks some of these, and is written again.
    let (mut next_hop, mut interface) = (Ipv6Addr::UNSPECIFIED, 0);
    let mut source = Ipv4Addr::UNSPECIFIED;
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => {
                destination = Some(*address);
            }
            RouteAttribute::PrefSource(RouteAddress::Inet(address)) => source = *address,
            RouteAttribute::Via(RouteVia::Inet6(address)) => next_hop = *address,
            RouteAttribute::Oif(number) => interface = *number,
            _ => {}
        }
    }
    let is_way = message.header.kind != RouteType::Unreachable;
    Some(Route { destination: destination?, by: is_way.then_some((next_hop, interface)), source })
}

fn address_message(interface: u32, address: Ipv4Addr, prefix: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header = AddressHeader {
        family: AddressFamily::Inet,
        prefix_len: prefix,
        scope: AddressScope::Universe,
        index: interface,
        ..AddressHeader::default()
    };
    let address = IpAddr::V4(address);
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    message
}

fn address_of(message: &AddressMessage) -> Option<Address> {
    let address = message.attributes.iter().find_map(|it| match it {
        AddressAttribute::Local(IpAddr::V4(address)) => Some(*address),
        _ => None,
    })?;
    Some(Address { address, interface: message.header.index })
}
