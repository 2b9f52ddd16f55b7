//! The routes of a host for its kernel, which then carries IP over cables between interfaces by itself.
//!
//! A kernel looks at the destination of a packet alone, so these are [`NextHops`]: shortest routes over what is alive, without
//! faults those of dimension order. Every host finds the same ones from the same order, and a packet comes nearer to its
//! destination with each hop. Next hops have no address of IPv4, and need none: a route goes by the IPv6 address of the link, by which the
//! node has met its neighbour.
//!
//! [`HostRoutes`] says what is wanted, [`Kernel`] writes it, and [`obstacles`] are settings of the system that would make
//! packets vanish.

mod netlink;
mod obstacles;
mod writer;

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use gannet_lattice::{Direction, Faults, Lattice, Node};
use gannet_torus::routes::{NextHops, Refused};
use serde::Serialize;

use crate::addresses::Addresses;
use crate::status::Status;
pub use obstacles::obstacles;
pub use writer::{Changes, Kernel, KernelError, interface_with, restore_address};

/// Number of the routing protocol of these routes, by which `ip route show proto 71` lists them; no other program is known to have it.
pub const PROTOCOL: u8 = 71;
/// Metric of the routes: one to the same host that was set by hand has a smaller one and wins. Behind each is one of a greater
/// metric that says that the host cannot be reached, so that nothing for it goes to other networks.
pub const METRIC: u32 = 4700;
/// How long the kernel keeps address and routes of a process that hangs.
pub const LEASE: Duration = Duration::from_secs(5);

/// Number of the network namespace of this process, which has interfaces and routes of its own; none where the system does not tell.
pub fn namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/net").ok().map(|namespace| namespace.ino())
}

/// The routes of a host to all others of its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostRoutes {
    /// The machine, such as `4x4x1`.
    pub lattice: String,
    /// The order from which they follow.
    pub order: u64,
    /// Place of this host.
    pub place: [u16; 3],
    /// Its address.
    pub address: Ipv4Addr,
    /// One for each other node, x running fastest.
    pub routes: Vec<HostRoute>,
}

/// The route of a host to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostRoute {
    /// Place of the destination.
    pub place: [u16; 3],
    /// Name of its host; none where none is known.
    pub host: Option<String>,
    /// Its address.
    pub address: Ipv4Addr,
    /// Direction of the next hop, `X+` to `Z-`; none where there is no way, as for all that follows.
    pub way: Option<String>,
    /// Interface of this host that leads there; none, too, where the cable is one between addresses.
    pub interface: Option<String>,
    /// Address of the next hop on that link; none, too, until it was met.
    pub next_hop: Option<Ipv6Addr>,
    /// Cables to the destination.
    pub hops: Option<u32>,
}

/// Why there are no routes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutesError {
    /// What the node says is no machine.
    #[error("the node of this host tells of a machine that cannot be: {0}")]
    Malformed(String),
    /// Routes could not be found.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// An address has one byte for each coordinate.
    #[error("{0} has more nodes in a row than addresses")]
    Addresses(Lattice),
}

impl HostRoutes {
    /// The routes of the host that has this status, with addresses that begin with `first`; none while it has no place in a machine, or
    /// follows an order that takes it for dead, as it does for a moment when it was halted and goes on.
    ///
    /// # Errors
    /// When there can be none in this machine.
    pub fn of(status: &Status, first: u8) -> Result<Option<Self>, RoutesError> {
        let Status { sizes: Some(sizes), place: Some(place), order: Some(order), .. } = *status
        else {
            return Ok(None);
        };
        let malformed = |what: &dyn ToString| RoutesError::Malformed(what.to_string());
        let lattice = Lattice::new(sizes).map_err(|error| malformed(&error))?;
        let is_inside = |place: [u16; 3]| place.iter().zip(sizes).all(|(at, size)| *at < size);
        if status.nodes.len() != lattice.nodes() || !is_inside(place) {
            return Err(malformed(&format!("it has {} nodes", status.nodes.len())));
        }
        let own = lattice.node(place);
        if !status.nodes[own.index()].alive {
            return Ok(None);
        }
        let (next_hops, _) = NextHops::around(&faults(status, lattice)?)?;
        let addresses = Addresses { first, lattice };
        let address = |node| addresses.of(node).ok_or(RoutesError::Addresses(lattice));
        let route = |node: Node| {
            let way = next_hops.next(own, node).map(|way| way.to_string());
            let is_port = |it: &&crate::status::Port| way.is_some() && it.direction == way;
            let port = status.ports.iter().find(is_port);
            Ok(HostRoute {
                place: lattice.coordinates(node),
                host: status.nodes[node.index()].host.clone(),
                address: address(node)?,
                interface: port.and_then(|port| port.interface.clone()),
                next_hop: port.and_then(|port| port.other_address),
                hops: next_hops.hops(own, node),
                way,
            })
        };
        let others = lattice.all().filter(|node| *node != own);
        Ok(Some(Self {
            lattice: lattice.to_string(),
            order,
            place,
            address: address(own)?,
            routes: others.map(route).collect::<Result<_, RoutesError>>()?,
        }))
    }
}

/// What of the machine is dead.
fn faults(status: &Status, lattice: Lattice) -> Result<Faults, RoutesError> {
    let mut faults = Faults::none(lattice);
    for (node, it) in lattice.all().zip(&status.nodes) {
        if !it.alive {
            faults.kill_node(node);
        }
        for way in &it.dead_cables {
            let direction: Direction =
                way.parse().map_err(|_| RoutesError::Malformed(format!("a cable in `{way}`")))?;
            faults.kill_cable(lattice.cable(node, direction));
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Member, Port};

    /// Host 0 of a ring of four, with a port each way.
    fn status() -> Status {
        let lattice: Lattice = "4".parse().unwrap();
        let member = |node: Node| Member {
            host: Some(format!("n{}", node.0)),
            place: lattice.coordinates(node),
            alive: true,
            ..Member::default()
        };
        let port = |(direction, interface, end): (&str, &str, u16)| Port {
            direction: Some(direction.into()),
            interface: Some(interface.into()),
            other_address: Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, end)),
            ..Port::default()
        };
        Status {
            sizes: Some(lattice.sizes()),
            place: Some([0, 0, 0]),
            order: Some(7),
            ports: [("X+", "eth1", 1), ("X-", "eth2", 3)].map(port).into(),
            nodes: lattice.all().map(member).collect(),
            ..Status::default()
        }
    }

    fn interfaces(routes: &HostRoutes) -> Vec<Option<&str>> {
        routes.routes.iter().map(|route| route.interface.as_deref()).collect()
    }

    #[test]
    fn each_other_node_has_a_route_by_the_port_in_its_way() {
        let routes = HostRoutes::of(&status(), 10).unwrap().unwrap();
        assert_eq!((routes.order, routes.address), (7, [10, 1, 1, 1].into()));
        assert_eq!(interfaces(&routes), [Some("eth1"), Some("eth1"), Some("eth2")]);
        let HostRoute { address, next_hop, hops, host, .. } = &routes.routes[2];
        assert_eq!((*address, host.as_deref(), *hops), ([10, 4, 1, 1].into(), Some("n3"), Some(1)));
        assert_eq!(*next_hop, Some("fe80::3".parse().unwrap()));
    }

    #[test]
    fn what_is_dead_is_gone_round_and_what_cannot_be_reached_has_no_route() {
        let mut status = status();
        status.nodes[0].dead_cables = vec!["X+".into()];
        let routes = HostRoutes::of(&status, 10).unwrap().unwrap();
        assert_eq!(interfaces(&routes), [Some("eth2"); 3]);
        assert_eq!(routes.routes[0].hops, Some(3));
        status.nodes[2].alive = false;
        let routes = HostRoutes::of(&status, 10).unwrap().unwrap();
        assert_eq!(interfaces(&routes), [None, None, Some("eth2")]);
        assert_eq!((&routes.routes[1].way, routes.routes[1].hops), (&None, None));
    }

    #[test]
    fn without_a_place_there_are_none_and_nonsense_is_refused() {
        let mut status = status();
        status.nodes[0].alive = false;
        assert_eq!(HostRoutes::of(&status, 10), Ok(None), "it is taken for dead");
        status.nodes[0].alive = true;
        status.nodes[1].dead_cables = vec!["W+".into()];
        assert!(matches!(HostRoutes::of(&status, 10), Err(RoutesError::Malformed(_))));
        status.nodes.pop();
        assert!(matches!(HostRoutes::of(&status, 10), Err(RoutesError::Malformed(_))));
        status.place = None;
        assert_eq!(HostRoutes::of(&status, 10), Ok(None));
    }
}
