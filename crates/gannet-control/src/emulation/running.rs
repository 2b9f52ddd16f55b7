//! A thread that sends frames, and how it is watched and stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::{EmulationError, Progress};

/// A thread that sends frames and ends with a report `R`; dropping it stops it.
#[derive(Debug)]
pub struct Running<R> {
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<Result<R, EmulationError>>>,
}

impl<R: Send + 'static> Running<R> {
    /// Starts `work`, which is to end soon after the flag given to it is set.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn(
        name: &str,
        progress: Arc<Progress>,
        work: impl FnOnce(&AtomicBool) -> Result<R, EmulationError> + Send + 'static,
    ) -> Result<Self, EmulationError> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = thread::Builder::new().name(name.into()).spawn(move || work(&asked));
        Ok(Self { stop, progress, thread: Some(thread.map_err(EmulationError::Thread)?) })
    }

    /// Waits for the end and gives the report.
    ///
    /// # Errors
    /// When sending failed on the way.
    pub fn join(mut self) -> Result<R, EmulationError> {
        let thread = self.thread.take().ok_or(EmulationError::Defect)?;
        thread.join().map_err(|_| EmulationError::Defect)?
    }
}

impl<R> Running<R> {
    /// Figures that change while it runs.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Whether it has sent all that it was asked for, or failed.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks it to end after the burst in hand.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl<R> Drop for Running<R> {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _report = thread.join();
        }
    }
}
