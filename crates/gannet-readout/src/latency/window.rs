//! A span of time to be cut out of a stream.

/// A half-open span of time, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First tick inside.
    pub begin: u64,
    /// First tick after.
    pub end: u64,
}

impl Window {
    /// Whether it holds anything, and no more than `ticks_max` ticks.
    pub fn is_valid(self, ticks_max: u64) -> bool {
        self.begin < self.end && self.end - self.begin <= ticks_max
    }
}
