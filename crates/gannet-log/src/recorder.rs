//! The recorder: a thread that writes offered chunks to the log, and goes on after any error.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gannet_measure::ledger::Statement;

use super::account::Tally;
use super::config::RecorderConfig;
use super::disk::{Disk, SystemDisk};
use super::error::Error;
use super::handle::{RecorderHandle, Shared};
use super::metadata::{ItemAccount, RunInfo};
use super::queue::{Chunk, ChunkDrop, Pop};
use super::sealer::Sealer;
use super::status::{State, Status};
use super::writer::{AccountSource, LeftOut, Writer};

/// Longest time between two looks at the directory and its free space.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Pause after the first failed attempt to write; it doubles with every further one.
const RETRY_FIRST: Duration = Duration::from_millis(50);
/// Longest pause between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// Time between two looks at threads that are to end.
const LOOK: Duration = Duration::from_millis(1);

/// A running recorder. Dropping it stops it.
///
/// Chunks enter by a [`RecorderHandle`]. They are written in the order in which they were accepted,
/// together with others that come within the commit interval. When writing fails, the state is
/// [`State::Degraded`], accepted chunks wait in memory, and the recorder tries again, in a new file
/// of the same directory, at least once a second. Only what does not fit the queue is dropped.
///
/// A disk that hangs gives no error and cannot be interrupted. While the run goes on, the status
/// tells of it; its end waits no longer than `drain_within`, and then leaves the thread behind.
pub struct Recorder {
    handle: RecorderHandle,
    thread: Option<JoinHandle<()>>,
    last: Option<SyncSender<LastWords>>,
}

/// What stands at the end of the log of a run.
#[derive(Debug)]
pub struct LastWords {
    /// The last chunk of data, with the totals of the run. There is space for 1 MiB of it even if the
    /// disk is full.
    pub chunk: Chunk,
    /// What became of the items of the run, for the end chunk.
    pub account: Vec<Statement>,
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
        let drain_within = config.drain_within.duration();
        let shared = Arc::new(Shared::new(config.queue_bytes_max.bytes(), drain_within));
        let commit_interval = config.commit_interval.duration();
        let writer = Writer::new(disk.clone(), config, info)?.with_account(account_of(&shared));
        let sealer = Sealer::start(disk, shared.clone())?;
        let worker = Worker {
            shared: shared.clone(),
            writer,
            commit_interval,
            delivered: Tally::default(),
            outage: None,
        };
        let (last, words) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("gannet-recorder".into())
            .spawn(move || run(worker, sealer, &words))
            .map_err(Error::Thread)?;
        Ok(Self { handle: RecorderHandle { shared }, thread: Some(thread), last: Some(last) })
    }

    /// A recorder that records nothing: what it is offered is dropped as `not_recorded`.
    pub fn off() -> Self {
        let shared = Arc::new(Shared::new(0, RecorderConfig::default().drain_within.duration()));
        shared.queue.close(ChunkDrop::NotRecorded);
        shared.progress().state = State::Off;
        Self { handle: RecorderHandle { shared }, thread: None, last: None }
    }

    /// Waits until it is known whether anything can be recorded.
    ///
    /// # Errors
    /// [`Error::NothingRecorded`] with the cause: the first file could not be made, or the disk has
    /// not answered for the time `within`.
    pub fn wait_for_first_file(&self, within: Duration) -> Result<(), Error> {
        loop {
            let status = self.handle.status();
            match status.state {
                State::Starting => {}
                State::Degraded { error, .. } => return Err(Error::NothingRecorded(error)),
                State::Failed => {
                    return Err(Error::NothingRecorded(status.last_error.unwrap_or_default()));
                }
                State::Recording | State::Stopped | State::Off => return Ok(()),
            }
            if self.handle.shared.writing.waited() >= within {
                // Whoever drops the recorder now does not wait for the disk either.
                self.handle.abandon();
                let error = "the disk does not answer; look for its errors in dmesg";
                return Err(Error::NothingRecorded(error.into()));
            }
            thread::sleep(LOOK);
        }
    }

    /// A handle for another thread.
    pub fn handle(&self) -> RecorderHandle {
        self.handle.clone()
    }

    /// Writes all that was accepted, ends the file, and returns the final status. A disk that takes
    /// nothing is waited for no longer than `drain_within`; what was not safe then is counted as
    /// dropped.
    pub fn stop(mut self) -> Status {
        self.end();
        self.handle.status()
    }

    /// The same, with `last` at the end of the log. It is asked for when the account of what was
    /// accepted is final.
    pub fn finish(mut self, last: impl FnOnce() -> LastWords) -> Status {
        if self.empty()
            && let Some(sender) = self.last.take()
        {
            // If the thread is gone, the status says so.
            let _ = sender.send(last());
        }
        self.end();
        self.handle.status()
    }

    /// Waits until all chunks are written or given up; false when the disk does not answer.
    fn empty(&self) -> bool {
        let shared = &self.handle.shared;
        self.handle.begin_drain();
        shared.queue.close(ChunkDrop::Stopped);
        self.wait_until(|| shared.emptied.load(Ordering::Acquire))
    }

    /// Waits for the thread, unless it is stuck.
    fn end(&mut self) {
        let emptied = self.empty();
        self.last = None;
        if emptied && self.wait_until(|| false) {
            // The thread catches its own panics.
            self.thread.take().into_iter().for_each(|thread| _ = thread.join());
        }
    }

    /// Waits until `done`, or the end of the thread. A thread that is stuck is given up: false.
    fn wait_until(&self, done: impl Fn() -> bool) -> bool {
        let shared = &self.handle.shared;
        while !done() && self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            if shared.is_beyond_hope() {
                shared.write_off();
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.thread.is_some() && !self.handle.shared.progress().stuck {
            self.end();
        }
    }
}

/// Where the writer learns what became of the items of the run so far.
fn account_of(shared: &Arc<Shared>) -> AccountSource {
    let shared = Arc::clone(shared);
    Box::new(move || told(&shared.queue.statements()))
}

/// Statements as the end chunk tells them: those of which there was anything.
fn told(statements: &[Statement]) -> Vec<ItemAccount> {
    let used = statements.iter().filter(|statement| statement.offered > 0);
    used.map(ItemAccount::from).collect()
}

/// A time in which nothing can be written.
#[derive(Clone, Copy)]
struct Outage {
    reason: ChunkDrop,
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
    /// What was counted as safe so far.
    delivered: Tally,
    outage: Option<Outage>,
}

/// The life of the recorder thread.
fn run(mut worker: Worker, sealer: Sealer, last: &Receiver<LastWords>) {
    let shared = worker.shared.clone();
    let note_defect = |_panic| shared.progress().note_defect();
    catch_unwind(AssertUnwindSafe(|| worker.record(&sealer))).unwrap_or_else(note_defect);
    let reason = match worker.outage {
        Some(outage) => outage.reason,
        None if shared.is_abandoned() => ChunkDrop::Abandoned,
        None => ChunkDrop::WriteError,
    };
    shared.queue.close(ChunkDrop::Stopped);
    let mut lost = shared.queue.give_up(reason);
    shared.emptied.store(true, Ordering::Release);
    // Without last words the recorder is being dropped.
    let last = last.recv().ok();
    catch_unwind(AssertUnwindSafe(|| worker.end(last, &sealer))).unwrap_or_else(note_defect);
    let left = sealer.stop();
    lost.add(&shared.queue.give_up(ChunkDrop::WriteError));
    for file in left {
        let (gone, found) = file.scan(worker.writer.acknowledged());
        shared.queue.lose(&gone, ChunkDrop::NotKept);
        shared.queue.regain(&found, reason);
    }
    let mut progress = shared.progress();
    if progress.stuck {
        return;
    }
    progress.present_file = None;
    // The final state of a run that lost chunks says so.
    if lost == Tally::default() || !matches!(progress.state, State::Degraded { .. }) {
        progress.state = State::Stopped;
    }
}

impl Worker {
    /// Writes chunks until the queue is closed and empty.
    fn record(&mut self, sealer: &Sealer) {
        loop {
            let outcome = self.shared.writing.during(|| self.writer.commit());
            match outcome {
                Ok(_) if self.note_acknowledged() => self.note_success(),
                Ok(_) => {}
                Err(error) => {
                    // A full disk takes the chunks that fit.
                    self.note_acknowledged();
                    self.note_failure(&error);
                }
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

    /// Writes the last words and ends the last file.
    fn end(&mut self, last: Option<LastWords>, sealer: &Sealer) {
        let shared = &self.shared;
        let mut told = self::told(&shared.queue.statements());
        if let Some(LastWords { chunk, account }) = last {
            told = self::told(&account);
            let items = Tally::of(&chunk.label);
            shared.queue.accept_last(&items);
            let writer = &mut self.writer;
            let mut write =
                || shared.writing.during(|| writer.commit_last(&chunk.label, &chunk.parts));
            let mut written = write();
            if let Err(error) = &written
                && let Some((items, reason)) = error.gone()
            {
                // The file was lost since the last commit, and the end goes to one of its own.
                shared.note_error(error);
                ItemAccount::lose(&mut told, items, reason);
                written = write();
            }
            match written {
                Ok(acknowledged) => {
                    let _too_late = shared.queue.deliver(&items);
                    shared.acknowledged.store(acknowledged, Ordering::Release);
                    shared.progress().payload_bytes = self.writer.payload_bytes();
                }
                Err(error) => shared.note_error(&error),
            }
        }
        self.writer.end_run(told);
        self.hand_over_seals(sealer);
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
        if self.shared.is_abandoned() || queue.is_written_off() {
            return true;
        }
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
    }

    /// Waits before the next attempt, and fills the commit buffer meanwhile.
    fn wait_out(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        while self.append_next(until) {}
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }

    /// Counts what was written as safe; false when it had been written off before.
    fn note_acknowledged(&mut self) -> bool {
        let shared = &self.shared;
        let mut items = self.writer.acknowledged_items();
        items.take(&self.delivered);
        if !shared.queue.deliver(&items) {
            self.writer.retract();
            return false;
        }
        self.delivered.add(&items);
        let LeftOut { items, error } = self.writer.take_left_out();
        shared.queue.lose(&items, ChunkDrop::FileLimit);
        error.into_iter().for_each(|error| shared.progress().note_left_out(&error));
        shared.acknowledged.store(self.writer.acknowledged(), Ordering::Release);
        shared.progress().payload_bytes = self.writer.payload_bytes();
        true
    }

    fn note_success(&mut self) {
        let shared = &self.shared;
        if self.outage.take().is_some() {
            shared.queue.set_outage(None);
            tracing::info!("recording resumed");
        }
        let mut progress = shared.progress();
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
            give_up_at.get_or_insert_with(|| Instant::now() + shared.drain_within);
        }
        shared.queue.set_outage(Some(reason));
        let mut progress = shared.progress();
        if self.outage.is_none() {
            progress.outages += 1;
            tracing::warn!(%error, "recording interrupted");
        }
        self.outage = Some(Outage { reason, pause, give_up_at });
        drop(progress);
        shared.note_error(error);
        let mut progress = shared.progress();
        progress.present_file = self.writer.present_file();
        progress.state = State::degraded(reason, error.to_string());
    }
}

/// The reason for which chunks are dropped while this error lasts.
fn reason_of(error: &Error) -> ChunkDrop {
    match error {
        Error::DiskReserve { .. } => ChunkDrop::DiskFull,
        Error::FileTooLarge { .. } => ChunkDrop::FileLimit,
        Error::NoDirectory(_) | Error::Vanished { .. } => ChunkDrop::DirectoryMissing,
        Error::Io { source, .. } => match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ChunkDrop::DiskFull,
            ErrorKind::NotFound => ChunkDrop::DirectoryMissing,
            _ => ChunkDrop::WriteError,
        },
        _ => ChunkDrop::WriteError,
    }
}
