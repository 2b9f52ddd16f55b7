//! The primitives and activities in trigger records are those of the run that fall in the window.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use gannet_dune::activity::Activity;
use gannet_dune::sampling::Sampling;
use gannet_dune::{TriggerChain, TriggerConfig, TriggerOutput};
use gannet_log::{Kind, Reader};
use gannet_record::StoredRecord;
use gannet_wire::fragment::error_bits::INCOMPLETE;
use gannet_wire::trigger_activity::TriggerActivities;
use gannet_wire::{
    Fragment, FragmentRepr, FragmentType, TriggerPrimitive, TriggerRecordHeader, trigger_primitive,
};
use serde_json::Value;

use crate::readout::process::{Bench, Ended, QUIET, Readout, alone, gannet};

/// Activities of two algorithms, and records of tracks and at random, the latter one by one.
const CONFIG: &str = r#"
[[source]]
streams = { count = 4 }
udp = { listen = ["127.0.0.1:0"] }
depth = "500 ms"
[pipeline.tpg]
threshold = [60, 60, 60]
[pipeline]
slice_ticks = 1_000_000
[pipeline.trigger.module_level]
time_before = 20_000
time_after = 20_000
overlap = "separate"
[[pipeline.trigger.activity]]
algorithm = "horizontal-muon"
[[pipeline.trigger.activity]]
algorithm = "channel-distance"
min_tps = 3
[[pipeline.trigger.candidate]]
algorithm = "channel-distance"
prescale = 1_000_000
[[pipeline.trigger.source]]
kind = "random"
mean_interval_ticks = 500_000
[emulate]
seed = 5
streams = { count = 4 }
pace = { rate_scale = 0.1 }
tracks = { rate_hz = 200.0, adc = 600.0 }
"#;

/// A fragment of a record.
type Stored = (FragmentRepr, Vec<u8>);

/// A record as it lies in the log.
pub struct StoredTrigger {
    pub window: (u64, u64),
    pub is_incomplete: bool,
    pub sources: Vec<String>,
    pub frames: Vec<Stored>,
    pub primitives: Stored,
    pub activities: Stored,
}

/// All primitives of the slices in their order, and all records, of a log.
pub fn read(log: &Path) -> (Vec<TriggerPrimitive>, Vec<StoredTrigger>) {
    let mut reader = Reader::open(log).unwrap();
    let (mut recorded, mut records) = (Vec::new(), Vec::new());
    while let Some(chunk) = reader.next_chunk().unwrap() {
        match chunk.header.label.kind {
            Kind::TP_SLICE => {
                for fragment in StoredRecord::time_slice(chunk.payload).unwrap().fragments() {
                    let fragment = fragment.unwrap();
                    recorded.extend(trigger_primitive::primitives(fragment.payload()).unwrap());
                }
            }
            Kind::TRIGGER_RECORD => records.push(stored(chunk.payload)),
            _ => {}
        }
    }
    recorded.sort_by_key(TriggerPrimitive::time_order);
    (recorded, records)
}

fn stored(bytes: &[u8]) -> StoredTrigger {
    let record = StoredRecord::trigger_record(bytes).unwrap();
    let checked = TriggerRecordHeader::new_checked(record.header()).unwrap();
    let requests: Vec<_> = checked.component_requests().collect();
    let windows: Vec<_> = requests.iter().map(|r| (r.window_begin, r.window_end)).collect();
    assert!(windows.iter().all(|window| *window == windows[0]), "{windows:?}");
    let whole = |fragment: Fragment<'_>| (fragment.header(), fragment.payload().to_vec());
    let all: Vec<Stored> = record.fragments().map(|fragment| whole(fragment.unwrap())).collect();
    let components: Vec<_> = requests.iter().map(|request| request.component).collect();
    let sources: Vec<_> = all.iter().map(|(header, _)| header.source_id).collect();
    assert_eq!(components, sources, "a request for each fragment");
    let of = |kind| {
        let found = all.iter().filter(move |(header, _)| header.fragment_type == kind);
        found.cloned().collect::<Vec<_>>()
    };
    StoredTrigger {
        window: windows[0],
        is_incomplete: checked.header().error_bits != 0,
        sources: sources.iter().map(ToString::to_string).collect(),
        frames: of(FragmentType::WibEth),
        primitives: of(FragmentType::TriggerPrimitive).remove(0),
        activities: of(FragmentType::TriggerActivity).remove(0),
    }
}

impl StoredTrigger {
    /// Those of `recorded` that start in the window.
    pub fn cut(&self, recorded: &[TriggerPrimitive]) -> Vec<TriggerPrimitive> {
        let (begin, end) = self.window;
        let inside = |tp: &&TriggerPrimitive| (begin..end).contains(&tp.time_start());
        recorded.iter().filter(inside).copied().collect()
    }

    /// The primitives of the record.
    pub fn primitives(&self) -> Vec<TriggerPrimitive> {
        trigger_primitive::primitives(&self.primitives.1).unwrap().collect()
    }

    fn activities(&self) -> Vec<Activity> {
        let activity = |stored: gannet_wire::Result<gannet_wire::TriggerActivity<'_>>| {
            let stored = stored.unwrap();
            Activity { data: stored.data(), inputs: stored.inputs().collect() }
        };
        TriggerActivities::new(&self.activities.1).map(activity).collect()
    }
}

/// All activities of the trigger on `recorded`, by their starts.
fn found_again(trigger: &TriggerConfig, recorded: &[TriggerPrimitive]) -> Vec<Activity> {
    let mut chain = TriggerChain::new(trigger, 1, 1, Sampling::default()).unwrap();
    let mut out = TriggerOutput::default();
    for tp in recorded {
        chain.push_merged(&[*tp], 0, &mut out);
        chain.advance_to(tp.time_start(), 0, &mut out);
    }
    chain.drain(0, &mut out);
    out.activities.sort_by_key(|activity| activity.data.time_start);
    out.activities
}

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(gannet()).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &errors)
}

/// Whether something was late for the trigger, or the kernel dropped frames, so that nothing can be
/// said.
fn is_disturbed(ended: &Ended, test: &str) -> bool {
    let late = ended.ledger("merge", "offered") != ended.ledger("merge", "delivered");
    if late {
        gannet_measure::testing::skipped(test, "primitives were late");
    }
    ended.kernel_was_short(test) || late
}

#[test]
fn each_record_has_the_primitives_and_activities_of_its_window() {
    let _alone = alone();
    let bench = Bench::new(CONFIG);
    let (_, ended) = bench.run(15_000);
    if is_disturbed(&ended, "records have primitives and activities") {
        return;
    }
    assert_eq!(ended.open_books(), [""; 0]);
    assert!(!ended.is_degraded(), "{}", ended.report);
    let log = bench.files().remove(0);
    let (recorded, records) = read(&log);
    assert_eq!(recorded.len() as u64, ended.number("/recorder/primitives"));
    assert_eq!(records.len() as u64, ended.number("/trigger/decisions"));
    let activities = found_again(&bench.tpc().config.pipeline.trigger, &recorded);
    assert_eq!(activities.len() as u64, ended.number("/trigger/activities"));
    let (mut primitives_seen, mut activities_seen) = (0, 0);
    for record in &records {
        assert_eq!(record.primitives(), record.cut(&recorded));
        let (begin, end) = record.window;
        let inside = |a: &&Activity| (begin..end).contains(&a.data.time_start);
        let expected: Vec<_> = activities.iter().filter(inside).cloned().collect();
        assert_eq!(record.activities(), expected);
        primitives_seen += record.primitives().len();
        activities_seen += expected.len();
        let of_trigger = &record.sources[record.frames.len()..];
        let expected = ["Trigger_0x00000000", "Trigger_0x00000001", "Trigger_0x00000002"];
        assert_eq!((record.frames.len(), of_trigger), (4, &expected.map(String::from)[..]));
        for header in [&record.primitives.0, &record.activities.0] {
            assert_eq!(
                (header.detector_id, header.window_begin, header.window_end),
                (1, begin, end)
            );
            // What all streams have whole, the trigger has whole.
            let is_whole = record.frames.iter().all(|(header, _)| header.error_bits == 0);
            assert!(header.error_bits == 0 || !is_whole, "{header}");
        }
    }
    assert!(records.len() > 30 && primitives_seen > 1000 && activities_seen > 20);
    let whole = records.iter().filter(|record| !record.is_incomplete).count();
    assert!(whole + 5 > records.len(), "{whole} of {}", records.len());
    assert_eq!(ended.ledger("trigger_fragments", "offered"), 2 * records.len() as u64);
    assert_eq!(ended.ledger("trigger_fragments", "forgotten"), 0);

    // Everything else that reads records goes on.
    let log = log.to_str().unwrap();
    let (code, text) = run(&["trigger", "--json", log]);
    assert_eq!(code, Some(0), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["compared"]["same"], records.len(), "{report}");
    assert_eq!(run(&["verify", log]).0, Some(0));
    let (code, text) = run(&["export", log]);
    assert_eq!(code, Some(0), "{text}");
    let raw_file = log.replace(".glog", ".hdf5");
    assert_eq!(run(&["verify", &raw_file]).0, Some(0));
    let (_, text) = run(&["inspect", &raw_file, "--record", "1"]);
    for name in ["Trigger_0x00000000_Trigger_Primitive", "Trigger_0x00000002_Trigger_Activity"] {
        assert!(text.contains(name), "{text}");
    }
}

/// Ends a run `wait` after the last frame. Records are frequent, and their windows so long that they
/// are decided on at once and those of the last reach beyond the data.
fn end_after(wait: Duration) -> Option<(Ended, Vec<TriggerPrimitive>, Vec<StoredTrigger>)> {
    let _alone = alone();
    let more = "[record]\nrequest_timeout = \"200 ms\"\n\
                [[pipeline.trigger.source]]\nkind = \"periodic\"\ninterval_ticks = 100_000\n";
    let long = "time_after = 250_000\ntd_readout_limit = 200_000";
    let windows = CONFIG.replace("time_after = 20_000", long);
    let bench = Bench::new(&format!("{windows}{more}"));
    let readout = Readout::start(&bench.config());
    thread::sleep(QUIET);
    bench.emulate(readout.address, Some(1500)).join().unwrap();
    thread::sleep(wait);
    let ended = readout.stop();
    if is_disturbed(&ended, "the last records") {
        return None;
    }
    assert!(!ended.is_degraded(), "{}", ended.report);
    assert_eq!(ended.open_books(), [""; 0]);
    let (recorded, records) = read(&bench.files()[0]);
    assert_eq!(records.len() as u64, ended.number("/trigger/decisions"), "none is left out");
    Some((ended, recorded, records))
}

#[test]
fn a_drain_answers_every_decision_with_all_that_was_found() {
    let Some((ended, recorded, records)) = end_after(Duration::ZERO) else { return };
    let cut_short = ended.ledger("trigger_fragments", "ended");
    assert!(cut_short > 0 && cut_short.is_multiple_of(2), "{}", ended.report["ledger"]);
    for record in &records {
        assert_eq!(record.primitives(), record.cut(&recorded));
    }
    let marked = |record: &&StoredTrigger| record.primitives.0.error_bits == INCOMPLETE;
    assert_eq!(records.iter().filter(marked).count() as u64, cut_short / 2);
    assert!(records.iter().filter(marked).all(|record| record.is_incomplete));
}

#[test]
fn a_decision_that_data_never_reach_is_answered_in_time_and_marked() {
    let Some((ended, recorded, records)) = end_after(Duration::from_millis(900)) else { return };
    let cut_short = ended.ledger("trigger_fragments", "timed_out");
    assert!(cut_short > 0, "{}", ended.report["ledger"]);
    assert_eq!(ended.ledger("trigger_fragments", "ended"), 0);
    let mut marked = 0;
    for record in &records {
        let (got, all) = (record.primitives(), record.cut(&recorded));
        if record.primitives.0.error_bits == 0 {
            assert_eq!(got, all);
        } else {
            assert_eq!(record.primitives.0.error_bits, INCOMPLETE);
            assert_eq!(got, all[..got.len()], "the first of them, in order");
            marked += 1;
        }
    }
    assert_eq!(2 * marked, cut_short);
}
