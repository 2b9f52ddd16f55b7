//! Parameters of the module-level trigger.

use std::collections::BTreeMap;

use gannet_measure::quantity::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::{Candidate, CandidateType};
use crate::error::{Result, require};

/// How candidates become decisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModuleLevelConfig {
    /// Readout window of candidates of a type, by its name, around the time of the candidate.
    /// Other candidates are read out from `time_before` ahead of their start to `time_after`
    /// beyond their end.
    pub readout: BTreeMap<CandidateType, ReadoutWindow>,
    /// Ticks read out before the start of a candidate without a window of its type.
    pub time_before: u64,
    /// Ticks read out after the end of a candidate without a window of its type.
    pub time_after: u64,
    /// What is done with candidates whose windows overlap.
    pub overlap: Overlap,
    /// Types of candidates that are dropped.
    pub ignore: Vec<CandidateType>,
    /// How far data time must be beyond the end of a window before its decision is issued, ticks.
    /// Candidates that come later and overlap it have a decision of their own. It should be as
    /// long as the longest window of the activity algorithms.
    pub merge_wait_ticks: u64,
    /// When data time stands still for so long, the decisions are issued whose windows no candidate
    /// to come can touch. The others wait until data time goes on, or the run ends.
    pub buffer_timeout: Span,
    /// A decision whose window has become so long is issued at once, ticks.
    pub td_readout_limit: u64,
    /// Least time between decisions, ticks; 0 for none.
    pub dead_time_ticks: u64,
    /// Most decisions whose records have not been written. With so many, candidates are dropped.
    pub records_in_flight_max: usize,
}

/// Ticks to read out around the time of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReadoutWindow {
    /// Ticks before.
    pub time_before: u64,
    /// Ticks after.
    pub time_after: u64,
}

/// What is done with candidates whose windows overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// They become one decision.
    #[default]
    Merge,
    /// The first becomes a decision, the others are dropped.
    Drop,
    /// Each becomes a decision.
    Separate,
}

impl Default for ReadoutWindow {
    /// The published default.
    ///
    /// Source: DUNE-DAQ/appmodel `trigger.schema.xml`, class `TCReadoutMap`.
    fn default() -> Self {
        Self { time_before: 1000, time_after: 1001 }
    }
}

impl Default for ModuleLevelConfig {
    /// The published defaults, but for the limit of a window: 10 ms of a 62.5 MHz clock instead of
    /// a second, which would be gigabytes of data.
    fn default() -> Self {
        let ReadoutWindow { time_before, time_after } = ReadoutWindow::default();
        Self {
            readout: BTreeMap::new(),
            time_before,
            time_after,
            overlap: Overlap::Merge,
            ignore: Vec::new(),
            merge_wait_ticks: 125_000,
            buffer_timeout: Span::ms(100),
            td_readout_limit: 625_000,
            dead_time_ticks: 0,
            records_in_flight_max: 100,
        }
    }
}

impl ModuleLevelConfig {
    /// Largest `records_in_flight_max` that is accepted.
    pub const RECORDS_IN_FLIGHT_LIMIT: usize = 1 << 16;

    /// Tests the values against their bounds.
    ///
    /// # Errors
    /// Names the field and what it must be.
    pub fn check(&self) -> Result<()> {
        let records = 1..=Self::RECORDS_IN_FLIGHT_LIMIT;
        let fits = records.contains(&self.records_in_flight_max);
        require(fits, "records_in_flight_max", "it must be 1 to 65536")?;
        require(self.td_readout_limit > 0, "td_readout_limit", "it must be 1 or more")
    }

    /// Whether candidates of this type are dropped.
    pub(super) fn ignores(&self, candidate: &Candidate) -> bool {
        self.ignore.contains(&CandidateType(candidate.data.candidate_type))
    }

    /// First tick to read out for a candidate, and first tick not to.
    pub(super) fn window(&self, candidate: &Candidate) -> (u64, u64) {
        let data = &candidate.data;
        match self.readout.get(&CandidateType(data.candidate_type)) {
            Some(window) => (
                data.time_candidate.saturating_sub(window.time_before),
                data.time_candidate.saturating_add(window.time_after),
            ),
            None => (
                data.time_start.saturating_sub(self.time_before),
                data.time_end.max(data.time_start).saturating_add(self.time_after),
            ),
        }
    }

    /// Most ticks by which a window begins before the start of its candidate.
    pub(super) fn lead_ticks(&self) -> u64 {
        let before = self.readout.values().map(|window| window.time_before);
        before.fold(self.time_before, u64::max)
    }
}
