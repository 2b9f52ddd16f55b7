//! What a fault does.

use gannet_lattice::{Direction, Node};
use gannet_wire::lofamo::Status;

use super::super::events::Event;
use super::super::fault::FaultKind;
use super::super::verdict::is_known;
use super::nodes::ERROR_GAP_NS;
use super::{Fate, Simulation};

/// Errors of a flaky cable that are simulated: more than any threshold in use.
const ERRORS: u32 = 16;

impl Simulation {
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
}
