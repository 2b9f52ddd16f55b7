//! What the recorder is doing, for whoever watches it.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use gannet_measure::ledger::{Reason, Statement};
use serde::Serialize;

use super::account::{Item, Tally};
use super::error::Error;
use super::queue::ChunkDrop;

/// Most unfinished files that a status lists.
pub const UNFINISHED_MAX: usize = 100;

/// Most finished files that a status lists; of more, the first are forgotten.
pub const FINISHED_MAX: usize = 10_000;

/// What the recorder is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// The first file is being made.
    #[default]
    Starting,
    /// Chunks are written.
    Recording,
    /// Nothing can be written. Chunks wait in the queue while there is room, the rest is dropped.
    Degraded {
        /// Name of the reason for which chunks are dropped.
        reason: &'static str,
        /// What went wrong and what to do.
        error: String,
    },
    /// The recorder has ended.
    Stopped,
    /// Nothing is recorded, as the configuration asks for.
    Off,
    /// A thread of the recorder ended by a defect of the program.
    Failed,
}

impl State {
    /// The state while nothing can be written.
    pub(super) fn degraded(reason: ChunkDrop, error: String) -> Self {
        Self::Degraded { reason: reason.name(), error }
    }
}

/// A snapshot of the recorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// What it is doing.
    #[serde(flatten)]
    pub state: State,
    /// Data chunks that are safe.
    pub acknowledged: u64,
    /// Payload bytes of the chunks that are safe.
    pub payload_bytes: u64,
    /// The file that is being written.
    pub present_file: Option<PathBuf>,
    /// Files that have their end and their finished name.
    pub files_finished: u64,
    /// Those files, at most the last [`FINISHED_MAX`].
    pub finished: VecDeque<PathBuf>,
    /// Files that could not be ended, at most [`UNFINISHED_MAX`]: `gannet recover` looks at them.
    pub unfinished: Vec<PathBuf>,
    /// Which files were removed, replaced or truncated while they were written, and what went with
    /// them, at most [`UNFINISHED_MAX`]; and that chunks were left out, as no file may hold them.
    pub losses: Vec<String>,
    /// Times that writing failed and had to be taken up again.
    pub outages: u64,
    /// Times that the disk did not answer for [`DISK_SILENT_MAX`] or longer.
    pub silences: u64,
    /// The last error, also when it is over.
    pub last_error: Option<String>,
    /// Whether the end of the run was given up while a thread waited for the disk. That thread may
    /// still wait: then the system keeps the process until the disk answers.
    pub stuck: bool,
    /// How long the disk has not answered the thread that waits for it, milliseconds.
    pub disk_silent_ms: u64,
    /// Chunks that wait to be written.
    pub queue_chunks: u64,
    /// Memory that they take, bytes.
    pub queue_bytes: u64,
    /// Most memory that they may take, bytes.
    pub queue_bytes_max: u64,
    /// The account of each [`Item`], in their order: delivered means safe.
    pub accounts: Vec<Statement>,
}

/// Silence of the disk from which on it is told that the disk hangs. One that is busy takes a commit
/// in less.
pub const DISK_SILENT_MAX: Duration = Duration::from_millis(500);

impl Status {
    /// The account of one item.
    pub fn account(&self, item: Item) -> &Statement {
        &self.accounts[item as usize]
    }

    /// What keeps the recorder from writing now, and what to do.
    pub fn trouble(&self) -> Option<String> {
        match &self.state {
            State::Degraded { error, .. } => Some(error.clone()),
            State::Failed => self.last_error.clone(),
            _ if u128::from(self.disk_silent_ms) >= DISK_SILENT_MAX.as_millis() => {
                let file = self.present_file.as_ref().map(|file| file.display().to_string());
                Some(format!(
                    "the disk has not answered for {:.1} s while {} was written; what comes waits in \
                     memory, {:.0} % full; look for errors of the disk in dmesg",
                    self.disk_silent_ms as f64 * 1e-3,
                    file.as_deref().unwrap_or("a file"),
                    self.queue_bytes as f64 * 100.0 / self.queue_bytes_max.max(1) as f64
                ))
            }
            _ => None,
        }
    }
}

/// The part of the status that the threads of the recorder write.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub state: State,
    pub payload_bytes: u64,
    pub present_file: Option<PathBuf>,
    pub files_finished: u64,
    pub finished: VecDeque<PathBuf>,
    pub unfinished: Vec<PathBuf>,
    pub losses: Vec<String>,
    pub outages: u64,
    pub last_error: Option<String>,
    /// A chunk was left out, as no file may hold it.
    pub has_left_out: bool,
    /// A thread panicked; nothing takes that back.
    pub failed: bool,
    /// The end of the run was given up while a thread waited for the disk.
    pub stuck: bool,
}

impl Progress {
    /// Remembers an error, and what is gone by it.
    pub fn note_error(&mut self, error: &Error) {
        let text = error.to_string();
        if error.gone().is_some_and(|(items, _)| *items != Tally::default())
            && self.losses.len() < UNFINISHED_MAX
        {
            self.losses.push(text.clone());
        }
        self.last_error = Some(text);
    }

    /// Remembers the first chunk that was left out; the account counts them.
    pub fn note_left_out(&mut self, error: &Error) {
        if !std::mem::replace(&mut self.has_left_out, true) {
            self.losses.push(error.to_string());
        }
    }

    /// Remembers that a thread panicked.
    pub fn note_defect(&mut self) {
        let defect = "a thread of the recorder failed; this is a defect of the program";
        self.last_error = Some(defect.into());
        self.failed = true;
    }

    /// Remembers that the end of the run does not wait for the disk any longer.
    pub fn note_stuck(&mut self, reason: ChunkDrop) {
        if self.stuck {
            return;
        }
        self.stuck = true;
        let file = self.present_file.take();
        let at = file.as_ref().map(|file| format!(" while {} was written", file.display()));
        let error = format!(
            "the disk did not answer{}; what was not safe by then is counted as lost, and `gannet \
             recover` finishes the file once the disk is back",
            at.unwrap_or_default()
        );
        self.last_error = Some(error.clone());
        self.state = State::degraded(reason, error);
        file.into_iter().for_each(|file| self.leave_unfinished(file));
    }

    /// Remembers a file that is finished.
    pub fn note_finished(&mut self, path: PathBuf) {
        self.files_finished += 1;
        if self.finished.len() == FINISHED_MAX {
            self.finished.pop_front();
        }
        self.finished.push_back(path);
    }

    /// Remembers a file that stays unfinished.
    pub fn leave_unfinished(&mut self, path: PathBuf) {
        if self.unfinished.len() < UNFINISHED_MAX {
            self.unfinished.push(path);
        }
    }
}
