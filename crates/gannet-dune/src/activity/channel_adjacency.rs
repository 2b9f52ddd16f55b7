//! Each long run of adjacent channels in a window.
//!
//! Source: DUNE-DAQ/triggeralgs `TAMakerChannelAdjacencyAlgorithm.cpp`. The published code finds
//! the first run that is long enough, takes its channels out of the window and starts over. Runs
//! are separated by what a bridge cannot cross, and taking one out only widens that, so one walk
//! over the channels finds the same runs.

use gannet_wire::TriggerPrimitive;
use gannet_wire::trigger_activity::Algorithm;

use super::adjacency::{AdjacencyWatch, GapCost, RunRule};
use super::summary::{single, widen};
use super::window::{TpWindow, WindowRule};
use super::{Activity, ChannelAdjacency, Outlet};
use crate::sampling::Sampling;

/// Fires when a run of adjacent channels is long enough, and makes an activity of each such run.
#[derive(Debug)]
pub(super) struct TrackRule {
    rule: RunRule,
    threshold: u32,
    sampling: Sampling,
    channels: AdjacencyWatch,
}

impl TrackRule {
    pub(super) fn new(parameters: &ChannelAdjacency, sampling: Sampling) -> Self {
        let rule = RunRule { tolerance: parameters.adjacency_tolerance, cost: GapCost::Missed };
        let threshold = parameters.adjacency_threshold;
        Self { rule, threshold, sampling, channels: AdjacencyWatch::new(rule, threshold) }
    }

    /// The activity of a run: one primitive a channel, in the order of channels. `run` has all
    /// primitives of each channel, in the order of time.
    ///
    /// As published, the latest primitive stands for the first channel, the earliest for all others.
    fn activity(&self, run: &[&[TriggerPrimitive]]) -> Option<Activity> {
        let (first, others) = run.split_first()?;
        let others = others.iter().filter_map(|channel| channel.first());
        let inputs: Vec<_> = first.last().into_iter().chain(others).copied().collect();
        let last = inputs.last()?;
        let mut data = single(last, self.sampling, Algorithm::ChannelAdjacency);
        // As published, time_end is the start of the latest primitive.
        data.time_end = last.time_start();
        widen(&mut data, inputs.iter(), self.sampling, TriggerPrimitive::time_start);
        Some(Activity { data, inputs })
    }
}

impl WindowRule for TrackRule {
    fn enter(&mut self, tp: &TriggerPrimitive) {
        self.channels.insert(tp.channel());
    }

    fn leave(&mut self, tp: &TriggerPrimitive) {
        self.channels.remove(tp.channel());
    }

    fn fires(&mut self, _window: &TpWindow) -> bool {
        self.channels.exceeds()
    }

    fn make(&self, window: &TpWindow, outlet: &mut Outlet) {
        // The sort keeps equal channels in the order of time.
        let mut tps: Vec<TriggerPrimitive> = window.tps().copied().collect();
        tps.sort_by_key(TriggerPrimitive::channel);
        let hits: Vec<_> = tps.chunk_by(|a, b| a.channel() == b.channel()).collect();
        let channels: Vec<u32> = hits.iter().map(|channel| channel[0].channel()).collect();
        let mut rest = &hits[..];
        for run in self.rule.runs(&channels) {
            let (hits, after) = rest.split_at(run.len());
            rest = after;
            if run.len() > self.threshold as usize
                && let Some(activity) = self.activity(hits)
            {
                outlet.offer(|| activity);
            }
        }
    }
}
