//! What a run comes to as plain numbers with names: what history keeps and rules of alarms watch.
//!
//! A quantity is called by its kind, as `frames`, or, where there are several, by kind and part: `stream_frames:0/1/0/2`.

use gannet_measure::histogram::Summary;

use crate::run_control::State;
use crate::snapshot::{FigureValue, Snapshot};

/// A kind of quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Its unit; empty for shares and plain numbers.
    pub unit: &'static str,
    /// Of which parts of a run each has one.
    pub parts: Parts,
    /// What it is.
    pub meaning: &'static str,
}

/// The parts of a run that have a quantity each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// None: it is one of the whole.
    None,
    /// Sources; where one has several sockets, each of these.
    Sources,
    /// Streams.
    Streams,
    /// Others, which depend on the detector.
    Others,
}

/// Declares the kinds, each as a constant and in the list of all.
macro_rules! kinds {
    ($($constant:ident $name:literal $unit:literal $parts:ident $meaning:literal)*) => {
        $(const $constant: Kind =
            Kind { name: $name, unit: $unit, parts: Parts::$parts, meaning: $meaning };)*

        /// Every kind of quantity.
        pub const KINDS: &[Kind] = &[$($constant),*];
    };
}

kinds! {
    FRAMES "frames" "/s" None "frames that arrived"
    DATA "data" "bit/s" None "bits of those frames"
    LOST "lost" "/s" None "frames that were lost, as far as that is known"
    PRIMITIVES "primitives" "/s" None "primitives found"
    DECISIONS "decisions" "/s" None "decisions taken"
    RECORDS "records" "/s" None "records that are safe in the log"
    WRITTEN "written" "B/s" None "bytes that the recorder wrote"
    QUEUE "recorder_queue" "" None "share of the recorder's queue that is in use"
    DISK_FREE "disk_free" "B" None "free space where files are written, without the reserve"
    DISK_LEFT "disk_left" "s" None "time until that is full, at the rate of the last minute"
    TO_PRIMITIVE "arrival_to_primitive" "s" None "mean time from the arrival of a frame to its primitives"
    TO_DECISION "arrival_to_decision" "s" None "mean time from the arrival of frames to the decision on them"
    TO_RECORD "decision_to_record" "s" None "mean time from a decision to its record"
    DECIDE_CPU "decide_cpu" "" None "share of a processor that the deciding thread takes"
    NOISY "channels_noisy" "" None "channels that are noisy"
    DEAD "channels_dead" "" None "channels that are dead"
    SOURCE_CPU "source_cpu" "" Sources "share of a processor that a receiving thread takes"
    SOURCE_BUFFER "source_buffer" "" Sources "how full the ring of a source is"
    STREAM_FRAMES "stream_frames" "/s" Streams "frames of a stream"
    STREAM_MISSING "stream_missing" "/s" Streams "frames that a stream lacks"
    STREAM_LATE "stream_late" "/s" Streams "frames of a stream that came after later ones"
    STREAM_PRIMITIVES "stream_primitives" "/s" Streams "primitives of a stream"
    PASSED "stage_passed" "/s" Others "what a stage passes on"
    DROPPED "stage_dropped" "/s" Others "what a stage drops, for whatever reason"
    OWN "detector" "" Others "figures that only this kind of detector has; a second, where they are counts"
}

/// The kind that is called so.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// A number of a run at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// Its kind.
    pub kind: &'static Kind,
    /// Which part of the run it is of, such as the name of a stream; empty for the whole.
    pub part: String,
    /// Its value; no number where it is not known.
    pub value: f64,
}

impl Quantity {
    fn new(kind: &'static Kind, part: &str, value: f64) -> Self {
        Self { kind, part: part.to_owned(), value }
    }

    /// What it is called.
    pub fn name(&self) -> String {
        match &*self.part {
            "" => self.kind.name.to_owned(),
            part => format!("{}:{part}", self.kind.name),
        }
    }
}

/// The quantities of a run between two snapshots; rates are over the time between them. They are known while frames are
/// taken, and `disk_free` is always.
pub fn of(before: &Snapshot, now: &Snapshot, disk_free: Option<u64>) -> Vec<Quantity> {
    let time_s = now.clock_s - before.clock_s;
    let known = before.run == now.run && now.state == State::Running && time_s > 0.0;
    let rate = |before: u64, now: u64| match known {
        true => now.saturating_sub(before) as f64 / time_s,
        false => f64::NAN,
    };
    let level = |value: f64| if known { value } else { f64::NAN };
    let per_s = |of: &dyn Fn(&Snapshot) -> u64| rate(of(before), of(now));
    let primitives = |it: &Snapshot| it.streams.iter().map(|stream| stream.primitives).sum();
    let mean = |of: &dyn Fn(&Snapshot) -> Summary| level(mean_s(&of(before), &of(now)));
    let mut all = Vec::with_capacity(24 + 4 * now.streams.len() + 2 * now.ledger.len());
    let mut add = |kind: &'static Kind, part: &str, value| {
        all.push(Quantity::new(kind, part, value));
    };
    add(&FRAMES, "", per_s(&Snapshot::frames));
    add(&DATA, "", 8.0 * per_s(&Snapshot::bytes));
    add(&LOST, "", per_s(&|it| it.frames_lost));
    add(&PRIMITIVES, "", per_s(&primitives));
    add(&DECISIONS, "", per_s(&|it| it.trigger.decisions));
    add(&RECORDS, "", per_s(&|it| it.recorder.records));
    add(&WRITTEN, "", per_s(&|it| it.recorder.bytes));
    add(&QUEUE, "", level(now.recorder.queue_fill));
    add(&DISK_FREE, "", disk_free.map_or(f64::NAN, |bytes| bytes as f64));
    add(&TO_PRIMITIVE, "", mean(&|it| it.latency.arrival_to_primitive));
    add(&TO_DECISION, "", mean(&|it| it.latency.arrival_to_decision));
    add(&TO_RECORD, "", mean(&|it| it.latency.decision_to_record));
    add(&DECIDE_CPU, "", level((now.decide_cpu_s - before.decide_cpu_s) / time_s));
    add(&NOISY, "", level(now.channels.noisy as f64));
    add(&DEAD, "", level(now.channels.dead as f64));
    for (at, source) in now.sources.iter().enumerate() {
        let cpu_s = before.sources.get(at).map_or(f64::NAN, |before| before.receive_cpu_s);
        add(&SOURCE_CPU, &source.name, level((source.receive_cpu_s - cpu_s) / time_s));
        add(&SOURCE_BUFFER, &source.name, level(source.buffer_fill));
    }
    for (at, stream) in now.streams.iter().enumerate() {
        let Some(before) = before.streams.get(at) else { continue };
        add(&STREAM_FRAMES, &stream.name, rate(before.frames, stream.frames));
        add(&STREAM_MISSING, &stream.name, rate(before.missing, stream.missing));
        add(&STREAM_LATE, &stream.name, rate(before.late, stream.late));
        add(&STREAM_PRIMITIVES, &stream.name, rate(before.primitives, stream.primitives));
    }
    for (at, stage) in now.ledger.iter().enumerate() {
        let Some(before) = before.ledger.get(at) else { continue };
        add(&PASSED, &stage.stage, rate(before.delivered, stage.delivered));
        add(&DROPPED, &stage.stage, rate(before.dropped_total(), stage.dropped_total()));
    }
    for (before, figure) in before.specific.iter().zip(&now.specific) {
        let value = match (&before.value, &figure.value) {
            (FigureValue::Count(before), FigureValue::Count(now)) => rate(*before, *now),
            (FigureValue::Share(before), FigureValue::Share(now)) => {
                rate(before.part, now.part) / rate(before.of, now.of)
            }
            _ => continue,
        };
        add(&OWN, &figure.name, value);
    }
    all
}

/// Adds the time until `disk_free` bytes are written at so many bytes a second, as they were over a while.
pub fn add_disk_left(all: &mut Vec<Quantity>, disk_free: Option<u64>, bytes_per_s: f64) {
    let left = disk_free.map_or(f64::NAN, |free| free as f64 / bytes_per_s);
    all.push(Quantity::new(&DISK_LEFT, "", if left.is_finite() { left } else { f64::NAN }));
}

/// Mean of the values in `now` that were not in `before`, which are nanoseconds, in seconds.
fn mean_s(before: &Summary, now: &Summary) -> f64 {
    let sum = |it: &Summary| if it.count == 0 { 0.0 } else { it.mean * it.count as f64 };
    (sum(now) - sum(before)).max(0.0) / now.count.saturating_sub(before.count) as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Figure, SourceSnapshot};

    fn snapshot(clock_s: f64, frames: u64) -> Snapshot {
        let source = SourceSnapshot {
            name: "crate 1".into(),
            frames,
            bytes: 100 * frames,
            receive_cpu_s: clock_s / 4.0,
            ..SourceSnapshot::default()
        };
        let mut snapshot = Snapshot {
            clock_s,
            state: State::Running,
            sources: vec![source],
            specific: vec![
                Figure::count("rings", frames / 2),
                Figure::share("seen", frames / 2, frames),
            ],
            ..Snapshot::default()
        };
        let summary = &mut snapshot.latency.arrival_to_decision;
        // A first half of 1 ms each, then of 3 ms.
        (summary.count, summary.mean) = if frames > 100 { (20, 2e6) } else { (10, 1e6) };
        snapshot
    }

    fn value(all: &[Quantity], name: &str) -> f64 {
        all.iter().find(|it| it.name() == name).unwrap_or_else(|| panic!("no {name}")).value
    }

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let all = of(&snapshot(1.0, 100), &snapshot(3.0, 300), Some(5));
        for (name, expected) in [
            ("frames", 100.0),
            ("data", 80_000.0),
            ("lost", 0.0),
            ("source_cpu:crate 1", 0.25),
            ("disk_free", 5.0),
            ("detector:rings", 50.0),
            ("detector:seen", 0.5),
        ] {
            assert_eq!(value(&all, name), expected, "{name}");
        }
        assert!((value(&all, "arrival_to_decision") - 3e-3).abs() < 1e-9, "of the new ones alone");
        assert!(value(&all, "decision_to_record").is_nan(), "there were none");
        assert!(all.iter().all(|it| kind(it.kind.name) == Some(it.kind)));
    }

    #[test]
    fn nothing_but_the_disk_is_known_of_a_run_that_takes_no_frames_or_is_another() {
        let stopped = Snapshot { state: State::Stopped, ..snapshot(3.0, 300) };
        let other = Snapshot { run: 2, ..snapshot(3.0, 300) };
        for now in [stopped, other, snapshot(1.0, 100)] {
            let all = of(&snapshot(1.0, 100), &now, Some(7));
            assert_eq!(value(&all, "disk_free"), 7.0);
            let known: Vec<_> = all.iter().filter(|it| it.value.is_finite()).collect();
            assert_eq!(known.len(), 1, "{known:?}");
        }
    }

    #[test]
    fn every_kind_is_in_the_reference() {
        let text = include_str!("../../../docs/reference/web.md");
        for Kind { name, .. } in KINDS {
            let is_there = [format!("`{name}`"), format!("`{name}:NAME`")];
            assert!(is_there.iter().any(|name| text.contains(name)), "{name}");
        }
    }

    #[test]
    fn a_disk_that_nobody_writes_to_lasts_for_no_known_time() {
        let left = |free, rate| {
            let mut all = Vec::new();
            add_disk_left(&mut all, free, rate);
            all[0].value
        };
        assert_eq!(left(Some(1000), 10.0), 100.0);
        assert!(left(Some(1000), 0.0).is_nan() && left(None, 1.0).is_nan());
        assert!(left(Some(1000), f64::NAN).is_nan());
    }
}
