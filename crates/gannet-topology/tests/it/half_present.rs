//! Trees that are cut off, run in rings or lie: what is not known is absent, and reading ends.

use std::fs;
use std::os::unix::fs::symlink;

use gannet_topology::testing::MadeUp;
use gannet_topology::{Machine, Role};
use proptest::prelude::*;

#[test]
fn nothing_at_all_is_a_machine_of_which_nothing_is_known() {
    let root = tempfile::tempdir().unwrap();
    let machine = Machine::read(root.path().join("not there"));
    assert_eq!(machine.devices, None);
    assert_eq!((machine.packages, machine.lock_limit_bytes), (None, None));
    assert_eq!(machine.gpu_direct, Default::default());
    assert!(machine.paths().is_empty());
}

#[test]
fn links_in_a_ring_pipes_and_huge_files_do_no_harm() {
    let root = tempfile::tempdir().unwrap();
    let bus = root.path().join("sys/bus/pci/devices");
    fs::create_dir_all(&bus).unwrap();
    symlink("0000:00:02.0", bus.join("0000:00:01.0")).unwrap();
    symlink("0000:00:01.0", bus.join("0000:00:02.0")).unwrap();
    let made_up = MadeUp::below(root.path());
    let device = made_up.device("pci0000:00/0000:00:03.0", 0x020000, 0x15b3);
    device.file("numa_node", &"9".repeat(1 << 20)).file("current_link_speed", "\u{0}").node(-7);
    let directory = root.path().join("sys/devices/pci0000:00/0000:00:03.0");
    let endless = directory.join("config");
    symlink("/dev/zero", endless).unwrap();
    let pipe = directory.join("max_link_speed");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    symlink(".", directory.join("iommu_group")).unwrap();
    let machine = Machine::read(root.path());
    assert_eq!(machine.devices().len(), 3);
    let card = machine.network_cards().next().unwrap();
    assert_eq!((card.numa_node, card.link, card.link_max), (None, None, None));
    assert_eq!((card.express, card.acs, card.iommu_group), (None, None, None));
    assert_eq!(machine.devices()[0].role, Role::Other);
}

#[test]
fn what_a_machine_has_beside_devices_is_read() {
    let root = tempfile::tempdir().unwrap();
    let made_up = MadeUp::below(root.path());
    made_up
        .sockets(2)
        .file("proc/self/limits", "Max locked memory         8388608   unlimited   bytes\n")
        .file("proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
        .file("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module  560\n")
        .file("sys/module/nvidia_peermem/refcnt", "0\n")
        .file("sys/module/ib_uverbs/refcnt", "1\n")
        .file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n")
        .file("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n");
    let machine = Machine::read(root.path());
    assert_eq!((machine.packages, machine.numa_nodes.len()), (Some(2), 2));
    assert_eq!(machine.lock_limit_bytes, Some(8 << 20));
    let pages = machine.huge_pages[0];
    assert_eq!((pages.page_bytes, pages.total, pages.free), (2 << 20, 512, Some(500)));
    let direct = machine.gpu_direct;
    assert_eq!(direct.peer_memory.as_deref(), Some("nvidia_peermem"));
    assert_eq!((direct.dma_buf, direct.nvidia_is_open), (Some(true), Some(true)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn whatever_the_files_hold_every_way_has_a_verdict(
        texts in proptest::collection::vec("[ -~\n]{0,24}|[0-9a-fx. GT/s]{0,12}|-?[0-9]{1,30}", 16),
        config in proptest::collection::vec(any::<u8>(), 0..300),
        deep in 0usize..40,
    ) {
        let root = tempfile::tempdir().unwrap();
        let made_up = MadeUp::below(root.path());
        let bridges: String = (0..deep).map(|n| format!("/0000:{n:02x}:1f.0")).collect();
        for (n, class) in [0x020000, 0x120000].into_iter().enumerate() {
            let path = format!("pci0000:00{bridges}/0000:{:02x}:00.0", 0xf0 + n);
            let mut device = made_up.device(&path, class, 0x10ee);
            let names = ["numa_node", "current_link_speed", "current_link_width", "max_link_speed",
                "max_link_width", "net/a/speed", "infiniband/b/ports/1/rate", "vendor"];
            for (name, text) in names.iter().zip(&texts[8 * n..]) {
                device = device.file(name, text);
            }
            fs::write(root.path().join("sys/devices").join(&path).join("config"), &config).unwrap();
        }
        let machine = Machine::read(root.path());
        for path in machine.paths() {
            let prediction = path.predict();
            for rate in [&prediction.put, &prediction.get].into_iter().flatten() {
                prop_assert!(rate.gbyte_per_s() > 0.0 && rate.gbyte_per_s().is_finite());
            }
        }
        for (card, accelerator) in machine.network_cards().zip(machine.accelerators()) {
            prop_assert!(!machine.route(card, accelerator).verdict().sentence.is_empty());
        }
    }
}
