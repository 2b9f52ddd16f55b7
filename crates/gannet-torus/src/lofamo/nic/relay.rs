//! How news of a node come to the master: by its host, or on over the links.

use gannet_wire::lofamo::{Diagnostic, FaultDescriptorRepr, Status};

use super::news::{Entry, Phase};
use super::{Nic, NicAction};
use crate::lattice::{Direction, Node};
use crate::lofamo::change::is_after;
use crate::lofamo::timing::Mode;

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
        self.offer_own(now_ns, out);
    }

    /// Neighbours answer for the delivery of what we say of ourselves; the own host does what it
    /// can.
    fn offer_own(&self, now_ns: u64, out: &mut impl FnMut(NicAction)) {
        if self.timing.mode == Mode::Push && self.can_deliver() {
            out(NicAction::Notify(self.own.diagnostic(now_ns)));
        }
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

    /// Passes on what the host has not confirmed in time.
    pub(super) fn pass_late(&mut self, now_ns: u64, out: &mut impl FnMut(NicAction)) {
        self.pass_where(|entry| entry.deadline_ns <= now_ns, out);
    }

    /// Passes on all that waits for the host.
    pub(super) fn pass_all(&mut self, out: &mut impl FnMut(NicAction)) {
        self.pass_where(|_| true, out);
    }

    fn pass_where(&mut self, is_meant: impl Fn(&Entry) -> bool, out: &mut impl FnMut(NicAction)) {
        for index in 0..self.news.len() {
            let entry = self.news.at(index);
            if entry.phase == Phase::Pending && is_meant(entry) {
                self.pass(entry.origin, None, out);
            }
        }
        self.next_deadline();
    }

    /// The host can bring news to the master again: it gets all of which that is not known.
    pub(super) fn offer_all(&mut self, now_ns: u64, out: &mut impl FnMut(NicAction)) {
        if self.own.phase != Phase::Delivered {
            self.offer_own(now_ns, out);
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
        self.confirm_deadline_ns = deadlines.min().unwrap_or(u64::MAX);
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
