//! How far a long work is, on a line of the terminal.

use std::fmt::Display;
use std::io;
use std::time::{Duration, Instant};

use crate::{log, output};

/// A line on the terminal that tells how far the work is; gone when dropped.
pub struct Progress {
    name: String,
    terminal: bool,
    shown: Option<Instant>,
}

impl Progress {
    /// How often the line changes.
    const INTERVAL: Duration = Duration::from_millis(100);

    /// The line of the work `name`; nothing is shown where standard error is no terminal, or one
    /// that cannot take a line back.
    pub fn new(name: impl Display) -> Self {
        Self {
            name: name.to_string(),
            terminal: output::takes_control_codes(&io::stderr()),
            shown: None,
        }
    }

    /// Tells that `done` of `total` is done.
    pub fn show(&mut self, done: u64, total: u64) {
        let due = self.shown.is_none_or(|shown| shown.elapsed() >= Self::INTERVAL);
        if !self.terminal || !due {
            return;
        }
        self.shown = Some(Instant::now());
        let percent = u128::from(done) * 100 / u128::from(total.max(1));
        log::put(format!("\r\x1b[K{}: {percent} %", self.name));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            log::put("\r\x1b[K");
        }
    }
}
