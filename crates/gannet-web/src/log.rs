//! The last lines of the process's log.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calls::{Ask, Reply};
use crate::limits::{LOG_LINE_CHARS_MAX, LOG_LINES_MAX};
use crate::problem::Problem;

/// The last lines of a log.
#[derive(Debug, Default)]
pub struct LogTail(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    /// Number of the first of them; lines are counted from 0.
    first: u64,
}

impl LogTail {
    /// No lines yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Kept { lines: VecDeque::new(), first: 0 }))
    }

    /// Adds a line; of more than [`LOG_LINES_MAX`] the oldest goes, and of a long line the end.
    pub fn push(&self, line: &str) {
        let line = line.trim_end().chars().take(LOG_LINE_CHARS_MAX).collect();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.lines.len() == LOG_LINES_MAX {
            kept.lines.pop_front();
            kept.first += 1;
        }
        kept.lines.push_back(line);
    }

    /// The newest `last` lines of those from the number `from` on.
    fn newest(&self, from: u64, last: usize) -> Lines {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = usize::try_from(from.saturating_sub(kept.first)).unwrap_or(usize::MAX);
        let skipped = wanted.max(kept.lines.len().saturating_sub(last)).min(kept.lines.len());
        let lines = kept.lines.iter().skip(skipped).cloned().collect();
        Lines { first: kept.first + skipped as u64, lines }
    }
}

/// Which lines are to be shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Number of the first line, as it follows from `first` and the number of lines of the answer before; the oldest
    /// that is kept where it is absent.
    #[serde(default)]
    from: u64,
    /// The newest of them, so many at most: 1 to 1000.
    #[serde(default = "last")]
    last: usize,
}

fn last() -> usize {
    100
}

/// Lines of the log.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LogLines")]
pub(crate) struct Lines {
    /// Number of the first of them, counted from 0 since the start of the process.
    first: u64,
    /// The lines, oldest first. They are text, whatever they look like.
    lines: Vec<String>,
}

/// The last lines of the log.
pub(crate) async fn log(ask: Ask<Wanted>) -> Result<Reply<Lines>, Problem> {
    let Wanted { from, last } = ask.wanted;
    if !(1..=LOG_LINES_MAX).contains(&last) {
        let detail = format!("last={last} is not 1 to {LOG_LINES_MAX} lines");
        return Err(match last {
            0 => Problem::new(StatusCode::BAD_REQUEST, "too-little", detail),
            _ => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-much", detail),
        });
    }
    let tail = ask.shared.log.ok_or_else(|| {
        let detail = "this process keeps no lines of its log";
        Problem::new(StatusCode::NOT_FOUND, "no-log", detail)
    })?;
    Ok(Reply::json(tail.newest(from, last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_can_be_followed() {
        let tail = LogTail::new();
        let told = |from, last| {
            let Lines { first, lines } = tail.newest(from, last);
            (first, lines.len(), lines.last().cloned())
        };
        assert_eq!(told(0, 10), (0, 0, None));
        (0..5).for_each(|number| tail.push(&format!("line {number}\n")));
        assert_eq!(told(0, 10), (0, 5, Some("line 4".into())));
        assert_eq!(told(0, 2), (3, 2, Some("line 4".into())));
        assert_eq!(told(4, 10), (4, 1, Some("line 4".into())));
        assert_eq!(told(5, 10), (5, 0, None));
        assert_eq!(told(u64::MAX, 10).1, 0);
        (5..LOG_LINES_MAX as u64 + 7).for_each(|number| tail.push(&format!("line {number}")));
        tail.push(&"x".repeat(2 * LOG_LINE_CHARS_MAX));
        let Lines { first, lines } = tail.newest(0, LOG_LINES_MAX);
        assert_eq!((first, lines.len(), &*lines[0]), (8, LOG_LINES_MAX, "line 8"));
        assert_eq!(lines[LOG_LINES_MAX - 1].len(), LOG_LINE_CHARS_MAX);
    }
}
