//! A decision that waits for further candidates.

use super::{DECISION_CANDIDATES_MAX, Decision};
use crate::candidate::Candidate;

/// Candidates whose windows overlap, with the window around all of them.
#[derive(Debug)]
pub(super) struct Pending {
    begin: u64,
    end: u64,
    candidates: Vec<Candidate>,
}

impl Pending {
    /// A decision for one candidate with its window.
    pub(super) fn new((begin, end): (u64, u64), candidate: Candidate) -> Self {
        Self { begin, end, candidates: vec![candidate] }
    }

    /// End of the window.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Length of the window, ticks.
    pub(super) fn length(&self) -> u64 {
        self.end - self.begin
    }

    /// The candidates, in the order in which they came.
    pub(super) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Time of the earliest candidate.
    pub(super) fn timestamp(&self) -> u64 {
        let times = self.candidates.iter().map(|candidate| candidate.data.time_candidate);
        times.min().unwrap_or(self.begin)
    }

    /// Whether there is no room for another candidate.
    pub(super) fn is_full(&self) -> bool {
        self.candidates.len() >= DECISION_CANDIDATES_MAX
    }

    /// Whether the windows overlap or touch.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.begin <= other.end && other.begin <= self.end
    }

    /// Whether the windows overlap and there is room for the candidates of both.
    pub(super) fn can_absorb(&self, other: &Self) -> bool {
        let room = DECISION_CANDIDATES_MAX - self.candidates.len();
        self.overlaps(other) && other.candidates.len() <= room
    }

    /// Takes in an older decision.
    pub(super) fn absorb(&mut self, mut older: Self) {
        self.begin = self.begin.min(older.begin);
        self.end = self.end.max(older.end);
        older.candidates.append(&mut self.candidates);
        self.candidates = older.candidates;
    }

    /// The decision.
    pub(super) fn decide(self, trigger_number: u64, run: u32) -> Decision {
        let masks = self.candidates.iter().map(|candidate| candidate.data.candidate_type.mask());
        Decision {
            trigger_number,
            run,
            timestamp: self.timestamp(),
            trigger_type: masks.fold(0, |all, mask| all | mask),
            window_begin: self.begin,
            window_end: self.end,
            candidates: self.candidates,
        }
    }
}
