//! The recorder: a thread that writes offered chunks to the log, and goes on after any error.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::config::RecorderConfig;
use super::disk::{Disk, SystemDisk};
use super::error::Error;
use super::handle::{RecorderHandle, Shared};
use super::metadata::{EndCause, RunInfo};
use super::queue::{Chunk, Pop, RecordDrop};
use super::sealer::Sealer;
use super::status::{State, Status};
use super::writer::Writer;

/// Longest time between two looks at the directory and its free space.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Pause after the first failed attempt to write; it doubles with every further one.
const RETRY_FIRST: Duration = Duration::from_millis(50);
/// Longest pause between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// How long a stop waits for a disk that fails, before it gives up what is not safe.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// A running recorder. Dropping it stops it.
///
/// Chunks enter by a [`RecorderHandle`]. They are written in the order in which they were accepted,
/// together with others that come within the commit interval. When writing fails, the state is
/// [`State::Degraded`], accepted chunks wait in memory, and the recorder tries again, in a new file
/// of the same directory, at least once a second. Only what does not fit the queue is dropped.
pub struct Recorder {
    handle: RecorderHandle,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Starts to record the run `info`. A directory that is missing or full is no error here: the
    /// recorder is degraded until that has changed.
    ///
    /// # Errors
    /// The configuration is not allowed, or the system gives no thread.
    pub fn start(config: RecorderConfig, info: RunInfo) -> Result<Self, Error> {
        Self::start_on(Arc::new(SystemDisk), config, info)
    }

    /// Like [`start`](Self::start), on a given file system.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_on(
        disk: Arc<dyn Disk>,
        config: RecorderConfig,
        info: RunInfo,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(config.queue_bytes_max.bytes()));
        let commit_interval = config.commit_interval.duration();
        let writer = Writer::new(disk.clone(), config, info)?;
        let sealer = Sealer::start(disk, shared.clone())?;
        let worker = Worker {
            shared: shared.clone(),
            writer,
            commit_interval,
            buffered_payload: 0,
            outage: None,
        };
        let thread = thread::Builder::new()
            .name("gannet-recorder".into())
            .spawn(move || run(worker, sealer))
            .map_err(Error::Thread)?;
        Ok(Self { handle: RecorderHandle { shared }, thread: Some(thread) })
    }

    /// A handle for another thread.
    pub fn handle(&self) -> RecorderHandle {
        self.handle.clone()
    }

    /// Writes all that was accepted, ends the file, and returns the final status. With a disk that
    /// fails it gives up after three seconds; what was not safe then is counted as dropped.
    pub fn stop(mut self) -> Status {
        self.join();
        self.handle.status()
    }

    fn join(&mut self) {
        self.handle.shared.queue.close();
        if let Some(thread) = self.thread.take() {
            // The thread catches its own panics.
            let _ = thread.join();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.join();
    }
}

/// A time in which nothing can be written.
#[derive(Clone, Copy)]
struct Outage {
    reason: RecordDrop,
    /// Pause before the next attempt.
    pause: Duration,
    /// When a stop gives up; set once the queue is closed.
    give_up_at: Option<Instant>,
}

/// What the recorder thread owns.
struct Worker {
    shared: Arc<Shared>,
    writer: Writer,
    commit_interval: Duration,
    buffered_payload: u64,
    outage: Option<Outage>,
}

/// The life of the recorder thread.
fn run(mut worker: Worker, sealer: Sealer) {
    let shared = worker.shared.clone();
    let note_defect = |_panic| shared.progress().note_defect();
    catch_unwind(AssertUnwindSafe(|| worker.record(&sealer))).unwrap_or_else(note_defect);
    let reason = worker.outage.map_or(RecordDrop::WriteError, |outage| outage.reason);
    let lost = shared.queue.give_up(shared.acknowledged.load(Ordering::Acquire), reason);
    let end = || {
        worker.writer.end_file(EndCause::Closed);
        worker.hand_over_seals(&sealer);
    };
    catch_unwind(AssertUnwindSafe(end)).unwrap_or_else(note_defect);
    sealer.stop();
    let mut progress = shared.progress();
    progress.present_file = None;
    // The final state of a run that lost chunks says so.
    if lost == 0 || !matches!(progress.state, State::Degraded { .. }) {
        progress.state = State::Stopped;
    }
}

impl Worker {
    /// Writes chunks until the queue is closed and empty.
    fn record(&mut self, sealer: &Sealer) {
        loop {
            let outcome = self.writer.commit();
            match outcome {
                Ok(acknowledged) => self.note_success(acknowledged),
                Err(error) => self.note_failure(&error),
            }
            self.hand_over_seals(sealer);
            if self.is_done() {
                return;
            }
            match self.outage {
                None => self.gather(),
                Some(outage) => self.wait_out(outage.pause),
            }
        }
    }

    fn hand_over_seals(&mut self, sealer: &Sealer) {
        for seal in self.writer.take_pending() {
            sealer.push(seal);
        }
    }

    /// Whether there is nothing left to write, or no hope left to write it.
    fn is_done(&self) -> bool {
        let queue = &self.shared.queue;
        let nothing_left = queue.fill().0 == 0 && self.writer.buffered_chunks() == 0;
        let no_hope = self.outage.and_then(|outage| outage.give_up_at);
        queue.is_closed() && (nothing_left || no_hope.is_some_and(|at| Instant::now() >= at))
    }

    /// Fills the commit buffer until it is full or the commit interval is over.
    fn gather(&mut self) {
        let mut until = Instant::now() + CHECK_INTERVAL;
        let writer = &self.writer;
        let first = self.shared.queue.pop(until, |chunk| writer.has_room(chunk.payload_len()));
        let Pop::Chunk(chunk) = first else { return };
        self.append(&chunk);
        until = Instant::now() + self.commit_interval;
        while self.append_next(until) {}
    }

    /// Moves a chunk from the queue to the commit buffer; false when none came or fits.
    fn append_next(&mut self, until: Instant) -> bool {
        let writer = &self.writer;
        match self.shared.queue.pop(until, |chunk| writer.has_room(chunk.payload_len())) {
            Pop::Chunk(chunk) => {
                self.append(&chunk);
                true
            }
            Pop::NoRoom | Pop::Timeout | Pop::Closed => false,
        }
    }

    fn append(&mut self, chunk: &Chunk) {
        // The queue has refused what the writer refuses, and there is room.
        let appended = self.writer.append(&chunk.label, &chunk.parts);
        assert!(appended.is_ok(), "{appended:?}");
        self.buffered_payload += chunk.payload_len() as u64;
    }

    /// Waits before the next attempt, and fills the commit buffer meanwhile.
    fn wait_out(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        while self.append_next(until) {}
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }

    fn note_success(&mut self, acknowledged: u64) {
        let shared = &self.shared;
        shared.queue.deliver(acknowledged - shared.acknowledged.load(Ordering::Relaxed));
        shared.acknowledged.store(acknowledged, Ordering::Release);
        if self.outage.take().is_some() {
            shared.queue.set_outage(None);
            tracing::info!("recording resumed");
        }
        let mut progress = shared.progress();
        progress.payload_bytes += std::mem::take(&mut self.buffered_payload);
        progress.present_file = self.writer.present_file();
        progress.state = State::Recording;
    }

    fn note_failure(&mut self, error: &Error) {
        let shared = &self.shared;
        let reason = reason_of(error);
        let pause = match self.outage {
            None => RETRY_FIRST,
            Some(outage) => (outage.pause * 2).min(RETRY_MAX),
        };
        let mut give_up_at = self.outage.and_then(|outage| outage.give_up_at);
        if shared.queue.is_closed() {
            give_up_at.get_or_insert_with(|| Instant::now() + STOP_PATIENCE);
        }
        shared.queue.set_outage(Some(reason));
        let mut progress = shared.progress();
        if self.outage.is_none() {
            progress.outages += 1;
            tracing::warn!(%error, "recording interrupted");
        }
        self.outage = Some(Outage { reason, pause, give_up_at });
        progress.note_error(error);
        progress.present_file = self.writer.present_file();
        progress.state = State::degraded(reason, error.to_string());
    }
}

/// The reason for which chunks are dropped while this error lasts.
fn reason_of(error: &Error) -> RecordDrop {
    match error {
        Error::DiskReserve { .. } => RecordDrop::DiskFull,
        Error::NoDirectory(_) | Error::Vanished { .. } => RecordDrop::DirectoryMissing,
        Error::Io { source, .. } => match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => RecordDrop::DiskFull,
            ErrorKind::NotFound => RecordDrop::DirectoryMissing,
            _ => RecordDrop::WriteError,
        },
        _ => RecordDrop::WriteError,
    }
}
