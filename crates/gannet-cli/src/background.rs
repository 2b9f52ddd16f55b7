//! Long work that a signal may end.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::signals::Signals;

/// How often signals are looked for.
const INTERVAL: Duration = Duration::from_millis(50);

/// Does `work` in a thread of its own and calls `hear` with all that it sends.
///
/// A signal that asks to stop is returned at once; the work is then left to end with the process.
///
/// # Errors
/// When signals cannot be caught, or the work panicked.
pub fn until_signal<T: Send + 'static>(
    work: impl FnOnce(&Sender<T>) + Send + 'static,
    mut hear: impl FnMut(T),
) -> anyhow::Result<Option<i32>> {
    let signals = Signals::install()?;
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || work(&sender));
    loop {
        match receiver.recv_timeout(INTERVAL) {
            Ok(value) => hear(value),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if let Some(signal) = signals.received() {
            return Ok(Some(signal));
        }
    }
    match worker.join() {
        Ok(()) => Ok(None),
        Err(_) => anyhow::bail!("a thread ended by a defect; please report it"),
    }
}
