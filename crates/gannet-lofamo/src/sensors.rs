//! The sensors of a NIC.

use gannet_wire::lofamo::Status;

use super::thresholds::{Readings, Thresholds};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
