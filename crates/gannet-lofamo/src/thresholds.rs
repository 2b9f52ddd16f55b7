//! When a reading is out of its limits.

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
}
