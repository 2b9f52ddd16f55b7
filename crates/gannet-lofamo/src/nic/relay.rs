//! How news of a node come to the master: by its host, or on over the links.

use gannet_lattice::{Direction, Node};
use gannet_wire::lofamo::{Diagnostic, FaultDescriptorRepr, Status};

use super::news::{Entry, Phase};
use super::{Nic, NicAction};
use crate::report::is_after;
use crate::timing::Mode;

impl Nic {
    /// What the NIC has last told of its node, with epoch and age.
    pub fn own(&self, now_ns: u64) -> FaultDescriptorRepr {
        self.own.diagnostic(now_ns).descriptor
    }

    /// The Remote Fault Descriptor of a direction: unknown throughout before the neighbour was
    /// heard, and while its link is failed.
    pub fn remote(&self, now_ns: u64, direction: Direction) -> FaultDescriptorRepr {
        let neighbour = self.neighbours[direction.index()];
        let heard = self.links[direction.index()].status() != Status::Failed;
        let entry = self.news.of(neighbour).filter(|_| heard);
        entry.map_or(FaultDescriptorRepr { origin: neighbour, ..Default::default() }, |entry| {
            entry.diagnostic(now_ns).descriptor
        })
    }

    /// News that found no room in the table.
    pub fn dropped(&self) -> u64 {
        self.news.dropped
    }

    /// Poll mode: the host reads the registers of its own NIC and the neighbours, and is handed
    /// what it has not confirmed.
    #[inline]
    pub fn read(&self, now_ns: u64, out: &mut impl FnMut(Diagnostic)) {
        let all = std::iter::once(&self.own).chain(self.news.iter());
        let waiting = all.filter(|entry| entry.phase == Phase::Pending);
        waiting.for_each(|entry| out(entry.diagnostic(now_ns)));
    }

    /// The host has brought the news of `origin` with this epoch to the master.
    pub fn confirm(&mut self, origin: Node, epoch: u8) {
        let is_own = origin.0 == self.node;
        let entry = if is_own { Some(&mut self.own) } else { self.news.of_mut(origin.0) };
        if let Some(entry) = entry.filter(|entry| entry.change.epoch == epoch) {
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
            if self.news.put(Entry::new(now_ns, diagnostic)) {
                self.handle(now_ns, origin, Some(direction), out);
            }
        } else if diagnostic.relayed {
            self.hurry(now_ns, diagnostic, out);
        } else if self.neighbours[direction.index()] == origin {
            self.remind(direction, &diagnostic.descriptor, out);
        }
    }

    /// A neighbour says of itself what is older than what is known of it: it has begun anew, and
    /// nobody believes it before its count has overtaken the one that it had. It hears of that.
    fn remind(
        &mut self,
        direction: Direction,
        theirs: &FaultDescriptorRepr,
        out: &mut impl FnMut(NicAction),
    ) {
        let known = self.news.of(theirs.origin);
        if known.is_some_and(|known| is_after(known.change.epoch, theirs.epoch)) {
            fresh(self.news.refresh(theirs.origin, 1 << direction.index()), out);
        }
    }

    /// News of `origin` are new, or can be brought to the master anew: the host gets them, or the
    /// links.
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
        entry.phase = Phase::Pending;
        let interrupts = entry.relayed || timing.mode == Mode::Push;
        if let Some(diagnostic) = entry.offer(now_ns, &timing, interrupts) {
            out(NicAction::Notify(diagnostic));
        }
        self.confirm_deadline_ns = self.confirm_deadline_ns.min(entry.deadline_ns);
    }

    /// A neighbour could not deliver what our host will find at its next reading: do not wait.
    fn hurry(&mut self, now_ns: u64, diagnostic: &Diagnostic, out: &mut impl FnMut(NicAction)) {
        let origin = diagnostic.descriptor.origin;
        let Some(entry) = self.news.of_mut(origin) else { return };
        let waits = entry.phase == Phase::Pending && !entry.relayed;
        if waits && entry.change.epoch == diagnostic.descriptor.epoch {
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
        let (theirs, epoch) = (&diagnostic.descriptor, self.own.change.epoch);
        let differs = theirs.epoch == epoch && !self.own.says(theirs);
        if differs || is_after(theirs.epoch, epoch) {
            self.own.change.epoch = theirs.epoch;
            self.tell(now_ns, out);
        }
    }

    /// Tells host and neighbours what has become of this node.
    pub(super) fn tell(&mut self, now_ns: u64, out: &mut impl FnMut(NicAction)) {
        let epoch = self.own.change.epoch.wrapping_add(1);
        let descriptor = FaultDescriptorRepr { epoch, ..self.descriptor() };
        self.own = Entry::new(now_ns, &Diagnostic { descriptor, relayed: false });
        fresh(self.own.refresh(self.has), out);
        self.offer_own(now_ns, self.timing.mode == Mode::Push, out);
    }

    /// Neighbours answer for the delivery of what we say of ourselves; the own host does what it
    /// can.
    fn offer_own(&mut self, now_ns: u64, interrupts: bool, out: &mut impl FnMut(NicAction)) {
        self.own.deadline_ns = u64::MAX;
        if self.can_deliver() {
            if let Some(diagnostic) = self.own.offer(now_ns, &self.timing, interrupts) {
                out(NicAction::Notify(diagnostic));
            }
            self.confirm_deadline_ns = self.confirm_deadline_ns.min(self.own.deadline_ns);
        }
    }

    /// There is another master, which has heard nothing: the host is to bring it all that is known.
    pub fn renew(&mut self, now_ns: u64, out: &mut impl FnMut(NicAction)) {
        self.own.phase = Phase::Pending;
        for index in 0..self.news.len() {
            let Entry { origin, .. } = *self.news.at(index);
            self.news.of_mut(origin).into_iter().for_each(|entry| entry.phase = Phase::Pending);
        }
        self.offer_all(now_ns, out);
    }

    /// Passes the news of `origin` on over all links but the one they came from.
    fn pass(&mut self, origin: u32, from: Option<Direction>, out: &mut impl FnMut(NicAction)) {
        if let Some(entry) = self.news.of_mut(origin) {
            entry.phase = Phase::Passed;
            entry.relayed = true;
            entry.deadline_ns = u64::MAX;
            let but = from.map_or(0, |direction| 1 << direction.index());
            fresh(self.news.refresh(origin, self.has & !but), out);
        }
    }

    /// Passes on what the host has not confirmed in time; and gives it to the host again, as its
    /// report or the answer may be lost.
    pub(super) fn repeat_late(&mut self, now_ns: u64, out: &mut impl FnMut(NicAction)) {
        if self.own.deadline_ns <= now_ns {
            self.offer_own(now_ns, true, out);
        }
        for index in 0..self.news.len() {
            let Entry { origin, phase, deadline_ns, .. } = *self.news.at(index);
            if deadline_ns > now_ns {
                continue;
            }
            if phase == Phase::Pending {
                self.pass(origin, None, out);
            }
            let can_deliver = self.can_deliver();
            let Some(entry) = self.news.of_mut(origin) else { continue };
            entry.deadline_ns = u64::MAX;
            if can_deliver && let Some(diagnostic) = entry.offer(now_ns, &self.timing, true) {
                out(NicAction::Notify(diagnostic));
            }
        }
        self.next_deadline();
    }

    /// The host can no longer bring news to the master: passes on all that waits for it.
    pub(super) fn pass_all(&mut self, out: &mut impl FnMut(NicAction)) {
        for index in 0..self.news.len() {
            let Entry { origin, phase, .. } = *self.news.at(index);
            if phase == Phase::Pending {
                self.pass(origin, None, out);
            }
        }
        self.next_deadline();
    }

    /// The host can bring news to the master again: it gets all of which that is not known.
    pub(super) fn offer_all(&mut self, now_ns: u64, out: &mut impl FnMut(NicAction)) {
        if self.own.phase != Phase::Delivered {
            self.offer_own(now_ns, self.timing.mode == Mode::Push, out);
        }
        for index in 0..self.news.len() {
            let Entry { origin, phase, .. } = *self.news.at(index);
            if phase != Phase::Delivered {
                self.news.of_mut(origin).into_iter().for_each(|entry| entry.relayed = true);
                self.handle(now_ns, origin, None, out);
            }
        }
        self.next_deadline();
    }

    /// A link works again: the other end may have missed all that we passed on.
    pub(super) fn repeat_all(&mut self, direction: Direction, out: &mut impl FnMut(NicAction)) {
        let link = 1 << direction.index();
        fresh(self.own.refresh(link), out);
        for index in 0..self.news.len() {
            let Entry { origin, phase, .. } = *self.news.at(index);
            if phase == Phase::Passed {
                fresh(self.news.refresh(origin, link), out);
            }
        }
    }

    fn next_deadline(&mut self) {
        let deadlines = self.news.iter().map(|entry| entry.deadline_ns);
        self.confirm_deadline_ns = deadlines.fold(self.own.deadline_ns, u64::min);
    }

    /// Whether something is to be sent on a link that was not sent there before.
    #[inline]
    pub fn has_fresh(&self, direction: Direction) -> bool {
        let link = direction.index();
        self.own.is_fresh(link) || self.news.has_fresh(link)
    }

    /// The next message for a link: what is fresh, else in turn the own descriptor and what was
    /// passed on, so that a loss on the way only delays.
    pub fn diagnostic(&mut self, now_ns: u64, direction: Direction) -> Diagnostic {
        let link = direction.index();
        let other = if self.own.is_fresh(link) {
            None
        } else if self.news.has_fresh(link) {
            self.news.next_fresh(link)
        } else if self.own_next[link] {
            None
        } else {
            self.news.next_passed(link)
        };
        self.own_next[link] = other.is_some();
        if other.is_none() {
            self.own.sent(link);
        }
        other.unwrap_or(self.own).diagnostic(now_ns)
    }
}

/// Asks for what is newly to be sent on these links, one bit a link.
fn fresh(links: u8, out: &mut impl FnMut(NicAction)) {
    let is_meant = |direction: &Direction| links >> direction.index() & 1 == 1;
    Direction::ALL.into_iter().filter(is_meant).for_each(|it| out(NicAction::Fresh(it)));
}
