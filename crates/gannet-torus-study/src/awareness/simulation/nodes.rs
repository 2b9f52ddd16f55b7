//! What faults do, hosts, NICs and links, and the master with its network.

use gannet_lattice::{Direction, Node};
use gannet_lofamo::{Host, HostAction, Mode, Nic, NicAction, Readings, Thresholds};
use gannet_wire::lofamo::{DIAGNOSTIC_WORDS, Diagnostic, Status};

use super::{BEAT, Fate, NEVER, READ, Simulation, TICK, brief};
use crate::awareness::events::Event;
use crate::awareness::fault::{Errors, Fault, FaultKind};
use crate::awareness::truth::is_known;

/// Bits between two errors of a link: 36 us of 28 Gbit/s.
const ERROR_GAP_BITS: u64 = 36_000 * 28;
/// Part of the messages that a flaky cable loses.
const LOSS: f64 = 0.01;
/// A reading over the threshold of a sensor.
const HOT: Readings = Readings { temperature_c: 85.0, ..Readings::USUAL };

impl Simulation {
    pub(super) fn host_beats(&mut self, node: Node) {
        if !self.truth.host_works(node) {
            self.desks[node.index()].stopped |= BEAT;
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
            self.desks[node.index()].stopped |= TICK;
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
            self.desks[node.index()].stopped |= READ;
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
        if self.truth.line(node, direction) == Status::Sick {
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
        if !self.truth.hears(node, direction) {
            return;
        }
        let now_ns = self.now_ns;
        self.nic(node, |nic, out| {
            nic.receive(now_ns, direction, &diagnostic, &mut |a| out.push(a));
        });
    }

    pub(super) fn link_error(&mut self, node: Node, direction: Direction) {
        let far = self.lattice.neighbour(node, direction);
        let is_flaky = self.truth.line(far, direction.opposite()) == Status::Sick;
        if !is_flaky || !self.truth.hears(node, direction) {
            return;
        }
        let count = &mut self.desks[node.index()].errors[direction.index()];
        *count = count.saturating_add(1);
        if u32::from(*count) == Thresholds::default().corrected_per_minute + 1 {
            self.note_errors(node, direction);
        }
        let now_ns = self.now_ns;
        self.nic(node, |nic, out| {
            nic.link_errors(now_ns, direction, ERROR_GAP_BITS, 1, &mut |a| out.push(a));
        });
    }

    /// A link has more errors than are borne: the fault of its cable can be noticed.
    fn note_errors(&mut self, node: Node, direction: Direction) {
        for truth in [&mut self.truth, &mut self.excused, &mut self.ever] {
            truth.note_errors(node, direction);
        }
        let far = (self.lattice.neighbour(node, direction), direction.opposite());
        let is_it = |fault: &Fault| {
            let end = (fault.node, fault.direction);
            fault.kind == FaultKind::CableFlaky && (end == (node, direction) || end == far)
        };
        for case in self.faults[..self.begun].iter_mut().filter(|case| is_it(&case.fault)) {
            case.since_ns.get_or_insert(self.now_ns);
        }
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
        let fault = self.faults[index].fault;
        self.tell(|| format!("FAULT: {fault}"));
        self.begun += 1;
        if is_known(&self.master, &fault) {
            self.faults[index].fate = Fate::KnownBefore;
        } else {
            self.open += 1;
        }
        // Of errors that are many, all times count from the first.
        let is_at_once = fault.kind != FaultKind::CableFlaky || fault.errors == Errors::MANY;
        self.faults[index].since_ns = is_at_once.then_some(self.now_ns);
        for truth in [&mut self.truth, &mut self.excused, &mut self.ever] {
            truth.apply(&fault);
        }
        let (node, direction) = (fault.node, fault.direction);
        let far = self.lattice.neighbour(node, direction);
        match fault.kind {
            FaultKind::HostHung | FaultKind::SensorHigh => {}
            FaultKind::NicDead | FaultKind::NodeDead => {
                // Links that do not exist carry no credit words, and have none to miss.
                for direction in Direction::ALL {
                    let far = self.lattice.neighbour(node, direction);
                    self.fall_silent(far, direction.opposite());
                }
            }
            FaultKind::ServiceDown | FaultKind::HostSick => self.set_statuses(node),
            FaultKind::CableCut => {
                self.fall_silent(node, direction);
                self.fall_silent(far, direction.opposite());
            }
            FaultKind::CableHalfCut => self.fall_silent(far, direction.opposite()),
            FaultKind::CableFlaky => self.become_flaky(&fault),
        }
        self.look_after_master();
    }

    /// No more credit words come to `node` on this link; the last came a moment ago.
    pub(super) fn fall_silent(&mut self, node: Node, direction: Direction) {
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

    fn become_flaky(&mut self, fault: &Fault) {
        let Fault { node, direction, errors, .. } = *fault;
        for (end, direction) in
            [(node, direction), (self.lattice.neighbour(node, direction), direction.opposite())]
        {
            let mut at_ns = self.now_ns;
            for _ in 0..errors.count {
                at_ns += self.random.exponential(errors.gap_ns as f64) as u64;
                self.queue.push(at_ns, Event::LinkError(end, direction));
            }
        }
    }
}
