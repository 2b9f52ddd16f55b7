//! Recorded data are triggered on again: primitives by `gannet trigger`, frames by `gannet replay`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gannet_log::{Kind, Reader};
use gannet_record::StoredRecord;
use gannet_wire::trigger_activity::TriggerActivities;
use gannet_wire::trigger_candidate::TriggerCandidates;
use gannet_wire::{FragmentType, TriggerRecordHeader};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::RowAccessor;
use serde_json::Value;

use crate::readout::process::{Bench, Ended, Readout, alone, gannet, scale};

/// Tracks are 250 ms apart on average, so that the windows of most have nothing between them.
const TRACKS: &str = r#"
[[source]]
streams = { count = 4 }
udp = { listen = ["127.0.0.1:0"] }
depth = "500 ms"
[pipeline.tpg]
threshold = [60, 60, 60]
[pipeline.trigger.module_level]
time_before = 10_000
time_after = 10_000
[emulate]
seed = 8
streams = { count = 4 }
pace = { rate_scale = 0.3 }
tracks = { rate_hz = 15.0, adc = 600.0 }
"#;

fn run(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let arguments = arguments.iter().map(|argument| argument.as_ref());
    Command::new(gannet()).args(arguments).output().unwrap()
}

/// `gannet trigger --json` with these arguments: exit code and report.
fn trigger(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> (Option<i32>, Value) {
    let output =
        run(&[&[&"trigger" as &dyn AsRef<std::ffi::OsStr>, &"--json"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"));
    (output.status.code(), report)
}

/// A run without losses; `None` where the kernel gives too little memory for one.
fn recorded(bench: &Bench, frames: u64) -> Option<(PathBuf, Ended)> {
    let (_, ended) = bench.run(frames);
    if ended.kernel_was_short("recorded data are triggered on again") {
        return None;
    }
    assert!(!ended.is_degraded(), "{}", ended.report);
    Some((bench.files().remove(0), ended))
}

/// A trigger record, as an independent reader finds it.
#[derive(Debug)]
struct Record {
    number: u64,
    time: u64,
    trigger_type: u64,
    window: (u64, u64),
    candidates: usize,
    activities: usize,
}

impl Record {
    fn read(bytes: &[u8]) -> Self {
        let record = StoredRecord::trigger_record(bytes).unwrap();
        let checked = TriggerRecordHeader::new_checked(record.header()).unwrap();
        let request = checked.component_requests().next().unwrap();
        let payload = |kind: FragmentType| {
            let mut fragments = record.fragments().map(Result::unwrap);
            fragments.find(|fragment| fragment.header().fragment_type == kind).unwrap().payload()
        };
        let candidates = TriggerCandidates::new(payload(FragmentType::TriggerCandidate));
        let activities = TriggerActivities::new(payload(FragmentType::TriggerActivity));
        Self {
            number: checked.header().trigger_number,
            time: checked.header().trigger_timestamp,
            trigger_type: checked.header().trigger_type,
            window: (request.window_begin, request.window_end),
            candidates: candidates.map(Result::unwrap).count(),
            activities: activities.map(Result::unwrap).count(),
        }
    }

    /// Whether this is `other` found again. The pedestal of a replay is that of the window, so that
    /// a hit may be found some samples earlier or later.
    fn is(&self, other: &Self) -> bool {
        let near = |a: u64, b: u64| a.abs_diff(b) < 2_000;
        near(self.window.0, other.window.0)
            && near(self.window.1, other.window.1)
            && self.trigger_type == other.trigger_type
            && (self.candidates, self.activities) == (other.candidates, other.activities)
    }
}

/// The records in a log in the order of their numbers.
fn records(log: &Path) -> Vec<Record> {
    let mut reader = Reader::open(log).unwrap();
    let mut records = Vec::new();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        if chunk.header.label.kind == Kind::TRIGGER_RECORD {
            records.push(Record::read(chunk.payload));
        }
    }
    records.sort_unstable_by_key(|record| record.number);
    records
}

/// Number, time and type of the rows in a table of triggers.
fn rows(table: &Path) -> Vec<(u64, u64, u64)> {
    let file = SerializedFileReader::new(std::fs::File::open(table).unwrap()).unwrap();
    let row = |row: Result<parquet::record::Row, _>| {
        let row = row.unwrap();
        (row.get_ulong(0).unwrap(), row.get_ulong(1).unwrap(), row.get_ulong(4).unwrap())
    };
    file.get_row_iter(None).unwrap().map(row).collect()
}

#[test]
fn the_trigger_of_the_run_decides_again_as_in_the_run_record_for_record() {
    let _alone = alone();
    let source =
        "[[pipeline.trigger.source]]\nkind = \"random\"\nmean_interval_ticks = 3_000_000\n";
    let bench = Bench::new(&format!("{TRACKS}{source}"));
    let Some((log, ended)) = recorded(&bench, 30_000) else { return };
    let at = |name: &str| bench.directory.path().join(name);
    let (code, report) = trigger(&[&log, &"--out", &at("triggers.parquet")]);
    assert_eq!(code, Some(0), "{report}");
    let (expected, decisions) = (records(&log), ended.number("/trigger/decisions"));
    assert!(decisions > 10 && expected.len() as u64 == decisions);
    for (name, count) in [("same", decisions), ("differ", 0), ("unrecorded", 0)] {
        assert_eq!(report["compared"][name], count, "{report}");
    }
    for stage in ["activities", "candidates"] {
        assert_eq!(report[stage], ended.number(&format!("/trigger/{stage}")), "{report}");
    }
    let expected: Vec<_> =
        expected.iter().map(|record| (record.number, record.time, record.trigger_type)).collect();
    assert_eq!(rows(&at("triggers.parquet")), expected);

    // The same from exported primitives, and without the random triggers. Slices tell the trigger too,
    // a table does not.
    assert_eq!(run(&[&"export", &log, &"--to", &bench.directory.path()]).status.code(), Some(0));
    let stem = log.file_stem().unwrap().to_str().unwrap();
    let tracks = at("tracks.toml");
    std::fs::write(
        &tracks,
        "[pipeline.trigger.module_level]\ntime_before = 10_000\ntime_after = 10_000\n",
    )
    .unwrap();
    let mut triggers = Vec::new();
    for input in [log.clone(), at(&format!("{stem}_tps.parquet")), at(&format!("{stem}_tps.hdf5"))]
    {
        let (code, report) = trigger(&[&input, &"--config", &tracks]);
        assert_eq!((code, &report["compared"]), (Some(0), &Value::Null), "{report}");
        triggers.push(report["triggers"].as_u64().unwrap());
    }
    assert!(triggers[0] > 5 && triggers[0] < decisions, "{triggers:?} of {decisions}");
    assert!(triggers.iter().all(|count| *count == triggers[0]), "{triggers:?}");
    let (code, report) = trigger(&[&at(&format!("{stem}_tps.hdf5"))]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["activities"], ended.number("/trigger/activities"), "{report}");
    let alone = run(&[&"trigger", &at(&format!("{stem}_tps.parquet"))]);
    let message = String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.code() == Some(1) && message.contains("--config"), "{message}");
}

#[test]
fn a_replayed_record_file_gives_its_own_records_again_at_any_rate() {
    let _alone = alone();
    let bench = Bench::new(TRACKS);
    let Some((log, _)) = recorded(&bench, 30_000) else { return };
    let first = records(&log);
    assert!(first.iter().filter(|record| record.candidates > 1).count() > 1, "{first:?}");
    // All but the first pause between windows for longer than the trigger waits.
    let (short, long) =
        (["--unpaced", "--rate-scale=1", "--rate-scale=0.3"], ["--rate-scale=0.02"]);
    let rates = short.iter().chain(long.iter().filter(|_| scale(2) == 2));
    for rate in rates {
        let again = Bench::new(TRACKS);
        let readout = Readout::start(&again.config());
        let to = readout.address.to_string();
        let sent = run(&[&"replay", &log, &"--to", &to, rate]);
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        let ended = readout.stop();
        if ended.kernel_was_short("a replayed record file") {
            return;
        }
        let replayed = again.files().remove(0);
        let second = records(&replayed);
        let differ = first.iter().zip(&second).find(|(first, second)| !second.is(first));
        assert!(differ.is_none(), "{rate}: {differ:?}");
        assert_eq!(second.len(), first.len(), "{rate}");
        assert_eq!(ended.ledger("frames", "bad_timestamp"), 0, "{}", ended.report);
        let (_, report) = trigger(&[&replayed]);
        assert_eq!(report["compared"]["same"], second.len(), "{rate}: {report}");
        assert_eq!(report["compared"]["unrecorded"], 0, "{rate}: {report}");
    }
}

/// Primitives of a wrong clock are in the slices, beside the order in which the run decided.
#[test]
fn a_wrong_clock_changes_no_decision_that_is_made_again() {
    let _alone = alone();
    let back = |stream| format!("{{ stream = {stream}, from = \"400 ms\", behind = \"10 s\" }}");
    let all_back = [0, 1, 2, 3].map(back).join(", ");
    for clocks in ["{ stream = 1, ahead = \"1 s\" }", &all_back] {
        let slices = "[pipeline]\nslice_ticks = 1_562_500\n";
        let bench = Bench::new(&format!("{TRACKS}faults = {{ clocks = [{clocks}] }}\n{slices}"));
        let (_, ended) = bench.run(30_000);
        if ended.kernel_was_short("a trigger again under a wrong clock") {
            return;
        }
        let (_, report) = trigger(&[&bench.files()[0]]);
        let decisions = ended.number("/trigger/decisions");
        assert!(decisions > 5, "{}", ended.report);
        for (name, count) in [("same", decisions), ("differ", 0), ("unrecorded", 0)] {
            assert_eq!(report["compared"][name], count, "{clocks}: {report}");
        }
        assert_eq!(report["primitives"], ended.ledger("merge", "delivered"), "{clocks}: {report}");
        let span_s = report["span_s"].as_f64().unwrap();
        assert!((0.8..1.1).contains(&span_s), "{clocks}: {report}");
    }
}
