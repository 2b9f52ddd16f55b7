//! What a master makes of reports, one by one.

use gannet_lattice::{Direction, Lattice, Node};
use gannet_lofamo::{
    Answer, Author, Heard, Master, MasterAction, Mode, Picture, Receipt, Report, Timing,
};
use gannet_wire::lofamo::{FaultDescriptorRepr, HostWatchdogRepr, Status};

const MS_NS: u64 = 1_000_000;
const N: Status = Status::Normal;
const F: Status = Status::Failed;

/// A master of a ring of four, which asks for what is in the list.
struct Desk {
    master: Master,
    asked: Vec<MasterAction>,
}

impl Desk {
    fn new() -> Self {
        let lattice: Lattice = "4".parse().unwrap();
        let master = Master::new(lattice, Timing::new(Mode::Push, 100 * MS_NS));
        Self { master, asked: Vec::new() }
    }

    /// A desk that has heard of all nodes that they are well.
    fn of_healthy() -> Self {
        let mut desk = Self::new();
        (0..4).for_each(|node| desk.says(0, node, &descriptor(node, 1, N, [N, N])));
        desk
    }

    /// The host of `from` reports at this time.
    fn says(&mut self, now_ms: u64, from: u32, descriptor: &FaultDescriptorRepr) {
        let (from, descriptor) = (Node(from), *descriptor);
        let report = Report { from, descriptor, author: Author::Nic, relayed: false };
        self.asked.clear();
        self.master.report(now_ms * MS_NS, &report, &mut |action| self.asked.push(action));
    }

    fn answers(&mut self, now_ms: u64, number: u32, own: &FaultDescriptorRepr) {
        let answer = Answer {
            from: Node(own.origin),
            number,
            host: HostWatchdogRepr { host: own.host, ..HostWatchdogRepr::default() },
            descriptor: Some(*own),
        };
        self.asked.clear();
        self.master.answer(now_ms * MS_NS, &answer, &mut |action| self.asked.push(action));
    }

    /// Lets the master act on all deadlines until this time.
    fn poll(&mut self, now_ms: u64) {
        self.asked.clear();
        poll_until(&mut self.master, now_ms * MS_NS, &mut |action| self.asked.push(action));
    }

    fn picture(&self, node: u32) -> &Picture {
        self.master.picture(Node(node))
    }

    /// Number of the probe of `node` that was asked for.
    fn probe(&self, node: u32) -> Option<u32> {
        self.asked.iter().find_map(|action| match *action {
            MasterAction::Probe(probed, number) if probed == Node(node) => Some(number),
            _ => None,
        })
    }
}

fn poll_until(master: &mut Master, end_ns: u64, out: &mut impl FnMut(MasterAction)) {
    while let Some(at_ns) = master.deadline_ns().filter(|&at_ns| at_ns <= end_ns) {
        master.poll(at_ns, out);
    }
}

/// What `origin` says of its host and its links X+ and X-.
fn descriptor(
    origin: u32,
    epoch: u8,
    host: Status,
    [plus, minus]: [Status; 2],
) -> FaultDescriptorRepr {
    let nic = Status::Normal;
    let unknown = Status::Unknown;
    let descriptor = FaultDescriptorRepr { host, nic, epoch, origin, ..Default::default() };
    descriptor.with_links([plus, minus, unknown, unknown, unknown, unknown])
}

/// The receipt for news of node 0 with this epoch.
fn acknowledgement(to: u32, epoch: u8) -> MasterAction {
    let receipt = Receipt { origin: Node(0), epoch, author: Author::Nic };
    MasterAction::Acknowledge(Node(to), receipt)
}

#[test]
fn what_was_never_heard_stays_unknown() {
    let mut desk = Desk::new();
    desk.poll(1_000_000);
    assert!(desk.master.pictures().iter().all(|picture| *picture == Picture::default()));
    assert_eq!((desk.picture(3).host, desk.master.epoch()), (Status::Unknown, 0));
    desk.says(5, 1, &descriptor(0, 9, F, [N, N]));
    assert_eq!(desk.picture(0).heard, Heard::Neighbour(Node(1)));
    assert_eq!((desk.picture(0).host, desk.picture(1).host), (F, Status::Unknown));
}

#[test]
fn reports_are_acknowledged_also_old_ones_but_old_ones_change_nothing() {
    let mut desk = Desk::of_healthy();
    desk.says(10, 1, &descriptor(0, 3, F, [N, N]));
    let acknowledge = acknowledgement(1, 3);
    assert_eq!(desk.asked, [acknowledge, MasterAction::Changed(Node(0))]);
    let epoch = desk.master.epoch();
    desk.says(11, 3, &descriptor(0, 2, N, [N, N]));
    let acknowledge = acknowledgement(3, 2);
    assert_eq!(desk.asked, [acknowledge]);
    assert_eq!((desk.picture(0).host, desk.master.epoch()), (F, epoch));
    desk.says(20, 3, &descriptor(0, 4, N, [N, N]));
    assert_eq!((desk.picture(0).host, desk.master.epoch()), (N, epoch + 1));
}

#[test]
fn reports_of_nodes_that_are_not_there_are_ignored() {
    let mut desk = Desk::of_healthy();
    desk.says(1, 1, &descriptor(4, 3, F, [N, N]));
    assert_eq!(desk.asked, []);
    desk.says(1, 4, &descriptor(1, 3, F, [N, N]));
    assert_eq!(desk.asked, []);
    desk.answers(1, 0, &descriptor(0x00ff_ffff, 3, F, [N, N]));
    assert_eq!(desk.asked, []);
}

/// Node 2 falls silent: its neighbours 1 and 3 say so, and nobody answers.
fn silence(desk: &mut Desk) -> u32 {
    desk.says(10, 1, &descriptor(1, 2, N, [F, N]));
    assert_eq!(desk.probe(2), None, "another way leads there");
    desk.says(10, 3, &descriptor(3, 2, N, [N, F]));
    desk.probe(2).expect("no way leads to node 2")
}

#[test]
fn a_node_to_which_nothing_leads_and_which_does_not_answer_is_gone() {
    let mut desk = Desk::of_healthy();
    let number = silence(&mut desk);
    desk.poll(11);
    assert_eq!(desk.picture(2).nic, N, "it still has time to answer");
    assert_eq!(desk.asked, [MasterAction::Probe(Node(2), number); 10], "a probe may be lost");
    desk.poll(12);
    let picture = desk.picture(2);
    assert_eq!((picture.nic, picture.host), (F, Status::Unknown));
    assert_eq!((picture.heard, picture.since_ns), (Heard::Inferred, 11_450_000));
    assert_eq!(desk.asked.len(), 2, "one last probe, and the verdict");
    // Its last words come late, and do not make it live.
    desk.says(13, 3, &descriptor(2, 2, Status::Sick, [N, N]));
    assert_eq!(desk.picture(2).nic, F);
    // Back again, with a count that begins anew.
    desk.says(9000, 2, &descriptor(2, 0, N, [N, N]));
    assert_eq!((desk.picture(2).nic, desk.picture(2).heard), (N, Heard::Own));
}

#[test]
fn a_node_that_is_back_within_a_second_is_believed_though_its_count_began_anew() {
    let mut desk = Desk::new();
    (0..4).for_each(|node| desk.says(0, node, &descriptor(node, 9, N, [N, N])));
    desk.says(10, 1, &descriptor(1, 10, N, [F, N]));
    desk.says(10, 3, &descriptor(3, 10, N, [N, F]));
    desk.poll(12);
    assert_eq!(desk.picture(2).nic, F);
    let back = descriptor(2, 1, N, [N, N]);
    desk.says(14, 3, &back);
    assert_eq!(desk.picture(2).nic, F, "by the error of ages, it may be from before");
    desk.says(20, 3, &back);
    assert_eq!((desk.picture(2).nic, desk.picture(2).epoch), (N, 1));
}

/// A link that is cut one way only is dead to the other end alone.
#[test]
fn a_host_that_stands_by_its_nic_for_long_enough_is_right() {
    let mut desk = Desk::of_healthy();
    let own = descriptor(2, 1, N, [N, N]);
    let number = silence(&mut desk);
    desk.answers(10, number, &own);
    assert_eq!(desk.picture(2).nic, F);
    for at_ms in (20..400).step_by(10) {
        desk.poll(at_ms);
        if let Some(number) = desk.probe(2) {
            desk.answers(at_ms, number, &own);
            let has_noticed = at_ms >= 10 + 141;
            assert_eq!(desk.picture(2).nic, if has_noticed { N } else { F }, "{at_ms}");
        }
    }
    assert_eq!(desk.picture(2).nic, N);
}

#[test]
fn a_node_whose_cables_are_all_cut_answers_and_is_not_gone() {
    let mut desk = Desk::of_healthy();
    let number = silence(&mut desk);
    let own = descriptor(2, 2, N, [F, F]);
    desk.answers(10, number.wrapping_sub(1), &own);
    assert_eq!(desk.picture(2).links[0], N, "an answer to another probe");
    desk.answers(10, number, &own);
    desk.poll(11);
    assert_eq!((desk.picture(2).nic, desk.picture(2).host), (N, N));
    assert_eq!(desk.master.link(Node(2), Direction::XPlus), F);
}

#[test]
fn a_host_that_shows_links_that_are_dead_has_a_dead_nic() {
    let mut desk = Desk::of_healthy();
    let number = silence(&mut desk);
    desk.answers(10, number, &descriptor(2, 1, N, [N, N]));
    assert_eq!((desk.picture(2).nic, desk.picture(2).host), (F, N));
    // From now on only the master can watch this host.
    let later_ms = desk.master.deadline_ns().unwrap() / MS_NS + 60;
    desk.poll(later_ms);
    assert!(desk.probe(2).is_some());
    desk.poll(later_ms + 2);
    assert_eq!(desk.picture(2).host, Status::Unknown);
}

/// The host of a dead NIC answers: what ails one of its parts is not lost.
#[test]
fn an_answer_without_a_nic_tells_of_the_parts_of_the_host() {
    let mut desk = Desk::of_healthy();
    desk.says(10, 1, &descriptor(1, 2, N, [F, N]));
    desk.says(10, 3, &descriptor(3, 2, N, [N, F]));
    let number = desk.probe(2).unwrap();
    let host = HostWatchdogRepr { host: N, cpu: F, ..HostWatchdogRepr::default() };
    let answer = Answer { from: Node(2), number, host, descriptor: None };
    desk.master.answer(11 * MS_NS, &answer, &mut |_| ());
    assert_eq!((desk.picture(2).host, desk.picture(2).nic), (Status::Sick, F));
}

/// An answer that comes twice, as its probe came twice: the second says nothing new, and does not
/// make the NIC live that the host has not yet missed.
#[test]
fn a_second_answer_is_ignored() {
    let mut desk = Desk::of_healthy();
    let number = silence(&mut desk);
    desk.answers(10, number, &descriptor(2, 1, N, [N, N]));
    assert_eq!(desk.picture(2).nic, F);
    desk.poll(12);
    desk.answers(12, number, &descriptor(2, 1, N, [N, N]));
    assert_eq!((desk.picture(2).nic, desk.asked.len()), (F, 0));
}

#[test]
fn what_a_host_says_by_itself_is_acknowledged_and_taken_once() {
    let mut desk = Desk::of_healthy();
    let mut tell = |now_ms: u64, epoch, host, age_ms| {
        let own =
            FaultDescriptorRepr { origin: 1, epoch, host, nic: F, age_ms, ..Default::default() };
        let report =
            Report { from: Node(1), descriptor: own, author: Author::Host, relayed: false };
        let mut asked = Vec::new();
        desk.master.report(now_ms * MS_NS, &report, &mut |action| asked.push(action));
        let receipt = Receipt { origin: Node(1), epoch, author: Author::Host };
        assert_eq!(asked[0], MasterAction::Acknowledge(Node(1), receipt));
        asked.contains(&MasterAction::Changed(Node(1)))
    };
    assert!(tell(10, 1, N, 0) && !tell(11, 1, N, 1));
    assert!(tell(20, 2, Status::Sick, 0) && !tell(20, 1, N, 10), "overtaken on the way");
    assert_eq!(desk.picture(1).host, Status::Sick);
    // The NIC works again; what the host said before is late.
    desk.says(30, 1, &descriptor(1, 2, N, [N, N]));
    assert_eq!(desk.picture(1).nic, N);
}

/// Half of a machine falls silent: each node at its edge says so. Returns the probes.
fn lose_half(master: &mut Master, lattice: Lattice) -> Vec<(Node, u32)> {
    let is_lost = |node: Node| lattice.coordinates(node)[2] >= lattice.sizes()[2] / 2;
    let mut probes = Vec::new();
    for node in lattice.all().filter(|&node| !is_lost(node)) {
        let links =
            Direction::ALL.map(|direction| match is_lost(lattice.neighbour(node, direction)) {
                true => F,
                false => N,
            });
        let own = descriptor(node.0, 2, N, [N, N]).with_links(links);
        let report = Report { from: node, descriptor: own, author: Author::Nic, relayed: false };
        master.report(10 * MS_NS, &report, &mut |action| {
            if let MasterAction::Probe(node, number) = action {
                probes.push((node, number));
            }
        });
    }
    probes
}

/// As many steps as there are links, not as nodes squared: with these, that would take minutes.
#[test]
fn a_large_part_that_is_lost_is_judged_as_one() {
    let lattice: Lattice = "40x40x40".parse().unwrap();
    let healthy = Master::new(lattice, Timing::new(Mode::Push, 100 * MS_NS));
    let gone = |master: &Master| {
        let pictures = master.pictures().iter();
        pictures.filter(|it| it.nic == F && it.heard == Heard::Inferred).count()
    };
    let mut master = healthy.clone();
    let probes = lose_half(&mut master, lattice);
    assert_eq!(probes.len(), 32_000, "each lost node once");
    poll_until(&mut master, 20 * MS_NS, &mut |_| ());
    assert_eq!((gone(&master), master.picture(Node(0)).nic), (32_000, N));

    let mut master = healthy;
    let (node, number) = lose_half(&mut master, lattice)[12_345];
    let own = descriptor(node.0, 2, N, [N, N]).with_links([N; 6]);
    let host = HostWatchdogRepr { host: N, ..HostWatchdogRepr::default() };
    let answer = Answer { from: node, number, host, descriptor: Some(own) };
    master.answer(10 * MS_NS, &answer, &mut |_| ());
    poll_until(&mut master, 20 * MS_NS, &mut |_| panic!("one vouches for all"));
    assert_eq!((gone(&master), master.picture(node).nic), (0, N));
}
