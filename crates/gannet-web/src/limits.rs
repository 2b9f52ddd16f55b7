//! What clients may ask for at most.

use std::fs;
use std::time::Duration;

/// Most connections at a time unless something else is asked for. Further ones are answered 503 and closed at once; where
/// TLS is spoken, they are closed.
pub const CONNECTIONS_MAX: usize = 64;

/// One in so many connections is kept for clients whose address has none.
pub const NEWCOMERS_SHARE: usize = 8;

/// Descriptors of the process that connections leave free, for the files of the run.
pub const DESCRIPTORS_RESERVED: usize = 32;

/// Longest request line with its header fields, in bytes.
pub const HEADER_BYTES_MAX: usize = 16 << 10;

/// Longest body of a request, in bytes.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// Longest key of a command, in bytes.
pub const KEY_BYTES_MAX: usize = 64;

/// Commands whose keys and answers are kept; an older one that comes again is a new one.
pub const KEYS_MAX: usize = 256;

/// Time in which a request has to arrive, counted from the end of the one before it. It is also how
/// long a connection may be idle.
pub const REQUEST_TIME: Duration = Duration::from_secs(5);

/// Time in which a client that has an answer waiting must take [`ANSWER_BYTES_MIN`] of it.
pub const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Least part of a waiting answer to be taken in [`ANSWER_TIME`], in bytes.
pub const ANSWER_BYTES_MIN: usize = 64 << 10;

/// Connections that the kernel holds until they are accepted.
pub const BACKLOG: u32 = 128;

/// Kernel memory that each direction of a connection asks for, in bytes.
pub const SOCKET_BYTES: u32 = 128 << 10;

/// Requests answered in a second, over all connections. Further ones wait their turn.
pub const REQUESTS_PER_S: f64 = 2000.0;

/// Bytes of an answer that count as one more request.
pub const BYTES_PER_TURN: usize = 64 << 10;

/// Frames that are copied for a waveform that count as one more request.
pub const FRAMES_PER_TURN: usize = 8;

/// Primitives of an answer that count as one more request.
pub const MARKS_PER_TURN: usize = 2000;

/// Lines of the log that are kept to be shown.
pub const LOG_LINES_MAX: usize = 1000;

/// Longest part of a line of the log that is kept, in characters.
pub const LOG_LINE_CHARS_MAX: usize = 1000;

/// Files of runs that have numbers; later ones have none.
pub const FILES_MAX: usize = 4096;

/// Copies of files that are on their way at a time.
pub const DOWNLOADS_MAX: usize = 2;

/// Bytes of a file that are sent in a second, so that reading it does not keep the recorder from writing.
pub const DOWNLOAD_BYTES_PER_S: f64 = 64e6;

/// Connections accepted or refused in a second.
pub const ACCEPTS_PER_S: f64 = 1000.0;

/// Pause after a connection could not be accepted, for lack of descriptors or memory.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of superseded answers that slow clients keep alive; beyond it no newer answer is made. A
/// process whose answers are large may keep four of them.
pub const FORMS_BYTES_MAX: usize = 4 << 20;

/// Time that a stop waits for the server's thread, which waits for no client.
pub const STOP_TIME: Duration = Duration::from_secs(1);

/// Connections that this process can have without taking descriptors from the run, `most` if there are enough.
pub(crate) fn connections(most: usize) -> usize {
    let free = descriptors().map_or(usize::MAX, |(limit, open)| limit.saturating_sub(open));
    free.saturating_sub(DESCRIPTORS_RESERVED).clamp(1, most.max(1))
}

/// How many descriptors the process may have, and has.
fn descriptors() -> Option<(usize, usize)> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    // "unlimited" is no number, and no limit.
    let limit = line.split_whitespace().next()?.parse().ok()?;
    Some((limit, fs::read_dir("/proc/self/fd").ok()?.count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_counted() {
        let (limit, open) = descriptors().expect("a system with /proc");
        assert!(open >= 3 && open < limit, "{open} of {limit}");
        assert!((1..=CONNECTIONS_MAX).contains(&connections(CONNECTIONS_MAX)));
    }
}
