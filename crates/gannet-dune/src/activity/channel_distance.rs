//! Primitives near one another in channel number and time.
//!
//! Source: DUNE-DAQ/triggeralgs `TAMakerChannelDistanceAlgorithm.cpp`.

use gannet_wire::TriggerPrimitive;
use gannet_wire::trigger_activity::Algorithm;

use super::summary::sequence;
use super::window::WINDOW_TPS_MAX;
use super::{Activity, ActivityMaker, ChannelDistance, Outlet};
use crate::sampling::Sampling;

/// Collects the primitives around the first one; those too far from it in channel are passed over.
#[derive(Debug)]
pub(super) struct DistanceMaker {
    parameters: ChannelDistance,
    sampling: Sampling,
    group: Vec<TriggerPrimitive>,
    /// Lowest and highest channel that the group still accepts.
    bounds: (u32, u32),
}

impl DistanceMaker {
    pub(super) fn new(parameters: ChannelDistance, sampling: Sampling) -> Self {
        Self { parameters, sampling, group: Vec::new(), bounds: (u32::MAX, 0) }
    }

    fn add(&mut self, tp: &TriggerPrimitive) {
        let (channel, distance) = (tp.channel(), self.parameters.max_channel_distance);
        self.bounds.0 = self.bounds.0.min(channel.saturating_sub(distance));
        self.bounds.1 = self.bounds.1.max(channel.saturating_add(distance));
        self.group.push(*tp);
    }

    /// Whether a primitive that starts at `tick` comes too late for the group.
    fn ended_by(&self, tick: u64) -> bool {
        self.due().is_some_and(|due| tick >= due)
    }
}

impl ActivityMaker for DistanceMaker {
    fn push(&mut self, tp: &TriggerPrimitive, outlet: &mut Outlet) {
        if self.ended_by(tp.time_start()) {
            self.close(outlet);
        } else if self.group.len() == WINDOW_TPS_MAX {
            outlet.overflows.add(1);
            self.close(outlet);
        }
        let near = (self.bounds.0..=self.bounds.1).contains(&tp.channel());
        if self.group.is_empty() || near {
            self.add(tp);
        }
    }

    /// A primitive exactly `window_length` after the first still belongs to the group.
    fn due(&self) -> Option<u64> {
        let first = self.group.first()?;
        Some(first.time_start().saturating_add(self.parameters.window_length).saturating_add(1))
    }

    fn open_from(&self, tick: u64) -> u64 {
        self.group.first().map_or(tick, TriggerPrimitive::time_start)
    }

    fn close(&mut self, outlet: &mut Outlet) {
        if self.group.len() >= self.parameters.min_tps as usize
            && let Some(data) = sequence(&self.group, self.sampling, Algorithm::ChannelDistance)
        {
            outlet.offer(|| Activity { data, inputs: self.group.clone() });
        }
        self.group.clear();
        self.bounds = (u32::MAX, 0);
    }
}
