//! The way from the data path to the recorder.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::error::Error;
use super::queue::{Chunk, ChunkDrop, Offer, Queue};
use super::status::{Progress, State, Status};
use super::watch::DiskWatch;

/// How long a flush of a finished file may go on without an answer before the disk is said to hang:
/// it may have gigabytes to take.
const FLUSH_PATIENCE: Duration = Duration::from_secs(10);
/// How long the disk is waited for once the end of a run has been abandoned.
const ABANDONED_PATIENCE: Duration = Duration::from_secs(1);

/// Access to a recorder for any number of threads.
#[derive(Clone)]
pub struct RecorderHandle {
    pub(super) shared: Arc<Shared>,
}

/// What the threads of a recorder share with its handles.
pub(super) struct Shared {
    /// Chunks on their way, and the account.
    pub queue: Queue,
    /// Number of data chunks that are safe; the recorder thread writes it.
    pub acknowledged: AtomicU64,
    /// Since when the recorder thread waits for the disk.
    pub writing: DiskWatch,
    /// Since when the thread that ends files waits for the disk.
    pub sealing: DiskWatch,
    /// How long the end of the run waits for a disk that takes nothing.
    pub drain_within: Duration,
    /// Every chunk was written or given up; what is left is the end of the log.
    pub emptied: AtomicBool,
    draining: OnceLock<Instant>,
    abandoned: OnceLock<Instant>,
    progress: Mutex<Progress>,
}

impl Shared {
    /// The state of a recorder that has yet to start.
    pub fn new(queue_bytes_max: u64, drain_within: Duration) -> Self {
        Self {
            queue: Queue::new(queue_bytes_max),
            acknowledged: AtomicU64::new(0),
            writing: DiskWatch::default(),
            sealing: DiskWatch::default(),
            drain_within,
            emptied: AtomicBool::new(false),
            draining: OnceLock::new(),
            abandoned: OnceLock::new(),
            progress: Mutex::default(),
        }
    }

    /// Whether the end of the run is not to wait for the disk.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.get().is_some()
    }

    /// Whether the run is ending and the disk has not answered for so long that no more is hoped for.
    pub fn is_beyond_hope(&self) -> bool {
        let waited = self.writing.waited().max(self.sealing.waited());
        let over = |since: Option<&Instant>, patience| {
            since.is_some_and(|since| waited.min(since.elapsed()) >= patience)
        };
        over(self.draining.get(), self.drain_within)
            || over(self.abandoned.get(), ABANDONED_PATIENCE)
    }

    /// Counts all that is not safe as lost, while a thread is stuck at the disk.
    pub fn write_off(&self) {
        let reason = if self.is_abandoned() { ChunkDrop::Abandoned } else { ChunkDrop::Deadline };
        self.queue.write_off(reason);
        self.progress().note_stuck(reason);
    }

    /// Remembers an error, and counts what is gone with a file.
    pub fn note_error(&self, error: &Error) {
        if let Some((items, reason)) = error.gone() {
            self.queue.lose(items, reason);
        }
        self.progress().note_error(error);
    }

    /// The writable part of the status. The lock is held for a few stores only.
    pub fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecorderHandle {
    /// Offers a chunk; returns at once.
    pub fn offer(&self, chunk: Chunk) -> Offer {
        match self.shared.queue.offer(chunk) {
            Offer::Busy(chunk) if self.shared.is_beyond_hope() => {
                self.shared.write_off();
                self.shared.queue.offer(chunk)
            }
            answer => answer,
        }
    }

    /// Tells that the run is ending: from now on a disk that does not answer is waited for no longer
    /// than `drain_within`.
    pub fn begin_drain(&self) {
        self.shared.draining.get_or_init(Instant::now);
    }

    /// How long the end of the run waits for a disk that takes nothing.
    pub fn drain_within(&self) -> Duration {
        self.shared.drain_within
    }

    /// Ends a drain at once: what is not written is given up and counted, and the log is closed if
    /// the disk answers within a second.
    pub fn abandon(&self) {
        self.begin_drain();
        self.shared.abandoned.get_or_init(Instant::now);
        self.shared.queue.close(ChunkDrop::Abandoned);
    }

    /// Number of data chunks that are safe: all with a smaller number.
    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Acquire)
    }

    /// Part of the queue's memory in use, 0 to 1.
    pub fn queue_fill(&self) -> f64 {
        let queue = &self.shared.queue;
        queue.fill().1 as f64 / queue.bytes_max().max(1) as f64
    }

    /// What the recorder is doing now.
    pub fn status(&self) -> Status {
        let progress = self.shared.progress().clone();
        let queue = &self.shared.queue;
        let (queue_chunks, queue_bytes) = queue.fill();
        Status {
            state: if progress.failed { State::Failed } else { progress.state },
            acknowledged: self.acknowledged(),
            payload_bytes: progress.payload_bytes,
            present_file: progress.present_file,
            files_finished: progress.files_finished,
            finished: progress.finished,
            unfinished: progress.unfinished,
            losses: progress.losses,
            outages: progress.outages,
            silences: self.shared.writing.silences(),
            last_error: progress.last_error,
            stuck: progress.stuck,
            disk_silent_ms: self.disk_silent().as_millis() as u64,
            queue_chunks,
            queue_bytes,
            queue_bytes_max: queue.bytes_max(),
            accounts: queue.statements(),
        }
    }

    /// How long the disk has not answered.
    fn disk_silent(&self) -> Duration {
        let sealing = self.shared.sealing.waited();
        let long = if sealing >= FLUSH_PATIENCE { sealing } else { Duration::ZERO };
        self.shared.writing.waited().max(long)
    }
}
