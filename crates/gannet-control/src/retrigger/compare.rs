//! Decisions beside the records of the run.

use std::collections::HashMap;

use gannet_readout::record::StoredRecord;
use gannet_trigger::candidate::Candidate;
use gannet_trigger::module_level::Decision;
use gannet_wire::trigger_candidate::TriggerCandidates;
use gannet_wire::{FragmentType, Result, TriggerRecordHeader};
use serde::Serialize;

/// Numbers of triggers that are named in a report.
const NAMED_MAX: usize = 10;

/// How decisions compare with the records of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Trigger records in the files.
    pub records: u64,
    /// Records for which the same decision was made: number, time, type, window, candidates and
    /// their activities.
    pub same: u64,
    /// Records that no such decision was made for.
    pub differ: u64,
    /// Decisions that no record in the files has the number of.
    pub unrecorded: u64,
    /// Numbers of the first records that differ.
    pub first_that_differ: Vec<u64>,
}

/// What a record tells of its decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordedDecision {
    number: u64,
    timestamp: u64,
    trigger_type: u64,
    window: Option<(u64, u64)>,
    candidates: Vec<Candidate>,
}

impl RecordedDecision {
    /// What a stored record tells.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let record = StoredRecord::trigger_record(bytes)?;
        let checked = TriggerRecordHeader::new_checked(record.header())?;
        let windows = checked.component_requests();
        let window = windows.map(|request| (request.window_begin, request.window_end)).next();
        let header = checked.header();
        let mut candidates = Vec::new();
        for fragment in record.fragments() {
            let fragment = fragment?;
            if fragment.header().fragment_type == FragmentType::TriggerCandidate {
                for candidate in TriggerCandidates::new(fragment.payload()) {
                    let candidate = candidate?;
                    let inputs = candidate.inputs().collect();
                    candidates.push(Candidate { data: candidate.data(), inputs });
                }
            }
        }
        let (number, timestamp) = (header.trigger_number, header.trigger_timestamp);
        Ok(Self { number, timestamp, trigger_type: header.trigger_type, window, candidates })
    }

    fn is(&self, decision: &Decision) -> bool {
        let window = (decision.window_begin, decision.window_end);
        self.timestamp == decision.timestamp
            && self.trigger_type == decision.trigger_type
            && self.window.is_none_or(|recorded| recorded == window)
            && self.candidates == decision.candidates
    }
}

/// Compares as records and decisions come; those of one number may come far apart.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    records: HashMap<u64, RecordedDecision>,
    decisions: HashMap<u64, Decision>,
    compared: Compared,
}

impl Comparison {
    pub fn recorded(&mut self, record: RecordedDecision) {
        self.compared.records += 1;
        match self.decisions.remove(&record.number) {
            Some(decision) => self.compare(&record, &decision),
            None => drop(self.records.insert(record.number, record)),
        }
    }

    pub fn decided(&mut self, decision: Decision) {
        match self.records.remove(&decision.trigger_number) {
            Some(record) => self.compare(&record, &decision),
            None => drop(self.decisions.insert(decision.trigger_number, decision)),
        }
    }

    fn compare(&mut self, record: &RecordedDecision, decision: &Decision) {
        match record.is(decision) {
            true => self.compared.same += 1,
            false => self.differs(record.number),
        }
    }

    fn differs(&mut self, number: u64) {
        self.compared.differ += 1;
        self.compared.first_that_differ.push(number);
        self.compared.first_that_differ.sort_unstable();
        self.compared.first_that_differ.truncate(NAMED_MAX);
    }

    /// The result; `None` when there was no record.
    pub fn finish(mut self) -> Option<Compared> {
        let left: Vec<u64> = self.records.keys().copied().collect();
        left.into_iter().for_each(|number| self.differs(number));
        self.compared.unrecorded = self.decisions.len() as u64;
        (self.compared.records > 0).then_some(self.compared)
    }
}
