//! Long work that a signal may end.

use std::ops::ControlFlow;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::signals::Signals;

/// How often signals are looked for.
const INTERVAL: Duration = Duration::from_millis(50);

/// Does `work` in a thread of its own and calls `hear` with all that it sends, until that breaks.
///
/// A signal that asks to stop is returned at once; the work is then, as after a break, left to end
/// with the process.
///
/// # Errors
/// When signals cannot be caught, or the work panicked.
pub fn until_break<T: Send + 'static>(
    work: impl FnOnce(&Sender<T>) + Send + 'static,
    mut hear: impl FnMut(T) -> ControlFlow<()>,
) -> anyhow::Result<Option<i32>> {
    let signals = Signals::install()?;
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || work(&sender));
    loop {
        match receiver.recv_timeout(INTERVAL) {
            Ok(value) => {
                if hear(value).is_break() {
                    return Ok(signals.received());
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if let Some(signal) = signals.received() {
            return Ok(Some(signal));
        }
    }
    match worker.join() {
        Ok(()) => Ok(None),
        Err(_) => anyhow::bail!("a thread stopped on an internal error; please report it"),
    }
}

/// As [`until_break`], and hears all.
///
/// # Errors
/// As [`until_break`].
pub fn until_signal<T: Send + 'static>(
    work: impl FnOnce(&Sender<T>) + Send + 'static,
    mut hear: impl FnMut(T),
) -> anyhow::Result<Option<i32>> {
    until_break(work, |value| {
        hear(value);
        ControlFlow::Continue(())
    })
}

/// What `work` gives, done in a thread of its own; or the signal that asked to stop before.
///
/// # Errors
/// As [`until_break`].
pub fn result<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<ControlFlow<i32, T>> {
    let mut result = None;
    let signal = until_break(
        |results| _ = results.send(work()),
        |value| {
            result = Some(value);
            ControlFlow::Continue(())
        },
    )?;
    match (signal, result) {
        (Some(signal), _) => Ok(ControlFlow::Break(signal)),
        (None, Some(result)) => Ok(ControlFlow::Continue(result)),
        (None, None) => anyhow::bail!("a thread gave no result by a defect; please report it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heard_may_end_the_work() {
        let mut heard = 0;
        let work = |numbers: &Sender<u32>| {
            (0..).take_while(|&number| numbers.send(number).is_ok()).for_each(drop);
        };
        let signal = until_break(work, |number| {
            heard = number;
            if number < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert_eq!((signal.unwrap(), heard), (None, 3));
        assert_eq!(result(|| 5).unwrap(), ControlFlow::Continue(5));
    }
}
