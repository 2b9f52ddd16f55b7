//! What heals: faults, and links that were only silent for a while.

use gannet_lattice::{Direction, Node};
use gannet_lofamo::{Host, Mode, Nic, Thresholds};
use gannet_wire::lofamo::Status;

use super::{BEAT, Case, NEVER, READ, Simulation, TICK};
use crate::awareness::distribution::Limits;
use crate::awareness::events::Event;

impl Simulation {
    /// How long after a fault has healed a picture may still tell of it.
    pub(in crate::awareness) fn grace_ns(&self) -> u64 {
        Limits::of(self.timing.mode, self.period_ns).worst_ns() + self.period_ns
    }

    /// Lets a fault heal. Hosts and NICs that were dead start anew.
    pub(super) fn heal(&mut self, index: usize) {
        let fault = self.faults[index].fault;
        self.tell(|| format!("HEALED: {fault}"));
        self.faults[index].has_healed = true;
        self.queue.push(self.now_ns + self.grace_ns(), Event::HealKnown);
        let node = fault.node;
        let (had_host, had_nic) = (self.truth.host_works(node), self.truth.nic_works(node));
        let could_deliver = self.truth.can_deliver(node);
        let lasts = |case: &&Case| !case.has_healed;
        self.truth.rebuild(self.faults[..self.begun].iter().filter(lasts).map(|case| &case.fault));
        if !had_host && self.truth.host_works(node) {
            self.hosts[node.index()] = Host::new(node, self.timing);
            self.desks[node.index()].host_timer_ns = NEVER;
            self.start_again(node, BEAT | READ);
        }
        self.set_statuses(node);
        if !had_nic && self.truth.nic_works(node) {
            self.nics[node.index()] =
                Nic::new(self.lattice, node, self.timing, Thresholds::default());
            let desk = &mut self.desks[node.index()];
            (desk.nic_timer_ns, desk.flowing, desk.errors) = (NEVER, 0, Default::default());
            self.start_again(node, TICK);
        }
        for direction in Direction::ALL {
            self.flow(node, direction);
            self.flow(self.lattice.neighbour(node, direction), direction.opposite());
        }
        if !could_deliver && self.truth.can_deliver(node) && self.seat.number() > 0 {
            self.announce(node);
        }
    }

    /// What is said of things that have healed long enough ago is false from now on.
    pub(super) fn judge_by_what_lasts(&mut self) {
        let (now_ns, grace_ns) = (self.now_ns, self.grace_ns());
        let lasts = |case: &&Case| case.fault.until_ns.is_none_or(|at| at + grace_ns > now_ns);
        let begun = &self.faults[..self.begun];
        self.excused.rebuild(begun.iter().filter(lasts).map(|case| &case.fault));
    }

    /// What a host says of itself.
    pub(super) fn set_statuses(&mut self, node: Node) {
        let status = |is_fault: bool, fault| if is_fault { fault } else { Status::Normal };
        let (down, sick) = (self.truth.is_service_down(node), self.truth.is_host_sick(node));
        let statuses = self.hosts[node.index()].statuses_mut();
        statuses.service_network = status(down, Status::Failed);
        statuses.memory = status(sick, Status::Sick);
    }

    /// Schedules what no longer came while it was dead.
    fn start_again(&mut self, node: Node, what: u8) {
        let now_ns = self.now_ns;
        let desk = &mut self.desks[node.index()];
        let stopped = desk.stopped & what;
        desk.stopped &= !what;
        if stopped & BEAT != 0 {
            desk.beat_due_ns = now_ns;
            self.queue.push(now_ns, Event::HostBeat(node));
        }
        if stopped & READ != 0 && self.timing.mode == Mode::Poll {
            desk.read_due_ns = now_ns + self.random.below(self.timing.poll_ns);
            self.queue.push(desk.read_due_ns, Event::HostRead(node));
        }
        if stopped & TICK != 0 {
            self.queue.push(now_ns, Event::NicTick(node));
        }
    }

    /// Credit words come to `node` on this link, if it works and they had stopped.
    pub(super) fn flow(&mut self, node: Node, direction: Direction) {
        let (bit, now_ns) = (1 << direction.index(), self.now_ns);
        if self.desks[node.index()].flowing & bit == 0 && self.truth.hears(node, direction) {
            self.desks[node.index()].flowing |= bit;
            self.nic(node, |nic, out| nic.credit(now_ns, direction, &mut |a| out.push(a)));
        }
    }

    /// Draws when links that work are first silent for too long.
    pub(super) fn begin_lulls(&mut self) {
        let lattice = self.lattice;
        for node in lattice.all() {
            for direction in Direction::ALL.into_iter().filter(|&d| lattice.has(d)) {
                self.next_lull(node, direction);
            }
        }
    }

    fn next_lull(&mut self, node: Node, direction: Direction) {
        let silence_ns = self.timing.link_silence_ns;
        if let Some(after_ns) = self.surroundings.next_lull(silence_ns, &mut self.random) {
            self.queue.push(self.now_ns + after_ns, Event::Lull(node, direction));
        }
    }

    /// A link is silent for longer than is borne, and then works on.
    pub(super) fn lull(&mut self, node: Node, direction: Direction) {
        self.fall_silent(node, direction);
        let silence_ns = self.timing.link_silence_ns;
        let rest_ns = self.surroundings.rest_of_lull(silence_ns, &mut self.random);
        let end_ns = self.now_ns + silence_ns + self.surroundings.credit_ns + rest_ns;
        self.queue.push(end_ns, Event::Flow(node, direction));
        self.next_lull(node, direction);
    }
}
