//! When to let messages gather before looking for them.
//!
//! To sleep until the next message and be woken by it costs nearly as much as to take it. Where
//! messages come often, the thread sleeps for a short time that it knows beforehand, and takes all
//! that has come meanwhile.

use std::time::Duration;

/// How long messages gather: a tenth of the time for which primitives are gathered afterwards.
const PAUSE: Duration = Duration::from_micros(100);
/// Fewest messages that a pause is expected to bring.
const MESSAGES_MIN: u64 = 2;
/// Part of the kernel's memory that may fill in that time; the thread may be woken late.
const ROOM: u64 = 8;
/// Time over which the rate of messages is measured.
const WINDOW_NS: u64 = 1_000_000;

/// Knows how fast messages come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathering {
    /// Bytes that may wait in the kernel.
    room: u64,
    /// What came since a time.
    since_ns: u64,
    messages: u64,
    bytes: u64,
    pays: bool,
}

impl Gathering {
    /// For a socket with `buffer` bytes of kernel memory.
    pub(super) fn new(buffer: u64) -> Self {
        Self { room: buffer / ROOM, since_ns: 0, messages: 0, bytes: 0, pays: false }
    }

    /// How long to let messages gather before looking for them; zero where few come.
    pub(super) fn pause(&self) -> Duration {
        if self.pays { PAUSE } else { Duration::ZERO }
    }

    /// Notes what a look has found.
    pub(super) fn note(&mut self, now_ns: u64, messages: u64, bytes: u64) {
        (self.messages, self.bytes) = (self.messages + messages, self.bytes + bytes);
        let elapsed_ns = now_ns.saturating_sub(self.since_ns);
        if elapsed_ns < WINDOW_NS {
            return;
        }
        let pause_ns = PAUSE.as_nanos() as u64;
        self.pays = self.messages * pause_ns >= MESSAGES_MIN * elapsed_ns
            && self.bytes * pause_ns <= self.room * elapsed_ns;
        (self.since_ns, self.messages, self.bytes) = (now_ns, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: u64 = 7200;

    /// Whether messages gather after so many of so many frames have come in 1 ms.
    fn gathers(buffer: u64, messages: u64, frames: u64) -> bool {
        let mut gathering = Gathering::new(buffer);
        gathering.note(WINDOW_NS, 0, 0);
        gathering.note(2 * WINDOW_NS, messages, messages * frames * FRAME);
        !gathering.pause().is_zero()
    }

    #[test]
    fn messages_gather_where_several_come_in_the_time() {
        // Streams at the true rate send 30.5 frames in 1 ms.
        assert!(gathers(64 << 20, 54, 9), "sixteen streams");
        assert!(gathers(64 << 20, 488, 1), "sixteen streams, frame by frame");
        assert!(!gathers(64 << 20, 19, 9), "five streams");
        assert!(!gathers(64 << 20, 0, 0), "silence");
    }

    #[test]
    fn they_do_not_where_the_kernel_buffer_is_short() {
        assert!(gathers(4 << 20, 54, 9));
        assert!(!gathers(2 << 20, 54, 9));
        assert!(!gathers(208 << 10, 488, 1), "without rights");
    }

    #[test]
    fn it_takes_a_window_to_begin_and_one_to_end() {
        let mut gathering = Gathering::new(64 << 20);
        gathering.note(WINDOW_NS, 0, 0);
        for step in 1..10 {
            gathering.note(WINDOW_NS + step * WINDOW_NS / 10, 6, 6 * FRAME);
            assert!(gathering.pause().is_zero(), "step {step}");
        }
        gathering.note(2 * WINDOW_NS, 6, 6 * FRAME);
        assert!(!gathering.pause().is_zero());
        gathering.note(3 * WINDOW_NS, 0, 0);
        assert!(gathering.pause().is_zero());
    }
}
