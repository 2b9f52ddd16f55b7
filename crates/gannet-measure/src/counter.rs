//! Counters and gauges that one thread writes and any thread reads.

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

/// A figure with a fraction that is not known until it is first set; one writer, any number of
/// readers.
#[derive(Debug)]
pub struct Gauge(AtomicU64);

/// Not known.
impl Default for Gauge {
    fn default() -> Self {
        Self(AtomicU64::new(f64::NAN.to_bits()))
    }
}

impl Gauge {
    /// Replaces the figure.
    #[inline]
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// The figure now; `None` before it was set, or when it was set to what is no number.
    #[inline]
    pub fn get(&self) -> Option<f64> {
        let value = f64::from_bits(self.0.load(Ordering::Relaxed));
        (!value.is_nan()).then_some(value)
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

    #[test]
    fn a_gauge_is_unknown_until_it_is_set() {
        let gauge = Gauge::default();
        assert_eq!(gauge.get(), None);
        gauge.set(0.0);
        assert_eq!(gauge.get(), Some(0.0));
    }
}
