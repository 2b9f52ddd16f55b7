//! Time, real and virtual, in nanoseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A monotonic clock, read in nanoseconds since an arbitrary origin.
///
/// State machines never read a clock; whoever drives them passes the time in.
pub trait Clock: Send + Sync {
    /// Nanoseconds since the origin of this clock.
    fn now_ns(&self) -> u64;
}

/// The monotonic clock of the machine; its origin is the moment of its creation.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock that starts at zero now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
}

/// A clock that stands still until it is told to move, for tests and simulation.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now_ns: AtomicU64,
}

impl VirtualClock {
    /// Moves the clock forward by `ns` nanoseconds.
    pub fn advance_ns(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_moves_only_when_told() {
        let clock = VirtualClock::default();
        assert_eq!(clock.now_ns(), 0);
        clock.advance_ns(32_768);
        assert_eq!(clock.now_ns(), 32_768);
    }

    #[test]
    fn system_time_never_runs_back() {
        let clock = SystemClock::start();
        let first = clock.now_ns();
        assert!(clock.now_ns() >= first);
    }
}
