//! Machines of made-up files, for tests.

use std::fs;
use std::path::{Path, PathBuf};

/// The files of a machine, below a directory of the test.
#[derive(Debug)]
pub struct MadeUp<'r> {
    root: &'r Path,
}

/// A device of it.
#[derive(Debug)]
pub struct MadeUpDevice {
    directory: PathBuf,
    root: PathBuf,
}

/// What the configuration space of a device is to tell: port type as its number, payloads and reads in bytes.
#[derive(Clone, Copy, Debug)]
pub struct MadeUpSpace {
    /// Number of the port type: 0 endpoint, 4 root, 5 upstream, 6 downstream.
    pub port: u8,
    /// Payload that could be, and payload that is.
    pub payload: (u32, u32),
    /// Bytes of a read.
    pub read: u32,
    /// Bits of access control.
    pub acs: u8,
}

impl Default for MadeUpSpace {
    fn default() -> Self {
        Self { port: 0, payload: (256, 256), read: 512, acs: 0 }
    }
}

impl<'r> MadeUp<'r> {
    /// A machine without anything, below `root`.
    pub fn below(root: &'r Path) -> Self {
        Self { root }
    }

    /// Writes a file.
    pub fn file(&self, path: &str, text: &str) -> &Self {
        write(&self.root.join(path), text.as_bytes());
        self
    }

    /// NUMA nodes, each with a socket and a processor.
    pub fn sockets(&self, count: usize) -> &Self {
        for n in 0..count {
            self.file(&format!("sys/devices/system/node/node{n}/cpulist"), &format!("{n}\n"));
            let package = format!("sys/devices/system/cpu/cpu{n}/topology/physical_package_id");
            self.file(&package, &format!("{n}\n"));
        }
        self
    }

    /// A device by its path below a host bridge, such as `pci0000:00/0000:00:01.0/0000:01:00.0`.
    pub fn device(&self, path: &str, class: u32, vendor: u16) -> MadeUpDevice {
        let directory = self.root.join("sys/devices").join(path);
        write(&directory.join("class"), format!("{class:#08x}\n").as_bytes());
        write(&directory.join("vendor"), format!("{vendor:#06x}\n").as_bytes());
        let bus = self.root.join("sys/bus/pci/devices");
        fs::create_dir_all(&bus).expect("a directory of the test");
        let name = directory.file_name().expect("a device has a name");
        let target = Path::new("../../../devices").join(path);
        std::os::unix::fs::symlink(target, bus.join(name)).expect("a device of its own");
        MadeUpDevice { directory, root: self.root.into() }
    }
}

impl MadeUpDevice {
    /// Writes a file of the device.
    pub fn file(self, path: &str, text: &str) -> Self {
        write(&self.directory.join(path), text.as_bytes());
        self
    }

    /// How the link runs, in GT/s and lanes, and how it could.
    pub fn link(self, (speed, lanes): (&str, u8), (speed_max, lanes_max): (&str, u8)) -> Self {
        self.file("current_link_speed", &format!("{speed} GT/s PCIe\n"))
            .file("current_link_width", &format!("{lanes}\n"))
            .file("max_link_speed", &format!("{speed_max} GT/s PCIe\n"))
            .file("max_link_width", &format!("{lanes_max}\n"))
    }

    /// The NUMA node; -1 is none.
    pub fn node(self, node: i32) -> Self {
        self.file("numa_node", &format!("{node}\n"))
    }

    /// The configuration space, all of it.
    pub fn space(self, space: MadeUpSpace) -> Self {
        write(&self.directory.join("config"), &space.bytes());
        self
    }

    /// An IOMMU group of this mode.
    pub fn iommu(self, group: u32, mode: &str) -> Self {
        let groups = self.root.join("sys/kernel/iommu_groups").join(group.to_string());
        write(&groups.join("type"), mode.as_bytes());
        let link = self.directory.join("iommu_group");
        std::os::unix::fs::symlink(groups, link).expect("one group a device");
        self
    }

    /// A port of InfiniBand.
    pub fn infiniband(self, name: &str, gbit_per_s: u32) -> Self {
        let port = format!("infiniband/{name}/ports/1");
        self.file(&format!("{port}/rate"), &format!("{gbit_per_s} Gb/sec (4X)\n"))
            .file(&format!("{port}/link_layer"), "InfiniBand\n")
    }
}

impl MadeUpSpace {
    fn bytes(self) -> Vec<u8> {
        let power = |bytes: u32| (bytes.max(128) / 128).ilog2() as u16;
        let control = power(self.payload.1) << 5 | power(self.read) << 12;
        let mut bytes = vec![0; 4096];
        (bytes[0x06], bytes[0x34]) = (0x10, 0x40);
        bytes[0x40..0x44].copy_from_slice(&[0x10, 0, self.port << 4 | 2, 0]);
        bytes[0x44] = power(self.payload.0) as u8;
        bytes[0x48..0x4a].copy_from_slice(&control.to_le_bytes());
        bytes[0x100..0x104].copy_from_slice(&[0x0d, 0, 1, 0]);
        bytes[0x106] = self.acs;
        bytes
    }
}

fn write(path: &Path, bytes: &[u8]) {
    let directory = path.parent().expect("a file is in a directory");
    fs::create_dir_all(directory).expect("a directory of the test");
    fs::write(path, bytes).expect("a file of the test");
}
