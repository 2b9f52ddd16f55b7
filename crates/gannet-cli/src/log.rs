//! Log lines on standard error, also while a panel is drawn there.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gannet_web::LogTail;
use tracing_subscriber::EnvFilter;

/// Lines that wait for the panel; of more, the oldest go.
const WAITING_MAX: usize = 1000;

/// Lines that wait while a panel has the terminal; `None` while there is none.
static WAITING: Mutex<Option<VecDeque<String>>> = Mutex::new(None);

/// What was logged last, for those who look from elsewhere.
pub static TAIL: LogTail = LogTail::new();

fn waiting() -> MutexGuard<'static, Option<VecDeque<String>>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends log lines to standard error, as `RUST_LOG` or the number of `-v` asks. What runs only for a `trial` raises alarms that
/// concern nobody.
pub fn install(verbose: u8, is_trial: bool) {
    let level = match verbose {
        0 if is_trial => "warn,gannet_control::alarm=off",
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_target(false)
        .with_writer(|| Line)
        .init();
}

/// Keeps lines back, for a panel that draws them itself.
pub fn keep_back() {
    waiting().get_or_insert_default();
}

/// The lines that were kept back.
pub fn take() -> Vec<String> {
    waiting().as_mut().map(|lines| lines.drain(..).collect()).unwrap_or_default()
}

/// Writes to standard error again, first what was kept back.
pub fn release() {
    let lines = waiting().take();
    lines.into_iter().flatten().for_each(say);
}

/// Says a line of words for people on standard error; the only way there but for the panel.
///
/// Where standard error is full or closed, nobody listens: that stops nothing.
pub fn say(line: impl Display) {
    put(format!("{line}\n"));
}

/// Puts text on standard error as it is, with the same care.
pub fn put(text: impl AsRef<[u8]>) {
    let _unheard = io::stderr().write_all(text.as_ref());
}

/// Where the subscriber writes; one call a line.
struct Line;

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        TAIL.push(&String::from_utf8_lossy(bytes));
        let mut waiting = waiting();
        let Some(lines) = waiting.as_mut() else {
            // The subscriber would complain of an error on standard error, and panic when it cannot.
            put(bytes);
            return Ok(bytes.len());
        };
        if lines.len() == WAITING_MAX {
            lines.pop_front();
        }
        lines.push_back(String::from_utf8_lossy(bytes).trim_end().to_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
