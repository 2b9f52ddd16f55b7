//! How far a stream had come a while ago: what the edges of a run are told by.

/// Looks that a frame may take, at most, to follow a frame of the same time of another stream.
const LOOKS: usize = 10;

/// Time, in nanoseconds, after which a stream that has not come as far as others lacks frames: until
/// then they may still be on their way, or be sent next.
pub const SETTLE_NS: u64 = LOOKS as u64 * super::CHECK_NS;

/// Time stamps of a stream at the last looks at it, [`CHECK_NS`](super::CHECK_NS) or more apart.
#[derive(Debug, Default)]
pub(super) struct Progress {
    newest: [Option<u64>; LOOKS],
    oldest: usize,
}

impl Progress {
    /// Notes the newest time stamp now, and gives the one of at least [`SETTLE_NS`] ago.
    pub(super) fn look(&mut self, newest: Option<u64>) -> Option<u64> {
        let settled = std::mem::replace(&mut self.newest[self.oldest], newest);
        self.oldest = (self.oldest + 1) % LOOKS;
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_settled_is_ten_looks_old() {
        let mut progress = Progress::default();
        let settled: Vec<_> = (0..13).map(|newest| progress.look(Some(newest))).collect();
        assert_eq!(settled[..10], [None; 10]);
        assert_eq!(settled[10..], [Some(0), Some(1), Some(2)]);
    }
}
