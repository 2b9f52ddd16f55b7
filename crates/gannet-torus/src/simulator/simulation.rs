//! A simulation: the nodes of a machine under one clock.

use std::ops::Range;
use std::sync::Arc;

use gannet_lattice::{Faults, LINKS};
use gannet_measure::histogram::{Histogram, Summary};

use super::packet::PACKET_FLITS_MAX;
use super::partition::Partition;
use super::partitions::{Network, Partitions};
use super::rules::Delays;
use super::script::{Agenda, Happening};
use super::setup::{FlowControl, MAX_VCS, Setup, SetupError};
use super::tally::Tally;
use super::traffic::{Pattern, Traffic};
use crate::routes::Routes;

/// What has arrived since [`Simulation::follow`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Packets.
    pub packets: u64,
    /// Cycles from the making of each to the arrival of its last flit, added up.
    pub latency_cycles: u64,
}

/// What moved in some cycles.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// First cycle.
    pub cycle: u32,
    /// Cycles; more than asked for when sources had to wait at the end for a change of routes.
    pub cycles: u32,
    /// Flits that arrived, in packets that were whole.
    pub accepted_flits: u64,
    /// Cycles from the making of a packet to its arrival, over packets that arrived.
    pub latency: Summary,
    /// Packets lost.
    pub lost: u64,
    /// Packets sent again.
    pub replayed: u64,
    /// By node and link: flits.
    pub links: Vec<[u32; LINKS]>,
}

/// A machine under simulation.
pub struct Simulation {
    setup: Setup,
    now: u32,
    pub(super) faults: Faults,
    pub(super) agenda: Agenda,
    pub(super) network: Box<dyn Network + Send>,
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
        let network: Box<dyn Network + Send> = match setup.vcs.next_power_of_two() {
            1 => Box::new(Partitions::<1>::new(setup, routes, traffic, places)),
            2 => Box::new(Partitions::<2>::new(setup, routes, traffic, places)),
            4 => Box::new(Partitions::<4>::new(setup, routes, traffic, places)),
            _ => Box::new(Partitions::<8>::new(setup, routes, traffic, places)),
        };
        let faults = Faults::none(setup.lattice);
        let agenda = Agenda::default();
        Ok(Self { setup: setup.clone(), now: 0, faults, agenda, network })
    }

    /// What is simulated.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// What has failed so far.
    pub fn faults(&self) -> &Faults {
        &self.faults
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
        self.network.advance(self.now..end);
        self.now = end;
    }

    /// What has happened so far, in order.
    pub fn history(&self) -> &[Happening] {
        &self.agenda.history
    }

    /// Bytes of memory per node.
    pub fn bytes_per_node(&self) -> usize {
        self.network.bytes() / self.setup.lattice.nodes()
    }

    pub(super) fn set_window(&mut self, window: Range<u32>) {
        self.network.set_window(window);
    }

    pub(super) fn forget(&mut self) {
        self.network.forget();
    }

    pub(super) fn has_backlog(&self, cycle: u32) -> bool {
        self.network.has_backlog(cycle)
    }

    pub(super) fn tally(&self) -> Tally {
        self.network.tally()
    }

    /// Counts the latency of every packet that arrives from now on, and forgets those before.
    pub fn follow(&mut self) {
        self.forget();
        self.set_window(0..u32::MAX);
    }

    /// What has arrived since [`follow`](Self::follow).
    pub fn arrivals(&self) -> Arrivals {
        let latency = self.latency();
        Arrivals { packets: latency.count(), latency_cycles: latency.sum() }
    }

    /// Cycles from the making of a packet to the arrival of its last flit, over all packets that
    /// have arrived since [`follow`](Self::follow).
    pub fn latency(&self) -> Histogram {
        self.tally().latency
    }

    /// Lost packets that wait at their sources to be sent again.
    pub fn waiting_again(&self) -> u64 {
        self.network.waiting_again()
    }

    /// Simulates `cycles` more cycles and tells what moved in them.
    ///
    /// What was counted for [`measure`](Self::measure) is forgotten.
    pub fn slice(&mut self, cycles: u32) -> Slice {
        self.forget();
        self.set_window(0..u32::MAX);
        let (cycle, before) = (self.now(), self.tally());
        self.advance(cycles);
        let tally = self.tally();
        Slice {
            cycle,
            cycles: self.now() - cycle,
            accepted_flits: tally.accepted_flits(),
            latency: tally.latency.summary(),
            lost: tally.lost - before.lost,
            replayed: tally.replayed - before.replayed,
            links: tally.links,
        }
    }
}

impl Setup {
    /// Checks the values against each other, for traffic of this pattern.
    ///
    /// # Errors
    ///
    /// [`SetupError`], naming the value, what it is and what it may be.
    pub fn check(&self, pattern: &Pattern, load: f64) -> Result<(), SetupError> {
        let longest = match pattern {
            Pattern::Trace(trace) => trace.longest(),
            _ => self.packet_flits,
        };
        let least_vcs = if self.flow_control == FlowControl::Bubble { 1 } else { 2 };
        let least_depth = match self.flow_control {
            FlowControl::Wormhole => 1,
            FlowControl::VirtualCutThrough => longest,
            FlowControl::Bubble => longest.saturating_mul(2),
        };
        between("the number of flits of a packet", self.packet_flits, 1, PACKET_FLITS_MAX)?;
        between("the number of virtual channels", self.vcs, least_vcs, MAX_VCS)?;
        between(
            "the depth of a virtual channel in flits",
            self.vc_depth,
            least_depth.max(1),
            4096,
        )?;
        between("the delay of a router in cycles", self.router_delay, 3, 200)?;
        between("the delay of a link in cycles", self.link_delay, 1, 1000)?;
        if let Some(wait) = self.replay_after {
            between("the wait in cycles before a lost packet is sent again", wait, 1, u32::MAX)?;
        }
        between("the number of threads", self.threads, 1, self.lattice.nodes().min(256))?;
        if !(0.0..=1.0).contains(&load) {
            let range = "0 to 1 flit per node and cycle".to_owned();
            return Err(SetupError::Range { name: "the load", value: load.to_string(), range });
        }
        Ok(())
    }

    /// Bytes of memory that the nodes of a simulation take under traffic of this pattern, but for
    /// lost packets that wait to be sent again.
    pub fn bytes(&self, pattern: &Pattern) -> u64 {
        (self.lattice.nodes() as u64).saturating_mul(self.bytes_per_node(pattern) as u64)
    }

    fn bytes_per_node(&self, pattern: &Pattern) -> usize {
        let (places, delays) = (self.places(pattern), Delays::new(self));
        match self.vcs.next_power_of_two() {
            1 => Partition::<1>::bytes_per_node(places, &delays),
            2 => Partition::<2>::bytes_per_node(places, &delays),
            4 => Partition::<4>::bytes_per_node(places, &delays),
            _ => Partition::<8>::bytes_per_node(places, &delays),
        }
    }
}

fn between<T: PartialOrd + ToString + Copy>(
    name: &'static str,
    value: T,
    least: T,
    most: T,
) -> Result<(), SetupError> {
    if value >= least && value <= most {
        return Ok(());
    }
    let range = format!("{} to {}", least.to_string(), most.to_string());
    Err(SetupError::Range { name, value: value.to_string(), range })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::{WarmUp, Windows};

    #[test]
    fn slices_add_up_to_the_whole() {
        let setup = Setup::new("4x3".parse().unwrap());
        let simulation = || Simulation::new(&setup, Pattern::Uniform, 0.3).unwrap();
        let windows = Windows { warm_up: WarmUp::Cycles(0), measure: 1000, drain: 0 };
        let whole = simulation().measure(&windows);
        let mut sliced = simulation();
        let slices: Vec<_> = (0..10).map(|_| sliced.slice(100)).collect();
        let flits: u32 = slices.iter().flat_map(|slice| slice.links.as_flattened()).sum();
        assert_eq!(flits, whole.links.as_flattened().iter().sum::<u32>());
        assert!(slices.iter().map(|slice| slice.cycle).eq((0..1000).step_by(100)));
        let packets: u64 = slices.iter().map(|slice| slice.latency.count).sum();
        assert_eq!(packets, whole.packets - whole.unfinished);
    }

    #[test]
    fn memory_is_what_the_check_counts() {
        for (vcs, vc_depth, packet_flits, link_delay, threads) in
            [(1, 16, 1, 1, 1), (2, 5, 2, 90, 1), (4, 16, 1, 1, 2), (7, 300, 18, 1000, 3)]
        {
            let flow_control = FlowControl::Bubble;
            let base = Setup {
                vcs,
                vc_depth,
                packet_flits,
                link_delay,
                ..Setup::new("4x3".parse().unwrap())
            };
            let setup = Setup { threads, flow_control, ..base };
            let simulation = Simulation::new(&setup, Pattern::Uniform, 0.1).unwrap();
            assert_eq!(setup.bytes_per_node(&Pattern::Uniform), simulation.bytes_per_node());
        }
    }
}
