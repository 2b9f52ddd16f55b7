//! Activities: groups of primitives that look like one thing.
//!
//! [`ActivityConfig`] names an algorithm and its parameters; [`ActivityStage`] runs it on the
//! merged primitives. Every algorithm is a state machine that sees each primitive once, in the
//! order of time.
//!
//! Where the published code has an evident mistake, this one does what was meant:
//!
//! * HorizontalMuon starts the search for the peak at the *peak* of the last primitive, not at its
//!   integral cut to 16 bits;
//! * ChannelDistance does not lose channels below `max_channel_distance` to an unsigned underflow;
//! * Prescale gives its activities a time, that of the peak, instead of 0;
//! * sums of charge have 64 bits and do not wrap.
//!
//! Source: DUNE-DAQ/triggeralgs `TriggerActivityMaker.hpp` and the file each module names.

mod adc_simple_window;
mod adjacency;
mod bundle;
mod channel_adjacency;
mod channel_distance;
mod config;
mod hit_channels;
mod horizontal_muon;
mod prescale;
mod stage;
mod summary;
mod window;

use std::fmt;

use gannet_measure::counter::Counter;
use gannet_measure::ledger::Account;
use gannet_wire::TriggerPrimitive;
use gannet_wire::trigger_activity::TriggerActivityData;

pub use config::{
    ActivityConfig, AdcSimpleWindow, Bundle, ChannelAdjacency, ChannelDistance, HorizontalMuon,
    Prescale,
};
pub(crate) use hit_channels::HitChannels;
pub use stage::{ActivityCounters, ActivityStage, MadeDrop};
pub use window::WINDOW_TPS_MAX;

use gannet_trigger::prescale::Prescaler;

/// An activity and the primitives it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Times, channels and charge of the whole.
    pub data: TriggerActivityData,
    /// The primitives, at most [`WINDOW_TPS_MAX`].
    pub inputs: Vec<TriggerPrimitive>,
}

/// An algorithm that groups primitives into activities.
///
/// Primitives come in the order of (start time, channel).
trait ActivityMaker: fmt::Debug + Send {
    /// Takes the next primitive.
    fn push(&mut self, tp: &TriggerPrimitive, outlet: &mut Outlet);

    /// The tick from which on no primitive can change what [`close`](Self::close) would make, if
    /// there is something to close: no primitive that starts there or later belongs to it.
    fn due(&self) -> Option<u64> {
        None
    }

    /// The tick from which on activities start that are still to be made, when data time is at
    /// `tick` and all that was due is closed.
    fn open_from(&self, tick: u64) -> u64 {
        tick
    }

    /// Makes what is complete, once data time has reached [`due`](Self::due) or ended.
    fn close(&mut self, _outlet: &mut Outlet) {}
}

/// Where a maker puts its activities: they are counted, prescaled and kept.
#[derive(Debug)]
struct Outlet<'a> {
    prescaler: &'a mut Prescaler,
    made: &'a Account<MadeDrop>,
    overflows: &'a Counter,
    kept: &'a mut Vec<Activity>,
}

impl Outlet<'_> {
    /// Offers an activity, which is built only when the prescale keeps it.
    fn offer(&mut self, build: impl FnOnce() -> Activity) {
        self.made.offer(1);
        if self.prescaler.keeps_next() {
            self.kept.push(build());
            self.made.deliver(1);
        } else {
            self.made.discard(MadeDrop::Prescaled, 1);
        }
    }
}

#[cfg(test)]
mod tests;
