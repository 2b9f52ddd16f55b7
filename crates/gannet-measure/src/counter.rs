//! Event counters that one thread writes and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count of events with one writer and any number of readers.
///
/// Adding is a plain load and store, not a locked instruction, because only one thread adds.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread may call this; a second writer would lose counts.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Replaces the value, for gauges and for totals kept elsewhere (by the kernel, for example).
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Raises the value to `value` if that is larger, for high-water marks.
    #[inline]
    pub fn raise(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// The value now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_keeps_the_high_water_mark() {
        let counter = Counter::default();
        counter.add(2);
        counter.add(3);
        assert_eq!(counter.get(), 5);
        counter.raise(4);
        assert_eq!(counter.get(), 5);
        counter.raise(9);
        assert_eq!(counter.get(), 9);
    }
}
