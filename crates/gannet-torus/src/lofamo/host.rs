//! The host: beats, watches its NIC, and tells the master.

use gannet_wire::lofamo::{
    Diagnostic, FaultDescriptorRepr, HostWatchdogRepr, NicWatchdogRepr, Status, VERSION,
};

use super::report::{Answer, Author, Report};
use super::timing::{Mode, Timing};
use super::watch::Watch;
use crate::lattice::Node;

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
/// It keeps no list of reports under way: the NIC does, and passes on what is not confirmed.
#[derive(Clone, Debug)]
pub struct Host {
    timing: Timing,
    node: Node,
    register: HostWatchdogRepr,
    watch: Watch,
    nic: Status,
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
        Self { timing, node, register, watch: Watch::default(), nic: Status::Unknown }
    }

    /// What the host says of itself, to be changed as its own monitors find; the next beat tells it.
    pub fn statuses_mut(&mut self) -> &mut HostWatchdogRepr {
        &mut self.register
    }

    /// What the host knows of its NIC.
    pub fn nic(&self) -> Status {
        self.nic
    }

    /// Beats: gives the word to write into the register.
    #[inline]
    pub fn beat(&mut self) -> u64 {
        self.register.beats = self.register.beats.wrapping_add(1);
        self.register.alive = self.register.beats & 1 == 1;
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
        self.judge(register.nic, out);
    }

    /// Push mode: when the NIC will be failed if it does not beat.
    #[inline]
    pub fn deadline_ns(&self) -> Option<u64> {
        self.watch.deadline_ns()
    }

    /// Acts on the deadline, if it has come.
    #[inline]
    pub fn poll(&mut self, now_ns: u64, out: &mut impl FnMut(HostAction)) {
        self.watch.expire(now_ns);
        self.judge(self.nic, out);
    }

    /// A NIC that no longer beats cannot speak for itself: the host does.
    fn judge(&mut self, nic_says: Status, out: &mut impl FnMut(HostAction)) {
        let nic = match self.watch.status() {
            Status::Normal => nic_says,
            other => other,
        };
        let newly_silent = self.watch.status() == Status::Failed && self.nic != Status::Failed;
        self.nic = nic;
        if newly_silent {
            let descriptor = FaultDescriptorRepr {
                host: self.register.host,
                nic,
                origin: self.node.0,
                ..FaultDescriptorRepr::default()
            };
            let (from, author) = (self.node, Author::Host);
            out(HostAction::Report(Report { from, descriptor, author, relayed: false }));
        }
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

    /// The master has the news of `origin` with this epoch.
    pub fn acknowledged(&mut self, origin: Node, epoch: u8, out: &mut impl FnMut(HostAction)) {
        out(HostAction::Confirm { origin, epoch });
    }

    /// Answers the probe of this number; `own` is what the NIC says of the node.
    pub fn probed(&self, number: u32, own: FaultDescriptorRepr) -> Answer {
        let speaks = self.watch.status() != Status::Failed;
        Answer { from: self.node, number, host: self.register, descriptor: speaks.then_some(own) }
    }
}
