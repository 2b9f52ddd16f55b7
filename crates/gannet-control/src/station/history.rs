//! What the runs of a station came to.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use gannet_log::Item;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run_control;
use crate::snapshot::{Figure, Snapshot};

/// Runs that are remembered.
pub const RUNS_MAX: usize = 256;

/// A file that was read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// The file.
    pub file: PathBuf,
    /// Chunks of a log, records of a raw file.
    pub items: u64,
    /// Chunks of a log that are known to have been lost from it.
    pub missing: u64,
    /// What is wrong with it; nothing when it is sound.
    pub problem: Option<String>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RunEnding")]
pub enum Ending {
    /// Somebody commanded it, or the program was to end.
    Command,
    /// Its time was over, or all its files were read.
    Over,
    /// It failed, or could not start.
    Failure,
}

/// How well a run went, the worst last.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RunOutcome")]
pub enum Outcome {
    /// Nothing was lost.
    Good,
    /// Data were lost, and counted.
    Degraded,
    /// A file is not as it was written.
    NotVerified,
    /// It failed, or could not start.
    Failed,
}

/// A run of a station, and what it came to, so far or in the end.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunSummary {
    /// Its number; absent where it could not start.
    pub number: Option<u32>,
    /// Its state.
    pub state: run_control::State,
    /// When it was started, in seconds since 1970.
    pub begin_unix_s: f64,
    /// When its files were closed, in seconds since 1970; absent before.
    pub end_unix_s: Option<f64>,
    /// Why it ended; absent before.
    pub ending: Option<Ending>,
    /// How well it went, so far.
    pub outcome: Outcome,
    /// Why it failed, or could not start.
    pub failure: Option<String>,
    /// For how long it took frames, in seconds.
    pub elapsed_s: f64,
    /// Frames that arrived.
    pub frames: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Frames lost, at least.
    pub frames_lost: u64,
    /// Frames lost, at most.
    pub frames_lost_max: u64,
    /// Decisions; absent where its detector asks for no records.
    pub decisions: Option<u64>,
    /// Trigger records in its log; absent where its detector asks for none.
    pub records: Option<u64>,
    /// Trigger records that were dropped on the way there.
    pub records_lost: u64,
    /// Its finished log files.
    pub files: Vec<PathBuf>,
    /// Exports of those that other people's tools read.
    pub exports: Vec<PathBuf>,
    /// The table of its channels, and the list of its files, as far as there are any.
    pub tables: Vec<PathBuf>,
    /// The few figures that say what it has come to where only its kind of detector has them.
    pub headlines: Vec<Figure>,
    /// Files that were read back; none before the end, or where there was no time for it.
    pub verified: Vec<Verified>,
}

impl RunSummary {
    /// A run that was started at `begin_unix_s`, as `snapshot` has it.
    pub fn of(snapshot: &Snapshot, begin_unix_s: f64) -> Self {
        let recorder = &snapshot.recorder;
        let asks = snapshot.ledger.iter().any(|statement| statement.stage == Item::Record.stage());
        let headlines = snapshot.specific.iter().filter(|figure| figure.headline);
        Self {
            number: Some(snapshot.run),
            state: snapshot.state,
            begin_unix_s,
            end_unix_s: None,
            ending: None,
            outcome: outcome(snapshot, &[]),
            failure: snapshot.failure.clone(),
            elapsed_s: snapshot.elapsed_s,
            frames: snapshot.frames(),
            bytes: snapshot.bytes(),
            frames_lost: snapshot.frames_lost,
            frames_lost_max: snapshot.frames_lost_max,
            decisions: asks.then_some(snapshot.trigger.decisions),
            records: asks.then_some(recorder.records),
            records_lost: recorder.records_dropped,
            files: recorder.files.iter().map(whole).collect(),
            exports: recorder.exports.iter().map(whole).collect(),
            tables: snapshot.tables().map(whole).collect(),
            headlines: headlines.cloned().collect(),
            verified: Vec::new(),
        }
    }

    /// The same at its end.
    pub fn ended(
        snapshot: &Snapshot,
        begin_unix_s: f64,
        ending: Ending,
        verified: Vec<Verified>,
    ) -> Self {
        Self {
            end_unix_s: Some(now_unix_s()),
            ending: Some(ending),
            outcome: outcome(snapshot, &verified),
            verified: verified
                .into_iter()
                .map(|it| Verified { file: whole(&it.file), ..it })
                .collect(),
            ..Self::of(snapshot, begin_unix_s)
        }
    }

    /// A run that could not start at `begin_unix_s`, and why.
    pub fn refused(begin_unix_s: f64, why: String) -> Self {
        let nothing = Self::of(&Snapshot::default(), begin_unix_s);
        Self {
            number: None,
            state: run_control::State::Error,
            end_unix_s: Some(now_unix_s()),
            ending: Some(Ending::Failure),
            outcome: Outcome::Failed,
            failure: Some(why),
            ..nothing
        }
    }
}

/// A path that is the same from wherever it is looked at.
fn whole(path: &PathBuf) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.clone())
}

fn outcome(snapshot: &Snapshot, verified: &[Verified]) -> Outcome {
    if snapshot.state == run_control::State::Error {
        Outcome::Failed
    } else if verified.iter().any(|file| file.problem.is_some()) {
        Outcome::NotVerified
    } else if snapshot.degraded {
        Outcome::Degraded
    } else {
        Outcome::Good
    }
}

/// Seconds since 1970.
pub(super) fn now_unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The last runs of a station.
#[derive(Debug, Default)]
pub(super) struct History {
    runs: VecDeque<RunSummary>,
    /// Runs so far, those that are forgotten included.
    pub count: u64,
    /// The greatest number of a run.
    pub last_number: Option<u32>,
    /// How the worst run went.
    pub worst: Option<Outcome>,
}

impl History {
    pub fn add(&mut self, run: RunSummary) {
        self.count += 1;
        self.last_number = self.last_number.max(run.number);
        self.worst = self.worst.max(Some(run.outcome));
        if self.runs.len() == RUNS_MAX {
            self.runs.pop_front();
        }
        self.runs.push_back(run);
    }

    /// The runs that have ended, oldest first.
    pub fn runs(&self) -> impl Iterator<Item = &RunSummary> {
        self.runs.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_runs_are_forgotten_but_not_how_they_went() {
        let mut history = History::default();
        let run = |number, degraded| {
            let snapshot = Snapshot { run: number, degraded, ..Snapshot::default() };
            RunSummary::ended(&snapshot, 0.0, Ending::Command, Vec::new())
        };
        history.add(run(1, true));
        (2..=RUNS_MAX as u32 + 1).for_each(|number| history.add(run(number, false)));
        let numbers: Vec<_> = history.runs().map(|run| run.number).collect();
        assert_eq!(numbers.len(), RUNS_MAX);
        assert_eq!((numbers[0], history.count), (Some(2), RUNS_MAX as u64 + 1));
        assert_eq!(history.worst, Some(Outcome::Degraded));
    }

    #[test]
    fn the_worst_of_what_happened_is_the_outcome() {
        let bad = Verified { file: "a".into(), items: 1, missing: 0, problem: Some("x".into()) };
        let lossy = Snapshot { degraded: true, ..Snapshot::default() };
        assert_eq!(outcome(&Snapshot::default(), &[]), Outcome::Good);
        assert_eq!(outcome(&lossy, &[]), Outcome::Degraded);
        assert_eq!(outcome(&lossy, std::slice::from_ref(&bad)), Outcome::NotVerified);
        let failed = Snapshot { state: run_control::State::Error, ..lossy };
        assert_eq!(outcome(&failed, &[bad]), Outcome::Failed);
        assert_eq!(RunSummary::refused(0.0, "no".into()).outcome, Outcome::Failed);
    }
}
