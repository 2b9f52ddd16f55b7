//! A machine without faults, long after its start.

use gannet_lattice::{Direction, Node};
use gannet_lofamo::{HostAction, Mode};

use super::{NEVER, Simulation};

impl Simulation {
    /// Brings all machines to where they are after a long time without faults.
    ///
    /// Only the first deadlines count from time 0 in place of a beat before it: awareness of faults
    /// in the first half of a period looks longer by that, in the mean over a trial by a percent.
    pub(super) fn boot(&mut self) {
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
}
