//! The thread that makes exports of log files as they are finished, and lists all of them in the manifest.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gannet_log::{RecorderHandle, files};

use super::RunError;
use super::channels::ChannelStatus;
use super::drain::DrainState;
use super::life::{Life, spawn};
use crate::detector::Export;

/// Time between two looks at the recorder.
const LOOK: Duration = Duration::from_millis(200);

/// By how much the thread is less urgent than others, as `nice` counts it.
const LESS_PRIORITY: i32 = 10;

/// What has become of the exports.
#[derive(Clone, Debug, Default)]
pub(super) struct Made {
    /// The exports.
    pub files: Vec<PathBuf>,
    /// Why exports of some log, or their lines in the manifest, are not there.
    pub failures: Vec<String>,
    /// The manifest, once something is listed in it.
    pub manifest: Option<PathBuf>,
}

/// What the thread shares with whoever watches it.
#[derive(Debug, Default)]
pub(super) struct ExportStatus {
    made: Mutex<Made>,
    /// No log will be finished any more.
    complete: AtomicBool,
}

impl ExportStatus {
    /// The exports so far.
    pub fn made(&self) -> Made {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes exports of each log file that the recorder finishes.
pub(super) struct Exporter {
    status: Arc<ExportStatus>,
    thread: JoinHandle<()>,
}

impl Exporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn start(
        export: Option<Export>,
        manifest: bool,
        (status, channels): (&Arc<ExportStatus>, &Arc<ChannelStatus>),
        recorder: &RecorderHandle,
        life: &Arc<Life>,
    ) -> Result<Self, RunError> {
        let maker = Maker {
            export,
            manifest,
            status: Arc::clone(status),
            channels: Arc::clone(channels),
            recorder: recorder.clone(),
        };
        let thread = spawn("exports", life, move || maker.run())?;
        Ok(Self { status: Arc::clone(status), thread })
    }

    /// Waits for the exports of all logs; to be called when the recorder has ended.
    pub fn finish(self, drain: &DrainState) {
        self.status.complete.store(true, Ordering::Release);
        // If it panicked, the run has failed.
        let _panic = drain.join(self.thread);
    }
}

/// What the thread does with a log and with the table of channels.
struct Maker {
    export: Option<Export>,
    /// Whether finished files are listed in the manifest of the run.
    manifest: bool,
    status: Arc<ExportStatus>,
    channels: Arc<ChannelStatus>,
    recorder: RecorderHandle,
}

impl Maker {
    fn run(&self) {
        // Nobody waits for exports while the run goes on; if it cannot be had, all is as usual.
        let _ = rustix::process::nice(LESS_PRIORITY);
        let status = &self.status;
        let mut seen = 0;
        loop {
            let complete = status.complete.load(Ordering::Acquire);
            let recorded = self.recorder.status();
            // The list may have forgotten the first of very many files.
            let forgotten = recorded.files_finished - recorded.finished.len() as u64;
            let known = seen.max(forgotten) as usize - forgotten as usize;
            recorded.finished.iter().skip(known).for_each(|log| self.take(log));
            seen = recorded.files_finished;
            if complete {
                let (channels, _) = self.channels.now();
                channels.file.iter().for_each(|table| self.list(table));
                return;
            }
            thread::sleep(LOOK);
        }
    }

    /// Makes the exports of a log, and lists it with them.
    fn take(&self, log: &Path) {
        self.list(log);
        let Some(export) = &self.export else { return };
        match export(log) {
            Ok(files) => {
                files.iter().for_each(|file| self.list(file));
                self.status.lock().files.extend(files);
            }
            Err(failure) => self.status.lock().failures.push(failure),
        }
    }

    fn list(&self, file: &Path) {
        if !self.manifest {
            return;
        }
        match files::list(file) {
            Ok(Some(manifest)) => self.status.lock().manifest = Some(manifest),
            Ok(None) => (),
            Err(error) => {
                let failure = format!("{} is not in the manifest: {error}", file.display());
                self.status.lock().failures.push(failure);
            }
        }
    }
}
