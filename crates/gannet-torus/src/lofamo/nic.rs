//! The NIC: watches host, sensors and links, tells the neighbours, and passes their news on.

use gannet_wire::lofamo::{
    Diagnostic, FaultDescriptorRepr, HostWatchdogRepr, NicWatchdogRepr, Status, VERSION,
};

use super::host::host_status;
use super::is_after;
use super::link_monitor::LinkMonitor;
use super::news::{Entry, News, Phase};
use super::thresholds::{Readings, Thresholds};
use super::timing::{Mode, Timing};
use super::watch::Watch;
use crate::lattice::{Direction, LINKS, Lattice, Node};

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
/// links, marked as relayed. A node that has seen an epoch of an origin does not take it again, so a
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
    temperature: Status,
    voltage: Status,
    current: Status,
    links: [LinkMonitor; LINKS],
    news: News,
    /// Fresh news a link.
    fresh: [u16; LINKS],
    /// Next entry to look at, a link.
    cursor: [u16; LINKS],
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
        let mut nic = Self {
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
            temperature: Status::Normal,
            voltage: Status::Normal,
            current: Status::Normal,
            links: [LinkMonitor::new(&thresholds); LINKS],
            news: News::new(lattice.nodes()),
            fresh: [0; LINKS],
            cursor: [0; LINKS],
            own_next: [true; LINKS],
            confirm_deadline_ns: u64::MAX,
        };
        let own = Diagnostic { descriptor: nic.descriptor(), relayed: false };
        nic.news.put(Entry::new(0, &own));
        nic
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
            nic: self.status(),
            temperature: self.temperature,
            voltage: self.voltage,
            power: self.current,
            beats: self.beats,
            ..NicWatchdogRepr::default()
        }
        .with_links(self.links.map(|link| link.status()))
    }

    /// What the NIC says of itself.
    fn status(&self) -> Status {
        self.temperature.max(self.voltage).max(self.current).max(Status::Normal)
    }

    /// What the NIC says of its node now; `epoch` and age are not filled in.
    fn descriptor(&self) -> FaultDescriptorRepr {
        let statuses = FaultDescriptorRepr {
            host: self.host,
            nic: self.status(),
            origin: self.node,
            ..FaultDescriptorRepr::default()
        };
        statuses.with_links(self.links.map(|link| link.status()))
    }

    /// What the NIC has last told of its node, with epoch and age.
    pub fn own(&self, now_ns: u64) -> FaultDescriptorRepr {
        let own = self.news.of(self.node).map(|entry| entry.diagnostic(now_ns).descriptor);
        own.unwrap_or_default()
    }

    /// The Remote Fault Descriptor of a direction: unknown throughout before the neighbour was
    /// heard, and while its link is failed.
    pub fn remote(&self, now_ns: u64, direction: Direction) -> FaultDescriptorRepr {
        let neighbour = self.neighbours[direction.index()];
        let heard = self.links[direction.index()].status() != Status::Failed;
        let entry = self.news.of(neighbour).filter(|_| heard && neighbour != self.node);
        entry.map_or(FaultDescriptorRepr { origin: neighbour, ..Default::default() }, |entry| {
            entry.diagnostic(now_ns).descriptor
        })
    }

    /// News that found no room in the table.
    pub fn dropped(&self) -> u64 {
        self.news.dropped
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
        let (before, limits) = (self.status(), &self.thresholds);
        self.temperature = limits.temperature.judge(self.temperature, readings.temperature_c);
        self.voltage = limits.voltage.judge(self.voltage, readings.voltage);
        self.current = limits.current.judge(self.current, readings.current);
        if self.status() != before {
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
            self.pass_late(now_ns, out);
        }
    }

    /// Poll mode: the host reads the registers of its own NIC and the neighbours, and is handed
    /// what it has not confirmed.
    #[inline]
    pub fn read(&self, now_ns: u64, out: &mut impl FnMut(Diagnostic)) {
        let waiting = self.news.iter().filter(|entry| entry.phase == Phase::Pending);
        waiting.for_each(|entry| out(entry.diagnostic(now_ns)));
    }

    /// The host has brought the news of `origin` with this epoch to the master.
    pub fn confirm(&mut self, origin: Node, epoch: u8) {
        if let Some(entry) = self.news.of_mut(origin.0).filter(|entry| entry.epoch == epoch) {
            entry.phase = Phase::Delivered;
            entry.deadline_ns = u64::MAX;
            self.next_deadline();
        }
    }

    /// Takes a message that came on a link.
    pub fn receive(
        &mut self,
        now_ns: u64,
        direction: Direction,
        diagnostic: &Diagnostic,
        out: &mut impl FnMut(NicAction),
    ) {
        let origin = diagnostic.descriptor.origin;
        if origin == self.node {
            return self.hear_of_myself(now_ns, diagnostic, out);
        }
        if self.news.is_new(now_ns, diagnostic) {
            self.forget_fresh(origin);
            if self.news.put(Entry::new(now_ns, diagnostic)) {
                self.handle(now_ns, origin, Some(direction), out);
            }
        } else if diagnostic.relayed {
            self.hurry(now_ns, diagnostic, out);
        }
    }

    /// Entry `origin` is new, or can be brought to the master anew: the host gets it, or the links.
    fn handle(
        &mut self,
        now_ns: u64,
        origin: u32,
        from: Option<Direction>,
        out: &mut impl FnMut(NicAction),
    ) {
        if !self.can_deliver() {
            return self.pass(origin, from, out);
        }
        let timing = self.timing;
        let Some(entry) = self.news.of_mut(origin) else { return };
        let interrupts = entry.relayed || timing.mode == Mode::Push;
        let wait_ns = if interrupts { timing.confirm_ns } else { timing.confirm_polled_ns() };
        entry.phase = Phase::Pending;
        entry.deadline_ns = now_ns + wait_ns;
        self.confirm_deadline_ns = self.confirm_deadline_ns.min(entry.deadline_ns);
        if interrupts {
            out(NicAction::Notify(entry.diagnostic(now_ns)));
        }
    }

    /// A neighbour could not deliver what our host will find at its next reading: do not wait.
    fn hurry(&mut self, now_ns: u64, diagnostic: &Diagnostic, out: &mut impl FnMut(NicAction)) {
        let origin = diagnostic.descriptor.origin;
        let Some(entry) = self.news.of_mut(origin) else { return };
        let waits = entry.phase == Phase::Pending && !entry.relayed;
        if waits && entry.epoch == diagnostic.descriptor.epoch {
            entry.relayed = true;
            self.handle(now_ns, origin, None, out);
        }
    }

    /// Our own news came back. If they say otherwise, they are from before a restart: our count
    /// must overtake theirs.
    fn hear_of_myself(
        &mut self,
        now_ns: u64,
        diagnostic: &Diagnostic,
        out: &mut impl FnMut(NicAction),
    ) {
        let theirs = &diagnostic.descriptor;
        let Some(own) = self.news.of_mut(self.node) else { return };
        let differs = theirs.epoch == own.epoch && !own.says(theirs);
        if differs || is_after(theirs.epoch, own.epoch) {
            own.epoch = theirs.epoch;
            self.tell(now_ns, out);
        }
    }

    /// Tells host and neighbours what has become of this node.
    fn tell(&mut self, now_ns: u64, out: &mut impl FnMut(NicAction)) {
        let epoch = self.news.of(self.node).map_or(0, |own| own.epoch).wrapping_add(1);
        let descriptor = FaultDescriptorRepr { epoch, ..self.descriptor() };
        let diagnostic = Diagnostic { descriptor, relayed: false };
        self.forget_fresh(self.node);
        // Neighbours answer for its delivery; the own host does what it can.
        self.news.put(Entry::new(now_ns, &diagnostic));
        self.send(self.node, None, out);
        if self.timing.mode == Mode::Push && self.can_deliver() {
            out(NicAction::Notify(diagnostic));
        }
    }

    /// Marks the news of `origin` as fresh on all links but one.
    fn send(&mut self, origin: u32, but: Option<Direction>, out: &mut impl FnMut(NicAction)) {
        let Some(entry) = self.news.of_mut(origin) else { return };
        for direction in Direction::ALL {
            let (index, bit) = (direction.index(), 1 << direction.index());
            if self.has & bit != 0 && but != Some(direction) && entry.fresh & bit == 0 {
                entry.fresh |= bit;
                self.fresh[index] += 1;
                out(NicAction::Fresh(direction));
            }
        }
    }

    /// Passes the news of `origin` on over all links but the one they came from.
    fn pass(&mut self, origin: u32, from: Option<Direction>, out: &mut impl FnMut(NicAction)) {
        if let Some(entry) = self.news.of_mut(origin) {
            entry.phase = Phase::Passed;
            entry.relayed = true;
            entry.deadline_ns = u64::MAX;
            self.send(origin, from, out);
        }
    }

    /// Passes on what the host has not confirmed in time.
    fn pass_late(&mut self, now_ns: u64, out: &mut impl FnMut(NicAction)) {
        self.pass_where(|entry| entry.deadline_ns <= now_ns, out);
    }

    /// Passes on all that waits for the host.
    fn pass_all(&mut self, out: &mut impl FnMut(NicAction)) {
        self.pass_where(|_| true, out);
    }

    fn pass_where(&mut self, is_meant: impl Fn(&Entry) -> bool, out: &mut impl FnMut(NicAction)) {
        for index in 0..self.news.len() {
            let entry = *self.news.at_mut(index);
            if entry.origin != self.node && entry.phase == Phase::Pending && is_meant(&entry) {
                self.pass(entry.origin, None, out);
            }
        }
        self.next_deadline();
    }

    /// The host can bring news to the master again: it gets all of which that is not known.
    fn offer_all(&mut self, now_ns: u64, out: &mut impl FnMut(NicAction)) {
        for index in 0..self.news.len() {
            let entry = self.news.at_mut(index);
            if entry.phase != Phase::Delivered {
                entry.relayed |= entry.origin != self.node;
                let origin = entry.origin;
                self.handle(now_ns, origin, None, out);
            }
        }
        if let Some(own) = self.news.of_mut(self.node) {
            own.deadline_ns = u64::MAX;
        }
        self.next_deadline();
    }

    /// A link works again: the other end may have missed all that we passed on.
    fn repeat_all(&mut self, direction: Direction, out: &mut impl FnMut(NicAction)) {
        let (slot, bit) = (direction.index(), 1 << direction.index());
        for index in 0..self.news.len() {
            let entry = self.news.at_mut(index);
            let goes = entry.phase == Phase::Passed || entry.origin == self.node;
            if goes && entry.fresh & bit == 0 {
                entry.fresh |= bit;
                self.fresh[slot] += 1;
                out(NicAction::Fresh(direction));
            }
        }
    }

    /// The entry of `origin` is about to be replaced.
    fn forget_fresh(&mut self, origin: u32) {
        let Some(entry) = self.news.of_mut(origin) else { return };
        for (slot, count) in self.fresh.iter_mut().enumerate() {
            *count -= u16::from(entry.fresh >> slot & 1);
        }
        entry.fresh = 0;
    }

    fn next_deadline(&mut self) {
        let deadlines = self.news.iter().map(|entry| entry.deadline_ns);
        self.confirm_deadline_ns = deadlines.min().unwrap_or(u64::MAX);
    }

    /// Whether something is to be sent on a link that was not sent there before.
    #[inline]
    pub fn has_fresh(&self, direction: Direction) -> bool {
        self.fresh[direction.index()] > 0
    }

    /// The next message for a link: what is fresh, else in turn the own descriptor and what was
    /// passed on, so that a loss on the way only delays.
    pub fn diagnostic(&mut self, now_ns: u64, direction: Direction) -> Diagnostic {
        let (slot, bit) = (direction.index(), 1 << direction.index());
        let is_fresh = self.fresh[slot] > 0;
        let wants_own = !is_fresh && std::mem::replace(&mut self.own_next[slot], is_fresh);
        let count = self.news.len();
        for step in 0..if wants_own { 0 } else { count } {
            let index = (usize::from(self.cursor[slot]) + step) % count;
            let entry = self.news.at_mut(index);
            let passed = entry.phase == Phase::Passed && entry.origin != self.node;
            if if is_fresh { entry.fresh & bit != 0 } else { passed } {
                self.fresh[slot] -= u16::from(is_fresh);
                entry.fresh &= !bit;
                self.cursor[slot] = (index + 1) as u16;
                self.own_next[slot] = true;
                return entry.diagnostic(now_ns);
            }
        }
        Diagnostic { descriptor: self.own(now_ns), relayed: false }
    }
}
