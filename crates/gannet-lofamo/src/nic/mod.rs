//! The NIC: watches host, sensors and links, and tells the neighbours in the spare bits of credit
//! words.

mod news;
mod relay;

use gannet_lattice::{Direction, LINKS, Lattice, Node};
use gannet_wire::lofamo::{
    DIAGNOSTIC_WORDS, Diagnostic, FaultDescriptorRepr, HostWatchdogRepr, NicWatchdogRepr, Status,
    VERSION,
};

use self::news::{Entry, News};
use super::health::{LinkMonitor, Readings, Sensors, Thresholds};
use super::host::host_status;
use super::timing::{Timing, Watch};

/// What a NIC asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NicAction {
    /// There is something new to send on this link: [`Nic::diagnostic`] gives it.
    Fresh(Direction),
    /// Interrupt the host, and hand it this.
    Notify(Diagnostic),
}

/// The NIC of one node.
///
/// News of a neighbour go to the host. Where the host cannot bring them to the master, since it is
/// silent, its service network is down, or it does not confirm in time, they are passed on over all
/// links, marked as relayed; and the host gets them again until it confirms. A node that has seen an epoch of an origin does not take it again, so a
/// flood ends; a node whose host confirms ends it earlier.
#[derive(Debug)]
pub struct Nic {
    timing: Timing,
    thresholds: Thresholds,
    node: u32,
    /// Nodes at the other ends of the links.
    neighbours: [u32; LINKS],
    /// One bit a link that exists.
    has: u8,
    beats: u32,
    host_watch: Watch,
    /// What the host says of itself, as one status.
    host_says: Status,
    host: Status,
    service_network: Status,
    sensors: Sensors,
    links: [LinkMonitor; LINKS],
    /// What the NIC has last told of its node.
    own: Entry,
    /// What it knows of others.
    news: News,
    /// Whether the next repetition on a link is our own descriptor.
    own_next: [bool; LINKS],
    confirm_deadline_ns: u64,
}

impl Clone for Nic {
    fn clone(&self) -> Self {
        Self { news: self.news.clone(), ..*self }
    }

    fn clone_from(&mut self, other: &Self) {
        let mut news = std::mem::replace(&mut self.news, News::new(0));
        news.clone_from(&other.news);
        *self = Self { news, ..*other };
    }
}

impl Nic {
    /// The NIC of `node`, which knows nothing yet but that it works itself.
    pub fn new(lattice: Lattice, node: Node, timing: Timing, thresholds: Thresholds) -> Self {
        let has = Direction::ALL.into_iter().filter(|&direction| lattice.has(direction));
        let (nic, origin) = (Status::Normal, node.0);
        let works = FaultDescriptorRepr { nic, origin, ..FaultDescriptorRepr::default() };
        Self {
            timing,
            thresholds,
            node: node.0,
            neighbours: Direction::ALL.map(|direction| lattice.neighbour(node, direction).0),
            has: has.fold(0, |bits, direction| bits | 1 << direction.index()),
            beats: 0,
            host_watch: Watch::default(),
            host_says: Status::Unknown,
            host: Status::Unknown,
            service_network: Status::Unknown,
            sensors: Sensors::new(),
            links: [LinkMonitor::new(&thresholds); LINKS],
            own: Entry::new(0, &Diagnostic { descriptor: works, relayed: false }),
            news: News::new(lattice.nodes() - 1),
            own_next: [true; LINKS],
            confirm_deadline_ns: u64::MAX,
        }
    }

    /// The node it belongs to.
    pub fn node(&self) -> Node {
        Node(self.node)
    }

    /// The register that the host reads.
    pub fn register(&self) -> NicWatchdogRepr {
        NicWatchdogRepr {
            version: VERSION,
            alive: self.beats & 1 == 1,
            nic: self.sensors.status(),
            temperature: self.sensors.temperature,
            voltage: self.sensors.voltage,
            power: self.sensors.current,
            beats: self.beats,
            ..NicWatchdogRepr::default()
        }
        .with_links(self.links.map(|link| link.status()))
    }

    /// What the NIC says of its node now; `epoch` and age are not filled in.
    fn descriptor(&self) -> FaultDescriptorRepr {
        let statuses = FaultDescriptorRepr {
            host: self.host,
            nic: self.sensors.status(),
            origin: self.node,
            ..FaultDescriptorRepr::default()
        };
        statuses.with_links(self.links.map(|link| link.status()))
    }

    /// The NIC's own beat; gives the word of its register.
    #[inline]
    pub fn tick(&mut self) -> u64 {
        self.beats = self.beats.wrapping_add(1);
        self.register().word()
    }

    /// Poll mode: looks at the host's register.
    #[inline]
    pub fn check(&mut self, now_ns: u64, register: u64, out: &mut impl FnMut(NicAction)) {
        let register = HostWatchdogRepr::from_word(register);
        self.host_watch.check(register.beats, self.timing.host_misses);
        self.adopt(now_ns, &register, out);
    }

    /// Push mode: the host has written its register.
    #[inline]
    pub fn beat(&mut self, now_ns: u64, register: u64, out: &mut impl FnMut(NicAction)) {
        self.host_watch.beat(now_ns, self.timing.deadline_ns);
        self.adopt(now_ns, &HostWatchdogRepr::from_word(register), out);
    }

    /// Makes one status of what the host says, and acts when it has changed.
    fn adopt(&mut self, now_ns: u64, register: &HostWatchdogRepr, out: &mut impl FnMut(NicAction)) {
        let could_deliver = self.can_deliver();
        self.host_says = host_status(register);
        self.service_network = register.service_network;
        self.judge(now_ns, could_deliver, out);
    }

    fn judge(&mut self, now_ns: u64, could_deliver: bool, out: &mut impl FnMut(NicAction)) {
        let host = match self.host_watch.status() {
            Status::Normal => self.host_says,
            other => other,
        };
        if host != self.host {
            self.host = host;
            self.tell(now_ns, out);
        }
        match (could_deliver, self.can_deliver()) {
            (true, false) => self.pass_all(out),
            (false, true) => self.offer_all(now_ns, out),
            _ => {}
        }
    }

    /// Whether the host is believed to bring news to the master.
    fn can_deliver(&self) -> bool {
        matches!(self.host_watch.status(), Status::Normal | Status::Sick)
            && matches!(self.service_network, Status::Normal | Status::Sick)
    }

    /// Takes what the sensors read.
    pub fn sensors(&mut self, now_ns: u64, readings: &Readings, out: &mut impl FnMut(NicAction)) {
        if self.sensors.judge(readings, &self.thresholds) {
            self.tell(now_ns, out);
        }
    }

    /// Takes note of a credit word on a link.
    #[inline]
    pub fn credit(&mut self, now_ns: u64, direction: Direction, out: &mut impl FnMut(NicAction)) {
        let index = direction.index();
        let was_down = !matches!(self.links[index].status(), Status::Normal | Status::Sick);
        if self.links[index].credit(now_ns) {
            self.tell(now_ns, out);
        }
        if was_down {
            self.repeat_all(direction, out);
        }
    }

    /// Takes `errors` found in `bits` more of a link.
    pub fn link_errors(
        &mut self,
        now_ns: u64,
        direction: Direction,
        bits: u64,
        errors: u32,
        out: &mut impl FnMut(NicAction),
    ) {
        if self.links[direction.index()].errors(now_ns, bits, errors) {
            self.tell(now_ns, out);
        }
    }

    /// Time at which [`poll`](Self::poll) has something to do, if nothing else comes before.
    pub fn deadline_ns(&self) -> Option<u64> {
        let links = self.links.iter().filter_map(|l| l.deadline_ns(self.timing.link_silence_ns));
        let confirm = (self.confirm_deadline_ns < u64::MAX).then_some(self.confirm_deadline_ns);
        links.chain(self.host_deadline_ns()).chain(confirm).min()
    }

    /// Push mode: when the host will be failed if it does not beat.
    #[inline]
    pub fn host_deadline_ns(&self) -> Option<u64> {
        self.host_watch.deadline_ns()
    }

    /// Earliest time at which the host must have confirmed something, `u64::MAX` if nothing.
    #[inline]
    pub fn confirm_deadline_ns(&self) -> u64 {
        self.confirm_deadline_ns
    }

    /// Acts on all deadlines that have come.
    pub fn poll(&mut self, now_ns: u64, out: &mut impl FnMut(NicAction)) {
        let could_deliver = self.can_deliver();
        let before = self.host_watch.status();
        if self.host_watch.expire(now_ns) != before {
            self.judge(now_ns, could_deliver, out);
        }
        let silence_ns = self.timing.link_silence_ns;
        let expire = |any, link: &mut LinkMonitor| link.expire(now_ns, silence_ns) || any;
        if self.links.iter_mut().fold(false, expire) {
            self.tell(now_ns, out);
        }
        if self.confirm_deadline_ns <= now_ns {
            self.repeat_late(now_ns, out);
        }
    }
}

/// Gives the 16 spare bits of each credit word of one link, message after message.
///
/// Every credit word carries a part, whether or not there is news: what is on the line does not
/// depend on it in number or length.
#[derive(Clone, Debug)]
pub struct Disassembler {
    direction: Direction,
    words: [u16; DIAGNOSTIC_WORDS],
    next: usize,
    toggle: bool,
}

impl Disassembler {
    /// The disassembler of the link in `direction`.
    pub fn new(direction: Direction) -> Self {
        Self { direction, words: [0; DIAGNOSTIC_WORDS], next: DIAGNOSTIC_WORDS, toggle: false }
    }

    /// The bits for the next credit word.
    #[inline]
    pub fn word(&mut self, now_ns: u64, nic: &mut Nic) -> u16 {
        if self.next == DIAGNOSTIC_WORDS {
            self.words = nic.diagnostic(now_ns, self.direction).words(self.toggle);
            self.toggle = !self.toggle;
            self.next = 0;
        }
        self.next += 1;
        self.words[self.next - 1]
    }
}
