//! Packets followed while a machine goes through good and bad times.

use gannet_measure::histogram::Histogram;

use super::engine::Simulation;

/// What has arrived since [`Simulation::follow`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Packets.
    pub packets: u64,
    /// Cycles from the making of each to the arrival of its last flit, added up.
    pub latency_cycles: u64,
}

impl Simulation {
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
        self.engine.waiting_again()
    }
}
