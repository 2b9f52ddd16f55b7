//! A PCI device, as the kernel tells of it.

use std::fmt;
use std::path::{Component, Path};
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::config_space::{self, Acs, Express};
use crate::files::Files;
use crate::rate::Generation;

/// Most ports of one card.
const PORTS_MAX: usize = 16;
/// Most bridges above a device; buses have 8 bits.
const PARENTS_MAX: usize = 256;
/// Most lanes of a link; what says more does not know.
const LANES_MAX: u8 = 32;
/// Makers of processors of pictures that compute, and of FPGAs.
const NVIDIA: u16 = 0x10de;
const AMD: u16 = 0x1002;
const XILINX: u16 = 0x10ee;
const ALTERA: u16 = 0x1172;

/// Place of a device: domain, bus, device and function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let hexadecimal = |text: &str, digits: std::ops::RangeInclusive<usize>| {
            let fits = digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
            fits.then(|| u32::from_str_radix(text, 16).ok()).flatten().ok_or(())
        };
        let (domain, rest) = text.split_once(':').ok_or(())?;
        let (bus, rest) = rest.split_once(':').ok_or(())?;
        let (device, function) = rest.split_once('.').ok_or(())?;
        Ok(Self {
            domain: hexadecimal(domain, 4..=8)?,
            bus: hexadecimal(bus, 2..=2)? as u8,
            device: hexadecimal(device, 2..=2)? as u8,
            function: hexadecimal(function, 1..=1)? as u8,
        })
    }
}

/// Prints `0000:17:00.0`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        f.pad(&format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How a link runs, or could run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Generation of its lanes.
    pub generation: Generation,
    /// How many they are.
    pub lanes: u8,
}

impl Link {
    /// What it carries after coding, GB/s.
    pub fn gbyte_per_s(&self) -> f64 {
        self.generation.link_gbyte_per_s(self.lanes)
    }

    /// The most that both could do.
    pub fn both(self, other: Self) -> Self {
        Self {
            generation: self.generation.min(other.generation),
            lanes: self.lanes.min(other.lanes),
        }
    }
}

/// Prints `Gen3 x16`.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x{}", self.generation, self.lanes)
    }
}

/// What a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A network card.
    NetworkCard,
    /// A GPU, an FPGA or another accelerator.
    Accelerator,
    /// A bridge: port of a root complex or of a switch.
    Bridge,
    /// Anything else, or not known.
    Other,
}

impl Role {
    fn of(class: Option<u32>, vendor: Option<u16>) -> Self {
        let (Some(class), vendor) = (class, vendor.unwrap_or(0)) else { return Self::Other };
        match class >> 8 {
            0x0200..=0x02ff => Self::NetworkCard,
            0x0600..=0x06ff => Self::Bridge,
            0x0302 | 0x1200..=0x12ff => Self::Accelerator,
            // Boards have a plain one of other makers to show a console on.
            0x0300 | 0x0380 if [NVIDIA, AMD].contains(&vendor) => Self::Accelerator,
            _ if [XILINX, ALTERA].contains(&vendor) => Self::Accelerator,
            _ => Self::Other,
        }
    }
}

/// A port of a network card.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Port {
    /// Name of its interface or RDMA device.
    pub name: String,
    /// Whether it is an RDMA device.
    pub rdma: bool,
    /// Whether it speaks InfiniBand, not Ethernet.
    pub infiniband: bool,
    /// Rate after coding, while it is up.
    pub gbit_per_s: Option<f64>,
}

/// A PCI device, or one function of it. What the kernel does not tell is absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Device {
    /// Its place.
    pub address: Address,
    /// What it is for, by class and maker.
    pub role: Role,
    /// Class code: base class, subclass, interface.
    pub class: Option<u32>,
    /// Number of the maker.
    pub vendor: Option<u16>,
    /// The maker's number of the device.
    pub device: Option<u16>,
    /// The host bridge above it, such as `pci0000:17`.
    pub host_bridge: Option<String>,
    /// Bridges above it, from the root port down.
    pub parents: Vec<Address>,
    /// How its link runs now; of a port away from the root, the link below it.
    pub link: Option<Link>,
    /// How that could run for all that this end knows.
    pub link_max: Option<Link>,
    /// What its configuration space tells.
    pub express: Option<Express>,
    /// What access control is on.
    pub acs: Option<Acs>,
    /// Number of its IOMMU group.
    pub iommu_group: Option<u32>,
    /// What the IOMMU does for this group: `DMA`, `DMA-FQ`, `identity`.
    pub iommu_mode: Option<String>,
    /// NUMA node near to it.
    pub numa_node: Option<u32>,
    /// Whether it is a part of another, made by software (SR-IOV).
    pub is_virtual_function: bool,
    /// Ports of a network card.
    pub ports: Vec<Port>,
}

impl Device {
    /// Reads the device in the directory `name` of the PCI bus; absent if it is none.
    pub(crate) fn read(files: &Files, name: &str) -> Option<Self> {
        let address = name.parse().ok()?;
        let at = |entry: &str| Path::new("sys/bus/pci/devices").join(name).join(entry);
        let half = |entry| files.hexadecimal(at(entry)).and_then(|id| u16::try_from(id).ok());
        let (class, vendor) = (files.hexadecimal(at("class")), half("vendor"));
        let (host_bridge, parents) = above(files, name, address);
        let bytes = files.bytes(at("config")).unwrap_or_default();
        let iommu_group: Option<u32> = files
            .behind_links(at("iommu_group"))
            .and_then(|path| path.file_name()?.to_str()?.parse().ok());
        let role = Role::of(class, vendor);
        Some(Self {
            address,
            role,
            class,
            vendor,
            device: half("device"),
            host_bridge,
            parents,
            link: link(files, &at("current_link_speed"), &at("current_link_width")),
            link_max: link(files, &at("max_link_speed"), &at("max_link_width")),
            express: config_space::express(&bytes),
            acs: config_space::acs(&bytes),
            iommu_mode: iommu_group
                .and_then(|group| files.text(format!("sys/kernel/iommu_groups/{group}/type"))),
            iommu_group,
            numa_node: files.number(at("numa_node")),
            is_virtual_function: files.has(at("physfn")),
            ports: if role == Role::NetworkCard { ports(files, &at("")) } else { Vec::new() },
        })
    }

    /// Whether the IOMMU translates what it addresses; absent where that is not told.
    pub fn is_translated(&self) -> Option<bool> {
        self.iommu_mode.as_ref().map(|mode| mode.starts_with("DMA"))
    }

    /// What people call it: its first port, or what it is, with its place.
    pub fn label(&self) -> String {
        let what = match (self.role, self.ports.first()) {
            (_, Some(port)) => &port.name,
            (Role::NetworkCard, None) => "network card",
            (Role::Accelerator, None) => "accelerator",
            (Role::Bridge, None) => "port",
            (Role::Other, None) => "device",
        };
        format!("{what} {}", self.address)
    }
}

/// The host bridge and the bridges above a device, by the path on which it hangs.
fn above(files: &Files, name: &str, own: Address) -> (Option<String>, Vec<Address>) {
    let Some(path) = files.behind_links(Path::new("sys/bus/pci/devices").join(name)) else {
        return (None, Vec::new());
    };
    let (mut host_bridge, mut parents) = (None, Vec::new());
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        let Some(name) = name.to_str() else { continue };
        match name.parse() {
            Ok(address) if host_bridge.is_some() && address != own => parents.push(address),
            Ok(_) => {}
            Err(()) if name.starts_with("pci") && name.contains(':') => {
                host_bridge = Some(name.to_owned());
                parents.clear();
            }
            Err(()) => {}
        }
    }
    parents.truncate(PARENTS_MAX);
    (host_bridge, parents)
}

/// A link by its speed and width, `8.0 GT/s PCIe` and `16`.
fn link(files: &Files, speed: &Path, width: &Path) -> Option<Link> {
    let speed = files.text(speed)?.split_whitespace().next()?.parse().ok()?;
    let lanes = files.number(width).filter(|lanes| (1..=LANES_MAX).contains(lanes))?;
    Some(Link { generation: Generation::of_speed(speed)?, lanes })
}

/// Ports of the card in `directory`: RDMA devices, or else network interfaces.
fn ports(files: &Files, directory: &Path) -> Vec<Port> {
    let rdma = directory.join("infiniband");
    let names = files.names(&rdma).unwrap_or_default();
    let rdma = names.into_iter().take(PORTS_MAX).map(|name| {
        let port = rdma.join(&name).join("ports/1");
        let rate = files.text(port.join("rate"));
        let gbit_per_s = rate.and_then(|rate| rate.split_whitespace().next()?.parse().ok());
        let layer = files.text(port.join("link_layer"));
        let infiniband = layer.is_none_or(|layer| layer == "InfiniBand");
        Port { name, rdma: true, infiniband, gbit_per_s: gbit_per_s.filter(is_rate) }
    });
    let ports: Vec<_> = rdma.collect();
    if !ports.is_empty() {
        return ports;
    }
    let network = directory.join("net");
    let names = files.names(&network).unwrap_or_default();
    let interfaces = names.into_iter().take(PORTS_MAX).map(|name| {
        let mbit_per_s = files.number::<f64>(network.join(&name).join("speed"));
        let gbit_per_s = mbit_per_s.map(|rate| rate * 1e-3).filter(is_rate);
        Port { name, rdma: false, infiniband: false, gbit_per_s }
    });
    interfaces.collect()
}

/// Whether a rate in Gbit/s can be one: the kernel says -1 and 4294967.295 where it does not know.
fn is_rate(gbit_per_s: &f64) -> bool {
    (1e-3..1e5).contains(gbit_per_s)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_printed_and_others_refused() {
        for text in ["0000:17:00.0", "10000:e1:1f.7"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let refused = ["", "pci0000:00", "0000:00:1.0", "00:00.0", "0000:00:00.00", "+000:00:00.0"];
        assert!(refused.iter().all(|text| text.parse::<Address>().is_err()));
    }

    #[test]
    fn roles_follow_class_and_maker() {
        let role = |class, vendor| Role::of(Some(class), Some(vendor));
        assert_eq!(role(0x020700, 0x15b3), Role::NetworkCard);
        assert_eq!(role(0x030200, NVIDIA), Role::Accelerator);
        assert_eq!(role(0x120000, XILINX), Role::Accelerator);
        assert_eq!(role(0x058000, XILINX), Role::Accelerator);
        assert_eq!(role(0x030000, 0x1a03), Role::Other);
        assert_eq!(role(0x060400, XILINX), Role::Bridge);
        assert_eq!(Role::of(None, Some(NVIDIA)), Role::Other);
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_none(text in ".{0,20}") {
            let _any = text.parse::<Address>();
        }
    }
}
