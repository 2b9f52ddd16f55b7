//! One machine, measured at one load after the other, and the highest load that it keeps up with.

use std::time::Instant;

use gannet_measure::quantity::Bytes;
use gannet_memory::headroom;
use gannet_torus::Routes;
use gannet_torus::routes::Means;
use gannet_torus::simulator::{Event, Pattern, Script, Simulation, WarmUp, Windows};
use serde::Serialize;

use super::Error;
use super::limits::Limits;
use super::machine::Machine;
use super::point::{Cost, Fate, Point};

/// Cycles of a window, unless chance would show.
const WINDOW: u32 = 5000;
/// Packets in a window below which chance would move the throughput by half a percent.
const PACKETS_LEAST: f64 = 40_000.0;
/// Cycles of the longest window that is chosen for want of packets.
const WINDOW_MAX: f64 = 200_000.0;

/// Memory beside that of the nodes: the program, its routes, counts and results, and stacks.
const BESIDE: u64 = 64 << 20;
const BESIDE_PART: u64 = 8;
const BESIDE_THREAD: u64 = 4 << 20;

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
    /// When a value of the setup is out of range, the simulation needs more memory than this
    /// process may take, or the faults leave no fit routes.
    pub fn new(machine: Machine, timing: Timing) -> Result<Self, Error> {
        machine.setup.check(&machine.pattern, 0.0)?;
        check_memory(&machine)?;
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
        let load = own.unwrap_or(load);
        let fate = Fate { totals: simulation.totals(), waiting_again: simulation.waiting_again() };
        Ok(Point::new(report, (load, self.timing.drain), fate, cost, &self.limits, &self.machine))
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

/// The system would rather end a program than refuse it memory.
fn check_memory(machine: &Machine) -> Result<(), Error> {
    let Machine { setup, pattern, .. } = machine;
    let nodes = setup.bytes(pattern);
    let beside = BESIDE + BESIDE_THREAD * setup.threads as u64;
    let needed = nodes.saturating_add(nodes / BESIDE_PART).saturating_add(beside);
    match headroom() {
        Some(room) if room.bytes < needed => {
            let whole = |bytes: u64| Bytes::mib(bytes.div_ceil(1 << 20));
            let (lattice, needed, left) =
                (setup.lattice, whole(needed), Bytes::mib(room.bytes >> 20));
            Err(Error::Memory { lattice, needed, left, bound: room.bound })
        }
        _ => Ok(()),
    }
}

/// How closely the saturation load is searched.
const RESOLUTION: f64 = 0.005;

/// Where a network saturates, and what it does beyond.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Saturation {
    /// Highest load tried of which at least 98 % were accepted.
    pub load: f64,
    /// The highest load of which everything can be accepted, for comparison.
    pub bound: f64,
    /// `load` in terms of `bound`.
    pub ratio: f64,
    /// Highest accepted throughput seen, flits per node and cycle.
    pub peak_accepted: f64,
    /// Load at which it was seen.
    pub peak_load: f64,
    /// Accepted when every node offers a flit in each cycle.
    pub overload_accepted: f64,
    /// Least of a node in that case; absent where some cannot send.
    pub overload_accepted_least: Option<f64>,
    /// All loads tried, in their order.
    pub trials: Vec<Point>,
}

impl Experiment {
    /// Searches the saturation load by halving; `progress` hears of every trial.
    ///
    /// # Errors
    /// When the traffic is a trace, whose load cannot be chosen.
    pub fn saturation(&self, progress: &mut dyn FnMut(&Point)) -> Result<Saturation, Error> {
        if self.own_load().is_some() {
            return Err(Error::TraceLoad);
        }
        let bound = self.limits().saturation_bound;
        let mut trials = Vec::new();
        let mut keeps_up = |load: f64| {
            let point = self.measure(load)?;
            progress(&point);
            trials.push(point);
            Ok::<_, Error>(trials[trials.len() - 1].keeps_up())
        };
        // Sources that offer more than a flit in each cycle do not exist, so 1 is tried first.
        let mut most = 1.0;
        let mut least = if keeps_up(most)? { most } else { 0.0 };
        if least == 0.0 && bound < 0.9 {
            // Just above the bound there is nothing to be found.
            most = (bound * 1.03).min(1.0);
        }
        while most - least > RESOLUTION {
            let middle = round(f64::midpoint(least, most));
            if keeps_up(middle)? {
                least = middle;
            } else {
                most = middle;
            }
        }
        Ok(Self::summed_up(least, bound, trials))
    }

    fn summed_up(load: f64, bound: f64, trials: Vec<Point>) -> Saturation {
        let peak = trials.iter().max_by(|a, b| a.accepted.total_cmp(&b.accepted));
        let overload = &trials[0];
        Saturation {
            load,
            bound,
            ratio: load / bound,
            peak_accepted: peak.map_or(0.0, |point| point.accepted),
            peak_load: peak.map_or(0.0, |point| point.load),
            overload_accepted: overload.accepted,
            overload_accepted_least: overload.accepted_least,
            trials,
        }
    }
}

/// Loads as people write them: four digits.
fn round(load: f64) -> f64 {
    (load * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Timing};
    use gannet_torus::simulator::{Pattern, Setup, Trace, WarmUp};

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

    /// A 4x4 lattice all of whose cables from x = 1 to x = 2 are cut at cycle 700, in the window.
    fn cut(pattern: Pattern, replay_after: Option<u32>, reroute_after: Option<u32>) -> Point {
        let mut machine = Machine::new(Setup::new("4x4".parse().unwrap()), pattern);
        machine.setup.replay_after = replay_after;
        machine.script = Script::parse("700,cut,X,1\n", machine.setup.lattice).unwrap();
        machine.reroute_after = reroute_after;
        let timing =
            Timing { warm_up: Some(WarmUp::Cycles(500)), window: Some(20_000), drain: 5000 };
        Experiment::new(machine, timing).unwrap().measure(0.2).unwrap()
    }

    #[test]
    fn what_a_cut_takes_is_loss_and_no_saturation() {
        // Of packets in x, one in four goes from x = 1 to 2 and on, or back over the same cable.
        for replay_after in [None, Some(200)] {
            let point = cut(Pattern::Uniform, replay_after, None);
            let missing = 0.2 - point.accepted;
            assert!(!point.saturated && missing > 0.03, "{point:?}");
            assert!((point.taken_by_faults - missing).abs() < 0.004, "{point:?}");
        }
        let around = cut(Pattern::Uniform, Some(200), Some(100));
        assert!(!around.saturated && around.taken_by_faults < 0.002, "{around:?}");
        let full = cut(Pattern::HotSpot { fraction: 0.5 }, None, None);
        assert!(full.saturated && full.taken_by_faults > 0.03, "{full:?}");
    }

    #[test]
    fn what_goes_to_a_dead_node_is_taken_by_its_fault() {
        for reroute_after in [None, Some(50)] {
            let mut machine = Machine::new(Setup::new("4x4".parse().unwrap()), Pattern::Uniform);
            machine.script = Script::parse("100,node-down,5\n", machine.setup.lattice).unwrap();
            machine.reroute_after = reroute_after;
            let timing = Timing { warm_up: Some(WarmUp::Cycles(500)), ..Timing::default() };
            let point = Experiment::new(machine, timing).unwrap().measure(0.2).unwrap();
            assert!(!point.saturated && point.taken_by_faults > 0.01, "{point:?}");
        }
    }

    fn saturation(pattern: Pattern, vcs: u8) -> Saturation {
        let mut setup = Setup::new("4x4".parse().unwrap());
        setup.vcs = vcs;
        let timing = Timing { warm_up: Some(WarmUp::Cycles(500)), window: Some(3000), drain: 0 };
        let experiment = Experiment::new(Machine::new(setup, pattern), timing).unwrap();
        experiment.saturation(&mut |_| ()).unwrap()
    }

    #[test]
    fn two_channels_saturate_at_half_on_one_way_traffic() {
        // One channel for each side of the dateline takes a new packet every second cycle.
        let found = saturation(Pattern::Neighbour, 2);
        assert!((0.47..0.53).contains(&found.load), "{found:?}");
        assert!((0.48..0.52).contains(&found.peak_accepted), "{found:?}");
    }

    #[test]
    fn neighbours_take_all_with_four_channels() {
        let found = saturation(Pattern::Neighbour, 4);
        assert_eq!((found.load, found.ratio, found.trials.len()), (1.0, 1.0, 1));
    }
}
