//! When the sensors and links of a NIC are sick or failed.

use gannet_wire::lofamo::Status;
use serde::Serialize;

/// Limits of a quantity by how far it is from its usual value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// The usual value.
    pub nominal: f64,
    /// Sick from this deviation on.
    pub sick: f64,
    /// Failed from this deviation on.
    pub failed: f64,
    /// Whether a value below the usual one is a deviation, too.
    pub both_ways: bool,
}

impl Limits {
    /// The status of `value` after `before`.
    ///
    /// A status is left at half the deviation at which it is entered, so that noise at a limit does
    /// not make it flicker. A value that is no number is unknown.
    pub fn judge(&self, before: Status, value: f64) -> Status {
        let deviation = value - self.nominal;
        let deviation = if self.both_ways { deviation.abs() } else { deviation };
        let beyond = |limit: f64, entered: bool| {
            deviation >= limit || entered && deviation > limit / HYSTERESIS
        };
        if !value.is_finite() {
            Status::Unknown
        } else if beyond(self.failed, before == Status::Failed) {
            Status::Failed
        } else if beyond(self.sick, before.is_fault()) {
            Status::Sick
        } else {
            Status::Normal
        }
    }
}

/// Ratio of the limit that enters a status to the one that leaves it.
pub const HYSTERESIS: f64 = 2.0;

/// What the sensors of a NIC read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Readings {
    /// Temperature in degrees Celsius.
    pub temperature_c: f64,
    /// Supply voltage over its nominal value.
    pub voltage: f64,
    /// Supply current over its nominal value.
    pub current: f64,
}

impl Readings {
    /// What healthy sensors read.
    pub const USUAL: Self = Self { temperature_c: 50.0, voltage: 1.0, current: 1.0 };
}

/// When something is sick or failed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Thresholds {
    /// Temperature, degrees Celsius.
    pub temperature: Limits,
    /// Supply voltage over its nominal value.
    pub voltage: Limits,
    /// Supply current over its nominal value.
    pub current: Limits,
    /// A link is sick at more corrected errors than this in a minute.
    pub corrected_per_minute: u32,
    /// A link is sick at more errors than this in [`window_bits`](Self::window_bits).
    pub errors_in_window: u32,
    /// Bits over which errors are counted.
    pub window_bits: u64,
}

impl Default for Thresholds {
    /// Sick and failed at 80 and 95 degrees and at 5 and 10 % of the supplies; a link is sick at
    /// more than 10 corrected errors a minute or an error ratio above 1e-12 over 1e13 bits.
    fn default() -> Self {
        let supply = Limits { nominal: 1.0, sick: 0.05, failed: 0.10, both_ways: true };
        Self {
            temperature: Limits { nominal: 50.0, sick: 30.0, failed: 45.0, both_ways: false },
            voltage: supply,
            current: supply,
            corrected_per_minute: 10,
            errors_in_window: 10,
            window_bits: 10_000_000_000_000,
        }
    }
}

/// What the sensors of a NIC say; normal before they were read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sensors {
    pub temperature: Status,
    pub voltage: Status,
    pub current: Status,
}

impl Sensors {
    pub fn new() -> Self {
        let normal = Status::Normal;
        Self { temperature: normal, voltage: normal, current: normal }
    }

    /// The worst of them.
    pub fn status(&self) -> Status {
        self.temperature.max(self.voltage).max(self.current).max(Status::Normal)
    }

    /// Takes what they read; says whether the worst changed.
    pub fn judge(&mut self, readings: &Readings, limits: &Thresholds) -> bool {
        let before = self.status();
        self.temperature = limits.temperature.judge(self.temperature, readings.temperature_c);
        self.voltage = limits.voltage.judge(self.voltage, readings.voltage);
        self.current = limits.current.judge(self.current, readings.current);
        self.status() != before
    }
}

/// Counts errors in windows of one length, with hysteresis.
///
/// Too many are noticed at the error that makes them too many, not at the end of the window. That
/// they are few again takes a whole window with no more than half the limit.
#[derive(Clone, Copy, Debug)]
struct ErrorRate {
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
    fn a_status_is_left_at_half_the_limit_that_enters_it() {
        let limits = Thresholds::default().temperature;
        let mut status = Status::Normal;
        let mut at = |celsius| {
            status = limits.judge(status, celsius);
            status
        };
        assert_eq!([at(79.9), at(80.0), at(66.0), at(65.0)].map(Status::code), [1, 2, 2, 1]);
        assert_eq!([at(96.0), at(73.0), at(72.5), at(64.0)].map(Status::code), [3, 3, 2, 1]);
        assert_eq!([at(-40.0), at(f64::NAN), at(70.0)].map(Status::code), [1, 0, 1]);
    }

    #[test]
    fn supplies_deviate_both_ways() {
        let limits = Thresholds::default().voltage;
        let judged = [0.89, 0.94, 1.0, 1.06, 1.11].map(|value| limits.judge(Status::Normal, value));
        assert_eq!(judged.map(Status::code), [3, 2, 1, 2, 3]);
    }

    #[test]
    fn the_worst_sensor_speaks_for_all() {
        let limits = Thresholds::default();
        let mut sensors = Sensors::new();
        assert!(!sensors.judge(&Readings::USUAL, &limits));
        assert!(sensors.judge(&Readings { voltage: 0.94, ..Readings::USUAL }, &limits));
        let hot = Readings { voltage: 0.94, temperature_c: 96.0, ..Readings::USUAL };
        assert!(sensors.judge(&hot, &limits) && sensors.status() == Status::Failed);
        assert_eq!((sensors.voltage, sensors.current), (Status::Sick, Status::Normal));
        assert!(!sensors.judge(&Readings { voltage: 1.0, ..hot }, &limits), "one is enough");
    }

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
