//! One machine, measured at one load after the other.

use std::time::Instant;

use gannet_torus::Routes;
use gannet_torus::routes::Means;
use gannet_torus::simulator::{Event, Pattern, Script, Simulation, WarmUp, Windows};

use super::Error;
use super::limits::Limits;
use super::machine::Machine;
use super::point::{Cost, Point};

/// Cycles of a window, unless chance would show.
const WINDOW: u32 = 5000;
/// Packets in a window below which chance would move the throughput by half a percent.
const PACKETS_LEAST: f64 = 40_000.0;
/// Cycles of the longest window that is chosen for want of packets.
const WINDOW_MAX: f64 = 200_000.0;

/// When a load is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Before the window; `None` is steady, for a trace nothing.
    pub warm_up: Option<WarmUp>,
    /// Cycles of the window; `None` is 5000, or more until chance moves the throughput by half a
    /// percent at most, for a trace until its last packet.
    pub window: Option<u32>,
    /// Cycles to wait for the packets of the window, after it.
    pub drain: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Self { warm_up: None, window: None, drain: Windows::default().drain }
    }
}

/// A machine ready to be measured: its routes and its limits.
#[derive(Clone, Debug)]
pub struct Experiment {
    machine: Machine,
    routes: Routes,
    means: Option<Means>,
    limits: Limits,
    timing: Timing,
}

impl Experiment {
    /// Plans the routes of a machine and walks them.
    ///
    /// # Errors
    /// When a value of the setup is out of range or the faults leave no fit routes.
    pub fn new(machine: Machine, timing: Timing) -> Result<Self, Error> {
        machine.setup.check(&machine.pattern, 0.0)?;
        let (routes, means) = machine.routes()?;
        let limits = Limits::new(&machine, &routes);
        Ok(Self { machine, routes, means, limits, timing })
    }

    /// The same machine without its script, to be measured at other times.
    pub fn without_script(&self, timing: Timing) -> Self {
        let machine =
            Machine { script: Script::default(), reroute_after: None, ..self.machine.clone() };
        Self { machine, timing, ..self.clone() }
    }

    /// What is measured.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// How its routes get round the faults, if there are any.
    pub fn means(&self) -> Option<Means> {
        self.means
    }

    /// What it could do at best.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The machine at the start of a simulation.
    ///
    /// # Errors
    /// When the load is out of range.
    pub fn simulation(&self, load: f64) -> Result<Simulation, Error> {
        let Machine { setup, pattern, faults, script, reroute_after } = &self.machine;
        let routes = self.routes.clone();
        let mut simulation = Simulation::with_routes(setup, routes, pattern.clone(), load)?;
        Event::all_of(faults).for_each(|event| simulation.apply(event));
        simulation.schedule(script.clone(), *reroute_after);
        Ok(simulation)
    }

    /// The load that a trace brings; `None` for patterns whose load can be chosen.
    pub fn own_load(&self) -> Option<f64> {
        let Pattern::Trace(trace) = &self.machine.pattern else { return None };
        let flits: u64 = trace.packets().map(|(_, packet)| u64::from(packet.flits)).sum();
        let cycles = f64::from(trace.last_cycle()) + 1.0;
        Some(flits as f64 / cycles / self.machine.setup.lattice.nodes() as f64)
    }

    /// Measures one load in flits per node and cycle; a trace brings its own.
    ///
    /// # Errors
    /// When the load is out of range.
    pub fn measure(&self, load: f64) -> Result<Point, Error> {
        let own = self.own_load();
        // The simulator would judge a trace by the load, which is not even.
        let mut simulation = self.simulation(own.map_or(load, |_| 0.0))?;
        let begin = Instant::now();
        let mut report = simulation.measure(&self.windows(load));
        if own.is_some() && self.timing.window.is_none() {
            // Most of a short trace is still under way when its last packet is made.
            let cycles = f64::from(report.last_arrival) + 1.0;
            let nodes = self.machine.setup.lattice.nodes() as f64;
            report.accepted = report.arrived_flits as f64 / nodes / cycles;
        }
        let cost = Cost {
            wall_s: begin.elapsed().as_secs_f64(),
            bytes_per_node: simulation.bytes_per_node(),
        };
        let (load, totals) = (own.unwrap_or(load), simulation.totals());
        Ok(Point::new(report, (load, self.timing.drain), totals, cost, &self.limits, &self.machine))
    }

    fn windows(&self, load: f64) -> Windows {
        let drain = self.timing.drain;
        if let Pattern::Trace(trace) = &self.machine.pattern {
            let warm_up = self.timing.warm_up.unwrap_or(WarmUp::Cycles(0));
            let measure = self.timing.window.unwrap_or(trace.last_cycle().saturating_add(1));
            return Windows { warm_up, measure, drain };
        }
        let setup = &self.machine.setup;
        let packets_per_cycle = setup.lattice.nodes() as f64 * load / f64::from(setup.packet_flits);
        let wanted = (PACKETS_LEAST / packets_per_cycle).min(WINDOW_MAX) as u32;
        let measure = self.timing.window.unwrap_or(wanted.max(WINDOW));
        Windows { warm_up: self.timing.warm_up.unwrap_or(WarmUp::Steady), measure, drain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_torus::simulator::{Setup, Trace};

    #[test]
    fn a_trace_is_followed_to_its_last_packet() {
        let setup = Setup::new("4x4".parse().unwrap());
        let trace = Trace::parse("0,0,5,4\n100,3,0,2\n199,1,2,2\n", setup.lattice).unwrap();
        let machine = Machine::new(setup, Pattern::Trace(trace.into()));
        let experiment = Experiment::new(machine, Timing::default()).unwrap();
        let point = experiment.measure(0.9).unwrap();
        assert_eq!((point.packets, point.unfinished, point.saturated), (3, 0, false));
        assert_eq!(point.load, 8.0 / 200.0 / 16.0);
        // The last one takes a hop: it arrives at cycle 199 + 11.
        assert_eq!(point.accepted, 8.0 / 211.0 / 16.0);
    }

    #[test]
    fn short_windows_do_not_saturate_by_chance() {
        let timing = |cycles| Timing {
            warm_up: Some(WarmUp::Cycles(100)),
            window: Some(cycles),
            ..Timing::default()
        };
        for seed in 1..=20 {
            let mut pair = Machine::new(Setup::new("4".parse().unwrap()), Pattern::Uniform);
            pair.setup.seed = seed;
            pair.kill_node(1).unwrap();
            pair.kill_node(3).unwrap();
            let point = Experiment::new(pair, timing(500)).unwrap().measure(0.3).unwrap();
            assert!(!point.saturated && point.keeps_up(), "{point:?}");
            let mut cube = Machine::new(Setup::new("2x2x2".parse().unwrap()), Pattern::Uniform);
            cube.setup.seed = seed;
            let point = Experiment::new(cube, timing(200)).unwrap().measure(0.3).unwrap();
            assert!(!point.saturated && point.keeps_up(), "{point:?}");
            let mut ring = Machine::new(Setup::new("8".parse().unwrap()), Pattern::Tornado);
            ring.setup.seed = seed;
            let point = Experiment::new(ring, timing(500)).unwrap().measure(0.5).unwrap();
            assert!(point.saturated && !point.keeps_up(), "a third is the most: {point:?}");
        }
    }

    #[test]
    fn long_windows_tell_three_percent_that_are_missing() {
        // Two channels of a class each take a packet of one flit in two cycles.
        let mut machine = Machine::new(Setup::new("4x4".parse().unwrap()), Pattern::Neighbour);
        machine.setup.vcs = 2;
        let experiment = Experiment::new(machine, Timing::default()).unwrap();
        assert!(experiment.measure(0.52).unwrap().saturated);
        assert!(!experiment.measure(0.48).unwrap().saturated);
    }

    #[test]
    fn small_machines_are_measured_for_longer() {
        let window = |lattice: &str, load| {
            let machine = Machine::new(Setup::new(lattice.parse().unwrap()), Pattern::Uniform);
            Experiment::new(machine, Timing::default()).unwrap().windows(load).measure
        };
        assert_eq!(window("8x8x8", 0.3), 5000);
        assert_eq!(window("4x4", 0.25), 10_000);
        assert_eq!(window("2", 0.0), 200_000);
    }

    #[test]
    fn a_machine_with_faults_is_judged_by_what_can_arrive() {
        let mut machine = Machine::new(Setup::new("4x4".parse().unwrap()), Pattern::Uniform);
        machine.kill_node(3).unwrap();
        let point = Experiment::new(machine, Timing::default()).unwrap().measure(0.2).unwrap();
        assert!(!point.saturated && point.keeps_up() && point.accepted_least.is_none());
        assert!(point.accepted < 0.19, "{point:?}");
    }
}
