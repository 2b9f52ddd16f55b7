//! A fixed number of primitives is an activity.
//!
//! Source: DUNE-DAQ/triggeralgs `TAMakerBundleNAlgorithm.cpp`.

use gannet_wire::TriggerPrimitive;
use gannet_wire::trigger_activity::Algorithm;

use super::summary::sequence;
use super::{Activity, ActivityMaker, Outlet};
use crate::sampling::Sampling;

/// Makes an activity of every `size` primitives; a rest at the end of a run is no bundle.
#[derive(Debug)]
pub(super) struct BundleMaker {
    size: usize,
    sampling: Sampling,
    bundle: Vec<TriggerPrimitive>,
}

impl BundleMaker {
    pub(super) fn new(size: u32, sampling: Sampling) -> Self {
        Self { size: size as usize, sampling, bundle: Vec::new() }
    }
}

impl ActivityMaker for BundleMaker {
    fn push(&mut self, tp: &TriggerPrimitive, outlet: &mut Outlet) {
        self.bundle.push(*tp);
        if self.bundle.len() < self.size {
            return;
        }
        if let Some(data) = sequence(&self.bundle, self.sampling, Algorithm::Bundle) {
            outlet.offer(|| Activity { data, inputs: self.bundle.clone() });
        }
        self.bundle.clear();
    }

    fn open_from(&self, tick: u64) -> u64 {
        self.bundle.first().map_or(tick, TriggerPrimitive::time_start)
    }
}
