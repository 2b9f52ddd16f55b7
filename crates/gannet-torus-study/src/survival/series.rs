//! What a network does over time, around a fault.

use gannet_torus::simulator::{Arrivals, Simulation, Totals};
use serde::Serialize;

/// Most stretches of time that are told apart.
const STRETCHES_MAX: usize = 1000;
/// Stretches that a whole story is divided into, if they do not become shorter than the next.
const STRETCHES: u32 = 300;
/// Shortest stretch, in cycles.
const STRETCH_MIN: u32 = 20;

/// Throughput, losses and latency over time, mean over all trials.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Cycles from one point to the next.
    pub stretch_cycles: u32,
    /// Points in the order of time.
    pub points: Vec<Instant>,
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Instant {
    /// Its beginning, in cycles after the fault.
    pub cycle: i64,
    /// Flits per node and cycle that arrived.
    pub accepted: f64,
    /// Packets lost per 1000 cycles.
    pub lost: f64,
    /// Packets sent again per 1000 cycles.
    pub replayed: f64,
    /// Cycles from the making of a packet to its arrival, mean over those that arrived; none where
    /// none did.
    pub latency_cycles: Option<f64>,
}

/// Sums over a stretch of time, of one trial or many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bin {
    cycles: u64,
    packets: u64,
    latency_cycles: u64,
    lost: u64,
    replayed: u64,
}

/// Sums over stretches of time before and after a fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bins {
    stretch: u32,
    before: u32,
    bins: Vec<Bin>,
}

impl Bins {
    /// For a story that begins `before` cycles before a fault and lasts some `cycles` in all.
    pub fn new(before: u32, cycles: u32) -> Self {
        let stretch = cycles.div_ceil(STRETCHES).max(STRETCH_MIN);
        // A border falls on the fault.
        Self { stretch, before: before.next_multiple_of(stretch), bins: Vec::new() }
    }

    /// Cycles before the fault at which the first stretch begins.
    pub fn before(&self) -> u32 {
        self.before
    }

    /// Adds the sums of other trials.
    pub fn merge(&mut self, other: &Self) {
        if other.bins.len() > self.bins.len() {
            self.bins.resize(other.bins.len(), Bin::default());
        }
        (self.stretch, self.before) = (other.stretch, other.before);
        for (mine, theirs) in self.bins.iter_mut().zip(&other.bins) {
            mine.cycles += theirs.cycles;
            mine.packets += theirs.packets;
            mine.latency_cycles += theirs.latency_cycles;
            mine.lost += theirs.lost;
            mine.replayed += theirs.replayed;
        }
    }

    /// The sums as means, for packets of `flits` among `nodes`.
    pub fn series(&self, flits: u16, nodes: usize) -> Series {
        let instant = |(index, bin): (usize, &Bin)| {
            let cycles = bin.cycles.max(1) as f64;
            let mean = bin.latency_cycles as f64 / bin.packets.max(1) as f64;
            Instant {
                cycle: index as i64 * i64::from(self.stretch) - i64::from(self.before),
                accepted: bin.packets as f64 * f64::from(flits) / cycles / nodes as f64,
                lost: 1000.0 * bin.lost as f64 / cycles,
                replayed: 1000.0 * bin.replayed as f64 / cycles,
                latency_cycles: (bin.packets > 0).then_some(mean),
            }
        };
        let points = self.bins.iter().enumerate().map(instant).collect();
        Series { stretch_cycles: self.stretch, points }
    }
}

/// Lets a simulation go on and notes what moves when.
pub(super) struct Recorder {
    pub bins: Bins,
    /// Cycles since the first stretch began.
    clock: u32,
    totals: Totals,
    arrivals: Arrivals,
    /// Nothing is noted any more.
    is_closed: bool,
}

impl Recorder {
    /// From now on, which is the beginning of the first stretch.
    pub fn new(bins: Bins, simulation: &mut Simulation) -> Self {
        simulation.follow();
        let (totals, arrivals) = (simulation.totals(), Arrivals::default());
        Self { bins, clock: 0, totals, arrivals, is_closed: false }
    }

    /// Notes nothing any more.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Begins to count latencies anew.
    pub fn follow(&mut self, simulation: &mut Simulation) {
        simulation.follow();
        self.arrivals = Arrivals::default();
    }

    /// Lets the simulation go on.
    pub fn advance(&mut self, simulation: &mut Simulation, cycles: u32) {
        let end = self.clock.saturating_add(cycles);
        while self.clock < end {
            let border = (self.clock / self.bins.stretch + 1) * self.bins.stretch;
            let step = border.min(end) - self.clock;
            simulation.advance(step);
            self.note(simulation, step);
        }
    }

    fn note(&mut self, simulation: &Simulation, cycles: u32) {
        let (totals, arrivals) = (simulation.totals(), simulation.arrivals());
        let index = (self.clock / self.bins.stretch) as usize;
        self.clock += cycles;
        if index < STRETCHES_MAX && !self.is_closed {
            let bins = &mut self.bins.bins;
            if bins.len() <= index {
                bins.resize(index + 1, Bin::default());
            }
            let bin = &mut bins[index];
            bin.cycles += u64::from(cycles);
            bin.packets += arrivals.packets - self.arrivals.packets;
            bin.latency_cycles += arrivals.latency_cycles - self.arrivals.latency_cycles;
            bin.lost += totals.lost - self.totals.lost;
            bin.replayed += totals.replayed - self.totals.replayed;
        }
        (self.totals, self.arrivals) = (totals, arrivals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_torus::simulator::{Pattern, Setup};

    #[test]
    fn all_that_moves_is_in_some_stretch() {
        let setup = Setup { packet_flits: 2, ..Setup::new("4x4".parse().unwrap()) };
        let mut simulation = Simulation::new(&setup, Pattern::Uniform, 0.3).unwrap();
        simulation.advance(333);
        let bins = Bins::new(990, 3000);
        assert_eq!((bins.before(), bins.stretch), (1000, 20));
        let before = simulation.totals();
        let mut recorder = Recorder::new(bins, &mut simulation);
        for cycles in [1, 19, 500, 7, 33, 440] {
            recorder.advance(&mut simulation, cycles);
        }
        recorder.follow(&mut simulation);
        recorder.advance(&mut simulation, 1000);
        recorder.close();
        let after = simulation.totals();
        recorder.advance(&mut simulation, 100);
        let delivered = after.delivered - before.delivered;
        let sum: u64 = recorder.bins.bins.iter().map(|bin| bin.packets).sum();
        assert_eq!((sum, recorder.bins.bins.len()), (delivered, 100));
        let series = recorder.bins.series(2, 16);
        assert_eq!((series.points[0].cycle, series.points[50].cycle), (-1000, 0));
        let mean = series.points.iter().map(|point| point.accepted).sum::<f64>() / 100.0;
        assert!((mean - 0.3).abs() < 0.03, "{mean}");
        let mut twice = recorder.bins.clone();
        twice.merge(&recorder.bins);
        assert_eq!(twice.series(2, 16), series);
    }
}
