//! The thread that finishes logs which earlier runs in the same directory could not.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::RunError;
use super::drain::DrainState;

/// Recovers logs of earlier runs while a new one is taken.
pub(super) struct Recovery {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Recovery {
    /// Starts the thread, if there is anything to recover among `files`.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(files: Vec<PathBuf>) -> Result<Option<Self>, RunError> {
        if files.is_empty() {
            return Ok(None);
        }
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("gannet-recover".into())
            .spawn(move || recover(&files, &stopped))
            .map_err(RunError::Thread)?;
        Ok(Some(Self { stop, thread }))
    }

    /// Ends the thread after the file in hand; the others are left to the next run.
    pub fn finish(self, drain: &DrainState) {
        self.stop.store(true, Ordering::Release);
        if drain.join(self.thread).is_err() {
            tracing::error!(
                "recovery of earlier runs stopped on an internal error; please report it"
            );
        }
    }
}

fn recover(files: &[PathBuf], stop: &AtomicBool) {
    for (place, path) in files.iter().enumerate() {
        if stop.load(Ordering::Acquire) {
            let left = files.len() - place;
            tracing::warn!(left, "unfinished logs of earlier runs; run `gannet recover` on them");
            return;
        }
        match gannet_log::recover(path) {
            Ok(recovered) => tracing::info!(file = %recovered.file.display(), "recovered"),
            Err(gannet_log::Error::InUse { .. }) => (),
            Err(error) => tracing::warn!(file = %path.display(), %error, "not recovered"),
        }
    }
}
