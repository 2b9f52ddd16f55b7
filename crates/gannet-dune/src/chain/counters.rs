//! The counters of the whole trigger.

use std::sync::Arc;

use gannet_measure::counter::Counter;
use gannet_measure::ledger::Statement;

use crate::activity::ActivityCounters;
use crate::candidate::CandidateCounters;
use gannet_trigger::merge::MergeCounters;
use gannet_trigger::module_level::ModuleLevelCounters;

/// The data time that a chain has gone through before it was drained. Sources give their candidates
/// in it.
#[derive(Debug, Default)]
pub struct DataTime {
    /// Where it began, in ticks; 0 as long as there is none.
    pub begin: Counter,
    /// Where it is, in ticks; before `begin` if it went back.
    pub end: Counter,
    /// Ticks gone through.
    pub span: Counter,
}

/// The counters of all stages of a trigger chain, which any thread may read.
#[derive(Clone, Debug)]
pub struct TriggerCounters {
    /// Of the merger.
    pub merge: Arc<MergeCounters>,
    /// Of the activity stages, in the order of the configuration.
    pub activities: Vec<Arc<ActivityCounters>>,
    /// Of the candidate stages, in the same order.
    pub candidates: Vec<Arc<CandidateCounters>>,
    /// Of the module-level trigger.
    pub module_level: Arc<ModuleLevelCounters>,
    /// Where data time began, and where it is.
    pub data_time: Arc<DataTime>,
}

impl TriggerCounters {
    /// Snapshots of the accounts of all stages; those of the activity and candidate stages are
    /// sums.
    pub fn statements(&self) -> Vec<Statement> {
        let activities = self.activities.iter().map(|stage| stage.made.statement("activity"));
        let candidates = self.candidates.iter().map(|stage| stage.made.statement("candidate"));
        let mut statements = vec![self.merge.statement()];
        statements.extend(sum(activities));
        statements.extend(sum(candidates));
        statements.push(self.module_level.statement());
        statements
    }
}

/// The sum of statements of the same stage; `None` of none.
fn sum(statements: impl Iterator<Item = Statement>) -> Option<Statement> {
    statements.reduce(|mut total, statement| {
        total.absorb(&statement);
        total
    })
}
