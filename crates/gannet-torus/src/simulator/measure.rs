//! Warm-up, window and drain: how a load is measured.

use gannet_lattice::LINKS;
use gannet_measure::histogram::Summary;

use super::simulation::Simulation;
use super::tally::Tally;

/// How long the network runs before it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// This many cycles.
    Cycles(u32),
    /// Until latency and throughput of successive blocks of cycles agree within 5 %, at most ten
    /// blocks.
    Steady,
}

/// The blocks of a warm-up after which the network is measured, steady or not.
const MAX_BLOCKS: u32 = 10;

/// When a load is measured.
///
/// Packets made within the window are followed until the last of them has arrived, while sources go
/// on sending: so neither the start of a run nor its end falsifies latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Before the window.
    pub warm_up: WarmUp,
    /// Cycles of the window.
    pub measure: u32,
    /// Cycles to wait for the packets of the window, after it.
    pub drain: u32,
}

impl Default for Windows {
    fn default() -> Self {
        Self { warm_up: WarmUp::Steady, measure: 5000, drain: 10_000 }
    }
}

/// How the load spreads over links, in flits per cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkLoad {
    /// Mean over all links.
    pub mean: f64,
    /// The busiest link.
    pub max: f64,
}

/// What was measured at one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Flits per node and cycle that arrived within the window, in packets that were whole.
    pub accepted: f64,
    /// Flits per node and cycle that were lost within the window and not sent again in it.
    pub lost: f64,
    /// Flits per node and cycle of packets made in the window that had no way.
    pub refused: f64,
    /// Flits per cycle that the node sent which got the least into the network.
    pub accepted_least: f64,
    /// Cycles from the making of a packet to the arrival of its last flit, over packets of the
    /// window that arrived.
    pub latency: Summary,
    /// Packets of the window.
    pub packets: u64,
    /// Packets of the window that had not arrived when the simulation ended.
    pub unfinished: u64,
    /// Load of links within the window.
    pub link_load: LinkLoad,
    /// Whether latency and throughput had settled before the window; absent where the length of the
    /// warm-up was given.
    pub steady: Option<bool>,
    /// Cycles before the window.
    pub warm_up_cycles: u32,
    /// Cycles of the window.
    pub window_cycles: u32,
    /// Cycles in all.
    pub cycles: u32,
    /// Flits that arrived, over all cycles.
    pub arrived_flits: u64,
    /// Cycle at which the last packet arrived.
    pub last_arrival: u32,
    /// Flits that passed a router, over all cycles.
    pub flit_visits: u64,
    /// By node and link: flits within the window.
    pub links: Vec<[u32; LINKS]>,
}

impl Simulation {
    /// Measures the load that the simulation was made with.
    pub fn measure(&mut self, windows: &Windows) -> Report {
        let first = self.now();
        let before = self.tally().visits;
        let steady = self.warm_up(windows.warm_up);
        let from = self.now();
        let to = from.saturating_add(windows.measure);
        self.set_window(from..to);
        self.advance(windows.measure);
        self.follow_window(to, windows.drain);
        let tally = self.tally();
        let nodes = self.setup().lattice.nodes() as f64;
        let cycles = f64::from(windows.measure.max(1));
        Report {
            accepted: tally.accepted_flits() as f64 / nodes / cycles,
            lost: tally.window_missing_flits() as f64 / nodes / cycles,
            refused: tally.window_refused_flits as f64 / nodes / cycles,
            accepted_least: f64::from(tally.sent.iter().copied().min().unwrap_or(0)) / cycles,
            latency: tally.latency.summary(),
            packets: tally.marked,
            unfinished: tally.marked - tally.marked_done,
            link_load: self.link_load(&tally, cycles),
            steady,
            warm_up_cycles: from - first,
            window_cycles: windows.measure,
            cycles: self.now() - first,
            arrived_flits: tally.delivered_flits,
            last_arrival: tally.last_arrival,
            flit_visits: tally.visits - before,
            links: tally.links,
        }
    }

    /// Whether the network became steady, where that was asked for.
    fn warm_up(&mut self, warm_up: WarmUp) -> Option<bool> {
        let block = match warm_up {
            WarmUp::Cycles(cycles) => {
                self.advance(cycles);
                return None;
            }
            WarmUp::Steady => self.block(),
        };
        let mut last = None;
        let mut steady = false;
        for _ in 0..MAX_BLOCKS {
            let now = self.now();
            let before = self.tally();
            self.set_window(now.saturating_sub(block)..now + block);
            self.advance(block);
            let figures = Figures::between(&before, &self.tally());
            steady = last.replace(figures).is_some_and(|last: Figures| last.agrees(&figures));
            if steady {
                break;
            }
        }
        self.forget();
        Some(steady)
    }

    /// Cycles of a block of the warm-up: long enough for packets to cross the machine a few times.
    fn block(&self) -> u32 {
        let setup = self.setup();
        let hop = setup.router_delay + setup.link_delay - 1;
        (4 * setup.lattice.diameter() * hop).max(1000)
    }

    /// Goes on until all packets of the window have arrived, at most `limit` cycles.
    fn follow_window(&mut self, window_end: u32, limit: u32) {
        const STRIDE: u32 = 100;
        let end = self.now().saturating_add(limit);
        while self.now() < end && (self.network.unfinished() > 0 || self.has_backlog(window_end)) {
            self.advance(STRIDE.min(end - self.now()));
        }
    }

    fn link_load(&self, tally: &Tally, cycles: f64) -> LinkLoad {
        let lattice = self.setup().lattice;
        let links = lattice.nodes() * 2 * lattice.dimensions().count();
        let flits = tally.links.as_flattened();
        let sum: u64 = flits.iter().map(|&flits| u64::from(flits)).sum();
        let max = flits.iter().copied().max().unwrap_or(0);
        LinkLoad { mean: sum as f64 / links.max(1) as f64 / cycles, max: f64::from(max) / cycles }
    }
}

/// What the warm-up looks at.
#[derive(Clone, Copy, Debug)]
struct Figures {
    latency: f64,
    flits: f64,
}

impl Figures {
    fn between(before: &Tally, after: &Tally) -> Self {
        let packets = after.latency.count() - before.latency.count();
        let cycles = after.latency.sum() - before.latency.sum();
        Self {
            latency: cycles as f64 / packets.max(1) as f64,
            flits: (after.delivered_flits - before.delivered_flits) as f64,
        }
    }

    fn agrees(&self, other: &Self) -> bool {
        let close = |a: f64, b: f64| (a - b).abs() <= 0.05 * a.max(b);
        close(self.latency, other.latency) && close(self.flits, other.flits)
    }
}
