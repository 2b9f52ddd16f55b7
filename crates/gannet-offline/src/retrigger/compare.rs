//! Decisions beside the records of the run.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use gannet_readout::record::Part;
use gannet_record::{Origin, StoredRecord};
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
    /// Records for which the same decision was made: time, type, window, candidates with their
    /// activities, and all activities of the window, if the record has them whole.
    pub same: u64,
    /// Of these, the records whose decision has another number.
    pub renumbered: u64,
    /// Records that no such decision was made for.
    pub differ: u64,
    /// Decisions for whose time, type and window the files have no record.
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
    /// None in a record that asks no source for data.
    window: Option<(u64, u64)>,
    candidates: Vec<Candidate>,
    activities: Option<Digest>,
}

/// Stands for the bytes of a fragment, which may be many.
type Digest = u64;

/// The digest of a fragment of activities, if it is whole.
fn digest(error_bits: u32, payload: &[u8]) -> Option<Digest> {
    let mut hasher = DefaultHasher::new();
    payload.hash(&mut hasher);
    (error_bits == 0).then(|| hasher.finish())
}

/// A decision with what the trigger would add to its record.
#[derive(Debug)]
struct Made {
    decision: Decision,
    activities: Option<Digest>,
}

impl Made {
    fn key(&self) -> Key {
        let Decision { timestamp, trigger_type, window_begin, window_end, .. } = self.decision;
        (timestamp, trigger_type, Some((window_begin, window_end)))
    }
}

impl RecordedDecision {
    /// What a stored record tells.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let record = StoredRecord::trigger_record(bytes)?;
        let checked = TriggerRecordHeader::new_checked(record.header())?;
        let windows = checked.component_requests();
        let window = windows.map(|request| (request.window_begin, request.window_end)).next();
        let header = checked.header();
        let (mut candidates, mut activities) = (Vec::new(), None);
        for fragment in record.fragments() {
            let fragment = fragment?;
            match fragment.header().fragment_type {
                FragmentType::TriggerCandidate => {
                    for candidate in TriggerCandidates::new(fragment.payload()) {
                        let candidate = candidate?;
                        let inputs = candidate.inputs().collect();
                        candidates.push(Candidate { data: candidate.data(), inputs });
                    }
                }
                FragmentType::TriggerActivity => {
                    activities = digest(fragment.header().error_bits, fragment.payload());
                }
                _ => {}
            }
        }
        let (number, timestamp) = (header.trigger_number, header.trigger_timestamp);
        let trigger_type = header.trigger_type;
        Ok(Self { number, timestamp, trigger_type, window, candidates, activities })
    }

    fn key(&self) -> Key {
        (self.timestamp, self.trigger_type, self.window)
    }

    fn is(&self, made: &Made) -> bool {
        self.candidates == made.decision.candidates
            && self.activities.zip(made.activities).is_none_or(|(recorded, made)| recorded == made)
    }
}

/// Time, type and window. Numbers do not tell: one decision more or less shifts all after it.
type Key = (u64, u64, Option<(u64, u64)>);

/// Compares as records and decisions come; those of one key may come far apart.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    records: HashMap<Key, RecordedDecision>,
    decisions: HashMap<Key, Made>,
    compared: Compared,
}

impl Comparison {
    pub fn recorded(&mut self, record: RecordedDecision) {
        self.compared.records += 1;
        match self.decisions.remove(&record.key()) {
            Some(made) => self.compare(&record, &made),
            None => {
                let twin = self.records.insert(record.key(), record);
                twin.into_iter().for_each(|twin| self.differs(twin.number));
            }
        }
    }

    /// Takes a decision with what the trigger would add to its record.
    pub fn decided(&mut self, decision: Decision, added: &[Part<Origin>]) {
        let activities =
            |a: &&Part<Origin>| a.origin.fragment_type == FragmentType::TriggerActivity;
        let whole = |a: &Part<Origin>| digest(a.error_bits, &a.payload);
        let activities = added.iter().find(activities).and_then(whole);
        let made = Made { decision, activities };
        match self.records.remove(&made.key()) {
            Some(record) => self.compare(&record, &made),
            None => {
                let twin = self.decisions.insert(made.key(), made);
                self.compared.unrecorded += u64::from(twin.is_some());
            }
        }
    }

    fn compare(&mut self, record: &RecordedDecision, made: &Made) {
        if record.is(made) {
            self.compared.same += 1;
            self.compared.renumbered += u64::from(record.number != made.decision.trigger_number);
        } else {
            self.differs(record.number);
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
        for record in std::mem::take(&mut self.records).into_values() {
            self.differs(record.number);
        }
        self.compared.unrecorded += self.decisions.len() as u64;
        (self.compared.records > 0).then_some(self.compared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_decision_less_shifts_numbers_and_leaves_the_others_the_same() {
        let window = |number: u64| (100 * number, 100 * number + 50);
        let mut comparison = Comparison::default();
        for number in 1..=4 {
            let (timestamp, window) = (window(number).0 + 10, Some(window(number)));
            let (candidates, activities) = (Vec::new(), None);
            let trigger_type = 1;
            comparison.recorded(RecordedDecision {
                number,
                timestamp,
                trigger_type,
                window,
                candidates,
                activities,
            });
        }
        for (trigger_number, of) in [(1, 1), (2, 3), (3, 4), (4, 5)] {
            let (window_begin, window_end) = window(of);
            let decision = Decision {
                trigger_number,
                run: 1,
                timestamp: window_begin + 10,
                trigger_type: 1,
                window_begin,
                window_end,
                candidates: Vec::new(),
            };
            comparison.decided(decision, &[]);
        }
        let first_that_differ = vec![2];
        let expected = Compared {
            records: 4,
            same: 3,
            renumbered: 2,
            differ: 1,
            unrecorded: 1,
            first_that_differ,
        };
        assert_eq!(comparison.finish(), Some(expected));
    }
}
