//! Activities collected until there are enough of them.
//!
//! Source: DUNE-DAQ/triggeralgs `TCMakerChannelDistanceAlgorithm.cpp`,
//! `TCMakerBundleNAlgorithm.cpp`.

use gannet_wire::trigger_activity::TriggerActivityData;
use gannet_wire::trigger_candidate::{Algorithm, TriggerCandidateData, Type};

use super::{CandidateMaker, Outlet};
use crate::activity::Activity;
use gannet_trigger::candidate::{CANDIDATE_ACTIVITIES_MAX, Candidate};

/// When a collection is complete.
#[derive(Clone, Copy, Debug)]
pub(super) enum Complete {
    /// ChannelDistance: the next activity would bring it above so many primitives.
    TpCount(u64),
    /// Bundle: it has so many activities.
    Activities(usize),
}

/// Collects activities into candidates.
#[derive(Debug)]
pub(super) struct CollectionMaker {
    complete: Complete,
    collected: Vec<TriggerActivityData>,
    tp_count: u64,
}

impl CollectionMaker {
    pub(super) fn new(complete: Complete) -> Self {
        Self { complete, collected: Vec::new(), tp_count: 0 }
    }

    /// Whether `more` primitives do not fit into what is collected.
    fn overflows_with(&self, more: u64) -> bool {
        match self.complete {
            Complete::TpCount(max) => self.tp_count + more > max,
            Complete::Activities(_) => false,
        }
    }

    /// Whether no further activity fits.
    fn is_complete(&self) -> bool {
        let activities = self.collected.len();
        match self.complete {
            // An activity has at least one primitive.
            Complete::TpCount(_) => self.overflows_with(1),
            Complete::Activities(size) => activities == size,
        }
    }

    fn give_out(&mut self, outlet: &mut Outlet) {
        let (Some(first), Some(last)) = (self.collected.first(), self.collected.last()) else {
            return;
        };
        let (time_candidate, candidate_type, algorithm) = match self.complete {
            Complete::TpCount(_) => {
                (last.time_start, Type::ChannelDistance, Algorithm::ChannelDistance)
            }
            Complete::Activities(_) => (first.time_start, Type::Bundle, Algorithm::Bundle),
        };
        let data = TriggerCandidateData {
            time_start: first.time_start,
            time_end: last.time_end,
            time_candidate,
            detid: first.detid,
            candidate_type,
            algorithm,
        };
        outlet.offer(|| Candidate { data, inputs: self.collected.clone() });
        self.collected.clear();
        self.tp_count = 0;
    }
}

impl CandidateMaker for CollectionMaker {
    fn push(&mut self, activity: &Activity, outlet: &mut Outlet) {
        let tps = activity.inputs.len() as u64;
        if self.overflows_with(tps) || self.collected.len() == CANDIDATE_ACTIVITIES_MAX {
            self.give_out(outlet);
        }
        self.collected.push(activity.data);
        self.tp_count += tps;
        if self.is_complete() {
            self.give_out(outlet);
        }
    }

    fn open_from(&self, activities_from: u64) -> u64 {
        let starts = self.collected.iter().map(|activity| activity.time_start);
        starts.fold(activities_from, u64::min)
    }

    fn finish(&mut self, outlet: &mut Outlet) {
        if matches!(self.complete, Complete::TpCount(_)) {
            self.give_out(outlet);
        }
    }
}
