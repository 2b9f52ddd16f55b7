//! Measurements beside earlier ones.

use serde::Deserialize;

use super::{Backend, FabricRow, Operation};

/// What an earlier bench measured, as its JSON tells.
#[derive(Clone, Debug, Deserialize)]
pub struct EarlierRow {
    backend: Backend,
    provider: Option<String>,
    path: Option<String>,
    operation: Operation,
    bytes: u64,
    streaming: bool,
    per_s: f64,
    latency_ns_p50: Option<f64>,
    limit: f64,
}

impl EarlierRow {
    fn is_of(&self, row: &FabricRow) -> bool {
        let over =
            (row.backend, &row.provider, &row.path) == (self.backend, &self.provider, &self.path);
        let of = (row.operation, row.bytes, row.streaming);
        over && of == (self.operation, self.bytes, self.streaming)
    }
}

/// How much a measurement has changed.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The later one.
    pub row: &'a FabricRow,
    /// How many times as fast as before: by rates, and by times of round trips.
    pub speed: f64,
    /// How many times as fast the limit was, which tells what the machine has to do with it.
    pub limit: f64,
}

impl Change<'_> {
    /// Whether it is slower by more than `threshold`, a fraction of what was before.
    pub fn is_slower(&self, threshold: f64) -> bool {
        // What is no number is not as fast as before.
        self.speed.is_nan() || self.speed < 1.0 - threshold
    }
}

/// The change of each of `rows` that was measured before.
pub fn changes<'a>(rows: &'a [FabricRow], earlier: &[EarlierRow]) -> Vec<Change<'a>> {
    let change = |row: &'a FabricRow| {
        let before = earlier.iter().find(|before| before.is_of(row))?;
        let limit = row.limit / before.limit;
        Some(match (row.latency_ns_p50, before.latency_ns_p50) {
            (Some(now), Some(then)) => Change { row, speed: then / now, limit: 1.0 / limit },
            _ => Change { row, speed: row.per_s / before.per_s, limit },
        })
    };
    rows.iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(operation: Operation, per_s: f64, latency_ns_p50: Option<f64>) -> FabricRow {
        FabricRow {
            backend: Backend::Shm,
            provider: None,
            path: None,
            operation,
            bytes: 8,
            packet_bytes: None,
            streaming: false,
            per_s,
            per_s_range: [per_s; 2],
            gbyte_per_s: per_s * 8e-9,
            latency_ns_p50,
            latency_ns_p99: latency_ns_p50,
            limit: 100.0,
            limit_is: "a limit",
            ratio: 1.0,
            repeats: 1,
        }
    }

    fn earlier(row: &FabricRow) -> EarlierRow {
        serde_json::from_str(&serde_json::to_string(row).unwrap()).unwrap()
    }

    #[test]
    fn rates_fall_and_times_rise_when_it_is_slower() {
        let before = [
            earlier(&row(Operation::OneWay, 100.0, None)),
            earlier(&row(Operation::RoundTrip, 50.0, Some(10.0))),
        ];
        let now = [
            row(Operation::RoundTrip, 40.0, Some(12.5)),
            row(Operation::OneWay, 91.0, None),
            row(Operation::Get, 1.0, None),
        ];
        let changes = changes(&now, &before);
        assert_eq!(changes.len(), 2, "nobody measured GET before");
        assert_eq!((changes[0].speed, changes[1].speed), (0.8, 0.91));
        assert!(changes[0].is_slower(0.1) && !changes[1].is_slower(0.1));
    }

    #[test]
    fn measurements_of_other_things_are_not_compared() {
        let now = [row(Operation::OneWay, 100.0, None)];
        let others: [fn(&mut FabricRow); 5] = [
            |row| row.backend = Backend::Udp,
            |row| row.path = Some("a path".to_owned()),
            |row| row.provider = Some("tcp".to_owned()),
            |row| row.bytes = 9,
            |row| row.streaming = true,
        ];
        for change in others {
            let mut other = now[0].clone();
            change(&mut other);
            assert!(changes(&now, &[earlier(&other)]).is_empty());
        }
    }
}
