//! Machines of each shape: the right class, verdict and limiting hop.

use std::path::Path;

use gannet_topology::testing::{MadeUp, MadeUpSpace};
use gannet_topology::{Machine, PathClass, Prediction, Standing, Verdict};

const INFINIBAND: u32 = 0x020700;
const ACCELERATOR: u32 = 0x120000;
const BRIDGE: u32 = 0x060400;
const MELLANOX: u16 = 0x15b3;
const XILINX: u16 = 0x10ee;

const GEN3: &str = "8.0";
const GEN4: &str = "16.0";
const FULL: ((&str, u8), (&str, u8)) = ((GEN3, 16), (GEN3, 16));

/// A bridge, a card and an accelerator as most trees have them.
struct Board<'r> {
    made_up: MadeUp<'r>,
    card: MadeUpSpace,
    accelerator: MadeUpSpace,
    /// Bits of access control at the ports of a switch.
    acs: u8,
    wire_gbit_per_s: u32,
}

impl<'r> Board<'r> {
    fn below(root: &'r Path) -> Self {
        Self {
            made_up: MadeUp::below(root),
            card: MadeUpSpace::default(),
            accelerator: MadeUpSpace::default(),
            acs: 0,
            wire_gbit_per_s: 100,
        }
    }

    fn bridge(&self, path: &str, port: u8) {
        let acs = if port == 6 { self.acs } else { 0 };
        let space = MadeUpSpace { port, acs, payload: (512, self.card.payload.1), ..self.card };
        let bridge = self.made_up.device(path, BRIDGE, 0x8086);
        bridge.link(FULL.0, FULL.1).space(space);
    }

    fn card(&self, path: &str, node: i32) {
        let card = self.made_up.device(path, INFINIBAND, MELLANOX).link(FULL.0, FULL.1).node(node);
        card.space(self.card).infiniband("mlx5_0", self.wire_gbit_per_s);
    }

    fn accelerator(&self, path: &str, node: i32) {
        let it = self.made_up.device(path, ACCELERATOR, XILINX).link(FULL.0, FULL.1).node(node);
        it.space(self.accelerator);
    }

    /// Both below one switch.
    fn switch(&self) {
        self.made_up.sockets(1);
        self.bridge("pci0000:00/0000:00:01.0", 4);
        self.bridge("pci0000:00/0000:00:01.0/0000:01:00.0", 5);
        self.bridge("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0", 6);
        self.bridge("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0", 6);
        self.card("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0", 0);
        self.accelerator("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0", 0);
    }

    /// Each below a root port of its own.
    fn root_ports(&self, host_bridges: [&str; 2], nodes: [i32; 2]) {
        let [one, other] = host_bridges;
        self.bridge(&format!("pci0000:{one}/0000:{one}:01.0"), 4);
        self.bridge(&format!("pci0000:{other}/0000:{other}:02.0"), 4);
        self.card(&format!("pci0000:{one}/0000:{one}:01.0/0000:{one}:1f.0"), nodes[0]);
        let end = format!("pci0000:{other}/0000:{other}:02.0/0000:{other}:1f.1");
        self.accelerator(&end, nodes[1]);
    }
}

/// The only way from a card to an accelerator.
fn judged(root: &Path) -> (Option<PathClass>, Verdict, Prediction) {
    let machine = Machine::read(root);
    let (card, accelerator) =
        (machine.network_cards().next().unwrap(), machine.accelerators().next().unwrap());
    let route = machine.route(card, accelerator);
    let prediction = route.path().predict();
    let paths = machine.paths();
    assert_eq!((paths.len(), paths[1].predict()), (2, prediction.clone()));
    (route.class, route.verdict(), prediction)
}

fn limiting(prediction: &Prediction) -> (&str, f64) {
    let limit = &prediction.put.as_ref().unwrap().limit;
    (&limit.hop, limit.gbyte_per_s)
}

#[test]
fn in_a_virtual_machine_the_class_is_told_and_nothing_is_claimed() {
    let root = tempfile::tempdir().unwrap();
    let made_up = MadeUp::below(root.path());
    made_up
        .device("pci0000:00/0000:00:03.0", 0x020000, 0x1af4)
        .node(-1)
        .file("net/eth0/speed", "-1");
    made_up.device("pci0000:00/0000:00:04.0", 0x030200, 0x10de).node(-1);
    let (class, verdict, prediction) = judged(root.path());
    assert_eq!((class, verdict.standing), (Some(PathClass::Phb), Standing::Unknown));
    assert!(verdict.sentence.contains("virtual machine"), "{verdict:?}");
    assert_eq!((prediction.put, prediction.get), (None, None));
    assert!(prediction.sentence.contains("no rate can be told"), "{}", prediction.sentence);
}

#[test]
fn on_one_socket_the_root_complex_limits() {
    let root = tempfile::tempdir().unwrap();
    let board = Board::below(root.path());
    board.made_up.sockets(1);
    board.root_ports(["00", "00"], [0, 0]);
    let (class, verdict, prediction) = judged(root.path());
    assert_eq!((class, verdict.standing), (Some(PathClass::Phb), Standing::Slow));
    assert!(verdict.sentence.contains("the root complex, which passes on"), "{verdict:?}");
    let (hop, rate) = limiting(&prediction);
    assert!(hop.starts_with("the root complex") && (rate - 4.8).abs() < 0.01, "{hop} {rate}");
    assert!(prediction.sentence.contains("calibrated to the published"), "{}", prediction.sentence);
    assert!((prediction.get.unwrap().gbyte_per_s() - 1.2).abs() < 1e-9);
}

#[test]
fn two_host_bridges_of_one_node_are_told_apart_from_one() {
    let root = tempfile::tempdir().unwrap();
    let board = Board::below(root.path());
    board.made_up.sockets(2);
    board.root_ports(["17", "3a"], [0, 0]);
    let (class, verdict, prediction) = judged(root.path());
    assert_eq!((class, verdict.standing), (Some(PathClass::Node), Standing::Slow));
    assert!(verdict.sentence.contains("two root complexes"), "{verdict:?}");
    assert!(limiting(&prediction).0.starts_with("the root complexes"));
}

#[test]
fn across_two_sockets_their_interconnect_limits() {
    let root = tempfile::tempdir().unwrap();
    let board = Board::below(root.path());
    board.made_up.sockets(2);
    board.root_ports(["17", "d7"], [0, 1]);
    let (class, verdict, prediction) = judged(root.path());
    assert_eq!((class, verdict.standing), (Some(PathClass::Sys), Standing::Slow));
    assert!(verdict.sentence.contains("between NUMA nodes 0 and 1"), "{verdict:?}");
    assert!(limiting(&prediction).0.starts_with("the interconnect between NUMA nodes"));
}

#[test]
fn below_one_switch_only_the_wire_limits() {
    let root = tempfile::tempdir().unwrap();
    Board::below(root.path()).switch();
    let (class, verdict, prediction) = judged(root.path());
    assert_eq!((class, verdict.standing), (Some(PathClass::Pix), Standing::Good));
    let (hop, rate) = limiting(&prediction);
    assert!(hop.starts_with("the wire of mlx5_0") && (rate - 12.42).abs() < 0.01, "{hop} {rate}");
    let next = prediction.put.unwrap().runner_up.unwrap();
    assert!((next.gbyte_per_s - 14.40).abs() < 0.01 && next.calibrated.is_none());
}

#[test]
fn below_two_switches_the_class_is_pxb() {
    let root = tempfile::tempdir().unwrap();
    let board = Board::below(root.path());
    board.switch();
    let second = "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0";
    board.bridge(second, 6);
    board.bridge(&format!("{second}/0000:05:00.0"), 5);
    board.bridge(&format!("{second}/0000:05:00.0/0000:06:00.0"), 6);
    board.accelerator(&format!("{second}/0000:05:00.0/0000:06:00.0/0000:07:00.0"), 0);
    let machine = Machine::read(root.path());
    let card = machine.network_cards().next().unwrap();
    let classes = machine.accelerators().map(|it| machine.route(card, it).class);
    assert_eq!(classes.collect::<Vec<_>>(), [Some(PathClass::Pix), Some(PathClass::Pxb)]);
    let far = machine.accelerators().nth(1).unwrap();
    let route = machine.route(card, far);
    assert_eq!(route.verdict().standing, Standing::Good);
    let links: Vec<_> = route.links().map(|device| device.address.to_string()).collect();
    assert_eq!(links, ["0000:03:00.0", "0000:07:00.0", "0000:05:00.0"]);
}

#[test]
fn a_down_trained_link_limits_and_is_named() {
    let root = tempfile::tempdir().unwrap();
    let board = Board::below(root.path());
    board.switch();
    let accelerator = root.path().join("sys/bus/pci/devices/0000:04:00.0/current_link_width");
    std::fs::write(accelerator, "4\n").unwrap();
    let (class, verdict, prediction) = judged(root.path());
    assert_eq!((class, verdict.standing), (Some(PathClass::Pix), Standing::Slow));
    let told = "accelerator 0000:04:00.0 runs at Gen3 x4 where both ends could do Gen3 x16";
    assert!(verdict.sentence.contains(told), "{verdict:?}");
    let (hop, rate) = limiting(&prediction);
    assert!(hop.starts_with("the link of accelerator 0000:04:00.0 (Gen3 x4"), "{hop}");
    assert!((rate - 3.60).abs() < 0.01, "{rate}");
}

#[test]
fn what_only_root_may_read_is_assumed_and_said_to_be() {
    let root = tempfile::tempdir().unwrap();
    Board { wire_gbit_per_s: 400, ..Board::below(root.path()) }.switch();
    for device in std::fs::read_dir(root.path().join("sys/bus/pci/devices")).unwrap() {
        let config = device.unwrap().path().join("config");
        let bytes = std::fs::read(&config).unwrap();
        std::fs::write(config, &bytes[..64]).unwrap();
    }
    let (class, verdict, prediction) = judged(root.path());
    assert_eq!((class, verdict.standing), (Some(PathClass::Pix), Standing::Good));
    let (hop, rate) = limiting(&prediction);
    assert!(hop.ends_with(", MPS assumed (Gen3 x16, MPS 256 B)"), "{hop}");
    assert!((rate - 14.40).abs() < 0.01, "{rate}");
}

#[test]
fn a_card_that_could_do_more_than_its_slot_is_not_down_trained() {
    let root = tempfile::tempdir().unwrap();
    Board::below(root.path()).switch();
    let card = root.path().join("sys/bus/pci/devices/0000:03:00.0/max_link_speed");
    std::fs::write(card, format!("{GEN4} GT/s PCIe\n")).unwrap();
    assert_eq!(judged(root.path()).1.standing, Standing::Good);
}

#[test]
fn access_control_sends_the_way_below_a_switch_through_the_root() {
    let root = tempfile::tempdir().unwrap();
    let board = Board { acs: 0b11101, ..Board::below(root.path()) };
    board.switch();
    let (class, verdict, prediction) = judged(root.path());
    assert_eq!((class, verdict.standing), (Some(PathClass::Pix), Standing::Slow));
    assert!(verdict.sentence.contains("(ACS) at port 0000:02:00.0"), "{verdict:?}");
    assert!(verdict.remedy.unwrap().contains("setpci -s 0000:02:00.0"));
    let (hop, rate) = limiting(&prediction);
    assert!(hop.starts_with("the root complex") && (rate - 4.8).abs() < 0.01, "{hop} {rate}");
}

#[test]
fn small_payloads_cost_and_limit() {
    let root = tempfile::tempdir().unwrap();
    let small = MadeUpSpace { payload: (512, 128), ..MadeUpSpace::default() };
    let board = Board { card: small, wire_gbit_per_s: 200, ..Board::below(root.path()) };
    board.switch();
    let (class, verdict, prediction) = judged(root.path());
    assert_eq!((class, verdict.standing), (Some(PathClass::Pix), Standing::Slow));
    assert!(
        verdict.sentence.contains("carry 128 B where every device on the way could take 256 B")
    );
    assert!(verdict.sentence.contains("costs 8 %"), "{verdict:?}");
    let (hop, rate) = limiting(&prediction);
    assert!(hop.contains("Gen3 x16, MPS 128 B") && (rate - 13.27).abs() < 0.01, "{hop} {rate}");
}

#[test]
fn without_numa_two_host_bridges_are_of_one_node() {
    let root = tempfile::tempdir().unwrap();
    let board = Board::below(root.path());
    board.root_ports(["00", "80"], [-1, -1]);
    let (class, verdict, prediction) = judged(root.path());
    assert_eq!((class, verdict.standing), (Some(PathClass::Node), Standing::Slow));
    assert!(limiting(&prediction).0.starts_with("the root complexes"));
    // With two sockets it could be either.
    board.made_up.sockets(2);
    let (class, verdict, prediction) = judged(root.path());
    assert_eq!((class, verdict.standing), (None, Standing::Unknown));
    assert_eq!(prediction.unknown, ["what joins the two"]);
    assert!(prediction.sentence.contains("At most"), "{}", prediction.sentence);
}

#[test]
fn a_translating_iommu_is_told_of_where_packets_meet_it() {
    let root = tempfile::tempdir().unwrap();
    let board = Board::below(root.path());
    board.made_up.sockets(1);
    board.bridge("pci0000:00/0000:00:01.0", 4);
    board.bridge("pci0000:00/0000:00:02.0", 4);
    board.card("pci0000:00/0000:00:01.0/0000:01:00.0", 0);
    let path = "pci0000:00/0000:00:02.0/0000:02:00.0";
    let accelerator = board.made_up.device(path, ACCELERATOR, XILINX).link(FULL.0, FULL.1);
    accelerator.iommu(7, "DMA-FQ\n");
    let machine = Machine::read(root.path());
    assert_eq!(machine.accelerators().next().unwrap().iommu_group, Some(7));
    let (_, verdict, _) = judged(root.path());
    assert!(verdict.sentence.contains("iommu=pt"), "{verdict:?}");
}
