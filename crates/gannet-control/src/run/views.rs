//! The thread that makes views of log files as they are finished.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gannet_readout::export::{ExportConfig, export};
use gannet_readout::log::RecorderHandle;

use super::RunError;
use super::observe::Observed;

/// Time between two looks at the recorder.
const LOOK: Duration = Duration::from_millis(200);

/// What has become of the views.
#[derive(Clone, Debug, Default)]
pub(super) struct Made {
    /// The views.
    pub files: Vec<PathBuf>,
    /// Why views of some log are not there.
    pub failures: Vec<String>,
}

/// What the thread shares with whoever watches it.
#[derive(Debug, Default)]
pub(super) struct ViewStatus {
    made: Mutex<Made>,
    /// No log will be finished any more.
    complete: AtomicBool,
}

impl ViewStatus {
    /// The views so far.
    pub fn made(&self) -> Made {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes views of each log file that the recorder finishes.
pub(super) struct ViewMaker {
    status: Arc<ViewStatus>,
    thread: JoinHandle<()>,
}

impl ViewMaker {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn start(config: ExportConfig, observed: &Arc<Observed>) -> Result<Self, RunError> {
        let (status, shared) = (Arc::clone(&observed.views), Arc::clone(&observed.views));
        let recorder = observed.recorder.clone();
        let work = move || run(&recorder, &config, &shared);
        let thread = super::setup::spawn("views", observed, work)?;
        Ok(Self { status, thread })
    }

    /// Waits for the views of all logs; to be called when the recorder has ended.
    pub fn finish(self) {
        self.status.complete.store(true, Ordering::Release);
        // If it panicked, the run has failed.
        let _panic = self.thread.join();
    }
}

fn run(recorder: &RecorderHandle, config: &ExportConfig, status: &ViewStatus) {
    let mut seen = 0;
    loop {
        let complete = status.complete.load(Ordering::Acquire);
        let recorded = recorder.status();
        // The list may have forgotten the first of very many files.
        let forgotten = recorded.files_finished - recorded.finished.len() as u64;
        for log in recorded.finished.iter().skip(seen.max(forgotten) as usize - forgotten as usize)
        {
            match export(log, config, &mut |_, _| ()) {
                Ok(exported) => status.lock().files.extend(exported.files),
                Err(error) => status.lock().failures.push(error.to_string()),
            }
        }
        seen = recorded.files_finished;
        if complete {
            return;
        }
        thread::sleep(LOOK);
    }
}
