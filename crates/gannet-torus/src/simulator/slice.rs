//! A simulation looked at in slices of time.

use gannet_lattice::LINKS;
use gannet_measure::histogram::Summary;

use super::engine::Simulation;

/// What moved in some cycles.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// First cycle.
    pub cycle: u32,
    /// Cycles; more than asked for when sources had to wait at the end for a change of routes.
    pub cycles: u32,
    /// Flits that arrived.
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

impl Simulation {
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
            accepted_flits: tally.window_flits,
            latency: tally.latency.summary(),
            lost: tally.lost - before.lost,
            replayed: tally.replayed - before.replayed,
            links: tally.links,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::simulator::{Pattern, Setup, Simulation, WarmUp, Windows};

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
}
