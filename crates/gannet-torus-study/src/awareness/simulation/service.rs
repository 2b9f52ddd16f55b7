//! What the master and its network do.

use gannet_lattice::Node;
use gannet_lofamo::{Answer, Master, MasterAction, Report};
use gannet_wire::lofamo::{Diagnostic, Status};

use super::super::events::Event;
use super::super::verdict::{false_claim, is_known};
use super::{Fate, NEVER, Simulation, brief};

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
        if self.master_timer_ns == now_ns {
            self.master_timer_ns = NEVER;
            self.master(|master, out| master.poll(now_ns, &mut |a| out.push(a)));
        }
    }

    pub(super) fn report(&mut self, report: &Report) {
        let now_ns = self.now_ns;
        self.tell(|| {
            let descriptor = report.descriptor;
            let diagnostic = Diagnostic { descriptor, relayed: report.relayed };
            format!("the master hears from {}: {}", report.from, brief(&diagnostic))
        });
        self.master(|master, out| master.report(now_ns, report, &mut |a| out.push(a)));
    }

    pub(super) fn probe(&mut self, node: Node, number: u32) {
        if self.truth.can_deliver(node) {
            let own = self.nics[node.index()].own(self.now_ns);
            let answer = self.hosts[node.index()].probed(number, own);
            self.serve(self.surroundings.wake_ns, Event::Answer(answer));
        }
    }

    pub(super) fn answer(&mut self, answer: &Answer) {
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
            let (fault, fate) = self.faults[index];
            if fate == Fate::Open && is_known(&self.master, &fault) {
                let after_ns = now_ns - fault.at_ns;
                self.faults[index].1 = Fate::Known { after_ns };
                self.open -= 1;
                self.tell(|| format!("KNOWN after {:.6} s: {fault}", after_ns as f64 * 1e-9));
            }
        }
        if let Some(claim) = false_claim(self.lattice, &self.master, &self.truth, node) {
            self.tell(|| format!("FALSE: {claim}"));
            self.false_claims.push((now_ns, claim));
        }
    }
}
