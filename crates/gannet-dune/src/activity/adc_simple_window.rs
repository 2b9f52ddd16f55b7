//! A window whose charge is above a threshold.
//!
//! Source: DUNE-DAQ/triggeralgs `TAMakerADCSimpleWindowAlgorithm.cpp`.

use gannet_wire::trigger_activity::{Algorithm, TriggerActivityData};

use super::summary::single;
use super::window::{TpWindow, WindowRule};
use super::{Activity, Outlet};
use crate::sampling::Sampling;

/// Fires when the sum of the integrals is above a threshold.
#[derive(Debug)]
pub(super) struct AdcRule {
    adc_threshold: u64,
    sampling: Sampling,
}

impl AdcRule {
    pub(super) fn new(adc_threshold: u64, sampling: Sampling) -> Self {
        Self { adc_threshold, sampling }
    }
}

impl WindowRule for AdcRule {
    fn fires(&mut self, window: &TpWindow) -> bool {
        window.adc_integral() > self.adc_threshold
    }

    /// Start and charge are those of the window; all else is that of its last primitive, as
    /// published.
    fn make(&self, window: &TpWindow, outlet: &mut Outlet) {
        let Some(last) = window.tps().next_back() else { return };
        outlet.offer(|| Activity {
            data: TriggerActivityData {
                time_start: window.time_start(),
                adc_integral: window.adc_integral(),
                ..single(last, self.sampling, Algorithm::AdcSimpleWindow)
            },
            inputs: window.tps().copied().collect(),
        });
    }
}
