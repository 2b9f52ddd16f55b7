//! A candidate maker with what all makers share: prescale and counters.

use std::sync::Arc;

use gannet_measure::ledger::Account;

use super::{CandidateConfig, CandidateMaker, Outlet};
use crate::activity::{Activity, MadeDrop};
use gannet_trigger::candidate::Candidate;
use gannet_trigger::error::Result;
use gannet_trigger::prescale::Prescaler;

/// Counters of a candidate stage, which any thread may read.
#[derive(Debug, Default)]
pub struct CandidateCounters {
    /// Candidates made, kept, and prescaled away.
    pub made: Account<MadeDrop>,
}

/// Runs one configured candidate algorithm.
#[derive(Debug)]
pub struct CandidateStage {
    config: CandidateConfig,
    maker: Box<dyn CandidateMaker>,
    prescaler: Prescaler,
    counters: Arc<CandidateCounters>,
}

impl CandidateStage {
    /// The stage for `config`.
    ///
    /// # Errors
    /// As [`CandidateConfig::check`].
    pub fn new(config: &CandidateConfig) -> Result<Self> {
        config.check()?;
        Ok(Self {
            config: config.clone(),
            maker: config.maker(),
            prescaler: Prescaler::new(config.prescale()),
            counters: Arc::default(),
        })
    }

    /// Takes the next activity and appends the candidates that it completes.
    pub fn push(&mut self, activity: &Activity, kept: &mut Vec<Candidate>) {
        let Self { maker, prescaler, counters, .. } = self;
        maker.push(activity, &mut Outlet { prescaler, made: &counters.made, kept });
    }

    /// The tick from which on candidates start that are still to be made, when activities that are
    /// still to come start from tick `activities_from` on.
    pub fn open_from(&self, activities_from: u64) -> u64 {
        self.maker.open_from(activities_from)
    }

    /// Appends the candidates of what is left at the end of a run.
    pub fn finish(&mut self, kept: &mut Vec<Candidate>) {
        let Self { maker, prescaler, counters, .. } = self;
        maker.finish(&mut Outlet { prescaler, made: &counters.made, kept });
    }

    /// Forgets the activities that are in no candidate: data time goes on from elsewhere.
    pub fn begin_anew(&mut self) {
        self.maker = self.config.maker();
    }

    /// The counters.
    pub fn counters(&self) -> &Arc<CandidateCounters> {
        &self.counters
    }
}
