//! One link as its receiving end sees it.

use gannet_wire::lofamo::Status;

use super::error_rate::ErrorRate;
use super::thresholds::Thresholds;

const MINUTE_NS: u64 = 60_000_000_000;

/// Status of a link from the credit words that arrive and the errors among them.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkMonitor {
    heard_ns: Option<u64>,
    counted_ns: u64,
    per_minute: ErrorRate,
    per_bits: ErrorRate,
    status: Status,
}

impl LinkMonitor {
    /// A link of which nothing was heard.
    pub fn new(thresholds: &Thresholds) -> Self {
        Self {
            heard_ns: None,
            counted_ns: 0,
            per_minute: ErrorRate::new(MINUTE_NS, thresholds.corrected_per_minute),
            per_bits: ErrorRate::new(thresholds.window_bits, thresholds.errors_in_window),
            status: Status::Unknown,
        }
    }

    /// What is known of the link.
    #[inline]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Takes note of a credit word; says whether the status changed.
    #[inline]
    pub fn credit(&mut self, now_ns: u64) -> bool {
        self.heard_ns = Some(now_ns);
        !matches!(self.status, Status::Normal | Status::Sick) && self.judge()
    }

    /// Takes `errors` found in `bits` more; says whether the status changed.
    pub fn errors(&mut self, now_ns: u64, bits: u64, errors: u32) -> bool {
        self.per_minute.add(now_ns.saturating_sub(self.counted_ns), errors);
        self.per_bits.add(bits, errors);
        self.counted_ns = now_ns;
        matches!(self.status, Status::Normal | Status::Sick) && self.judge()
    }

    /// Time at which the link will have been silent for too long.
    #[inline]
    pub fn deadline_ns(&self, silence_ns: u64) -> Option<u64> {
        (self.status != Status::Failed).then_some(self.heard_ns? + silence_ns)
    }

    /// Fails the link once it is silent for too long; says whether the status changed.
    #[inline]
    pub fn expire(&mut self, now_ns: u64, silence_ns: u64) -> bool {
        let silent = self.deadline_ns(silence_ns).is_some_and(|deadline| deadline <= now_ns);
        if silent {
            self.status = Status::Failed;
        }
        silent
    }

    fn judge(&mut self) -> bool {
        let high = self.per_minute.is_high() || self.per_bits.is_high();
        let before = self.status;
        self.status = if high { Status::Sick } else { Status::Normal };
        self.status != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_unknown_until_heard_and_failed_when_silent() {
        let mut link = LinkMonitor::new(&Thresholds::default());
        assert!(!link.expire(u64::MAX, 10) && link.status() == Status::Unknown);
        assert!(link.credit(5) && !link.credit(6));
        assert!(!link.expire(15, 10) && link.expire(16, 10) && !link.expire(99, 10));
        assert_eq!(link.status(), Status::Failed);
        assert!(link.credit(100) && link.status() == Status::Normal);
    }

    #[test]
    fn a_link_of_many_errors_is_sick_until_a_quiet_minute() {
        let mut link = LinkMonitor::new(&Thresholds::default());
        link.credit(0);
        assert!(!link.errors(1, 1 << 20, 10) && link.errors(2, 1 << 20, 1));
        assert_eq!(link.status(), Status::Sick);
        let quiet = |link: &mut LinkMonitor, minutes: u64| {
            link.errors(minutes * MINUTE_NS + 3, 20_000_000_000_000, 0)
        };
        assert!(!quiet(&mut link, 1) && quiet(&mut link, 2));
        assert_eq!(link.status(), Status::Normal);
        assert!(link.expire(u64::MAX, 10), "a sick link can fail, too");
    }

    #[test]
    fn the_ratio_counts_bits_not_time() {
        let mut link = LinkMonitor::new(&Thresholds::default());
        link.credit(0);
        for minute in 1..=11 {
            assert!(link.status() == Status::Normal);
            link.errors(minute * 2 * MINUTE_NS, 1_000_000_000, 1);
        }
        assert_eq!(link.status(), Status::Sick, "11 errors in 1.1e10 bits, one in two minutes");
    }
}
