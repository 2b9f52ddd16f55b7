//! Signals that ask the program to stop, and those that must not end it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// Signals that come closer together are one request: `timeout` and some shells send each signal
/// twice, and Ctrl-C repeats while it is held down.
const APART: Duration = Duration::from_millis(500);

/// Requests to stop by SIGINT (Ctrl-C), SIGTERM, and SIGHUP (the terminal is gone).
///
/// Whoever holds this decides what the second request does; none of them ends the program by itself.
/// SIGQUIT (Ctrl-\) still does.
pub struct Signals {
    latest: Arc<AtomicUsize>,
    first: Cell<Option<i32>>,
    requests: Cell<u32>,
    counted_at: Cell<Option<Instant>>,
}

impl Signals {
    /// Takes the signals over. SIGHUP stays ignored where it is, as by `nohup`.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn install() -> io::Result<Self> {
        let latest = Arc::new(AtomicUsize::new(0));
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            flag::register_usize(signal, Arc::clone(&latest), signal as usize)?;
        }
        let (first, requests, counted_at) = (Cell::default(), Cell::default(), Cell::default());
        Ok(Self { latest, first, requests, counted_at })
    }

    /// The number of the signal that first asked to stop.
    pub fn received(&self) -> Option<i32> {
        self.look();
        self.first.get()
    }

    /// How often it was asked for so far. To be called often: signals between two calls are one.
    pub fn requests(&self) -> u32 {
        self.look();
        self.requests.get()
    }

    /// No signal, whatever comes.
    #[cfg(test)]
    pub fn none() -> Self {
        let (first, requests, counted_at) = (Cell::default(), Cell::default(), Cell::default());
        Self { latest: Arc::default(), first, requests, counted_at }
    }

    /// A signal that came long after the last.
    #[cfg(test)]
    pub fn simulate(&self, signal: i32) {
        self.counted_at.set(None);
        self.latest.store(signal as usize, Ordering::Relaxed);
    }

    fn look(&self) {
        let signal = self.latest.swap(0, Ordering::Relaxed);
        if signal == 0 {
            return;
        }
        if self.first.get().is_none() {
            self.first.set(Some(signal as i32));
        }
        if self.counted_at.get().is_none_or(|counted_at| counted_at.elapsed() >= APART) {
            self.requests.set(self.requests.get() + 1);
            self.counted_at.set(Some(Instant::now()));
        }
    }
}

/// Makes a file that grows beyond `ulimit -f` an error of its writer instead of the program's end.
///
/// # Errors
/// When the system refuses.
pub fn outlive_file_limit() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::<AtomicBool>::default()).map(drop)
}

/// Whether the program was started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_in_mask(&status, signal)
}

/// Whether a signal is in the mask `SigIgn` of a process. Source: proc_pid_status(5).
fn is_in_mask(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_found_in_the_mask() {
        let status = "Name:\tgannet\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\n";
        assert!(is_in_mask(status, SIGHUP) && is_in_mask(status, 13));
        assert!(!is_in_mask(status, SIGINT) && !is_in_mask("", SIGHUP));
    }

    #[test]
    fn signals_that_come_together_are_one_request() {
        let signals = Signals::none();
        assert_eq!((signals.requests(), signals.received()), (0, None));
        for signal in [SIGTERM, SIGTERM, SIGINT] {
            signals.latest.store(signal as usize, Ordering::Relaxed);
            assert_eq!((signals.requests(), signals.received()), (1, Some(SIGTERM)));
        }
        signals.simulate(SIGINT);
        assert_eq!((signals.requests(), signals.received()), (2, Some(SIGTERM)));
    }
}
