//! Paths of a machine, made of what its tree tells.

use gannet_measure::quantity::{Bytes, Span};

use crate::device::Device;
use crate::hop::{Hop, HopKind, Window};
use crate::machine::Machine;
use crate::path::Path;
use crate::rate::{PcieLink, Wire};
use crate::route::{PathClass, Route, is_lower_end, least_payload};

/// Payload of packets where the tree does not tell it: what firmware sets most often.
const PAYLOAD_BYTES: u32 = 256;
/// Payload of packets on wires: the largest of InfiniBand and RoCEv2.
const MTU_BYTES: u32 = 4096;
/// Most paths that are told.
const PATHS_MAX: usize = 1024;
/// What a root complex passes on between devices, and the bytes in flight that a read through it had in 1 us: those of
/// the one machine of which measurements are published.
const ROOT_FACTOR: f64 = 4.8 / 14.403;
const ROOT_IN_FLIGHT: Bytes = Bytes(1200);
const ROOT_MEASURED: &str = "the published 4.8 and 1.2 GB/s of one machine (RECIPE, Path 2)";

impl Machine {
    /// Each network card to the memory of the host, and to each accelerator.
    pub fn paths(&self) -> Vec<Path> {
        let to_host = self.network_cards().map(|card| self.to_host(card));
        let to_accelerators = self.network_cards().flat_map(|card| {
            self.accelerators().map(move |accelerator| self.route(card, accelerator).path())
        });
        to_host.chain(to_accelerators).take(PATHS_MAX).collect()
    }

    /// From the wire of a card to the memory of the host.
    fn to_host(&self, card: &Device) -> Path {
        let mut hops: Vec<_> = wire(card).into_iter().collect();
        let bridges = self.parents(card);
        let payload = least_payload(bridges.iter().copied().chain([card]));
        let lower = bridges.into_iter().rev().filter(|bridge| is_lower_end(bridge));
        hops.extend(std::iter::once(card).chain(lower).map(|device| link(device, payload)));
        Path { name: format!("{} to host memory", card.label()), hops, visit: None }
    }
}

impl Route<'_> {
    /// From the wire of the first to the memory of the second.
    pub fn path(&self) -> Path {
        let [card, accelerator] = self.ends;
        let payload = self.payload_bytes();
        let mut hops: Vec<_> = wire(card).into_iter().collect();
        let links: Vec<_> = self.links().collect();
        hops.extend(links.iter().map(|device| link(device, payload)));
        hops.extend(self.root(&links, payload));
        let class = self.class.map_or("way unknown".to_owned(), |class| class.to_string());
        let name = format!("{} to {} ({class})", card.label(), accelerator.label());
        Path { name, hops, visit: None }
    }

    /// The root complex as a hop, where the way leads through it.
    fn root(&self, links: &[&Device], payload: Option<u32>) -> Option<Hop> {
        let is_told = self.is_through_root();
        let name = match self.class {
            Some(PathClass::Sys) => "the interconnect between NUMA nodes",
            Some(PathClass::Node) => "the root complexes",
            Some(_) => "the root complex",
            None => "what joins the two",
        };
        let slowest = links.iter().filter_map(|device| device.link);
        let slowest = slowest.min_by(|a, b| a.gbyte_per_s().total_cmp(&b.gbyte_per_s()));
        let (Some(true), Some(slowest)) = (is_told, slowest) else {
            return (is_told != Some(false)).then(|| Hop::new(name, HopKind::Unknown));
        };
        let payload = payload.unwrap_or(PAYLOAD_BYTES);
        let through = PcieLink::new(slowest.generation, slowest.lanes, payload);
        let window = Window { in_flight: ROOT_IN_FLIGHT, round_trip: Span(1_000) };
        Some(Hop {
            factor: ROOT_FACTOR,
            window: Some(window),
            calibrated: Some(ROOT_MEASURED.to_owned()),
            ..Hop::new(name, HopKind::Pcie(through))
        })
    }
}

/// The wire of a card: that of its fastest port, if one is up.
fn wire(card: &Device) -> Option<Hop> {
    let rated = card.ports.iter().filter_map(|port| Some((port, port.gbit_per_s?)));
    let (port, gbit_per_s) = rated.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mtu_bytes = MTU_BYTES;
    let wire = match port.infiniband {
        true => Wire::Infiniband { gbit_per_s, mtu_bytes },
        false => Wire::Roce { gbit_per_s, mtu_bytes },
    };
    Some(Hop::new(format!("the wire of {}", port.name), HopKind::Wire(wire)))
}

/// The link above a device.
fn link(device: &Device, payload: Option<u32>) -> Hop {
    let kind = device.link.map_or(HopKind::Unknown, |link| {
        let payload = payload.unwrap_or(PAYLOAD_BYTES);
        HopKind::Pcie(PcieLink::new(link.generation, link.lanes, payload))
    });
    let assumed = match (device.link, payload) {
        (Some(_), None) => ", MPS assumed",
        _ => "",
    };
    Hop::new(format!("the link of {}{assumed}", device.label()), kind)
}
