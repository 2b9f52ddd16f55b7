//! The host: beats, watches its NIC, and speaks for the node when that is silent.

use gannet_lattice::Node;
use gannet_wire::lofamo::{
    Diagnostic, FaultDescriptorRepr, HostWatchdogRepr, NicWatchdogRepr, Status, VERSION,
};

use super::report::{Answer, Author, Change, Receipt, Report};
use super::timing::{Mode, Timing, Watch};

/// What a host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAction {
    /// Send this to the master.
    Report(Report),
    /// Tell the NIC that the master has the news of a node: [`Nic::confirm`](super::Nic::confirm).
    Confirm {
        /// Node the news are of.
        origin: Node,
        /// Their epoch.
        epoch: u8,
    },
}

/// The host of one node.
///
/// It keeps no list of reports under way: the NIC does, and repeats what is not confirmed. Only what
/// the host says in place of a NIC that is silent, it repeats itself.
#[derive(Clone, Debug)]
pub struct Host {
    timing: Timing,
    node: Node,
    register: HostWatchdogRepr,
    watch: Watch,
    nic: Status,
    /// While the NIC is silent: the status of this host that the master was last told.
    told: Option<Status>,
    /// The change of which the master was last told.
    change: Change,
    /// How often it was told of that.
    tries: u8,
    /// While it has not acknowledged that: when it is told again.
    repeat_ns: Option<u64>,
}

impl Host {
    /// The host of `node`, healthy, whose service network is up.
    pub fn new(node: Node, timing: Timing) -> Self {
        let register = HostWatchdogRepr {
            version: VERSION,
            host: Status::Normal,
            memory: Status::Normal,
            cpu: Status::Normal,
            accelerator: Status::Normal,
            storage: Status::Normal,
            service_network: Status::Normal,
            processes: Status::Normal,
            ..HostWatchdogRepr::default()
        };
        Self {
            timing,
            node,
            register,
            watch: Watch::default(),
            nic: Status::Unknown,
            told: None,
            change: Change::default(),
            tries: 0,
            repeat_ns: None,
        }
    }

    /// What the host says of itself, to be changed as its own monitors find; the next beat tells it.
    pub fn statuses_mut(&mut self) -> &mut HostWatchdogRepr {
        &mut self.register
    }

    /// What the host knows of its NIC.
    pub fn nic(&self) -> Status {
        self.nic
    }

    /// Beats: gives the word to write into the register, and tells the master what has changed if
    /// no NIC does.
    #[inline]
    pub fn beat(&mut self, now_ns: u64, out: &mut impl FnMut(HostAction)) -> u64 {
        self.register.beats = self.register.beats.wrapping_add(1);
        self.register.alive = self.register.beats & 1 == 1;
        self.speak(now_ns, out);
        self.register.word()
    }

    /// Takes the NIC's register: in poll mode as read, in push mode as written by the NIC.
    #[inline]
    pub fn nic_register(&mut self, now_ns: u64, register: u64, out: &mut impl FnMut(HostAction)) {
        let register = NicWatchdogRepr::from_word(register);
        match self.timing.mode {
            Mode::Poll => self.watch.check(register.beats, self.timing.nic_misses),
            Mode::Push => self.watch.beat(now_ns, self.timing.deadline_ns),
        };
        self.judge(now_ns, register.nic, out);
    }

    /// Time at which [`poll`](Self::poll) has something to do: when the master is to be told again,
    /// and in push mode when the NIC will be failed if it does not beat.
    #[inline]
    pub fn deadline_ns(&self) -> Option<u64> {
        self.watch.deadline_ns().into_iter().chain(self.repeat_ns).min()
    }

    /// Acts on the deadlines that have come.
    #[inline]
    pub fn poll(&mut self, now_ns: u64, out: &mut impl FnMut(HostAction)) {
        self.watch.expire(now_ns);
        self.judge(now_ns, self.nic, out);
    }

    fn judge(&mut self, now_ns: u64, nic_says: Status, out: &mut impl FnMut(HostAction)) {
        self.nic = match self.watch.status() {
            Status::Normal => nic_says,
            other => other,
        };
        self.speak(now_ns, out);
    }

    /// A NIC that no longer beats cannot speak for itself, nor for its host: the host does, when the
    /// NIC falls silent and at every change of its own status from then on, until the master has it.
    fn speak(&mut self, now_ns: u64, out: &mut impl FnMut(HostAction)) {
        if self.watch.status() != Status::Failed {
            (self.told, self.repeat_ns) = (None, None);
            return;
        }
        let host = host_status(&self.register);
        if self.told != Some(host) {
            self.told = Some(host);
            self.change = Change { epoch: self.change.epoch.wrapping_add(1), at_ns: now_ns };
            (self.tries, self.repeat_ns) = (0, Some(now_ns));
        }
        if self.repeat_ns.is_none_or(|at| at > now_ns) {
            return;
        }
        self.repeat_ns = Some(now_ns + self.timing.repeat_ns(self.tries));
        self.tries = self.tries.saturating_add(1);
        let nic = Status::Failed;
        let descriptor = FaultDescriptorRepr {
            host,
            nic,
            epoch: self.change.epoch,
            age_ms: self.change.age_ms(now_ns),
            origin: self.node.0,
            ..FaultDescriptorRepr::default()
        };
        let (from, author) = (self.node, Author::Host);
        out(HostAction::Report(Report { from, descriptor, author, relayed: false }));
    }

    /// Takes news from the NIC, by interrupt or by reading its registers.
    pub fn notice(&mut self, diagnostic: &Diagnostic, out: &mut impl FnMut(HostAction)) {
        out(HostAction::Report(Report {
            from: self.node,
            descriptor: diagnostic.descriptor,
            author: Author::Nic,
            relayed: diagnostic.relayed,
        }));
    }

    /// The master has what was reported.
    pub fn acknowledged(&mut self, receipt: &Receipt, out: &mut impl FnMut(HostAction)) {
        let Receipt { origin, epoch, author } = *receipt;
        match author {
            Author::Nic => out(HostAction::Confirm { origin, epoch }),
            Author::Host if epoch == self.change.epoch => self.repeat_ns = None,
            Author::Host => {}
        }
    }

    /// There is another master, which has heard nothing: what this host says for its NIC is told
    /// again.
    pub fn renew(&mut self, now_ns: u64, out: &mut impl FnMut(HostAction)) {
        self.told = None;
        self.speak(now_ns, out);
    }

    /// Answers the probe of this number; `own` is what the NIC says of the node.
    pub fn probed(&self, number: u32, own: FaultDescriptorRepr) -> Answer {
        let speaks = self.watch.status() != Status::Failed;
        Answer { from: self.node, number, host: self.register, descriptor: speaks.then_some(own) }
    }
}

/// Makes one status of all that a host says of itself: a part that failed makes it sick, as the host
/// itself still beats.
pub(super) fn host_status(register: &HostWatchdogRepr) -> Status {
    let parts = [
        register.memory,
        register.cpu,
        register.accelerator,
        register.storage,
        register.service_network,
        register.processes,
    ];
    let worst = parts.into_iter().max().unwrap_or_default().min(Status::Sick);
    register.host.max(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 100_000_000;

    /// What the host tells the master at its next beat, or in poll mode at its next reading.
    fn told(host: &mut Host, now_ns: u64) -> Vec<(Status, Status)> {
        let mut told = Vec::new();
        host.beat(now_ns, &mut |action| {
            if let HostAction::Report(report) = action {
                assert_eq!((report.author, report.from), (Author::Host, Node(3)));
                told.push((report.descriptor.host, report.descriptor.nic));
            }
        });
        told
    }

    /// A host that has found its NIC silent, and said so.
    fn alone(mode: Mode) -> Host {
        let mut host = Host::new(Node(3), Timing::new(mode, PERIOD_NS));
        let register = NicWatchdogRepr { beats: 1, nic: Status::Normal, ..Default::default() };
        let mut reports = 0;
        let mut count = |action| reports += usize::from(matches!(action, HostAction::Report(_)));
        for reading in 0..if mode == Mode::Poll { 3 } else { 1 } {
            host.nic_register(reading, register.word(), &mut count);
        }
        if mode == Mode::Push {
            host.poll(PERIOD_NS, &mut count);
        }
        assert_eq!((host.nic(), reports), (Status::Failed, 1), "{mode:?}");
        host
    }

    fn acknowledge(host: &mut Host) {
        let epoch = host.change.epoch;
        let receipt = Receipt { origin: Node(3), epoch, author: Author::Host };
        host.acknowledged(&receipt, &mut |_| panic!("nothing that the NIC said"));
    }

    #[test]
    fn a_host_without_a_nic_tells_every_change_of_its_own_once() {
        for mode in Mode::ALL {
            let mut host = alone(mode);
            let now_ns = 2 * PERIOD_NS;
            acknowledge(&mut host);
            assert_eq!(told(&mut host, now_ns), []);
            host.statuses_mut().memory = Status::Sick;
            assert_eq!(told(&mut host, now_ns), [(Status::Sick, Status::Failed)], "{mode:?}");
            acknowledge(&mut host);
            assert_eq!((told(&mut host, 3 * PERIOD_NS), host.deadline_ns()), (Vec::new(), None));
            host.statuses_mut().memory = Status::Normal;
            assert_eq!(told(&mut host, now_ns), [(Status::Normal, Status::Failed)]);
        }
    }

    #[test]
    fn a_host_without_a_nic_tells_a_new_master_again() {
        for mode in Mode::ALL {
            let mut host = alone(mode);
            acknowledge(&mut host);
            let mut reports = 0;
            host.renew(2 * PERIOD_NS, &mut |_| reports += 1);
            assert_eq!((reports, told(&mut host, 2 * PERIOD_NS)), (1, Vec::new()), "{mode:?}");
            let mut host = Host::new(Node(3), Timing::new(mode, PERIOD_NS));
            host.renew(0, &mut |_| panic!("its NIC speaks for itself"));
        }
    }

    #[test]
    fn a_host_repeats_what_the_master_has_not_acknowledged_ever_more_seldom() {
        for mode in Mode::ALL {
            let mut host = alone(mode);
            let timing = Timing::new(mode, PERIOD_NS);
            let mut due_ns = host.deadline_ns().unwrap();
            for tries in 1..20 {
                assert_eq!(told(&mut host, due_ns - 1), []);
                assert_eq!(told(&mut host, due_ns), [(Status::Normal, Status::Failed)]);
                let next_ns = host.deadline_ns().unwrap();
                assert_eq!(next_ns - due_ns, timing.repeat_ns(tries), "{mode:?}");
                due_ns = next_ns;
            }
            assert_eq!(timing.repeat_ns(20), timing.poll_ns);
            let stale = Receipt { origin: Node(3), epoch: 0, author: Author::Host };
            host.acknowledged(&stale, &mut |_| ());
            assert!(host.deadline_ns().is_some(), "of another change");
        }
    }

    #[test]
    fn a_host_leaves_it_to_its_nic_while_that_beats() {
        let mut host = alone(Mode::Push);
        let register = NicWatchdogRepr { beats: 2, nic: Status::Normal, ..Default::default() };
        host.nic_register(2 * PERIOD_NS, register.word(), &mut |_| ());
        host.statuses_mut().storage = Status::Failed;
        assert_eq!(told(&mut host, 2 * PERIOD_NS), []);
        host.poll(3 * PERIOD_NS, &mut |_| ());
        assert_eq!((told(&mut host, 3 * PERIOD_NS), host.nic()), (Vec::new(), Status::Failed));
    }

    #[test]
    fn a_part_that_failed_makes_a_host_sick() {
        let mut register = HostWatchdogRepr { host: Status::Normal, ..Default::default() };
        assert_eq!(host_status(&register), Status::Normal);
        register.accelerator = Status::Failed;
        assert_eq!(host_status(&register), Status::Sick);
        register.host = Status::Failed;
        assert_eq!(host_status(&register), Status::Failed);
    }
}
