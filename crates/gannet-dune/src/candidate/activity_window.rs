//! A window of activities with much charge or many channels.
//!
//! Source: DUNE-DAQ/triggeralgs `TCMakerHorizontalMuonAlgorithm.cpp`,
//! `TCMakerChannelAdjacencyAlgorithm.cpp`, `TAWindow.cpp`.

use std::collections::VecDeque;

use gannet_wire::trigger_candidate::{Algorithm, TriggerCandidateData, Type};

use super::{ActivityWindow, CandidateMaker, Outlet};
use crate::activity::{Activity, HitChannels};
use gannet_trigger::candidate::{CANDIDATE_ACTIVITIES_MAX, Candidate};

/// Slides a window over activities and tests it after each.
#[derive(Debug)]
pub(super) struct ActivityWindowMaker {
    parameters: ActivityWindow,
    candidate_type: Type,
    algorithm: Algorithm,
    /// In the order of their starts.
    activities: VecDeque<Activity>,
    channels: HitChannels,
    adc_integral: u64,
}

impl ActivityWindowMaker {
    pub(super) fn new(
        parameters: ActivityWindow,
        candidate_type: Type,
        algorithm: Algorithm,
    ) -> Self {
        let (activities, channels) = (VecDeque::new(), HitChannels::default());
        Self { parameters, candidate_type, algorithm, activities, channels, adc_integral: 0 }
    }

    fn add(&mut self, activity: &Activity) {
        self.adc_integral += activity.data.adc_integral;
        for tp in &activity.inputs {
            self.channels.insert(tp.channel());
        }
        let start = activity.data.time_start;
        let place = self.activities.partition_point(|other| other.data.time_start <= start);
        self.activities.insert(place, activity.clone());
    }

    fn drop_oldest(&mut self) {
        let Some(activity) = self.activities.pop_front() else { return };
        self.adc_integral -= activity.data.adc_integral;
        for tp in &activity.inputs {
            self.channels.remove(tp.channel());
        }
    }

    fn time_start(&self) -> u64 {
        self.activities.front().map_or(0, |activity| activity.data.time_start)
    }

    /// Whether an activity that begins at tick `start` has left the window when the next one begins
    /// at `next`.
    fn excludes(&self, start: u64, next: u64) -> bool {
        next.saturating_sub(start) >= self.parameters.window_length
    }

    /// Whether the window as it is makes a candidate.
    fn fires(&self) -> bool {
        let on = &self.parameters;
        let unconditional = !on.trigger_on_adc && !on.trigger_on_n_channels;
        unconditional
            || (on.trigger_on_adc && self.adc_integral > on.adc_threshold)
            || (on.trigger_on_n_channels && self.channels.distinct() > on.n_channels_threshold)
    }

    fn candidate(&self) -> Candidate {
        let ends = self.activities.iter().map(|activity| activity.data.time_end);
        let latest = self.activities.back();
        Candidate {
            data: TriggerCandidateData {
                time_start: self.time_start(),
                time_end: ends.max().unwrap_or(0),
                time_candidate: self.time_start(),
                detid: latest.map_or(0, |activity| activity.data.detid),
                candidate_type: self.candidate_type,
                algorithm: self.algorithm,
            },
            inputs: self.activities.iter().map(|activity| activity.data).collect(),
        }
    }
}

impl CandidateMaker for ActivityWindowMaker {
    fn push(&mut self, activity: &Activity, outlet: &mut Outlet) {
        let start = activity.data.time_start;
        while !self.activities.is_empty()
            && (self.activities.len() == CANDIDATE_ACTIVITIES_MAX
                || self.excludes(self.time_start(), start))
        {
            self.drop_oldest();
        }
        self.add(activity);
        if self.fires() {
            outlet.offer(|| self.candidate());
            while !self.activities.is_empty() {
                self.drop_oldest();
            }
        }
    }

    fn open_from(&self, activities_from: u64) -> u64 {
        let starts = self.activities.iter().map(|activity| activity.data.time_start);
        let stay = starts.filter(|start| !self.excludes(*start, activities_from));
        stay.fold(activities_from, u64::min)
    }
}
