//! Hosts, NICs and a master, driven by events.

mod healing;
mod master;
mod nodes;

use gannet_lattice::{Direction, LINKS, Lattice, Node};
use gannet_lofamo::{
    Host, HostAction, Master, MasterAction, Mode, Nic, NicAction, Thresholds, Timing,
};
use gannet_measure::random::Random;
use gannet_wire::lofamo::{Diagnostic, Status};

use super::events::{Event, Queue};
use super::fault::Fault;
use super::machine::{Surroundings, Watched};
use super::truth::Truth;
use crate::trials::Trace;

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

/// A fault of a trial, and what has become of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub fault: Fault,
    pub fate: Fate,
    /// When it could first be noticed; `None` before.
    pub since_ns: Option<u64>,
    pub has_healed: bool,
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
    /// Errors of each link, as far as they are counted.
    errors: [u8; LINKS],
    /// One bit each, of [`BEAT`], [`READ`] and [`TICK`]: the next is no longer to come.
    stopped: u8,
    /// The last master that the host has heard of, by number.
    master: u32,
}

const BEAT: u8 = 1;
const READ: u8 = 2;
const TICK: u8 = 4;

/// A machine of many nodes, from a healthy state on.
pub struct Simulation {
    pub(in crate::awareness) lattice: Lattice,
    pub(in crate::awareness) timing: Timing,
    pub(in crate::awareness) period_ns: u64,
    surroundings: Surroundings,
    random: Random,
    now_ns: u64,
    queue: Queue,
    nics: Vec<Nic>,
    hosts: Vec<Host>,
    pub(in crate::awareness) master: Master,
    /// Earliest timer event of the master under way.
    master_timer_ns: u64,
    desks: Vec<Desk>,
    /// What is broken, what is or was until just now, and what ever was in this trial.
    pub(in crate::awareness) truth: Truth,
    pub(in crate::awareness) excused: Truth,
    pub(in crate::awareness) ever: Truth,
    pub(in crate::awareness) faults: Vec<Case>,
    seat: master::Seat,
    /// Faults that have begun.
    begun: usize,
    /// Faults that have begun and are not known.
    pub(in crate::awareness) open: usize,
    pub(in crate::awareness) false_claims: Vec<(u64, String)>,
    healthy: (Vec<Nic>, Vec<Host>, Master, Vec<Desk>),
    nic_actions: Vec<NicAction>,
    host_actions: Vec<HostAction>,
    master_actions: Vec<MasterAction>,
    readings: Vec<Diagnostic>,
    /// What is told of a trial.
    pub(in crate::awareness) trace: Trace,
}

impl Simulation {
    /// A healthy machine in which every node has been heard.
    pub fn new(machine: &Watched) -> Self {
        let Watched { lattice, mode, period_ns, surroundings, .. } = *machine;
        let timing = Timing::new(mode, period_ns);
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
            excused: Truth::new(lattice),
            ever: Truth::new(lattice),
            seat: master::Seat::new(false),
            faults: Vec::new(),
            begun: 0,
            open: 0,
            false_claims: Vec::new(),
            healthy: (Vec::new(), Vec::new(), Master::new(lattice, timing), Vec::new()),
            nic_actions: Vec::new(),
            host_actions: Vec::new(),
            master_actions: Vec::new(),
            readings: Vec::new(),
            trace: Trace::default(),
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
            let word = host.beat(0, &mut |_| ());
            match self.timing.mode {
                Mode::Push => nic.beat(0, word, &mut |_| ()),
                Mode::Poll => nic.check(0, word, &mut |_| ()),
            }
            host.nic_register(0, nic.tick(), &mut |_| ());
            // A beat that the next look will find, as in any stretch of time.
            (desk.host_register, desk.nic_register) = (host.beat(0, &mut |_| ()), nic.tick());
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
    /// A master that is mortal runs on the host of a node.
    pub fn restart(&mut self, mut random: Random, faults: Vec<Fault>, has_mortal_master: bool) {
        self.nics.clone_from(&self.healthy.0);
        self.hosts.clone_from(&self.healthy.1);
        self.master.clone_from(&self.healthy.2);
        self.master_timer_ns = NEVER;
        self.desks.clone_from(&self.healthy.3);
        for truth in [&mut self.truth, &mut self.excused, &mut self.ever] {
            truth.repair();
        }
        self.seat = master::Seat::new(has_mortal_master);
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
            if let Some(at_ns) = fault.until_ns {
                self.queue.push(at_ns, Event::Heal(index as u32));
            }
        }
        self.faults.clear();
        self.faults.extend(faults.into_iter().map(|fault| Case {
            fault,
            fate: Fate::Open,
            since_ns: None,
            has_healed: false,
        }));
        self.random = random;
        self.begin_lulls();
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
        self.trace.tell(|| format!("{:>14.6} s  {}", self.now_ns as f64 * 1e-9, line()));
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
            Event::Acknowledged(node, receipt) => {
                if self.truth.can_deliver(node) {
                    self.host(node, |host, out| host.acknowledged(&receipt, &mut |a| out.push(a)));
                }
            }
            Event::Probe(node, number) => self.probe(node, number),
            Event::Answer(answer) => self.answer(&answer),
            Event::MasterTimer => self.master_timer(),
            Event::Fault(index) => self.fault(index as usize),
            Event::Heal(index) => self.heal(index as usize),
            Event::HealKnown => self.judge_by_what_lasts(),
            Event::Lull(node, direction) => self.lull(node, direction),
            Event::Flow(node, direction) => self.flow(node, direction),
            Event::TakeOver => self.take_over(),
            Event::NewMaster(node) => self.hear_of_master(node),
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
