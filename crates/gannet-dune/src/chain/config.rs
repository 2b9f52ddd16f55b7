//! The configuration of the whole trigger.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activity::{ActivityConfig, HorizontalMuon};
use crate::candidate::CandidateConfig;
use gannet_trigger::error::{Error, Result, require};
use gannet_trigger::merge::MergeConfig;
use gannet_trigger::module_level::ModuleLevelConfig;
use gannet_trigger::source::SourceConfig;

/// Most activity algorithms that run side by side.
pub const ACTIVITIES_MAX: usize = 16;

/// Most candidate sources.
pub const SOURCES_MAX: usize = 16;

/// How primitives become decisions.
///
/// Activity algorithms run side by side on all primitives. The activities of each go to the
/// candidate algorithm of the same name, with the parameters under `candidate` or, without, with
/// the default ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TriggerConfig {
    /// How primitives of many streams are merged.
    pub merge: MergeConfig,
    /// Activity algorithms.
    pub activity: Vec<ActivityConfig>,
    /// Candidate algorithms, one for each activity algorithm at most.
    pub candidate: Vec<CandidateConfig>,
    /// Candidates without primitives.
    pub source: Vec<SourceConfig>,
    /// How candidates become decisions.
    pub module_level: ModuleLevelConfig,
}

impl Default for TriggerConfig {
    /// Triggers on tracks that cross many neighbouring channels.
    fn default() -> Self {
        Self {
            merge: MergeConfig::default(),
            activity: vec![ActivityConfig::HorizontalMuon(HorizontalMuon::default())],
            candidate: Vec::new(),
            source: Vec::new(),
            module_level: ModuleLevelConfig::default(),
        }
    }
}

impl TriggerConfig {
    /// Tests the values against each other and their bounds.
    ///
    /// # Errors
    /// Names the value by its path from this table, and what it must be.
    pub fn check(&self) -> Result<()> {
        self.merge.check().map_err(|error| error.within("merge"))?;
        self.module_level.check().map_err(|error| error.within("module_level"))?;
        require(self.activity.len() <= ACTIVITIES_MAX, "activity", "there must be 16 at most")?;
        require(self.source.len() <= SOURCES_MAX, "source", "there must be 16 at most")?;
        for (activity, index) in self.activity.iter().zip(0..) {
            activity.check().map_err(|error| error.within(&format!("activity[{index}]")))?;
        }
        for (source, index) in self.source.iter().zip(0..) {
            source.check().map_err(|error| error.within(&format!("source[{index}]")))?;
        }
        for index in 0..self.candidate.len() {
            self.check_candidate(index)?;
        }
        Ok(())
    }

    fn check_candidate(&self, index: usize) -> Result<()> {
        let path = format!("candidate[{index}]");
        let candidate = &self.candidate[index];
        candidate.check().map_err(|error| error.within(&path))?;
        let algorithm = candidate.activity_algorithm();
        let refuse = |problem: String| Err(Error::new(format!("{path}.algorithm"), problem));
        if !self.activity.iter().any(|activity| activity.algorithm() == algorithm) {
            return refuse(format!("no activity has the algorithm {algorithm}; add one"));
        }
        if self.candidate[..index].iter().any(|other| other.activity_algorithm() == algorithm) {
            return refuse(format!("{algorithm} has parameters already; keep one of the two"));
        }
        Ok(())
    }
}
