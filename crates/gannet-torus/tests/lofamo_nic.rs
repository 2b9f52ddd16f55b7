//! What a NIC keeps of what it hears.

use gannet_torus::lofamo::{Mode, Nic, Thresholds, Timing};
use gannet_torus::{Direction, Lattice, Node};
use gannet_wire::lofamo::{Diagnostic, FaultDescriptorRepr, HostWatchdogRepr, Status};

const MS_NS: u64 = 1_000_000;
const SELF: Node = Node(5);

/// The NIC of node 5 of a lattice with more nodes than a NIC keeps news of; its host works, and the
/// master has its own news.
fn known_nic() -> Nic {
    let lattice: Lattice = "64x32".parse().unwrap();
    let timing = Timing::new(Mode::Push, 100 * MS_NS);
    let mut nic = Nic::new(lattice, SELF, timing, Thresholds::default());
    let host = HostWatchdogRepr {
        host: Status::Normal,
        service_network: Status::Normal,
        beats: 1,
        ..HostWatchdogRepr::default()
    };
    nic.beat(0, host.word(), &mut |_| ());
    nic.credit(0, Direction::XPlus, &mut |_| ());
    Direction::ALL.into_iter().for_each(|direction| send_all(&mut nic, direction));
    nic.confirm(SELF, nic.own(0).epoch);
    nic
}

fn send_all(nic: &mut Nic, direction: Direction) {
    while nic.has_fresh(direction) {
        nic.diagnostic(0, direction);
    }
}

/// News of all other nodes come, and the master hears of none.
fn fill(nic: &mut Nic) {
    for origin in (0..2048).filter(|&origin| origin != SELF.0) {
        let descriptor = FaultDescriptorRepr { origin, epoch: 1, ..Default::default() };
        let diagnostic = Diagnostic { descriptor, relayed: true };
        nic.receive(MS_NS, Direction::XPlus, &diagnostic, &mut |_| ());
    }
    assert!(nic.dropped() > 0, "the table is full");
}

#[test]
fn a_nic_never_forgets_what_it_said_of_itself() {
    let mut nic = known_nic();
    let before = nic.own(0);
    fill(&mut nic);
    assert_eq!(nic.own(0), before);
    assert_eq!((before.origin, before.host, before.nic), (5, Status::Normal, Status::Normal));
    nic.link_errors(2 * MS_NS, Direction::XPlus, 1000, 100, &mut |_| ());
    assert_eq!(nic.own(2 * MS_NS).epoch, before.epoch + 1, "its count goes on");
}
