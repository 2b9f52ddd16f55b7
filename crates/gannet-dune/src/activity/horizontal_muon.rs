//! A window with a long run of adjacent channels, or other signs of a horizontal track.
//!
//! Source: DUNE-DAQ/triggeralgs `TAMakerHorizontalMuonAlgorithm.cpp`.

use gannet_wire::TriggerPrimitive;
use gannet_wire::trigger_activity::Algorithm;

use super::adjacency::{AdjacencyWatch, GapCost, RunRule};
use super::summary::{single, widen};
use super::window::{TpWindow, WindowRule};
use super::{Activity, HorizontalMuon, Outlet};
use crate::sampling::Sampling;

/// Fires on charge, number of channels, adjacency, or the length of the primitive after the
/// window, whichever are on.
#[derive(Debug)]
pub(super) struct MuonRule {
    parameters: HorizontalMuon,
    sampling: Sampling,
    channels: AdjacencyWatch,
}

impl MuonRule {
    pub(super) fn new(parameters: HorizontalMuon, sampling: Sampling) -> Self {
        let rule = RunRule { tolerance: parameters.adjacency_tolerance, cost: GapCost::Step };
        // No window has so many channels, so that without the condition nothing is searched.
        let never = u32::MAX;
        let threshold =
            if parameters.trigger_on_adjacency { parameters.adjacency_threshold } else { never };
        let channels = AdjacencyWatch::new(rule, threshold);
        Self { parameters, sampling, channels }
    }
}

impl WindowRule for MuonRule {
    fn enter(&mut self, tp: &TriggerPrimitive) {
        self.channels.insert(tp.channel());
    }

    fn leave(&mut self, tp: &TriggerPrimitive) {
        self.channels.remove(tp.channel());
    }

    fn fires(&mut self, window: &TpWindow) -> bool {
        let on = &self.parameters;
        (on.trigger_on_adc && window.adc_integral() > on.adc_threshold)
            || (on.trigger_on_n_channels && self.channels.distinct() > on.n_channels_threshold)
            || self.channels.exceeds()
    }

    fn fires_on(&self, outside: &TriggerPrimitive) -> bool {
        self.parameters.trigger_on_tot
            && self.sampling.time_over_threshold(outside) > self.parameters.tot_threshold
    }

    fn may_fire_late(&self) -> bool {
        self.parameters.trigger_on_tot
    }

    fn make(&self, window: &TpWindow, outlet: &mut Outlet) {
        let Some(last) = window.tps().next_back() else { return };
        outlet.offer(|| {
            let mut data = single(last, self.sampling, Algorithm::HorizontalMuon);
            widen(&mut data, window.tps(), self.sampling, |tp| self.sampling.time_end(tp));
            Activity { data, inputs: window.tps().copied().collect() }
        });
    }
}
