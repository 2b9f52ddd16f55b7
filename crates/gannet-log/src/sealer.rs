//! The thread that ends files, so that the recorder thread never waits for a whole file to
//! reach the disk.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::disk::Disk;
use super::error::Error;
use super::file::{LeftFile, Seal};
use super::handle::Shared;
use super::status::UNFINISHED_MAX;
use super::writer::SEALS_MAX;

/// Pause between two attempts to end a file.
const RETRY: Duration = Duration::from_millis(250);
/// Attempts after the recorder was stopped.
const TRIES_AT_STOP: u32 = 4;

/// Ends files, each as often as it takes.
pub(super) struct Sealer {
    seals: SyncSender<Seal>,
    shared: Arc<Shared>,
    thread: JoinHandle<Vec<LeftFile>>,
}

impl Sealer {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(disk: Arc<dyn Disk>, shared: Arc<Shared>) -> Result<Self, Error> {
        let (seals, received) = sync_channel(SEALS_MAX);
        let worker = Worker { disk, shared: shared.clone(), pending: Vec::new(), left: Vec::new() };
        let thread = thread::Builder::new()
            .name("gannet-sealer".into())
            .spawn(move || worker.run(&received))
            .map_err(Error::Thread)?;
        Ok(Self { seals, shared, thread })
    }

    /// Hands a file over. When too many wait, this waits for one to be ended: a disk on which files
    /// end more slowly than they begin is too slow, and the queue shows it.
    pub fn push(&self, seal: Seal) {
        if let Err(refused) = self.seals.send(seal) {
            // The thread is gone before its time.
            let mut progress = self.shared.progress();
            progress.note_defect();
            progress.leave_unfinished(refused.0.path().to_owned());
        }
    }

    /// Waits until all files are ended, or have been tried often enough; returns those that could not
    /// be, at most [`UNFINISHED_MAX`].
    pub fn stop(self) -> Vec<LeftFile> {
        drop(self.seals);
        // After a panic its files are left for `recover`.
        self.thread.join().unwrap_or_else(|_| {
            self.shared.progress().note_defect();
            Vec::new()
        })
    }
}

struct Worker {
    disk: Arc<dyn Disk>,
    shared: Arc<Shared>,
    /// At most [`SEALS_MAX`] files.
    pending: Vec<Seal>,
    left: Vec<LeftFile>,
}

impl Worker {
    fn run(mut self, seals: &Receiver<Seal>) -> Vec<LeftFile> {
        loop {
            match self.receive(seals) {
                Ok(seal) if self.pending.len() < SEALS_MAX => self.pending.push(seal),
                Ok(seal) => self.leave(&seal),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.attempt_all();
        }
        for _ in 0..TRIES_AT_STOP {
            if self.pending.is_empty() {
                break;
            }
            thread::sleep(RETRY);
            self.attempt_all();
        }
        for seal in std::mem::take(&mut self.pending) {
            self.leave(&seal);
        }
        self.left
    }

    fn receive(&self, seals: &Receiver<Seal>) -> Result<Seal, RecvTimeoutError> {
        match self.pending.is_empty() {
            true => seals.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => seals.recv_timeout(RETRY),
        }
    }

    fn attempt(&self, seal: &mut Seal) -> Result<(), Error> {
        let watch = &self.shared.sealing;
        watch.during(|| seal.attempt(&*self.disk, &|| watch.touch()))
    }

    fn attempt_all(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain_mut(|seal| match self.attempt(seal) {
            Ok(()) => {
                self.shared.progress().note_finished(seal.path().to_owned());
                tracing::info!(file = %seal.path().display(), "file finished");
                false
            }
            Err(error) => {
                self.shared.note_error(&error);
                if seal.is_hopeless() && !matches!(error, Error::Vanished { .. }) {
                    self.leave(seal);
                }
                !seal.is_hopeless()
            }
        });
        self.pending = pending;
    }

    /// Remembers a file that stays a `.part` file.
    fn leave(&mut self, seal: &Seal) {
        tracing::warn!(file = %seal.path().display(), "file left unfinished");
        self.shared.progress().leave_unfinished(seal.path().to_owned());
        if self.left.len() < UNFINISHED_MAX {
            self.left.push(seal.leave());
        }
    }
}
