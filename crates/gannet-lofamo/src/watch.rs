//! Is the other half of the node alive?

use gannet_wire::lofamo::Status;

/// Watches the beats of the other half of a node, in either mode.
///
/// Nothing heard yet is unknown, however long it lasts: silence means failure only after a beat.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Beats counted when last looked at.
    seen: Option<u32>,
    misses: u8,
    expires_ns: Option<u64>,
    status: Status,
}

impl Watch {
    /// What is known of the other half.
    #[inline]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Poll mode: compares the count of beats with the one seen before; failed after `misses_max`
    /// looks in a row without a new beat.
    #[inline]
    pub fn check(&mut self, beats: u32, misses_max: u8) -> Status {
        if self.seen == Some(beats) {
            self.misses = self.misses.saturating_add(1);
            if self.misses >= misses_max && self.status != Status::Unknown {
                self.status = Status::Failed;
            }
        } else {
            // A register that was never written holds no beat.
            let is_first = self.seen.is_none();
            self.status = if is_first && beats == 0 { Status::Unknown } else { Status::Normal };
            self.misses = 0;
            self.seen = Some(beats);
        }
        self.status
    }

    /// Push mode: takes a beat, which re-arms the deadline.
    #[inline]
    pub fn beat(&mut self, now_ns: u64, deadline_ns: u64) -> Status {
        self.status = Status::Normal;
        self.expires_ns = Some(now_ns + deadline_ns);
        self.status
    }

    /// Push mode: time of the deadline, while it is armed.
    #[inline]
    pub fn deadline_ns(&self) -> Option<u64> {
        self.expires_ns
    }

    /// Push mode: fails the other half once the deadline has come.
    #[inline]
    pub fn expire(&mut self, now_ns: u64) -> Status {
        if self.expires_ns.is_some_and(|deadline| deadline <= now_ns) {
            self.expires_ns = None;
            self.status = Status::Failed;
        }
        self.status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_never_written_stays_unknown() {
        let mut watch = Watch::default();
        assert!((0..10).all(|_| watch.check(0, 1) == Status::Unknown));
        assert_eq!(watch.check(1, 1), Status::Normal);
        assert_eq!(watch.expire(u64::MAX), Status::Normal, "no deadline was armed");
        assert_eq!(Watch::default().expire(u64::MAX), Status::Unknown);
    }

    #[test]
    fn silence_fails_after_the_misses_allowed_and_a_beat_mends() {
        let mut watch = Watch::default();
        let seen = [5, 6, 6, 6, 7].map(|beats| watch.check(beats, 2));
        let expected =
            [Status::Normal, Status::Normal, Status::Normal, Status::Failed, Status::Normal];
        assert_eq!(seen, expected);
    }

    #[test]
    fn every_beat_moves_the_deadline() {
        let mut watch = Watch::default();
        watch.beat(100, 50);
        watch.beat(140, 50);
        assert_eq!(watch.expire(189), Status::Normal);
        assert_eq!(watch.deadline_ns(), Some(190));
        assert_eq!(watch.expire(190), Status::Failed);
        assert_eq!(watch.deadline_ns(), None);
        assert_eq!(watch.beat(200, 50), Status::Normal);
    }
}
