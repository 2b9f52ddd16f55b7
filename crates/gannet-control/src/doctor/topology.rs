//! The PCI tree, the ways between network cards and accelerators, and what RDMA needs.

use gannet_topology::{Device, Machine, PathClass, Role, Standing};

use super::libfabric::{self, Found};
use super::{Check, Needs, Verdict};

/// Most devices that get a line of their own.
const LINES_MAX: usize = 64;

/// Of `libfabric` nothing is said where nobody looked for it.
pub(super) fn checks(
    machine: &Machine,
    libfabric: Option<&Result<Found, String>>,
    needs: &Needs,
) -> Vec<Check> {
    let mut checks = vec![tree(machine), numa(machine)];
    let told = machine.devices().iter().filter(|it| is_end(it) && it.link.is_some());
    checks.extend(told.take(LINES_MAX).map(|device| link(machine, device)));
    let accelerators = machine.accelerators().take(LINES_MAX);
    checks.extend(accelerators.filter_map(|accelerator| way(machine, accelerator)));
    let has_rdma = machine.network_cards().any(|card| card.ports.iter().any(|port| port.rdma));
    checks.push(locked_memory(machine, needs, has_rdma));
    if has_rdma && machine.accelerators().next().is_some() {
        checks.push(gpu_direct(machine));
    }
    checks.extend(libfabric.map(|found| libfabric::check(found, has_rdma)));
    checks
}

fn is_end(device: &Device) -> bool {
    matches!(device.role, Role::NetworkCard | Role::Accelerator) && !device.is_virtual_function
}

/// What there is, in numbers; all of it as facts.
fn tree(machine: &Machine) -> Check {
    let reason = "cards and accelerators reach each other over it";
    let Some(devices) = &machine.devices else {
        return Check::new("PCI", "not readable", Verdict::Unknown, reason);
    };
    let count = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    };
    let (cards, accelerators) = (machine.network_cards(), machine.accelerators());
    let mut value = format!(
        "{}, of them {} and {}",
        count(devices.len(), "device"),
        count(cards.count(), "network card"),
        count(accelerators.count(), "accelerator")
    );
    if devices.iter().all(|device| device.link.is_none()) {
        value += "; no link is told, as in a virtual machine";
    }
    let facts = serde_json::to_value(machine).ok();
    Check { facts, ..Check::new("PCI", value, Verdict::Ok, reason) }
}

fn numa(machine: &Machine) -> Check {
    let reason = "memory of another node is further away";
    let value = match (machine.numa_nodes.len(), machine.packages) {
        (0, _) => "one memory for all".to_owned(),
        (nodes, Some(sockets)) => format!("{nodes}, of {sockets} sockets"),
        (nodes, None) => nodes.to_string(),
    };
    Check::new("NUMA nodes", value.replace("of 1 sockets", "of 1 socket"), Verdict::Ok, reason)
}

/// How a card or an accelerator is joined to the machine: as much as is told.
fn link(machine: &Machine, device: &Device) -> Check {
    let mut told = Vec::new();
    let possible = machine.link_possible(device).filter(|_| machine.is_down_trained(device));
    told.extend(device.link.map(|now| match possible {
        Some(possible) => format!("{now}, could be {possible}"),
        None => now.to_string(),
    }));
    if let Some(express) = device.express {
        told.extend(express.payload_bytes.map(|bytes| format!("MPS {bytes} B")));
        told.extend(express.read_request_bytes.map(|bytes| format!("MRRS {bytes} B")));
    }
    told.extend(device.numa_node.map(|node| format!("NUMA node {node}")));
    told.extend(device.iommu_group.map(|group| match &device.iommu_mode {
        Some(mode) => format!("IOMMU group {group} ({mode})"),
        None => format!("IOMMU group {group}"),
    }));
    let verdict = if possible.is_some() { Verdict::Slow } else { Verdict::Ok };
    let reason = "a link that came up with fewer lanes or slower carries less";
    Check::new(device.label(), told.join(", "), verdict, reason).fixed_by(
        "# put the card in again, or in another slot; some save power so while idle: look again under load",
    )
}

/// The best way from a network card to an accelerator; absent without a card.
fn way(machine: &Machine, accelerator: &Device) -> Option<Check> {
    let rate = |card: &Device| {
        let rates = card.ports.iter().filter_map(|port| port.gbit_per_s);
        rates.fold(0.0, f64::max)
    };
    let nearness =
        |card: &&Device| machine.route(card, accelerator).class.unwrap_or(PathClass::Sys);
    let card = machine
        .network_cards()
        .min_by(|a, b| nearness(a).cmp(&nearness(b)).then(rate(b).total_cmp(&rate(a))))?;
    let route = machine.route(card, accelerator);
    let (judged, expected) = (route.verdict(), route.path().predict());
    let class = route.class.map_or("way unknown".to_owned(), |class| class.to_string());
    let (value, verdict) = match judged.standing {
        Standing::Unknown => (format!("{class}; {}", judged.sentence), Verdict::Unknown),
        standing => {
            let rates = expected.put.zip(expected.get).map_or(String::new(), |(put, get)| {
                let (put, get) = (put.gbyte_per_s(), get.gbyte_per_s());
                format!(", PUT {put:.1} and GET {get:.1} GB/s expected")
            });
            let verdict = if standing == Standing::Good { Verdict::Ok } else { Verdict::Slow };
            (class + &rates, verdict)
        }
    };
    let name = format!("{} to {}", card.label(), accelerator.address);
    let reason =
        "data that a card writes to an accelerator go this way; `gannet predict` tells of all";
    let remedy = judged.remedy.unwrap_or_else(|| format!("# {}", judged.sentence));
    Some(Check::new(name, value, verdict, reason).fixed_by(remedy))
}

fn locked_memory(machine: &Machine, needs: &Needs, has_rdma: bool) -> Check {
    let wanted = if has_rdma { needs.memory } else { 0 };
    let reason = "memory that an RDMA card writes has to stay where it is";
    let found = machine.lock_limit_bytes;
    Check::bytes("locked memory (ulimit -l)", found, wanted, Verdict::Slow, reason)
        .fixed_by("ulimit -l unlimited  # in a unit file: LimitMEMLOCK=infinity")
}

/// By what an RDMA card could write to the memory of an accelerator.
fn gpu_direct(machine: &Machine) -> Check {
    let direct = &machine.gpu_direct;
    let by_dma_buf = direct.dma_buf.filter(|_| direct.nvidia_is_open != Some(false));
    let (value, verdict) = match (&direct.peer_memory, by_dma_buf) {
        (Some(module), Some(true)) => (format!("by {module} or dma-buf"), Verdict::Ok),
        (Some(module), _) => (format!("by {module}"), Verdict::Ok),
        (None, Some(true)) => ("by dma-buf".to_owned(), Verdict::Ok),
        (None, _) => ("neither dma-buf nor a module for it".to_owned(), Verdict::Slow),
    };
    let reason = "without it data go through the host's memory";
    Check::new("GPU-direct", value, verdict, reason).fixed_by(
        "# Linux 5.12 or later with ib_uverbs and, for NVIDIA, the open driver; or: sudo modprobe nvidia_peermem",
    )
}

#[cfg(test)]
mod tests {
    use gannet_topology::testing::{MadeUp, MadeUpSpace};

    use super::*;

    const FULL: (&str, u8) = ("8.0", 16);

    /// A machine whose files `make` writes.
    fn examined(make: impl FnOnce(&MadeUp<'_>)) -> Vec<Check> {
        let root = tempfile::tempdir().unwrap();
        make(&MadeUp::below(root.path()));
        checks(&Machine::read(root.path()), Some(&Err("not there".to_owned())), &Needs::default())
    }

    fn named<'c>(checks: &'c [Check], name: &str) -> &'c Check {
        checks.iter().find(|check| check.name.starts_with(name)).unwrap()
    }

    /// A card and an accelerator below ports of one switch, whose access control is `acs`.
    fn switch(made_up: &MadeUp<'_>, acs: u8, lanes: u8) {
        let top = "pci0000:00/0000:00:01.0";
        let space = |port, acs| MadeUpSpace { port, acs, ..MadeUpSpace::default() };
        let bridge = |path: &str, port, acs| {
            made_up.device(path, 0x060400, 0x8086).link(FULL, FULL).space(space(port, acs));
        };
        bridge(top, 4, 0);
        bridge(&format!("{top}/0000:01:00.0"), 5, 0);
        bridge(&format!("{top}/0000:01:00.0/0000:02:00.0"), 6, acs);
        bridge(&format!("{top}/0000:01:00.0/0000:02:01.0"), 6, acs);
        let card = format!("{top}/0000:01:00.0/0000:02:00.0/0000:03:00.0");
        let card = made_up.device(&card, 0x020700, 0x15b3).link(FULL, FULL).node(0);
        card.space(MadeUpSpace::default()).iommu(3, "identity\n").infiniband("mlx5_0", 100);
        let accelerator = format!("{top}/0000:01:00.0/0000:02:01.0/0000:04:00.0");
        let accelerator = made_up.device(&accelerator, 0x120000, 0x10ee);
        accelerator.link((FULL.0, lanes), FULL).node(0).space(MadeUpSpace::default());
    }

    #[test]
    fn a_virtual_machine_takes_few_lines_and_none_is_unknown() {
        let checks = examined(|made_up| {
            made_up
                .sockets(1)
                .file("proc/self/limits", "Max locked memory  8388608 8388608 bytes\n");
            for n in 0..6 {
                made_up.device(&format!("pci0000:00/0000:00:0{n}.0"), 0x020000, 0x1af4).node(-1);
            }
        });
        let told: Vec<_> = checks.iter().map(|check| (&*check.name, &*check.value)).collect();
        let expected = [
            (
                "PCI",
                "6 devices, of them 6 network cards and 0 accelerators; no link is told, as in a virtual machine",
            ),
            ("NUMA nodes", "1, of 1 socket"),
            ("locked memory (ulimit -l)", "8 MiB"),
            ("libfabric", "none, and not needed without RDMA cards: not there"),
        ];
        assert_eq!(told, expected);
        assert!(checks.iter().all(|check| check.verdict == Verdict::Ok));
    }

    #[test]
    fn without_a_tree_only_that_is_unknown() {
        let checks = examined(|_| ());
        let unknown = checks.iter().filter(|check| check.verdict == Verdict::Unknown);
        let names: Vec<_> = unknown.map(|check| &*check.name).collect();
        assert_eq!(names, ["PCI", "locked memory (ulimit -l)"]);
    }

    #[test]
    fn cards_and_accelerators_are_told_with_their_links_and_the_best_way() {
        let checks = examined(|made_up| {
            switch(made_up.sockets(1), 0, 16);
            made_up.file("proc/self/limits", "Max locked memory  unlimited unlimited bytes\n");
            made_up.file("sys/module/nvidia_peermem/refcnt", "0");
        });
        let value = |name| &*named(&checks, name).value;
        let card = "Gen3 x16, MPS 256 B, MRRS 512 B, NUMA node 0, IOMMU group 3 (identity)";
        assert_eq!(value("mlx5_0 0000:03:00.0"), card);
        let way = "PIX, PUT 12.4 and GET 12.4 GB/s expected";
        assert_eq!(value("mlx5_0 0000:03:00.0 to 0000:04:00.0"), way);
        assert_eq!(value("GPU-direct"), "by nvidia_peermem");
        assert_eq!((value("locked"), value("libfabric")), ("unlimited", "none: not there"));
        let good = checks.iter().filter(|check| check.verdict == Verdict::Ok);
        assert_eq!(good.count(), checks.len() - 1, "all but libfabric: {checks:#?}");
        let facts = named(&checks, "PCI").facts.as_ref().unwrap();
        assert_eq!(facts["devices"][4]["link"]["lanes"], 16);
        assert_eq!(facts["devices"][4]["express"]["payload_bytes"], 256);
    }

    #[test]
    fn what_slows_is_told_with_what_mends_it() {
        let checks = examined(|made_up| switch(made_up.sockets(1), 0b1100, 8));
        let way = named(&checks, "mlx5_0 0000:03:00.0 to");
        assert_eq!(
            (way.verdict, &*way.value),
            (Verdict::Slow, "PIX, PUT 2.4 and GET 1.2 GB/s expected")
        );
        assert_eq!(way.remedy, "sudo setpci -s 0000:02:00.0 ECAP_ACS+6.w=0000");
        let link = named(&checks, "accelerator 0000:04:00.0");
        assert_eq!(link.verdict, Verdict::Slow);
        assert!(link.value.starts_with("Gen3 x8, could be Gen3 x16, "), "{link:?}");
        assert_eq!(named(&checks, "GPU-direct").verdict, Verdict::Slow);
        assert_eq!(named(&checks, "libfabric").remedy, "sudo apt install libfabric1");
        let facts = checks.iter().filter(|check| check.facts.is_some());
        assert_eq!(facts.count(), 1);
    }

    #[test]
    fn of_several_cards_the_nearest_is_told() {
        let checks = examined(|made_up| {
            switch(made_up.sockets(1), 0, 16);
            let other = made_up.device("pci0000:00/0000:00:00.0", 0x020000, 0x8086).node(0);
            other.link(FULL, FULL).infiniband("mlx5_9", 400);
        });
        let ways = checks.iter().filter(|check| check.name.contains(" to "));
        assert_eq!(
            ways.map(|way| &*way.name).collect::<Vec<_>>(),
            ["mlx5_0 0000:03:00.0 to 0000:04:00.0"]
        );
    }
}
