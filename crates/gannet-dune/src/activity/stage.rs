//! An activity maker with what all makers share: filter, prescale and counters.

use std::sync::Arc;

use gannet_measure::counter::Counter;
use gannet_measure::ledger::Account;
use gannet_wire::TriggerPrimitive;

use super::{Activity, ActivityConfig, ActivityMaker, Outlet};
use crate::sampling::Sampling;
use gannet_trigger::error::Result;
use gannet_trigger::prescale::Prescaler;

gannet_measure::drop_reasons! {
    /// Why an activity or candidate that was made does not go on.
    pub enum MadeDrop {
        /// It was not the one of N that the prescale keeps.
        Prescaled => "prescaled",
    }
}

/// Counters of an activity stage, which any thread may read.
#[derive(Debug, Default)]
pub struct ActivityCounters {
    /// Activities made, kept, and prescaled away.
    pub made: Account<MadeDrop>,
    /// Primitives that were longer than `max_time_over_threshold` and not looked at.
    pub too_long: Counter,
    /// Primitives that left a window early because it held as many as it may.
    pub overflows: Counter,
}

/// Runs one configured activity algorithm.
#[derive(Debug)]
pub struct ActivityStage {
    config: ActivityConfig,
    maker: Box<dyn ActivityMaker>,
    sampling: Sampling,
    max_time_over_threshold: u64,
    prescaler: Prescaler,
    counters: Arc<ActivityCounters>,
}

impl ActivityStage {
    /// The stage for `config`, on primitives of the given sampling.
    ///
    /// # Errors
    /// As [`ActivityConfig::check`].
    pub fn new(config: &ActivityConfig, sampling: Sampling) -> Result<Self> {
        config.check()?;
        Ok(Self {
            config: config.clone(),
            maker: config.maker(sampling),
            sampling,
            max_time_over_threshold: config.max_time_over_threshold(),
            prescaler: Prescaler::new(config.prescale()),
            counters: Arc::default(),
        })
    }

    /// Takes the next primitive in the order of time and appends the activities that it completes.
    #[inline]
    pub fn push(&mut self, tp: &TriggerPrimitive, kept: &mut Vec<Activity>) {
        if self.sampling.time_over_threshold(tp) > self.max_time_over_threshold {
            self.counters.too_long.add(1);
            return;
        }
        let (maker, mut outlet) = self.parts(kept);
        maker.push(tp, &mut outlet);
    }

    /// The tick from which on no primitive can change what [`close`](Self::close) would make, if
    /// there is something to close: no primitive that starts there or later belongs to it.
    #[inline]
    pub fn due(&self) -> Option<u64> {
        self.maker.due()
    }

    /// The tick from which on activities start that are still to be made, when data time is at
    /// `tick` and all that was due is closed.
    pub fn open_from(&self, tick: u64) -> u64 {
        self.maker.open_from(tick)
    }

    /// Appends the activities that are complete, once data time has reached [`due`](Self::due) or
    /// ended.
    pub fn close(&mut self, kept: &mut Vec<Activity>) {
        let (maker, mut outlet) = self.parts(kept);
        maker.close(&mut outlet);
    }

    /// Forgets the primitives that are in no activity: data time goes on from elsewhere.
    pub fn begin_anew(&mut self) {
        self.maker = self.config.maker(self.sampling);
    }

    /// The counters.
    pub fn counters(&self) -> &Arc<ActivityCounters> {
        &self.counters
    }

    fn parts<'a>(
        &'a mut self,
        kept: &'a mut Vec<Activity>,
    ) -> (&'a mut dyn ActivityMaker, Outlet<'a>) {
        let Self { maker, prescaler, counters, .. } = self;
        let ActivityCounters { made, overflows, .. } = &**counters;
        (maker.as_mut(), Outlet { prescaler, made, overflows, kept })
    }
}
