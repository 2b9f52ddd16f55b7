//! A machine, as its kernel tells of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::device::{Address, Device, Link, Role};
use crate::files::Files;

/// Most PCI devices that are read.
const DEVICES_MAX: usize = 4096;
/// Modules of kernels by which a network card reaches the memory of an accelerator.
const PEER_MEMORY: [&str; 3] = ["nvidia_peermem", "nv_peer_mem", "amdp2p"];
/// The first kernel that registers memory of devices by dma-buf.
const DMA_BUF_KERNEL: (u32, u32) = (5, 12);

/// A part of memory, and what is near to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NumaNode {
    /// Its number.
    pub number: u32,
    /// Processors, as the kernel lists them: `0-7,16-23`.
    pub processors: Option<String>,
}

/// Huge pages of one size that are set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// How many there are.
    pub total: u64,
    /// How many are free.
    pub free: Option<u64>,
}

/// Means by which a network card could reach the memory of an accelerator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuDirect {
    /// The module of the kernel that hands out such memory.
    pub peer_memory: Option<String>,
    /// Whether kernel and RDMA modules take it as dma-buf; absent where the kernel's version is not told.
    pub dma_buf: Option<bool>,
    /// Whether the driver of NVIDIA is the open one, which alone gives dma-bufs; absent without such a driver.
    pub nvidia_is_open: Option<bool>,
}

/// What is known of a machine. What could not be read is empty or absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// PCI devices, in the order of their addresses; absent where there is no such bus.
    pub devices: Option<Vec<Device>>,
    /// NUMA nodes; none where the kernel has no notion of them.
    pub numa_nodes: Vec<NumaNode>,
    /// Sockets with a processor.
    pub packages: Option<usize>,
    /// Memory that the process may lock, in bytes; `u64::MAX` has no limit.
    pub lock_limit_bytes: Option<u64>,
    /// Huge pages that are set aside.
    pub huge_pages: Vec<HugePages>,
    /// Means of GPU-direct.
    pub gpu_direct: GpuDirect,
}

impl Machine {
    /// Reads the machine whose `/sys`, `/proc` and `/etc` lie below `root`.
    ///
    /// Never fails: what is not there is not known.
    pub fn read(root: impl Into<PathBuf>) -> Self {
        let files = Files::below(root);
        Self {
            devices: devices(&files),
            numa_nodes: numa_nodes(&files),
            packages: packages(&files),
            lock_limit_bytes: lock_limit(&files),
            huge_pages: huge_pages(&files),
            gpu_direct: gpu_direct(&files),
        }
    }

    /// All devices.
    pub fn devices(&self) -> &[Device] {
        self.devices.as_deref().unwrap_or_default()
    }

    /// The device at `address`.
    pub fn device(&self, address: Address) -> Option<&Device> {
        let devices = self.devices();
        let place = devices.binary_search_by_key(&address, |device| device.address).ok()?;
        devices.get(place)
    }

    /// Network cards, without parts of them that software made.
    pub fn network_cards(&self) -> impl Iterator<Item = &Device> {
        self.of_role(Role::NetworkCard)
    }

    /// Accelerators, without parts of them that software made.
    pub fn accelerators(&self) -> impl Iterator<Item = &Device> {
        self.of_role(Role::Accelerator)
    }

    fn of_role(&self, role: Role) -> impl Iterator<Item = &Device> {
        self.devices().iter().filter(move |it| it.role == role && !it.is_virtual_function)
    }

    /// Bridges above a device that are known, from the root port down.
    pub(crate) fn parents(&self, of: &Device) -> Vec<&Device> {
        of.parents.iter().filter_map(|address| self.device(*address)).collect()
    }

    /// The most that the link of a device could do, by both its ends; absent unless both tell.
    pub fn link_possible(&self, device: &Device) -> Option<Link> {
        let above = self.device(*device.parents.last()?)?;
        Some(device.link_max?.both(above.link_max?))
    }

    /// Whether the link of a device runs below what both its ends could do.
    pub fn is_down_trained(&self, device: &Device) -> bool {
        match (device.link, self.link_possible(device)) {
            (Some(now), Some(possible)) => now.gbyte_per_s() < possible.gbyte_per_s(),
            _ => false,
        }
    }
}

fn devices(files: &Files) -> Option<Vec<Device>> {
    let names = files.names("sys/bus/pci/devices")?.into_iter().take(DEVICES_MAX);
    let mut devices: Vec<_> = names.filter_map(|name| Device::read(files, &name)).collect();
    devices.sort_by_key(|device| device.address);
    devices.dedup_by_key(|device| device.address);
    Some(devices)
}

fn numa_nodes(files: &Files) -> Vec<NumaNode> {
    let directory = Path::new("sys/devices/system/node");
    let node = |name: String| {
        let number = name.strip_prefix("node")?.parse().ok()?;
        let processors = files.text(directory.join(&name).join("cpulist"));
        Some(NumaNode { number, processors: processors.filter(|list| !list.is_empty()) })
    };
    let mut nodes: Vec<_> =
        files.names(directory).unwrap_or_default().into_iter().filter_map(node).collect();
    nodes.sort_by_key(|node| node.number);
    nodes
}

fn packages(files: &Files) -> Option<usize> {
    let directory = Path::new("sys/devices/system/cpu");
    let package = |name: String| {
        name.strip_prefix("cpu")?.parse::<u32>().ok()?;
        files.number::<u32>(directory.join(name).join("topology/physical_package_id"))
    };
    let packages: BTreeSet<_> = files.names(directory)?.into_iter().filter_map(package).collect();
    (!packages.is_empty()).then_some(packages.len())
}

fn lock_limit(files: &Files) -> Option<u64> {
    let text = files.text("proc/self/limits")?;
    let limit = text.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match limit.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn huge_pages(files: &Files) -> Vec<HugePages> {
    let directory = Path::new("sys/kernel/mm/hugepages");
    let pages = |name: String| {
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = |entry| files.number(directory.join(&name).join(entry));
        Some(HugePages {
            page_bytes: kib.checked_mul(1024)?,
            total: count("nr_hugepages")?,
            free: count("free_hugepages"),
        })
    };
    files.names(directory).unwrap_or_default().into_iter().filter_map(pages).collect()
}

fn gpu_direct(files: &Files) -> GpuDirect {
    let is_loaded = |module: &str| files.has(Path::new("sys/module").join(module));
    let nvidia = files.text("proc/driver/nvidia/version");
    GpuDirect {
        peer_memory: PEER_MEMORY.into_iter().find(|name| is_loaded(name)).map(str::to_owned),
        dma_buf: kernel(files).map(|version| version >= DMA_BUF_KERNEL && is_loaded("ib_uverbs")),
        nvidia_is_open: nvidia.map(|version| version.contains("Open Kernel Module")),
    }
}

/// The first two numbers of the kernel's version.
fn kernel(files: &Files) -> Option<(u32, u32)> {
    let text = files.text("proc/sys/kernel/osrelease")?;
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
