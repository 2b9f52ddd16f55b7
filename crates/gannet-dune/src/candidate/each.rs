//! Each activity is a candidate.
//!
//! Source: DUNE-DAQ/triggeralgs `TCMakerADCSimpleWindowAlgorithm.cpp`,
//! `TCMakerPrescaleAlgorithm.cpp`.

use gannet_wire::trigger_activity::TriggerActivityData;
use gannet_wire::trigger_candidate::{Algorithm, TriggerCandidateData, Type};

use super::{CandidateMaker, Outlet};
use crate::activity::Activity;
use gannet_trigger::candidate::Candidate;

/// Makes a candidate of each activity.
#[derive(Debug)]
pub(super) struct EachMaker {
    candidate_type: Type,
    algorithm: Algorithm,
    /// The time of the activity that is the time of the candidate.
    time: fn(&TriggerActivityData) -> u64,
}

impl EachMaker {
    /// Prescale: the candidate has the time at which the activity starts.
    pub(super) fn prescale() -> Self {
        Self {
            candidate_type: Type::Prescale,
            algorithm: Algorithm::Prescale,
            time: |activity| activity.time_start,
        }
    }

    /// ADCSimpleWindow: the candidate has the time of the activity.
    pub(super) fn adc_simple_window() -> Self {
        Self {
            candidate_type: Type::AdcSimpleWindow,
            algorithm: Algorithm::AdcSimpleWindow,
            time: |activity| activity.time_activity,
        }
    }
}

impl CandidateMaker for EachMaker {
    fn push(&mut self, activity: &Activity, outlet: &mut Outlet) {
        let data = &activity.data;
        outlet.offer(|| Candidate {
            data: TriggerCandidateData {
                time_start: data.time_start,
                time_end: data.time_end,
                time_candidate: (self.time)(data),
                detid: data.detid,
                candidate_type: self.candidate_type,
                algorithm: self.algorithm,
            },
            inputs: vec![*data],
        });
    }
}
