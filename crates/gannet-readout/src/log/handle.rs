//! The way from the data path to the recorder.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::queue::{Chunk, Offer, Queue};
use super::status::{Progress, State, Status};

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
    progress: Mutex<Progress>,
}

impl Shared {
    /// The state of a recorder that has yet to start.
    pub fn new(queue_bytes_max: u64) -> Self {
        Self {
            queue: Queue::new(queue_bytes_max),
            acknowledged: AtomicU64::new(0),
            progress: Mutex::default(),
        }
    }

    /// The writable part of the status. The lock is held for a few stores only.
    pub fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecorderHandle {
    /// Offers a chunk; returns at once.
    pub fn offer(&self, chunk: Chunk) -> Offer {
        self.shared.queue.offer(chunk)
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
            chunks_vanished: progress.chunks_vanished,
            outages: progress.outages,
            last_error: progress.last_error,
            queue_chunks,
            queue_bytes,
            queue_bytes_max: queue.bytes_max(),
            account: queue.account().statement("recorder"),
        }
    }
}
