//! What a NIC keeps of what it hears.

use gannet_lattice::{Direction, Lattice, Node};
use gannet_lofamo::{Mode, Nic, NicAction, Thresholds, Timing};
use gannet_wire::lofamo::{Diagnostic, FaultDescriptorRepr, HostWatchdogRepr, Status};

const MS_NS: u64 = 1_000_000;
const SELF: Node = Node(5);

/// The NIC of node 5 of a lattice with more nodes than a NIC keeps news of; its host works, and the
/// master has its own news.
fn known_nic() -> Nic {
    let lattice: Lattice = "64x32".parse().unwrap();
    let timing = Timing::new(Mode::Push, 100 * MS_NS);
    let mut nic = Nic::new(lattice, SELF, timing, Thresholds::default());
    nic.beat(0, working_host().word(), &mut |_| ());
    nic.credit(0, Direction::XPlus, &mut |_| ());
    Direction::ALL.into_iter().for_each(|direction| send_all(&mut nic, direction));
    nic.confirm(SELF, nic.own(0).epoch);
    nic
}

fn working_host() -> HostWatchdogRepr {
    let (host, service_network) = (Status::Normal, Status::Normal);
    HostWatchdogRepr { host, service_network, beats: 1, ..HostWatchdogRepr::default() }
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

/// A host is interrupted again and again until it confirms.
#[test]
fn what_is_not_confirmed_is_offered_again_ever_more_seldom() {
    let mut nic = known_nic();
    let timing = Timing::new(Mode::Push, 100 * MS_NS);
    let news = FaultDescriptorRepr { origin: 6, epoch: 1, ..Default::default() };
    let news = Diagnostic { descriptor: news, relayed: false };
    let mut at_ns = MS_NS;
    nic.receive(at_ns, Direction::XPlus, &news, &mut |_| ());
    // And it has news of its own.
    nic.link_errors(at_ns, Direction::XPlus, 1000, 100, &mut |_| ());
    for tries in 0..12 {
        let due_ns = nic.confirm_deadline_ns();
        assert_eq!(due_ns - at_ns, timing.repeat_ns(tries));
        at_ns = due_ns;
        let (mut offered, mut passed) = (Vec::new(), 0);
        // The host and the link live on meanwhile.
        nic.beat(at_ns, working_host().word(), &mut |_| ());
        nic.credit(at_ns, Direction::XPlus, &mut |_| ());
        nic.poll(at_ns, &mut |action| match action {
            NicAction::Notify(news) => offered.push(news.descriptor.origin),
            NicAction::Fresh(_) => passed += 1,
        });
        assert_eq!((offered, passed), (vec![5, 6], if tries == 0 { 4 } else { 0 }));
    }
    nic.confirm(SELF, nic.own(at_ns).epoch);
    nic.confirm(Node(6), 1);
    assert_eq!(nic.confirm_deadline_ns(), u64::MAX);
}

#[test]
fn a_new_master_is_told_all_again() {
    let mut nic = known_nic();
    let news = FaultDescriptorRepr { origin: 6, epoch: 1, ..Default::default() };
    let news = Diagnostic { descriptor: news, relayed: false };
    nic.receive(MS_NS, Direction::XPlus, &news, &mut |_| ());
    nic.confirm(Node(6), 1);
    let mut told = Vec::new();
    nic.renew(2 * MS_NS, &mut |action| {
        if let NicAction::Notify(diagnostic) = action {
            told.push(diagnostic.descriptor.origin);
        }
    });
    assert_eq!(told, [5, 6]);
}

/// Whoever begins anew is not believed before its count has overtaken the one that it had.
#[test]
fn a_neighbour_that_began_anew_hears_how_far_its_count_was() {
    let mut nic = known_nic();
    let says = |nic: &mut Nic, epoch| {
        let descriptor = FaultDescriptorRepr { origin: 6, epoch, ..Default::default() };
        let mut links = Vec::new();
        nic.receive(
            MS_NS,
            Direction::XPlus,
            &Diagnostic { descriptor, relayed: false },
            &mut |it| {
                if let NicAction::Fresh(direction) = it {
                    links.push(direction);
                }
            },
        );
        links
    };
    assert_eq!(says(&mut nic, 9), []);
    assert_eq!(says(&mut nic, 9), []);
    assert_eq!(says(&mut nic, 2), [Direction::XPlus]);
    assert_eq!(nic.diagnostic(MS_NS, Direction::XPlus).descriptor.epoch, 9);
}
