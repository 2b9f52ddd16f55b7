//! Faults while a machine runs, and the change to other routes.

use std::sync::Arc;

use gannet_lattice::{Cable, Direction, Node};
use serde::Serialize;

use super::script::{Agenda, Event, Happening, Script, Switched, What};
use super::simulation::Simulation;
use crate::routes::{Refused, Routes};

/// What has become of all packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Packets made.
    pub made: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Packets that were not sent, since there is no way to their destination.
    pub refused: u64,
    /// Times that a packet was lost.
    pub lost: u64,
    /// Times that a lost packet was sent again.
    pub replayed: u64,
}

/// Cycles after which a network that has not emptied is taken to be stuck.
const STUCK: u32 = 1_000_000;

impl Simulation {
    /// Lets these events happen at their cycles, and routes change `reroute_after` cycles after
    /// each: the time until the master knows and has planned. Without it they stay as they are.
    pub fn schedule(&mut self, script: Script, reroute_after: Option<u32>) {
        self.agenda = Agenda { script, reroute_after, ..Agenda::default() };
    }

    /// Does what is due.
    pub(super) fn keep_agenda(&mut self) {
        let now = self.now();
        while let Some(event) = self.agenda.script.take(now) {
            self.apply(event);
            self.note(What::Event(event));
            let agenda = &mut self.agenda;
            if let (None, Some(after)) = (agenda.reroute_at, agenda.reroute_after) {
                agenda.reroute_at = Some(now.saturating_add(after));
            }
        }
        if self.agenda.reroute_at.is_some_and(|at| at <= now) {
            self.agenda.reroute_at = None;
            let what = match self.reroute() {
                Ok(switched) => What::Rerouted(switched),
                Err(refused) => What::Refused(refused.to_string()),
            };
            self.note(what);
        }
    }

    fn note(&mut self, what: What) {
        let cycle = self.now();
        self.agenda.history.push(Happening { cycle, what });
    }

    /// Lets something happen now, between two cycles. Routes stay as they are.
    pub fn apply(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::CableDown(cable) => {
                self.faults.kill_cable(cable);
                let ends = self.ends(cable);
                self.network.fail_cable(ends, now);
            }
            Event::CableUp(cable) => self.repair_cable(cable),
            Event::CableFlaky(cable, loss) => {
                let ends = self.ends(cable);
                self.network.set_flaky(ends, loss);
            }
            Event::NodeDown(node) => self.fail_node(node),
            Event::HostHung(node) => self.network.hang_host(node),
        }
    }

    fn repair_cable(&mut self, cable: Cable) {
        let ends = self.ends(cable);
        self.network.set_flaky(ends, 0.0);
        let was_dead = !self.faults.cable_works(cable);
        self.faults.repair_cable(cable);
        let (from, direction) = ends[0];
        if was_dead && self.faults.link_works(from, direction) {
            self.network.repair_cable(ends);
        }
    }

    fn fail_node(&mut self, node: Node) {
        let (lattice, now) = (self.setup().lattice, self.now());
        self.faults.kill_node(node);
        for direction in Direction::ALL.into_iter().filter(|&direction| lattice.has(direction)) {
            let ends = self.ends(lattice.cable(node, direction));
            self.network.fail_cable(ends, now);
        }
        self.network.fail_node(node, now);
    }

    /// The link at each end of a cable.
    fn ends(&self, cable: Cable) -> [(Node, Direction); 2] {
        let plus = Direction::of(cable.dimension, true);
        let far = self.setup().lattice.neighbour(cable.from, plus);
        [(cable.from, plus), (far, plus.opposite())]
    }

    /// Changes to routes round the faults that are there now.
    ///
    /// Old and new routes are never mixed, since together they might deadlock: sources wait until
    /// the last packet on old routes is gone.
    ///
    /// # Errors
    ///
    /// [`Refused`], when no routes pass the check; the old ones stay.
    ///
    /// # Panics
    ///
    /// When the network does not empty, which the check of its routes has excluded.
    pub fn reroute(&mut self) -> Result<Switched, Refused> {
        let (routes, means, proven) = Routes::around(&self.faults, self.setup().vcs)?;
        let before = self.now();
        self.drain();
        self.install(routes);
        let drain_cycles = self.now() - before;
        Ok(Switched { means, drain_cycles, longest: proven.longest })
    }

    /// Lets sources wait until no packet is under way.
    ///
    /// # Panics
    ///
    /// When the network does not empty.
    pub fn drain(&mut self) {
        const STRIDE: u32 = 8;
        self.pause();
        let begin = self.now();
        while !self.is_empty() {
            assert!(self.now() - begin < STUCK, "the network is stuck: seed {}", self.setup().seed);
            self.run(STRIDE);
        }
    }

    /// Lets sources finish the packets that they have begun, and begin no more.
    pub fn pause(&mut self) {
        self.network.set_paused(true);
    }

    /// Whether no packet is under way; packets may wait at their sources.
    pub fn is_empty(&self) -> bool {
        self.network.is_empty()
    }

    /// Changes to other routes, and lets sources go on. The routes are not checked.
    ///
    /// # Panics
    ///
    /// When packets are under way: old and new routes must not be mixed.
    pub fn install(&mut self, routes: Routes) {
        assert!(self.is_empty(), "packets on old routes are under way");
        let setup = self.setup().clone();
        self.network.set_routes(&setup, Arc::new(routes));
        self.network.set_paused(false);
    }

    /// What has become of all packets so far.
    pub fn totals(&self) -> Totals {
        let tally = self.tally();
        Totals {
            made: tally.made,
            delivered: tally.delivered,
            refused: tally.refused,
            lost: tally.lost,
            replayed: tally.replayed,
        }
    }
}
