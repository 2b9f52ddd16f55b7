//! What faults do, hosts, NICs and links, and the master with its network.

use gannet_lattice::{Direction, Node};
use gannet_lofamo::{
    Answer, Host, HostAction, Master, MasterAction, Mode, Nic, NicAction, Readings, Report,
};
use gannet_wire::lofamo::{DIAGNOSTIC_WORDS, Diagnostic, Status};

use super::{Fate, NEVER, Simulation, brief};
use crate::awareness::events::Event;
use crate::awareness::fault::FaultKind;
use crate::awareness::truth::{false_claim, is_known};

/// From one error of a flaky cable to the next, in the mean: 1e-6 of 28 Gbit/s.
const ERROR_GAP_NS: f64 = 36_000.0;
/// Bits of a link in a nanosecond.
const BITS_PER_NS: u64 = 28;
/// Part of the messages that a flaky cable loses.
const LOSS: f64 = 0.01;
/// A reading over the threshold of a sensor.
const HOT: Readings = Readings { temperature_c: 85.0, ..Readings::USUAL };

/// Errors of a flaky cable that are simulated: more than any threshold in use.
const ERRORS: u32 = 16;

impl Simulation {
    pub(super) fn host_beats(&mut self, node: Node) {
        if !self.truth.host_works(node) {
            return;
        }
        let now_ns = self.now_ns;
        let mut word = 0;
        self.host(node, |host, out| word = host.beat(now_ns, &mut |a| out.push(a)));
        self.desks[node.index()].host_register = word;
        if self.timing.mode == Mode::Push && self.truth.nic_works(node) {
            self.nic(node, |nic, out| nic.beat(now_ns, word, &mut |a| out.push(a)));
        }
        let stray = self.surroundings.jitter.stray(self.timing.beat_ns, &mut self.random);
        let late = self.surroundings.jitter.late(self.period_ns, &mut self.random);
        let desk = &mut self.desks[node.index()];
        desk.beat_due_ns += stray;
        self.queue.push((desk.beat_due_ns + late).max(self.now_ns), Event::HostBeat(node));
    }

    pub(super) fn nic_ticks(&mut self, node: Node) {
        if !self.truth.nic_works(node) {
            return;
        }
        let now_ns = self.now_ns;
        let readings = if self.truth.sensor_high(node) { HOT } else { Readings::USUAL };
        let register = self.desks[node.index()].host_register;
        let mode = self.timing.mode;
        let mut word = 0;
        self.nic(node, |nic, out| {
            nic.sensors(now_ns, &readings, &mut |a| out.push(a));
            if mode == Mode::Poll {
                nic.check(now_ns, register, &mut |a| out.push(a));
            }
            word = nic.tick();
        });
        self.desks[node.index()].nic_register = word;
        if mode == Mode::Push && self.truth.host_works(node) {
            self.host(node, |host, out| host.nic_register(now_ns, word, &mut |a| out.push(a)));
        }
        let stray = self.surroundings.jitter.stray(self.timing.tick_ns, &mut self.random);
        self.queue.push(now_ns + stray, Event::NicTick(node));
    }

    pub(super) fn host_reads(&mut self, node: Node) {
        if !self.truth.host_works(node) {
            return;
        }
        let now_ns = self.now_ns;
        let word = self.desks[node.index()].nic_register;
        let mut readings = std::mem::take(&mut self.readings);
        if self.truth.nic_works(node) {
            self.nics[node.index()].read(now_ns, &mut |diagnostic| readings.push(diagnostic));
        }
        self.host(node, |host, out| {
            host.nic_register(now_ns, word, &mut |a| out.push(a));
            readings.iter().for_each(|it| host.notice(it, &mut |a| out.push(a)));
        });
        readings.clear();
        self.readings = readings;
        let stray = self.surroundings.jitter.stray(self.timing.poll_ns, &mut self.random);
        let late = self.surroundings.jitter.late(self.period_ns, &mut self.random);
        let desk = &mut self.desks[node.index()];
        desk.read_due_ns += stray;
        self.queue.push((desk.read_due_ns + late).max(now_ns), Event::HostRead(node));
    }

    pub(super) fn host_timer(&mut self, node: Node) {
        let now_ns = self.now_ns;
        if self.desks[node.index()].host_timer_ns != now_ns {
            return;
        }
        self.desks[node.index()].host_timer_ns = NEVER;
        if self.truth.host_works(node) {
            self.host(node, |host, out| host.poll(now_ns, &mut |a| out.push(a)));
        }
    }

    pub(super) fn nic_timer(&mut self, node: Node) {
        if self.desks[node.index()].nic_timer_ns == self.now_ns {
            self.desks[node.index()].nic_timer_ns = NEVER;
            self.poll_nic(node);
        }
    }

    /// Tells a NIC of the credit words that came until now, and lets it act on its deadlines.
    pub(super) fn poll_nic(&mut self, node: Node) {
        if !self.truth.nic_works(node) {
            return;
        }
        let (now_ns, flowing) = (self.now_ns, self.desks[node.index()].flowing);
        self.nic(node, |nic, out| {
            for direction in Direction::ALL {
                if flowing >> direction.index() & 1 == 1 {
                    nic.credit(now_ns, direction, &mut |a| out.push(a));
                }
            }
            nic.poll(now_ns, &mut |a| out.push(a));
        });
    }

    pub(super) fn arm_host(&mut self, node: Node) {
        let (host, desk) = (&self.hosts[node.index()], &mut self.desks[node.index()]);
        if let Some(at_ns) = host.deadline_ns().filter(|&at_ns| at_ns < desk.host_timer_ns) {
            desk.host_timer_ns = at_ns;
            self.queue.push(at_ns, Event::HostTimer(node));
        }
    }

    pub(super) fn arm_nic(&mut self, node: Node) {
        let (nic, desk) = (&self.nics[node.index()], &mut self.desks[node.index()]);
        let at_ns = nic.host_deadline_ns().unwrap_or(NEVER).min(nic.confirm_deadline_ns());
        if at_ns < desk.nic_timer_ns {
            desk.nic_timer_ns = at_ns;
            self.queue.push(at_ns, Event::NicTimer(node));
        }
    }

    /// Lets a NIC act, and does what it asks for.
    pub(super) fn nic(&mut self, node: Node, act: impl FnOnce(&mut Nic, &mut Vec<NicAction>)) {
        let mut actions = std::mem::take(&mut self.nic_actions);
        act(&mut self.nics[node.index()], &mut actions);
        for action in actions.drain(..) {
            match action {
                NicAction::Fresh(direction) => {
                    if self.desks[node.index()].busy >> direction.index() & 1 == 0 {
                        self.send(node, direction);
                    }
                }
                NicAction::Notify(diagnostic) => {
                    let at_ns = self.now_ns + self.surroundings.wake_ns;
                    self.queue.push(at_ns, Event::Notice(node, diagnostic));
                }
            }
        }
        self.nic_actions = actions;
        self.arm_nic(node);
    }

    /// Puts the next message on a link.
    fn send(&mut self, node: Node, direction: Direction) {
        let now_ns = self.now_ns;
        let diagnostic = self.nics[node.index()].diagnostic(now_ns, direction);
        self.tell(|| format!("NIC of {node} sends on {direction}: {}", brief(&diagnostic)));
        let message_ns = DIAGNOSTIC_WORDS as u64 * self.surroundings.credit_ns;
        let mut arrival_ns = now_ns + message_ns + self.surroundings.flight_ns;
        if self.truth.cable(self.lattice.cable(node, direction)) == Status::Sick {
            // What is lost comes again, after the own descriptor.
            while self.random.chance(LOSS) {
                arrival_ns += 2 * message_ns;
            }
        }
        let (far, back) = (self.lattice.neighbour(node, direction), direction.opposite());
        self.desks[node.index()].busy |= 1 << direction.index();
        self.queue.push(arrival_ns, Event::Arrive(far, back, diagnostic));
        self.queue.push(now_ns + message_ns, Event::LineFree(node, direction));
    }

    pub(super) fn line_free(&mut self, node: Node, direction: Direction) {
        self.desks[node.index()].busy &= !(1 << direction.index());
        if self.truth.nic_works(node) && self.nics[node.index()].has_fresh(direction) {
            self.send(node, direction);
        }
    }

    pub(super) fn arrive(&mut self, node: Node, direction: Direction, diagnostic: Diagnostic) {
        if !self.truth.link_works(node, direction) {
            return;
        }
        let now_ns = self.now_ns;
        self.nic(node, |nic, out| {
            nic.receive(now_ns, direction, &diagnostic, &mut |a| out.push(a));
        });
    }

    pub(super) fn link_error(&mut self, node: Node, direction: Direction) {
        if !self.truth.link_works(node, direction) {
            return;
        }
        let (now_ns, bits) = (self.now_ns, ERROR_GAP_NS as u64 * BITS_PER_NS);
        self.nic(node, |nic, out| {
            nic.link_errors(now_ns, direction, bits, 1, &mut |a| out.push(a));
        });
    }

    /// Lets a host act, and does what it asks for.
    pub(super) fn host(&mut self, node: Node, act: impl FnOnce(&mut Host, &mut Vec<HostAction>)) {
        let mut actions = std::mem::take(&mut self.host_actions);
        act(&mut self.hosts[node.index()], &mut actions);
        for action in actions.drain(..) {
            match action {
                HostAction::Report(report) if self.truth.can_deliver(node) => {
                    self.serve(0, Event::Report(report));
                }
                HostAction::Report(_) => {}
                HostAction::Confirm { origin, epoch } => {
                    if self.truth.nic_works(node) {
                        self.nics[node.index()].confirm(origin, epoch);
                    }
                }
            }
        }
        self.host_actions = actions;
        self.arm_host(node);
    }

    pub(super) fn fault(&mut self, index: usize) {
        let fault = self.faults[index].0;
        self.tell(|| format!("FAULT: {fault}"));
        self.begun += 1;
        if is_known(&self.master, &fault) {
            self.faults[index].1 = Fate::KnownBefore;
        } else {
            self.open += 1;
        }
        self.truth.apply(&fault);
        let node = fault.node;
        match fault.kind {
            FaultKind::HostHung | FaultKind::SensorHigh => {}
            FaultKind::NicDead | FaultKind::NodeDead => {
                // Links that do not exist carry no credit words, and have none to miss.
                for direction in Direction::ALL {
                    let far = self.lattice.neighbour(node, direction);
                    self.fall_silent(far, direction.opposite());
                }
            }
            FaultKind::ServiceDown => {
                self.hosts[node.index()].statuses_mut().service_network = Status::Failed;
            }
            FaultKind::HostSick => {
                self.hosts[node.index()].statuses_mut().memory = Status::Sick;
            }
            FaultKind::CableCut => {
                let direction = fault.direction();
                self.fall_silent(node, direction);
                self.fall_silent(self.lattice.neighbour(node, direction), direction.opposite());
            }
            FaultKind::CableFlaky => self.become_flaky(node, fault.direction()),
        }
    }

    /// No more credit words come to `node` on this link; the last came a moment ago.
    fn fall_silent(&mut self, node: Node, direction: Direction) {
        let bit = 1 << direction.index();
        if self.desks[node.index()].flowing & bit == 0 {
            return;
        }
        self.desks[node.index()].flowing &= !bit;
        if !self.truth.nic_works(node) {
            return;
        }
        let surroundings = &self.surroundings;
        let ago_ns = self.random.below(surroundings.credit_ns);
        let last_ns = self.now_ns.saturating_sub(ago_ns) + surroundings.flight_ns;
        self.nic(node, |nic, out| nic.credit(last_ns, direction, &mut |a| out.push(a)));
        self.queue.push(last_ns + self.timing.link_silence_ns, Event::LinkSilent(node));
    }

    fn become_flaky(&mut self, node: Node, direction: Direction) {
        for (end, direction) in
            [(node, direction), (self.lattice.neighbour(node, direction), direction.opposite())]
        {
            let mut at_ns = self.now_ns;
            for _ in 0..ERRORS {
                at_ns += self.random.exponential(ERROR_GAP_NS) as u64;
                self.queue.push(at_ns, Event::LinkError(end, direction));
            }
        }
    }

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
