//! Recorded data are triggered on again: primitives by `gannet trigger`, frames by `gannet replay`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gannet_readout::log::{Kind, Reader};
use gannet_readout::record::StoredRecord;
use gannet_wire::TriggerRecordHeader;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::RowAccessor;
use serde_json::Value;

use crate::readout::process::{Bench, Ended, Readout, alone, gannet};

/// Tracks are 250 ms apart on average, so that the windows of most have nothing between them.
const TRACKS: &str = r#"
[[source]]
streams = { count = 4 }
udp = { listen = ["127.0.0.1:0"] }
depth = "500 ms"
[tpg]
threshold = [60, 60, 60]
[trigger.module_level]
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

/// Number, time and type of the records in a log, as an independent reader finds them.
fn records(log: &Path) -> Vec<(u64, u64, u64)> {
    let mut reader = Reader::open(log).unwrap();
    let mut records = Vec::new();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        if chunk.header.label.kind == Kind::TRIGGER_RECORD {
            let record = StoredRecord::trigger_record(chunk.payload).unwrap();
            let header = TriggerRecordHeader::new_checked(record.header()).unwrap().header();
            records.push((header.trigger_number, header.trigger_timestamp, header.trigger_type));
        }
    }
    records.sort_unstable();
    records
}

/// The same from a table of triggers.
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
    let source = "[[trigger.source]]\nkind = \"random\"\nmean_interval_ticks = 3_000_000\n";
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
    assert_eq!(rows(&at("triggers.parquet")), expected);

    // The same from exported primitives, and without the random triggers. Slices tell the trigger too,
    // a table does not.
    assert_eq!(run(&[&"export", &log, &"--to", &bench.directory.path()]).status.code(), Some(0));
    let stem = log.file_stem().unwrap().to_str().unwrap();
    let tracks = at("tracks.toml");
    std::fs::write(&tracks, "[trigger.module_level]\ntime_before = 10_000\ntime_after = 10_000\n")
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
fn a_replayed_record_file_gives_its_own_triggers_again_at_any_rate() {
    let _alone = alone();
    let bench = Bench::new(TRACKS);
    let Some((log, _)) = recorded(&bench, 30_000) else { return };
    let first = records(&log);
    assert!(first.len() > 5, "{first:?}");
    for rate in ["--unpaced", "--rate-scale=1", "--rate-scale=0.1"] {
        let again = Bench::new(TRACKS);
        let readout = Readout::start(&again.config());
        let to = readout.address.to_string();
        let sent = run(&[&"replay", &log, &"--to", &to, &rate]);
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        let ended = readout.stop();
        if ended.kernel_was_short("a replayed record file") {
            return;
        }
        let second = records(&again.files()[0]);
        // The pedestal is that of the window, so that a track may be found a sample earlier.
        let is_there = |time: u64| second.iter().any(|other| other.1.abs_diff(time) < 2_000);
        let lost: Vec<_> = first.iter().filter(|record| !is_there(record.1)).collect();
        assert!(lost.is_empty(), "{rate}: {lost:?} of {} in {second:?}", first.len());
        assert_eq!(ended.ledger("frames", "bad_timestamp"), 0, "{}", ended.report);
    }
}
