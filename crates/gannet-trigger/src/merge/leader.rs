//! What most streams had reached some time ago.

use std::collections::VecDeque;

/// Marks kept within the span of patience; more make the wait more exact.
const MARKS: u64 = 32;

/// Where the leading stream was at a moment.
#[derive(Clone, Copy, Debug)]
struct Mark {
    tick: u64,
    now_ns: u64,
}

/// Remembers the way of the leading stream for a bounded time.
///
/// What any stream had reached `patience` ago is due from all: a stream that has not reached it
/// is late, whether it stands still or falls behind slowly.
#[derive(Debug)]
pub(super) struct Leader {
    patience_ns: u64,
    marks: VecDeque<Mark>,
}

impl Leader {
    /// Remembers for `patience_ns` of wall time.
    pub(super) fn new(patience_ns: u64) -> Self {
        Self { patience_ns, marks: VecDeque::with_capacity(MARKS as usize + 2) }
    }

    /// Notes that the leading stream is at `tick` at wall time `now_ns`.
    pub(super) fn observe(&mut self, tick: u64, now_ns: u64) {
        // What a leader made due before it went back is forgotten.
        while self.marks.back().is_some_and(|mark| mark.tick > tick) {
            self.marks.pop_back();
        }
        while self.marks.get(1).is_some_and(|mark| self.is_due(mark, now_ns)) {
            self.marks.pop_front();
        }
        let spacing = (self.patience_ns / MARKS).max(1);
        if self.marks.back().is_none_or(|mark| now_ns >= mark.now_ns.saturating_add(spacing)) {
            self.marks.push_back(Mark { tick, now_ns });
        }
    }

    /// The tick that every stream should have reached by `now_ns`; 0 as long as nothing is due.
    pub(super) fn due(&self, now_ns: u64) -> u64 {
        let due = self.marks.iter().take_while(|mark| self.is_due(mark, now_ns)).last();
        due.map_or(0, |mark| mark.tick)
    }

    fn is_due(&self, mark: &Mark, now_ns: u64) -> bool {
        now_ns >= mark.now_ns.saturating_add(self.patience_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_due_before_the_patience_has_passed() {
        let mut leader = Leader::new(3200);
        leader.observe(10, 0);
        leader.observe(20, 100);
        leader.observe(30, 200);
        assert_eq!(leader.due(3199), 0);
        assert_eq!(leader.due(3200), 10);
        assert_eq!(leader.due(3300), 20);
        assert_eq!(leader.due(9999), 30);
    }

    #[test]
    fn a_leader_that_goes_back_is_forgotten() {
        let mut leader = Leader::new(3200);
        leader.observe(10, 0);
        leader.observe(1 << 63, 100);
        leader.observe(20, 200);
        assert_eq!((leader.due(3300), leader.due(9999)), (10, 20));
    }

    #[test]
    fn memory_is_bounded_whatever_the_rate_of_calls() {
        let mut leader = Leader::new(3200);
        for now_ns in 0..100_000 {
            leader.observe(now_ns * 7, now_ns);
            assert!(leader.marks.len() <= MARKS as usize + 2);
            let due = leader.due(now_ns);
            assert!(due <= now_ns.saturating_sub(3200) * 7);
            assert!(now_ns < 3300 || due >= (now_ns - 3300) * 7);
        }
    }
}
