//! A simulation: slabs of nodes under one clock.

use std::ops::Range;
use std::sync::Arc;

use gannet_lattice::{Direction, Faults, Node};

use super::agenda::{Agenda, Happening};
use super::crew;
use super::pattern::Pattern;
use super::rules::Rules;
use super::setup::{FlowControl, Setup, SetupError};
use super::slab::{self, Plan, Slab};
use super::tally::Tally;
use super::traffic::Traffic;
use crate::routes::Routes;

/// A machine under simulation.
pub struct Simulation {
    setup: Setup,
    load: f64,
    now: u32,
    faults: Faults,
    agenda: Agenda,
    pub(super) engine: Box<dyn Engine + Send>,
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.debug_struct("Simulation").field("setup", &self.setup).field("now", &self.now).finish()
    }
}

impl Simulation {
    /// A machine without faults, with nothing under way, and `load` flits per node and cycle to
    /// come.
    ///
    /// # Errors
    ///
    /// When a value of the setup is outside its range.
    pub fn new(setup: &Setup, pattern: Pattern, load: f64) -> Result<Self, SetupError> {
        let routes = match setup.flow_control {
            FlowControl::Bubble => Routes::bubble(setup.lattice),
            _ => Routes::dimension_order(setup.lattice),
        };
        Self::with_routes(setup, routes, pattern, load)
    }

    /// A machine whose packets take these routes.
    ///
    /// # Errors
    ///
    /// When a value of the setup is outside its range.
    pub fn with_routes(
        setup: &Setup,
        routes: Routes,
        pattern: Pattern,
        load: f64,
    ) -> Result<Self, SetupError> {
        setup.check(&pattern, load)?;
        let places = setup.places(&pattern);
        let traffic = Traffic::new(setup.lattice, pattern, load, setup.packet_flits);
        let routes = Arc::new(routes);
        let engine: Box<dyn Engine + Send> = match setup.vcs.next_power_of_two() {
            1 => Box::new(Slabs::<1>::new(setup, routes, traffic, places)),
            2 => Box::new(Slabs::<2>::new(setup, routes, traffic, places)),
            4 => Box::new(Slabs::<4>::new(setup, routes, traffic, places)),
            _ => Box::new(Slabs::<8>::new(setup, routes, traffic, places)),
        };
        let faults = Faults::none(setup.lattice);
        let agenda = Agenda::default();
        Ok(Self { setup: setup.clone(), load, now: 0, faults, agenda, engine })
    }

    /// What is simulated.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// What has failed so far.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(super) fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// Flits per node and cycle that are offered.
    pub fn load(&self) -> f64 {
        self.load
    }

    /// Cycles simulated so far.
    pub fn now(&self) -> u32 {
        self.now
    }

    /// Simulates `cycles` more cycles, with all that is to happen in them.
    pub fn advance(&mut self, cycles: u32) {
        let end = self.now.saturating_add(cycles);
        while self.now < end {
            let stop = self.agenda.next_at().map_or(end, |next| next.clamp(self.now, end));
            self.run(stop - self.now);
            self.keep_agenda();
        }
    }

    /// Simulates `cycles` more cycles, in which nothing happens but traffic.
    pub(super) fn run(&mut self, cycles: u32) {
        let end = self.now.saturating_add(cycles);
        self.engine.advance(self.now..end);
        self.now = end;
    }

    pub(super) fn agenda(&mut self) -> &mut Agenda {
        &mut self.agenda
    }

    /// What has happened so far, in order.
    pub fn history(&self) -> &[Happening] {
        self.agenda.history()
    }

    /// Bytes of memory per node.
    pub fn bytes_per_node(&self) -> usize {
        self.engine.bytes() / self.setup.lattice.nodes()
    }

    pub(super) fn set_window(&mut self, window: Range<u32>) {
        self.engine.set_window(window);
    }

    pub(super) fn forget(&mut self) {
        self.engine.forget();
    }

    pub(super) fn has_backlog(&self, cycle: u32) -> bool {
        self.engine.has_backlog(cycle)
    }

    pub(super) fn tally(&self) -> Tally {
        self.engine.tally()
    }
}

/// The slabs of a simulation, whatever the number of virtual channels.
pub(super) trait Engine {
    fn advance(&mut self, cycles: Range<u32>);
    fn set_window(&mut self, window: Range<u32>);
    fn forget(&mut self);
    fn has_backlog(&self, cycle: u32) -> bool;
    fn unfinished(&self) -> u64;
    fn waiting_again(&self) -> u64;
    fn is_empty(&self) -> bool;
    fn set_paused(&mut self, paused: bool);
    fn set_routes(&mut self, setup: &Setup, routes: Arc<Routes>);
    fn fail_cable(&mut self, ends: [(Node, Direction); 2], now: u32);
    fn repair_cable(&mut self, ends: [(Node, Direction); 2]);
    fn fail_node(&mut self, node: Node, now: u32);
    fn hang_host(&mut self, node: Node);
    fn set_flaky(&mut self, ends: [(Node, Direction); 2], loss: f64);
    fn tally(&self) -> Tally;
    fn bytes(&self) -> usize;
}

struct Slabs<const V: usize> {
    slabs: Vec<Slab<V>>,
    /// Cycles after which the slabs exchange messages: none is due sooner than that.
    stretch: u32,
}

impl<const V: usize> Slabs<V> {
    fn new(setup: &Setup, routes: Arc<Routes>, traffic: Traffic, places: u16) -> Self {
        let (nodes, count) = (setup.lattice.nodes() as u32, setup.threads as u32);
        let border = |slab| (u64::from(nodes) * u64::from(slab) / u64::from(count)) as u32;
        let rules = Rules::new(setup, routes, V);
        let stretch = rules.delays.lookahead().min(setup.replay_after.unwrap_or(u32::MAX));
        let plan = Plan {
            rules: Arc::new(rules),
            traffic: Arc::new(traffic),
            borders: (0..=count).map(border).collect(),
            places,
            seed: setup.seed,
            replay_after: setup.replay_after,
        };
        Self { slabs: (0..setup.threads).map(|index| Slab::new(index, &plan)).collect(), stretch }
    }
}

impl<const V: usize> Engine for Slabs<V> {
    fn advance(&mut self, cycles: Range<u32>) {
        crew::advance(&mut self.slabs, cycles, self.stretch);
    }

    fn set_window(&mut self, window: Range<u32>) {
        for slab in &mut self.slabs {
            slab.set_window(window.clone());
        }
    }

    fn forget(&mut self) {
        self.slabs.iter_mut().for_each(|slab| slab.tally.forget());
    }

    fn has_backlog(&self, cycle: u32) -> bool {
        self.slabs.iter().any(|slab| slab.has_backlog(cycle))
    }

    fn unfinished(&self) -> u64 {
        self.slabs
            .iter()
            .map(|slab| slab.tally.marked.wrapping_sub(slab.tally.marked_done))
            .fold(0, u64::wrapping_add)
    }

    fn waiting_again(&self) -> u64 {
        self.slabs.iter().map(Slab::waiting_again).sum()
    }

    fn is_empty(&self) -> bool {
        self.slabs.iter().all(Slab::is_empty)
    }

    fn set_paused(&mut self, paused: bool) {
        self.slabs.iter_mut().for_each(|slab| slab.set_paused(paused));
    }

    fn set_routes(&mut self, setup: &Setup, routes: Arc<Routes>) {
        let rules = Arc::new(Rules::new(setup, routes, V));
        self.slabs.iter_mut().for_each(|slab| slab.set_rules(rules.clone()));
    }

    fn fail_cable(&mut self, ends: [(Node, Direction); 2], now: u32) {
        for slab in &mut self.slabs {
            ends.iter().for_each(|&(node, direction)| slab.fail_link(node, direction, now));
        }
        slab::exchange(&mut self.slabs);
    }

    fn repair_cable(&mut self, ends: [(Node, Direction); 2]) {
        for (end, far) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let held = self.slabs.iter().find_map(|slab| slab.occupancy(far.0, far.1));
            let held = held.expect("every node is in one of the slabs");
            self.slabs.iter_mut().for_each(|slab| slab.repair_link(end.0, end.1, held));
        }
    }

    fn fail_node(&mut self, node: Node, now: u32) {
        self.slabs.iter_mut().for_each(|slab| slab.fail_node(node, now));
        slab::exchange(&mut self.slabs);
    }

    fn hang_host(&mut self, node: Node) {
        self.slabs.iter_mut().for_each(|slab| slab.hang_host(node));
    }

    fn set_flaky(&mut self, ends: [(Node, Direction); 2], loss: f64) {
        for slab in &mut self.slabs {
            ends.iter().for_each(|&(node, direction)| slab.set_flaky(node, direction, loss));
        }
    }

    fn tally(&self) -> Tally {
        let mut all = Tally::default();
        for slab in &self.slabs {
            all.append(&slab.tally);
        }
        all
    }

    fn bytes(&self) -> usize {
        self.slabs.iter().map(Slab::bytes).sum()
    }
}
