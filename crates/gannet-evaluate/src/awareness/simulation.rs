//! Hosts, NICs and a master, driven by events.

use gannet_measure::random::Random;
use gannet_torus::lattice::{Direction, Lattice, Node};
use gannet_torus::lofamo::{
    Answer, Host, HostAction, Master, MasterAction, Mode, Nic, NicAction, Readings, Report,
    Thresholds, Timing,
};
use gannet_wire::lofamo::{DIAGNOSTIC_WORDS, Diagnostic, Status};

use super::events::{Event, Queue};
use super::fault::{Fault, FaultKind};
use super::surroundings::Surroundings;
use super::truth::Truth;
use super::verdict::{false_claim, is_known};

/// From one error of a flaky cable to the next, in the mean: 1e-6 of 28 Gbit/s.
const ERROR_GAP_NS: f64 = 36_000.0;
/// Errors of a flaky cable that are simulated: more than any threshold in use.
const ERRORS: u32 = 16;
/// Bits of a link in a nanosecond.
const BITS_PER_NS: u64 = 28;
/// Part of the messages that a flaky cable loses.
const LOSS: f64 = 0.01;
/// A reading over the threshold of a sensor.
const HOT: Readings = Readings { temperature_c: 85.0, ..Readings::USUAL };
const NEVER: u64 = u64::MAX;

/// What a fault led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Not yet known.
    Open,
    /// The master held it for broken before it broke: other faults hid it.
    KnownBefore,
    /// Known after so long.
    Known { after_ns: u64 },
}

/// What of a node is not in its machines.
#[derive(Clone, Copy, Debug, Default)]
struct Desk {
    /// Registers as last written.
    host_register: u64,
    nic_register: u64,
    /// When the host should beat and read next, without lateness.
    beat_due_ns: u64,
    read_due_ns: u64,
    /// Earliest timer event under way.
    host_timer_ns: u64,
    nic_timer_ns: u64,
    /// One bit a link: a message is on its way out.
    busy: u8,
    /// One bit a link: credit words come in.
    flowing: u8,
}

/// A machine of many nodes, from a healthy state on.
pub(super) struct Simulation {
    pub lattice: Lattice,
    pub timing: Timing,
    pub period_ns: u64,
    surroundings: Surroundings,
    random: Random,
    now_ns: u64,
    queue: Queue,
    nics: Vec<Nic>,
    hosts: Vec<Host>,
    pub master: Master,
    /// Earliest timer event of the master under way.
    master_timer_ns: u64,
    desks: Vec<Desk>,
    pub truth: Truth,
    pub faults: Vec<(Fault, Fate)>,
    /// Faults that have begun.
    begun: usize,
    /// Faults that have begun and are not known.
    pub open: usize,
    pub false_claims: Vec<(u64, String)>,
    healthy: (Vec<Nic>, Vec<Host>, Master, Vec<Desk>),
    nic_actions: Vec<NicAction>,
    host_actions: Vec<HostAction>,
    master_actions: Vec<MasterAction>,
    readings: Vec<Diagnostic>,
    /// What is told of a trial, where that is wanted.
    pub story: Option<Vec<(u64, String)>>,
}

impl Simulation {
    /// A healthy machine in which every node has been heard.
    pub fn new(
        lattice: Lattice,
        timing: Timing,
        period_ns: u64,
        surroundings: Surroundings,
    ) -> Self {
        let nic = |node| Nic::new(lattice, node, timing, Thresholds::default());
        let mut simulation = Self {
            lattice,
            timing,
            period_ns,
            surroundings,
            random: Random::new(0),
            now_ns: 0,
            queue: Queue::default(),
            nics: lattice.all().map(nic).collect(),
            hosts: lattice.all().map(|node| Host::new(node, timing)).collect(),
            master: Master::new(lattice, timing),
            master_timer_ns: NEVER,
            desks: vec![Desk::default(); lattice.nodes()],
            truth: Truth::new(lattice),
            faults: Vec::new(),
            begun: 0,
            open: 0,
            false_claims: Vec::new(),
            healthy: (Vec::new(), Vec::new(), Master::new(lattice, timing), Vec::new()),
            nic_actions: Vec::new(),
            host_actions: Vec::new(),
            master_actions: Vec::new(),
            readings: Vec::new(),
            story: None,
        };
        simulation.boot();
        simulation.healthy = (
            simulation.nics.clone(),
            simulation.hosts.clone(),
            simulation.master.clone(),
            simulation.desks.clone(),
        );
        simulation
    }

    /// Brings all machines to where they are after a long time without faults.
    ///
    /// Only the first deadlines count from time 0 in place of a beat before it: awareness of faults
    /// in the first half of a period looks longer by that, in the mean over a trial by a percent.
    fn boot(&mut self) {
        for node in self.lattice.all() {
            let (host, nic) = (&mut self.hosts[node.index()], &mut self.nics[node.index()]);
            let desk = &mut self.desks[node.index()];
            for direction in Direction::ALL.into_iter().filter(|&d| self.lattice.has(d)) {
                nic.credit(0, direction, &mut |_| ());
                desk.flowing |= 1 << direction.index();
            }
            let word = host.beat(&mut |_| ());
            match self.timing.mode {
                Mode::Push => nic.beat(0, word, &mut |_| ()),
                Mode::Poll => nic.check(0, word, &mut |_| ()),
            }
            host.nic_register(0, nic.tick(), &mut |_| ());
            // A beat that the next look will find, as in any stretch of time.
            (desk.host_register, desk.nic_register) = (host.beat(&mut |_| ()), nic.tick());
            (desk.host_timer_ns, desk.nic_timer_ns) = (NEVER, NEVER);
        }
        for node in self.lattice.all() {
            for direction in Direction::ALL {
                while self.nics[node.index()].has_fresh(direction) {
                    let diagnostic = self.nics[node.index()].diagnostic(0, direction);
                    let far = self.lattice.neighbour(node, direction);
                    let back = direction.opposite();
                    self.nics[far.index()].receive(0, back, &diagnostic, &mut |_| ());
                }
            }
        }
        for node in self.lattice.all() {
            self.nics[node.index()].read(0, &mut |diagnostic| self.readings.push(diagnostic));
            for diagnostic in std::mem::take(&mut self.readings) {
                let mut reports = Vec::new();
                self.hosts[node.index()].notice(&diagnostic, &mut |action| reports.push(action));
                for action in reports {
                    if let HostAction::Report(report) = action {
                        self.master.report(0, &report, &mut |_| ());
                    }
                }
                let descriptor = &diagnostic.descriptor;
                self.nics[node.index()].confirm(Node(descriptor.origin), descriptor.epoch);
            }
        }
    }

    /// Begins anew from the healthy state, with beats in phases of `random`, and `faults` to come.
    pub fn restart(&mut self, mut random: Random, faults: Vec<Fault>) {
        self.nics.clone_from(&self.healthy.0);
        self.hosts.clone_from(&self.healthy.1);
        self.master.clone_from(&self.healthy.2);
        self.master_timer_ns = NEVER;
        self.desks.clone_from(&self.healthy.3);
        self.truth.mend();
        self.queue.clear();
        (self.now_ns, self.begun, self.open) = (0, 0, 0);
        self.false_claims.clear();
        let timing = self.timing;
        for (node, desk) in self.lattice.all().zip(&mut self.desks) {
            desk.beat_due_ns = random.below(timing.beat_ns);
            desk.read_due_ns = random.below(timing.poll_ns);
            self.queue.push(desk.beat_due_ns, Event::HostBeat(node));
            self.queue.push(random.below(timing.tick_ns), Event::NicTick(node));
            if timing.mode == Mode::Poll {
                self.queue.push(desk.read_due_ns, Event::HostRead(node));
            }
        }
        for (index, fault) in faults.iter().enumerate() {
            self.queue.push(fault.at_ns, Event::Fault(index as u32));
        }
        self.faults.clear();
        self.faults.extend(faults.into_iter().map(|fault| (fault, Fate::Open)));
        self.random = random;
        for node in self.lattice.all() {
            self.arm_nic(node);
            self.arm_host(node);
        }
    }

    /// Runs until `end_ns`, or until `is_done` says so after an event.
    pub fn run(&mut self, end_ns: u64, mut is_done: impl FnMut(&Self) -> bool) {
        while let Some((at_ns, event)) = self.queue.pop(end_ns) {
            self.now_ns = at_ns;
            self.handle(event);
            if is_done(self) {
                return;
            }
        }
    }

    /// The time of the last event.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Number of events made since the start.
    pub fn events(&self) -> u64 {
        self.queue.made()
    }

    /// Whether all faults have begun.
    pub fn all_begun(&self) -> bool {
        self.begun == self.faults.len()
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push((self.now_ns, line()));
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::HostBeat(node) => self.host_beats(node),
            Event::NicTick(node) => self.nic_ticks(node),
            Event::HostRead(node) => self.host_reads(node),
            Event::HostTimer(node) => self.host_timer(node),
            Event::NicTimer(node) => self.nic_timer(node),
            Event::LinkSilent(node) => self.poll_nic(node),
            Event::LinkError(node, direction) => self.link_error(node, direction),
            Event::LineFree(node, direction) => self.line_free(node, direction),
            Event::Arrive(node, direction, diagnostic) => self.arrive(node, direction, diagnostic),
            Event::Notice(node, diagnostic) => {
                if self.truth.host_works(node) {
                    self.host(node, |host, out| host.notice(&diagnostic, &mut |a| out.push(a)));
                }
            }
            Event::Report(report) => self.report(&report),
            Event::Acknowledged(node, origin, epoch) => {
                if self.truth.can_deliver(node) {
                    self.host(node, |host, out| {
                        host.acknowledged(origin, epoch, &mut |a| out.push(a));
                    });
                }
            }
            Event::Probe(node, number) => self.probe(node, number),
            Event::Answer(answer) => self.answer(&answer),
            Event::MasterTimer => self.master_timer(),
            Event::Fault(index) => self.fault(index as usize),
        }
    }

    fn host_beats(&mut self, node: Node) {
        if !self.truth.host_works(node) {
            return;
        }
        let mut word = 0;
        self.host(node, |host, out| word = host.beat(&mut |a| out.push(a)));
        self.desks[node.index()].host_register = word;
        if self.timing.mode == Mode::Push && self.truth.nic_works(node) {
            let now_ns = self.now_ns;
            self.nic(node, |nic, out| nic.beat(now_ns, word, &mut |a| out.push(a)));
        }
        let stray = self.surroundings.jitter.stray(self.timing.beat_ns, &mut self.random);
        let late = self.surroundings.jitter.late(self.period_ns, &mut self.random);
        let desk = &mut self.desks[node.index()];
        desk.beat_due_ns += stray;
        self.queue.push((desk.beat_due_ns + late).max(self.now_ns), Event::HostBeat(node));
    }

    fn nic_ticks(&mut self, node: Node) {
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
            self.arm_host(node);
        }
        let stray = self.surroundings.jitter.stray(self.timing.tick_ns, &mut self.random);
        self.queue.push(now_ns + stray, Event::NicTick(node));
    }

    fn host_reads(&mut self, node: Node) {
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

    fn host_timer(&mut self, node: Node) {
        let now_ns = self.now_ns;
        if self.desks[node.index()].host_timer_ns != now_ns {
            return;
        }
        self.desks[node.index()].host_timer_ns = NEVER;
        if self.truth.host_works(node) {
            self.host(node, |host, out| host.poll(now_ns, &mut |a| out.push(a)));
            self.arm_host(node);
        }
    }

    fn nic_timer(&mut self, node: Node) {
        if self.desks[node.index()].nic_timer_ns == self.now_ns {
            self.desks[node.index()].nic_timer_ns = NEVER;
            self.poll_nic(node);
        }
    }

    /// Tells a NIC of the credit words that came until now, and lets it act on its deadlines.
    fn poll_nic(&mut self, node: Node) {
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

    fn arm_host(&mut self, node: Node) {
        let (host, desk) = (&self.hosts[node.index()], &mut self.desks[node.index()]);
        if let Some(at_ns) = host.deadline_ns().filter(|&at_ns| at_ns < desk.host_timer_ns) {
            desk.host_timer_ns = at_ns;
            self.queue.push(at_ns, Event::HostTimer(node));
        }
    }

    fn arm_nic(&mut self, node: Node) {
        let (nic, desk) = (&self.nics[node.index()], &mut self.desks[node.index()]);
        let at_ns = nic.host_deadline_ns().unwrap_or(NEVER).min(nic.confirm_deadline_ns());
        if at_ns < desk.nic_timer_ns {
            desk.nic_timer_ns = at_ns;
            self.queue.push(at_ns, Event::NicTimer(node));
        }
    }

    /// Lets a NIC act, and does what it asks for.
    fn nic(&mut self, node: Node, act: impl FnOnce(&mut Nic, &mut Vec<NicAction>)) {
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

    fn line_free(&mut self, node: Node, direction: Direction) {
        self.desks[node.index()].busy &= !(1 << direction.index());
        if self.truth.nic_works(node) && self.nics[node.index()].has_fresh(direction) {
            self.send(node, direction);
        }
    }

    fn arrive(&mut self, node: Node, direction: Direction, diagnostic: Diagnostic) {
        if !self.truth.link_works(node, direction) {
            return;
        }
        let now_ns = self.now_ns;
        self.nic(node, |nic, out| {
            nic.receive(now_ns, direction, &diagnostic, &mut |a| out.push(a));
        });
    }

    fn link_error(&mut self, node: Node, direction: Direction) {
        if !self.truth.link_works(node, direction) {
            return;
        }
        let (now_ns, bits) = (self.now_ns, ERROR_GAP_NS as u64 * BITS_PER_NS);
        self.nic(node, |nic, out| {
            nic.link_errors(now_ns, direction, bits, 1, &mut |a| out.push(a));
        });
    }

    /// Lets a host act, and does what it asks for.
    fn host(&mut self, node: Node, act: impl FnOnce(&mut Host, &mut Vec<HostAction>)) {
        let mut actions = std::mem::take(&mut self.host_actions);
        act(&mut self.hosts[node.index()], &mut actions);
        for action in actions.drain(..) {
            match action {
                HostAction::Report(report) if self.truth.can_deliver(node) => {
                    let delay = self.surroundings.service_delay(&mut self.random);
                    self.queue.push(self.now_ns + delay, Event::Report(report));
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
    }

    /// Lets the master act, and does what it asks for.
    fn master(&mut self, act: impl FnOnce(&mut Master, &mut Vec<MasterAction>)) {
        let mut actions = std::mem::take(&mut self.master_actions);
        act(&mut self.master, &mut actions);
        for action in actions.drain(..) {
            match action {
                MasterAction::Acknowledge { to, origin, epoch } => {
                    let delay = self.surroundings.service_delay(&mut self.random);
                    self.queue.push(self.now_ns + delay, Event::Acknowledged(to, origin, epoch));
                }
                MasterAction::Probe(node, number) => {
                    self.tell(|| format!("the master probes {node}"));
                    let delay = self.surroundings.service_delay(&mut self.random);
                    self.queue.push(self.now_ns + delay, Event::Probe(node, number));
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

    fn master_timer(&mut self) {
        let now_ns = self.now_ns;
        if self.master_timer_ns == now_ns {
            self.master_timer_ns = NEVER;
            self.master(|master, out| master.poll(now_ns, &mut |a| out.push(a)));
        }
    }

    fn report(&mut self, report: &Report) {
        let now_ns = self.now_ns;
        self.tell(|| {
            let descriptor = report.descriptor;
            let diagnostic = Diagnostic { descriptor, relayed: report.relayed };
            format!("the master hears from {}: {}", report.from, brief(&diagnostic))
        });
        self.master(|master, out| master.report(now_ns, report, &mut |a| out.push(a)));
    }

    fn probe(&mut self, node: Node, number: u32) {
        if self.truth.can_deliver(node) {
            let own = self.nics[node.index()].own(self.now_ns);
            let answer = self.hosts[node.index()].probed(number, own);
            let delay = self.surroundings.service_delay(&mut self.random);
            let at_ns = self.now_ns + self.surroundings.wake_ns + delay;
            self.queue.push(at_ns, Event::Answer(answer));
        }
    }

    fn answer(&mut self, answer: &Answer) {
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

    fn fault(&mut self, index: usize) {
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
}

/// A message in one line.
fn brief(diagnostic: &Diagnostic) -> String {
    let it = &diagnostic.descriptor;
    let way = if diagnostic.relayed { "relayed, " } else { "" };
    let links = it.links().map(Status::name).join(" ");
    let (origin, epoch) = (it.origin, it.epoch);
    format!("{way}node {origin} epoch {epoch}: host {}, NIC {}, links {links}", it.host, it.nic)
}
