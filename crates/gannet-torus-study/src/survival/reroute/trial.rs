//! One fault in a machine under load.

use std::time;

use gannet_lattice::Faults;
use gannet_measure::histogram::Histogram;
use gannet_measure::random::Random;
use gannet_torus::routes::{Means, Routes};
use gannet_torus::simulator::{Event, Pattern, Setup, Simulation, Totals};

use super::{RerouteCampaign, RerouteTrials};
use crate::survival::series::{Bins, Recorder};
use crate::survival::{Told, drain};
use crate::trials::Trace;

/// Cycles of traffic before anything is looked at; as many more at random before the fault.
const WARM_UP: u32 = 1000;
/// Cycles that are looked at before the fault.
const BEFORE: u32 = 1000;
/// Cycles that are looked at when new routes are in use, and lost packets may be sent again.
const AFTER: u32 = 2000;
/// Cycles after which a network that has not drained is taken to be stuck, and after which all
/// lost packets must have been sent again.
const SETTLE_MAX: u32 = 200_000;
/// Cycles between two looks whether it has drained.
const STRIDE: u32 = 8;

/// What came of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RerouteResult {
    /// Nodes that failed.
    pub dead_nodes: u32,
    /// Cables that failed.
    pub dead_cables: u32,
    /// Cycle of the fault.
    pub fault_cycle: u32,
    /// Cycles from the fault until the master knew.
    pub aware_cycles: u32,
    /// How the new routes get round the faults; none where they were refused.
    pub means: Option<Means>,
    /// Cycles from then until no packet was on old routes, and new ones were in use.
    pub drain_cycles: u32,
    /// Cycles from then until no lost packet waited any more to be sent again.
    pub replay_cycles: u32,
    /// What became of all packets.
    pub totals: Totals,
    /// Packets that neither arrived nor were refused: their source died with them, or nothing is
    /// sent again.
    pub gone: u64,
    /// Why no routes were installed, if they were refused.
    pub refused: Option<String>,
    /// What went wrong, if anything.
    pub failure: Option<String>,
}

/// A trial with all that sums need of it.
#[derive(Debug)]
pub struct Ran {
    /// What came of it.
    pub result: RerouteResult,
    /// Latencies before, during and after.
    pub(super) latency: [Histogram; 3],
    pub(super) bins: Bins,
    pub(super) planning_ns: u64,
}

/// Runs trial `index` of a campaign.
pub(super) fn run(trials: &RerouteTrials, index: u64, trace: &mut Trace) -> Ran {
    let RerouteCampaign { setup, load, counts, .. } = &trials.campaign;
    let random = &mut Random::stream(setup.seed, index);
    let faults = counts.draw(setup.lattice, random);
    let aware_cycles = trials.delays.draw(&faults, random);
    let replay_after = setup.replay_after.unwrap_or(0);
    let cycles = [BEFORE, trials.delays.longest(), AFTER, replay_after].iter().sum();
    let bins = Bins::new(BEFORE, cycles);
    let calm = WARM_UP + random.below(u64::from(WARM_UP)) as u32;
    let setup = Setup { seed: random.bits(), threads: 1, ..setup.clone() };
    let mut simulation = Simulation::new(&setup, Pattern::Uniform, *load)
        .expect("the setup is checked before the first trial");
    simulation.advance(calm);
    let recorder = Recorder::new(bins, &mut simulation);
    let result = RerouteResult {
        dead_nodes: faults.dead_node_count() as u32,
        dead_cables: faults.dead_cable_count() as u32,
        aware_cycles,
        ..RerouteResult::default()
    };
    let trial = Trial {
        simulation,
        recorder,
        result,
        latency: Default::default(),
        planning_ns: 0,
        replay_after,
        trace,
    };
    trial.run(&faults)
}

/// A trial under way.
struct Trial<'a> {
    simulation: Simulation,
    recorder: Recorder,
    result: RerouteResult,
    latency: [Histogram; 3],
    planning_ns: u64,
    replay_after: u32,
    trace: &'a mut Trace,
}

impl Trial<'_> {
    fn run(mut self, faults: &Faults) -> Ran {
        self.advance(self.recorder.bins.before());
        self.close(0);
        self.fail(faults);
        self.advance(self.result.aware_cycles);
        self.tell(|it| format!("the master knows; {:?}", it.totals()));
        if let Err(what) = self.reroute().and_then(|()| self.settle(faults)) {
            self.tell(|_| format!("FAILED: {what}"));
            self.result.failure = Some(what);
        }
        self.result.totals = self.simulation.totals();
        let Self { result, latency, planning_ns, recorder, .. } = self;
        Ran { result, latency, bins: recorder.bins, planning_ns }
    }

    fn advance(&mut self, cycles: u32) {
        self.recorder.advance(&mut self.simulation, cycles);
    }

    fn tell(&mut self, line: impl FnOnce(&Simulation) -> String) {
        let it = &self.simulation;
        self.trace.tell(|| format!("cycle {:>8}: {}", it.now(), line(it)));
    }

    /// Ends a time whose latencies count on their own.
    fn close(&mut self, time: usize) {
        self.latency[time] = self.simulation.latency();
        self.recorder.follow(&mut self.simulation);
        let summary = self.latency[time].summary();
        let name = ["before the fault", "until new routes", "after"][time];
        self.tell(|_| {
            format!("latency {name}: mean {:.1} cycles, 99 % {}", summary.mean, summary.p99)
        });
    }

    fn fail(&mut self, faults: &Faults) {
        self.result.fault_cycle = self.simulation.now();
        for event in Event::all_of(faults) {
            self.simulation.apply(event);
        }
        self.tell(|_| format!("FAULT {}", Told(faults)));
    }

    /// Plans new routes and changes to them when the network has drained.
    fn reroute(&mut self) -> Result<(), String> {
        let begin = time::Instant::now();
        let planned = Routes::around(self.simulation.faults(), self.simulation.setup().vcs);
        self.planning_ns = begin.elapsed().as_nanos() as u64;
        let (routes, means) = match planned {
            Ok((routes, means, _)) => (routes, means),
            Err(refused) => {
                self.tell(|_| format!("refused: {refused}"));
                self.result.refused = Some(refused.to_string());
                return Ok(());
            }
        };
        self.result.means = Some(means);
        self.result.drain_cycles = self.drain()?;
        self.close(1);
        self.simulation.install(routes);
        let cycles = self.result.drain_cycles;
        self.tell(|_| format!("new routes, {means:?}, after {cycles} cycles"));
        Ok(())
    }

    fn drain(&mut self) -> Result<u32, String> {
        let Self { simulation, recorder, .. } = self;
        drain(simulation, SETTLE_MAX, STRIDE, |simulation, cycles| {
            recorder.advance(simulation, cycles);
        })
    }

    /// Goes on until lost packets have been sent again, drains, and looks what became of all.
    fn settle(&mut self, faults: &Faults) -> Result<(), String> {
        if self.result.refused.is_some() {
            return Ok(());
        }
        let begin = self.simulation.now();
        while self.simulation.waiting_again() > 0 {
            if self.simulation.now() - begin >= self.replay_after + SETTLE_MAX {
                let waiting = self.simulation.waiting_again();
                return Err(format!("{waiting} lost packets still wait to be sent again"));
            }
            self.advance(STRIDE);
        }
        self.result.replay_cycles = self.simulation.now() - begin;
        let shortest = AFTER + self.replay_after;
        self.advance(shortest.saturating_sub(self.result.replay_cycles));
        self.close(2);
        self.recorder.close();
        self.drain()?;
        let totals = self.simulation.totals();
        self.tell(|_| format!("drained: {totals:?}"));
        self.account(&totals, faults)
    }

    fn account(&mut self, totals: &Totals, faults: &Faults) -> Result<(), String> {
        let Totals { made, delivered, refused, lost, replayed } = *totals;
        let Some(gone) = made.checked_sub(delivered + refused) else {
            return Err(format!("more packets ended than were made: {totals:?}"));
        };
        self.result.gone = gone;
        let replays = self.simulation.setup().replay_after.is_some();
        // Only a source that dies forgets what it has to send again.
        if replays && faults.dead_node_count() == 0 && gone > 0 {
            return Err(format!("{gone} packets are not accounted for: {totals:?}"));
        }
        // A lost packet is sent again, refused, or gone; some may be lost more than once.
        if gone > lost || lost > replayed + refused + gone {
            return Err(format!("losses are not accounted for, {gone} gone: {totals:?}"));
        }
        let parts = faults.parts().into_iter().flatten().max().map_or(0, |last| last + 1);
        if faults.dead_node_count() == 0 && parts == 1 && refused > 0 {
            return Err(format!("packets were refused though all nodes are connected: {totals:?}"));
        }
        Ok(())
    }
}
