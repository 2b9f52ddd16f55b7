//! How two devices of a machine reach each other.

use std::fmt;

use serde::Serialize;

use crate::config_space::PortType;
use crate::device::{Address, Device};
use crate::machine::Machine;

/// How far apart two devices are, as NCCL names it; nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PathClass {
    /// At most one switch is between them.
    Pix,
    /// Several switches are, but no root complex.
    Pxb,
    /// A root complex is.
    Phb,
    /// Two root complexes of one NUMA node are.
    Node,
    /// They are at different NUMA nodes.
    Sys,
}

/// Prints the name as NCCL writes it.
impl fmt::Display for PathClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        })
    }
}

/// The way between two devices.
#[derive(Clone, Debug)]
pub struct Route<'m> {
    pub(crate) machine: &'m Machine,
    /// The devices.
    pub ends: [&'m Device; 2],
    /// How far apart they are; absent where the kernel does not tell enough.
    pub class: Option<PathClass>,
    /// The bridge at which their ways to the root part; absent where that is no bridge.
    pub meeting: Option<Address>,
    /// Bridges of each below that, from the top down, as far as they are known.
    pub bridges: [Vec<&'m Device>; 2],
}

impl Machine {
    /// The way between two of its devices.
    pub fn route<'m>(&'m self, one: &'m Device, other: &'m Device) -> Route<'m> {
        let ends = [one, other];
        let same_bridge = one.host_bridge.is_some() && one.host_bridge == other.host_bridge;
        let shared = match same_bridge {
            true => one.parents.iter().zip(&other.parents).take_while(|(a, b)| a == b).count(),
            false => 0,
        };
        let below = ends.map(|end| end.parents.len() - shared);
        let class = match (&one.host_bridge, &other.host_bridge) {
            (Some(_), Some(_)) if shared > 0 => Some(match below {
                [0 | 1, 0 | 1] => PathClass::Pix,
                _ => PathClass::Pxb,
            }),
            (Some(_), Some(_)) if same_bridge => Some(PathClass::Phb),
            (Some(_), Some(_)) => self.between_nodes(one, other),
            _ => None,
        };
        let bridges = ends.map(|end| self.parents_below(end, shared));
        let meeting = shared.checked_sub(1).and_then(|last| one.parents.get(last).copied());
        Route { machine: self, ends, class, meeting, bridges }
    }

    /// The class across host bridges.
    fn between_nodes(&self, one: &Device, other: &Device) -> Option<PathClass> {
        match (one.numa_node, other.numa_node) {
            (Some(one), Some(other)) if one != other => Some(PathClass::Sys),
            (Some(_), Some(_)) => Some(PathClass::Node),
            // There is no other node to be at.
            _ if self.numa_nodes.len() < 2 && self.packages.is_none_or(|n| n < 2) => {
                Some(PathClass::Node)
            }
            _ => None,
        }
    }

    fn parents_below(&self, device: &Device, shared: usize) -> Vec<&Device> {
        device.parents.iter().skip(shared).filter_map(|address| self.device(*address)).collect()
    }
}

impl<'m> Route<'m> {
    /// The port below one switch whose access control sends packets up to the root complex all the same.
    pub fn redirected_at(&self) -> Option<&'m Device> {
        self.meeting?;
        let mut bridges = self.bridges.iter().flatten();
        bridges.find(|bridge| bridge.acs.is_some_and(|acs| acs.redirects())).copied()
    }

    /// Whether packets go through a root complex; absent where that is not known.
    pub fn is_through_root(&self) -> Option<bool> {
        Some(self.class? >= PathClass::Phb || self.redirected_at().is_some())
    }

    /// The devices on it whose links it takes: lower ends of links, from each end up.
    pub fn links(&self) -> impl Iterator<Item = &'m Device> {
        let is_redirected = self.redirected_at().is_some();
        let mut links: Vec<&Device> = Vec::new();
        for (end, below) in self.ends.into_iter().zip(&self.bridges) {
            // What is redirected takes the links up to the root complex, too.
            let bridges = if is_redirected { self.machine.parents(end) } else { below.clone() };
            let lower = bridges.into_iter().rev().filter(|bridge| is_lower_end(bridge));
            for device in std::iter::once(end).chain(lower) {
                if links.iter().all(|seen| seen.address != device.address) {
                    links.push(device);
                }
            }
        }
        links.into_iter()
    }

    /// Most bytes of a payload on the whole way, as far as that is told.
    pub fn payload_bytes(&self) -> Option<u32> {
        least_payload(self.devices())
    }

    /// Most bytes that every device on it could take, as far as that is told.
    pub fn payload_bytes_possible(&self) -> Option<u32> {
        self.devices().filter_map(|device| device.express?.payload_bytes_max).min()
    }

    /// Ends and bridges.
    fn devices(&self) -> impl Iterator<Item = &'m Device> {
        self.ends.into_iter().chain(self.bridges.iter().flatten().copied())
    }
}

/// Whether a bridge is the lower end of a link, as ports of switches towards the root are. Where it does not tell,
/// by its place: below a root port, then by turns.
pub(crate) fn is_lower_end(bridge: &Device) -> bool {
    match bridge.express.map(|express| express.port) {
        Some(PortType::Upstream | PortType::Endpoint) => true,
        Some(PortType::Root | PortType::Downstream) => false,
        Some(PortType::Other) | None => bridge.parents.len() % 2 == 1,
    }
}

/// The least payload that one of `devices` is set to, as far as they tell.
pub(crate) fn least_payload<'d>(devices: impl Iterator<Item = &'d Device>) -> Option<u32> {
    devices.filter_map(|device| device.express?.payload_bytes).min()
}
