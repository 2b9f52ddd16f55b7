//! The master with its network, and who is the next.

use std::ops::Range;

use gannet_lattice::Node;
use gannet_lofamo::{Answer, Master, MasterAction, Mode, Report};
use gannet_wire::lofamo::{Diagnostic, Status};

use super::{Case, Fate, NEVER, Simulation, brief};
use crate::awareness::events::Event;
use crate::awareness::truth::{false_claim, is_known};

/// Where the master is.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    /// Whether it dies with its host; else it is on the service network, and never does.
    is_mortal: bool,
    is_taken: bool,
    node: Node,
    /// How many took over before, and when the last did.
    number: u32,
    since_ns: u64,
    /// When there was none.
    without: Vec<Range<u64>>,
}

impl Seat {
    /// The seat of a master that has been there from the beginning.
    pub fn new(is_mortal: bool) -> Self {
        let (node, number, since_ns) = (Node(0), 0, 0);
        Self { is_mortal, is_taken: true, node, number, since_ns, without: Vec::new() }
    }

    /// Number of the master.
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl Simulation {
    /// Sends over the service network, after a wait; what is lost never arrives.
    pub(super) fn serve(&mut self, wait_ns: u64, event: Event) {
        if let Some(delay_ns) = self.surroundings.service_delay(&mut self.random) {
            self.queue.push(self.now_ns + wait_ns + delay_ns, event);
        }
    }

    /// Lets the master act, and does what it asks for.
    fn master(&mut self, act: impl FnOnce(&mut Master, &mut Vec<MasterAction>)) {
        let mut actions = std::mem::take(&mut self.master_actions);
        act(&mut self.master, &mut actions);
        for action in actions.drain(..) {
            match action {
                MasterAction::Acknowledge(to, receipt) => {
                    self.serve(0, Event::Acknowledged(to, receipt));
                }
                MasterAction::Probe(node, number) => {
                    self.tell(|| format!("the master probes {node}"));
                    self.serve(0, Event::Probe(node, number));
                }
                MasterAction::Changed(node) => self.changed(node),
            }
        }
        self.master_actions = actions;
        if let Some(at_ns) = self.master.deadline_ns().filter(|&at| at < self.master_timer_ns) {
            self.master_timer_ns = at_ns;
            self.queue.push(at_ns, Event::MasterTimer);
        }
    }

    pub(super) fn master_timer(&mut self) {
        let now_ns = self.now_ns;
        if self.master_timer_ns == now_ns && self.seat.is_taken {
            self.master_timer_ns = NEVER;
            self.master(|master, out| master.poll(now_ns, &mut |a| out.push(a)));
        }
    }

    pub(super) fn report(&mut self, report: &Report) {
        if !self.seat.is_taken {
            return;
        }
        let now_ns = self.now_ns;
        self.tell(|| {
            let descriptor = report.descriptor;
            let diagnostic = Diagnostic { descriptor, relayed: report.relayed };
            format!("the master hears from {}: {}", report.from, brief(&diagnostic))
        });
        self.master(|master, out| master.report(now_ns, report, &mut |a| out.push(a)));
    }

    pub(super) fn probe(&mut self, node: Node, number: u32) {
        // A host that has begun anew cannot vouch for a NIC of which it has not heard yet.
        let host = &self.hosts[node.index()];
        if self.truth.can_deliver(node) && host.nic() != Status::Unknown {
            let own = self.nics[node.index()].own(self.now_ns);
            let answer = self.hosts[node.index()].probed(number, own);
            self.serve(self.surroundings.wake_ns, Event::Answer(answer));
        }
    }

    pub(super) fn answer(&mut self, answer: &Answer) {
        if !self.seat.is_taken {
            return;
        }
        let now_ns = self.now_ns;
        self.tell(|| format!("{} answers the master", answer.from));
        self.master(|master, out| master.answer(now_ns, answer, &mut |a| out.push(a)));
    }

    /// The master has changed its mind about `node`: which faults does it know now, and is it right?
    fn changed(&mut self, node: Node) {
        let picture = *self.master.picture(node);
        self.tell(|| {
            let links = picture.links.map(Status::name).join(" ");
            let (host, nic) = (picture.host, picture.nic);
            format!("the master holds {node} for: host {host}, NIC {nic}, links {links}")
        });
        let now_ns = self.now_ns;
        for index in 0..self.begun {
            let Case { fault, fate, since_ns, .. } = self.faults[index];
            if fate == Fate::Open && is_known(&self.master, &fault) {
                let after_ns = now_ns - since_ns.unwrap_or(now_ns);
                self.faults[index].fate = Fate::Known { after_ns };
                self.open -= 1;
                self.tell(|| format!("KNOWN after {:.6} s: {fault}", after_ns as f64 * 1e-9));
            }
        }
        self.judge_claims(node, "");
    }

    /// Notes what the master says of `node` that is worse than the truth.
    fn judge_claims(&mut self, node: Node, when: &str) {
        if let Some(claim) = false_claim(self.lattice, &self.master, &self.excused, node) {
            let claim = format!("{claim}{when}");
            self.tell(|| format!("FALSE: {claim}"));
            self.false_claims.push((self.now_ns, claim));
        }
    }

    /// Where things heal: what the master still says at the end that is worse than the truth.
    pub(in crate::awareness) fn judge_end(&mut self) {
        if self.seat.is_taken {
            for node in self.lattice.all() {
                self.judge_claims(node, " at the end");
            }
        }
    }

    /// Whether the fault of a case is known in the end, for which a master that began too late has no
    /// time.
    pub(in crate::awareness) fn is_known_at_end(&self, case: &Case, worst_ns: u64) -> bool {
        let had_time = self.seat.is_taken && self.seat.since_ns + worst_ns < self.now_ns;
        !had_time || is_known(&self.master, &case.fault)
    }

    /// How many masters took over.
    pub(in crate::awareness) fn takeovers(&self) -> u32 {
        self.seat.number
    }

    /// How much later than `worst_ns` a fault may be known that could be noticed from `since_ns` on,
    /// since there was no master: until there is one, and until it has heard what others knew.
    pub(in crate::awareness) fn delay_ns(
        &self,
        since_ns: u64,
        known_ns: u64,
        worst_ns: u64,
    ) -> u64 {
        let without = self.seat.without.iter();
        let concerns = without.filter(|it| it.start < known_ns && it.end + worst_ns >= since_ns);
        concerns.map(|it| it.end.saturating_sub(it.start.max(since_ns)) + worst_ns).sum()
    }

    /// Lets a master die whose host can no longer speak.
    pub(super) fn look_after_master(&mut self) {
        let seat = &self.seat;
        if !seat.is_mortal || !seat.is_taken || self.truth.can_deliver(seat.node) {
            return;
        }
        // The next one watches it as all that beats is watched.
        let timing = self.timing;
        let after_ns = match timing.mode {
            Mode::Push => timing.deadline_ns - self.random.below(timing.beat_ns),
            Mode::Poll => timing.tick_ns + self.random.below(timing.tick_ns),
        };
        let at_ns = self.now_ns + after_ns;
        let node = self.seat.node;
        self.tell(|| format!("the master on {node} is gone"));
        self.seat.is_taken = false;
        self.seat.without.push(self.now_ns..at_ns);
        self.queue.push(at_ns, Event::TakeOver);
    }

    /// The first node whose host can speak makes a new master, which has heard nothing yet.
    pub(super) fn take_over(&mut self) {
        let Some(node) = self.lattice.all().find(|&node| self.truth.can_deliver(node)) else {
            let at_ns = self.now_ns + self.period_ns;
            self.seat.without.last_mut().into_iter().for_each(|without| without.end = at_ns);
            return self.queue.push(at_ns, Event::TakeOver);
        };
        self.tell(|| format!("{node} is the master now"));
        let number = self.seat.number + 1;
        self.seat.number = number;
        (self.seat.node, self.seat.is_taken, self.seat.since_ns) = (node, true, self.now_ns);
        self.master = Master::new(self.lattice, self.timing);
        self.master_timer_ns = NEVER;
        self.lattice.all().for_each(|node| self.announce(node));
    }

    /// Tells a host that there is a new master, until it has heard it.
    pub(super) fn announce(&mut self, node: Node) {
        let mut at_ns = self.now_ns;
        loop {
            if let Some(delay_ns) = self.surroundings.service_delay(&mut self.random) {
                return self.queue.push(at_ns + delay_ns, Event::NewMaster(node));
            }
            at_ns += self.timing.probe_ns;
        }
    }

    /// A host that hears of another master than the last has all told again.
    pub(super) fn hear_of_master(&mut self, node: Node) {
        let (number, now_ns) = (self.seat.number, self.now_ns);
        let desk = &mut self.desks[node.index()];
        if !self.truth.can_deliver(node) || desk.master == number {
            return;
        }
        desk.master = number;
        if self.truth.nic_works(node) {
            self.nic(node, |nic, out| nic.renew(now_ns, &mut |a| out.push(a)));
        }
        self.host(node, |host, out| host.renew(now_ns, &mut |a| out.push(a)));
    }
}
