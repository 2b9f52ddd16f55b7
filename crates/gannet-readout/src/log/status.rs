//! What the recorder is doing, for whoever watches it.

use std::collections::VecDeque;
use std::path::PathBuf;

use gannet_measure::ledger::{Reason, Statement};
use serde::Serialize;

use super::error::Error;
use super::queue::RecordDrop;

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
    /// A thread of the recorder ended by a defect of the program.
    Failed,
}

impl State {
    /// The state while nothing can be written.
    pub(super) fn degraded(reason: RecordDrop, error: String) -> Self {
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
    /// Safe chunks that are gone, because their file was removed or replaced while it was written.
    pub chunks_vanished: u64,
    /// Times that writing failed and had to be taken up again.
    pub outages: u64,
    /// The last error, also when it is over.
    pub last_error: Option<String>,
    /// Chunks that wait to be written.
    pub queue_chunks: u64,
    /// Memory that they take, bytes.
    pub queue_bytes: u64,
    /// Most memory that they may take, bytes.
    pub queue_bytes_max: u64,
    /// The account over chunks: delivered means safe.
    pub account: Statement,
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
    pub chunks_vanished: u64,
    pub outages: u64,
    pub last_error: Option<String>,
    /// A thread panicked; nothing takes that back.
    pub failed: bool,
}

impl Progress {
    /// Remembers an error, and counts the chunks that are gone with a file.
    pub fn note_error(&mut self, error: &Error) {
        self.last_error = Some(error.to_string());
        if let Error::Vanished { chunks, .. } = error {
            self.chunks_vanished += chunks;
        }
    }

    /// Remembers that a thread panicked.
    pub fn note_defect(&mut self) {
        let defect = "a thread of the recorder failed; this is a defect of the program";
        self.last_error = Some(defect.into());
        self.failed = true;
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
