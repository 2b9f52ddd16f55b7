//! Every primitive is an activity; the prescale that all makers have keeps one of N.
//!
//! Source: DUNE-DAQ/triggeralgs `TAMakerPrescaleAlgorithm.cpp`.

use gannet_wire::TriggerPrimitive;
use gannet_wire::trigger_activity::Algorithm;

use super::summary::single;
use super::{Activity, ActivityMaker, Outlet};
use crate::sampling::Sampling;

/// Makes an activity of every primitive.
#[derive(Debug)]
pub(super) struct PrescaleMaker {
    sampling: Sampling,
}

impl PrescaleMaker {
    pub(super) fn new(sampling: Sampling) -> Self {
        Self { sampling }
    }
}

impl ActivityMaker for PrescaleMaker {
    fn push(&mut self, tp: &TriggerPrimitive, outlet: &mut Outlet) {
        outlet.offer(|| Activity {
            data: single(tp, self.sampling, Algorithm::Prescale),
            inputs: vec![*tp],
        });
    }
}
