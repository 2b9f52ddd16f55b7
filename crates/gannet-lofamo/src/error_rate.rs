//! Too many errors in a stretch of time or bits?

use super::thresholds::HYSTERESIS;

/// Counts errors in windows of one length, with hysteresis.
///
/// Too many are noticed at the error that makes them too many, not at the end of the window. That
/// they are few again takes a whole window with no more than half the limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorRate {
    length: u64,
    limit: u32,
    used: u64,
    errors: u32,
    is_high: bool,
}

impl ErrorRate {
    /// Counter of errors in windows of `length`, high at more than `limit`.
    pub fn new(length: u64, limit: u32) -> Self {
        Self { length: length.max(1), limit, used: 0, errors: 0, is_high: false }
    }

    /// Whether there were too many errors, and not yet few enough again.
    #[inline]
    pub fn is_high(&self) -> bool {
        self.is_high
    }

    /// Takes `errors` in a stretch of `length` more, in the unit of the window; says whether they
    /// are too many.
    pub fn add(&mut self, length: u64, errors: u32) -> bool {
        self.used = self.used.saturating_add(length);
        self.errors = self.errors.saturating_add(errors);
        self.is_high |= self.errors > self.limit;
        if self.used >= self.length {
            let few = f64::from(self.errors) <= f64::from(self.limit) / HYSTERESIS;
            self.is_high &= !few;
            (self.used, self.errors) = (0, 0);
        }
        self.is_high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_are_noticed_at_once_and_forgotten_after_a_quiet_window() {
        let mut rate = ErrorRate::new(60, 10);
        assert!(!rate.add(1, 10));
        assert!(rate.add(1, 1));
        assert!(rate.add(58, 0), "the window held too many");
        assert!(rate.add(60, 6), "more than half as many");
        assert!(rate.add(59, 5));
        assert!(!rate.add(1, 0));
    }
}
