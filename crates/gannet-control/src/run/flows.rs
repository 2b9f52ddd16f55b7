//! What goes from stage to stage, how full the buffers on the way are, and how old data are there.

use gannet_log::Item;

use crate::snapshot::{Flow, Snapshot};

/// The stages that every frame goes through.
const TAKEN: [&str; 3] = ["sent", "source", "frames"];
/// The items that were found in frames.
const FOUND: &str = "primitives";
/// What is written.
const RECORDER: &str = "recorder";
/// Kinds of what is written.
const RECORDED: [Item; 5] =
    [Item::Record, Item::Primitive, Item::RawFrame, Item::BusyInterval, Item::DaqObject];

/// The flows between the stages of `snapshot`, of which the detector tells `own`.
pub(super) fn between(snapshot: &Snapshot, mut own: Vec<Flow>) -> Vec<Flow> {
    let is_there = |stage: &str| snapshot.ledger.iter().any(|it| it.stage == stage);
    let is_whole = |flow: &Flow| is_there(flow.from) && is_there(flow.to);
    own.retain(is_whole);
    let taken: Vec<_> = TAKEN.into_iter().filter(|stage| is_there(stage)).collect();
    let mut flows: Vec<_> = taken.windows(2).map(|pair| Flow::new(pair[0], pair[1])).collect();
    if let Some(last) = taken.last().filter(|_| own.iter().all(|flow| flow.to != FOUND)) {
        flows.push(Flow::new(last, FOUND));
    }
    flows.extend(own);
    flows.push(Flow::new("frames", "raw_frames"));
    flows.push(Flow::new(FOUND, "to_builder"));
    flows.extend(RECORDED.map(|item| Flow::new(item.stage(), RECORDER)));
    flows.retain(is_whole);
    flows.into_iter().map(|flow| known(flow, snapshot)).collect()
}

/// The same, with what the figures of the run tell of it.
fn known(flow: Flow, snapshot: &Snapshot) -> Flow {
    let latency = &snapshot.latency;
    let ring = || snapshot.sources.iter().map(|source| source.buffer_fill).reduce(f64::max);
    let flow = match (flow.from, flow.to) {
        // Frames lie in the ring until whoever is slowest has read them.
        ("source", _) => Flow { fill: ring(), ..flow },
        (_, RECORDER) => Flow { fill: Some(snapshot.recorder.queue_fill), ..flow },
        _ => flow,
    };
    match (flow.from, flow.to) {
        (_, FOUND) => flow.aged("arrival", &latency.arrival_to_primitive),
        (_, "records") => flow.aged("arrival", &latency.arrival_to_decision),
        ("records", _) => flow.aged("the decision", &latency.decision_to_record),
        _ => flow,
    }
}

#[cfg(test)]
mod tests {
    use gannet_measure::ledger::Statement;

    use super::*;

    fn snapshot(stages: &[&str]) -> Snapshot {
        let statement = |stage: &&str| Statement {
            stage: (*stage).into(),
            offered: 0,
            delivered: 0,
            under_way: 0,
            dropped: Vec::new(),
        };
        Snapshot { ledger: stages.iter().map(statement).collect(), ..Snapshot::default() }
    }

    fn ways(flows: &[Flow]) -> Vec<(&str, &str)> {
        flows.iter().map(|flow| (flow.from, flow.to)).collect()
    }

    #[test]
    fn items_come_from_where_the_detector_says_or_from_the_frames() {
        let own = || vec![Flow::new("frames", "tpg"), Flow::new("tpg", "primitives")];
        let whole = snapshot(&["sent", "source", "frames", "tpg", "primitives", "recorder"]);
        let taken = [("sent", "source"), ("source", "frames")];
        let searched = [("frames", "tpg"), ("tpg", "primitives")];
        assert_eq!(ways(&between(&whole, own())), [taken, searched].concat());
        let unsearched = snapshot(&["sent", "source", "frames", "primitives"]);
        let direct = [&taken[..], &[("frames", "primitives")]].concat();
        assert_eq!(ways(&between(&unsearched, own())), direct);
        // Readouts take the frames of a builder.
        let builder = snapshot(&["sent", "primitives", "records", "recorder"]);
        let far = [("sent", "primitives"), ("records", "recorder")];
        assert_eq!(ways(&between(&builder, own())), far);
    }

    #[test]
    fn a_flow_tells_how_full_its_buffer_is_and_how_old_its_data_are() {
        let mut snapshot = snapshot(&["source", "frames", "primitives", "records", "recorder"]);
        for buffer_fill in [0.25, 0.5] {
            let source = crate::snapshot::SourceSnapshot { buffer_fill, ..Default::default() };
            snapshot.sources.push(source);
        }
        snapshot.recorder.queue_fill = 0.125;
        let times = &mut snapshot.latency.decision_to_record;
        (times.count, times.p99) = (3, 7_000);
        let flows = between(&snapshot, vec![Flow::new("primitives", "records")]);
        let flow = |to: &str| flows.iter().find(|flow| flow.to == to).unwrap();
        assert_eq!((flow("frames").fill, flow("recorder").fill), (Some(0.5), Some(0.125)));
        assert_eq!(flow("recorder").age.map(|age| age.p99_ns), Some(7_000));
        assert_eq!((flow("primitives").age, flow("records").fill), (None, None));
    }
}
