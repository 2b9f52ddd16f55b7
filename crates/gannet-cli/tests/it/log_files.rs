//! The verbs that look after recorded files, as a user calls them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gannet_dune::time_slice::SliceBuilder;
use gannet_log::{Chunk, Kind, Label, Offer, Recorder, RecorderConfig, RunInfo};
use gannet_measure::quantity::Bytes;
use gannet_wire::{TriggerPrimitive, TriggerPrimitiveRepr};
use serde_json::Value;

/// Primitives in the log.
const PRIMITIVES: u64 = 100;

/// A finished log in `directory` with some slices of primitives.
fn log_in(directory: &Path) -> PathBuf {
    let config = RecorderConfig {
        directory: directory.into(),
        disk_reserve: Bytes(0),
        ..RecorderConfig::default()
    };
    let recorder = Recorder::start(config, RunInfo { run: 7, ..RunInfo::default() }).unwrap();
    let offer = |chunk| {
        assert!(matches!(recorder.handle().offer(chunk), Offer::Accepted(_)));
    };
    offer(Chunk::new(Label::new(Kind::RUN_START), b"{\"run\":7}".to_vec()));
    let mut builder = SliceBuilder::new(7, 1000, 64);
    for i in 0..PRIMITIVES {
        let primitive = TriggerPrimitive::new(TriggerPrimitiveRepr {
            channel: i as u32,
            detid: 3,
            flag: 0,
            time_start: 100 * i,
            samples_over_threshold: 9,
            samples_to_peak: 4,
            adc_integral: 500,
            adc_peak: 90,
        });
        builder.push(primitive).into_iter().for_each(|slice| offer(slice.into_chunk()));
    }
    builder.finish().into_iter().for_each(|slice| offer(slice.into_chunk()));
    assert_eq!(recorder.stop().acknowledged, 11);
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|e| e == "glog")).unwrap()
}

fn gannet(arguments: &[&str], files: &[&Path]) -> Output {
    let command = Command::new(env!("CARGO_BIN_EXE_gannet")).args(arguments).args(files).output();
    command.expect("the program starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", err(output)))
}

/// Flips a bit of byte `at`.
fn damage(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn export_lists_what_it_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_in(directory.path());
    let output = gannet(&["export"], &[&log]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(err(&output), "", "no progress without a terminal");
    let stem = log.with_extension("");
    let stem = stem.display();
    assert_eq!(out(&output), format!("{stem}_tps.hdf5\n{stem}_tps.parquet\n"));

    let again = gannet(&["export"], &[&log]);
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("--overwrite"), "{}", err(&again));
    assert_eq!(out(&again), "");
    let report = json(&gannet(&["export", "--overwrite", "--json"], &[&log]));
    assert_eq!(report[0]["primitives"], PRIMITIVES);
    assert_eq!(report[0]["slices"], 10);
    assert_eq!(report[0]["error"], Value::Null);
}

#[test]
fn export_makes_what_is_asked_for_where_it_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let log = log_in(directory.path());
    let to = elsewhere.path().to_str().unwrap();
    let output = gannet(&["export", "--format", "parquet", "--to", to], &[&log]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let made = PathBuf::from(out(&output).trim_end());
    assert_eq!(made.parent(), Some(elsewhere.path()));
    assert_eq!(fs::read(made).unwrap()[..4], *b"PAR1");
    let wrong = gannet(&["export", "--format", "csv"], &[&log]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("choose hdf5, parquet or raw"), "{}", err(&wrong));
}

#[test]
fn export_keeps_logs_of_one_name_apart() {
    let (one, two, to) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = log_in(one.path());
    let twin = two.path().join(log.file_name().unwrap());
    fs::copy(&log, &twin).unwrap();
    let options = ["export", "--overwrite", "--to", to.path().to_str().unwrap()];
    let output = gannet(&options, &[&log, &twin]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("files of one name"), "{}", err(&output));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    assert_eq!(gannet(&options, &[&log]).status.code(), Some(0));
}

#[test]
fn export_of_a_damaged_log_is_a_failed_verification_and_does_not_hold_up_others() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (bad, good) = (log_in(one.path()), log_in(two.path()));
    damage(&bad, 8192);
    let output = gannet(&["export"], &[&bad, &good]);
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(out(&output).lines().count(), 2);
    assert!(err(&output).contains("does not verify and is not exported"), "{}", err(&output));
    assert_eq!(fs::read_dir(one.path()).unwrap().count(), 1);
    let part = bad.with_extension("glog.part");
    fs::rename(&bad, &part).unwrap();
    let output = gannet(&["export"], &[&part]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("gannet recover"), "{}", err(&output));
}

#[test]
fn what_is_no_log_is_said_to_be_none() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("h.txt"), "hello").unwrap();
    fs::write(at("x.hdf5"), b"\x89HDF\r\n\x1a\n").unwrap();
    fs::write(at("empty.glog"), "").unwrap();
    let verbs = [("recover", "is no log", "is empty"), ("export", "is no log", "is empty")];
    for (verb, no_log, empty) in verbs.into_iter().chain([("inspect", "", "is empty")]) {
        for (name, words) in [("h.txt", no_log), ("x.hdf5", no_log), ("empty.glog", empty)] {
            let output = gannet(&[verb], &[&at(name)]);
            let said = err(&output);
            assert_eq!(output.status.code(), Some(1), "{verb} {name}: {said}");
            assert!(said.contains(words) && !said.contains("run recover"), "{verb} {name}: {said}");
        }
    }
}

#[test]
fn inspect_lists_a_log_and_prints_a_chunk() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_in(directory.path());
    let output = gannet(&["inspect"], &[&log]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    assert_eq!(text.lines().filter(|line| line.starts_with("chunk ")).count(), 13);
    assert!(text.contains("chunk      2  TP slice        seq      1"), "{text}");
    let listed = json(&gannet(&["inspect", "--json"], &[&log]));
    assert_eq!(listed.as_array().unwrap().len(), 13);
    assert_eq!(listed[2]["items"], 10);

    let start = out(&gannet(&["inspect", "--chunk", "1"], &[&log]));
    assert!(start.ends_with("{\n  \"run\": 7\n}\n"), "{start}");
    let slice = out(&gannet(&["inspect", "--chunk", "2"], &[&log]));
    assert!(slice.contains("  9: channel 9, detector HD_TPC"), "{slice}");
    let slice = json(&gannet(&["inspect", "--json", "--chunk", "2"], &[&log]));
    assert_eq!(slice["record"]["fragments"][0]["item_format"], "trigger-primitive", "{slice}");
    let none = gannet(&["inspect", "--chunk", "13"], &[&log]);
    assert_eq!(none.status.code(), Some(1));
    assert!(err(&none).contains("has no chunk 13; it has 13, counted from 0"), "{}", err(&none));
    assert_eq!(gannet(&["inspect", "--record", "1"], &[&log]).status.code(), Some(1));

    let part = log.with_extension("glog.part");
    fs::write(&part, &fs::read(&log).unwrap()[..5 * 4096]).unwrap();
    assert_eq!(out(&gannet(&["inspect"], &[&part])).matches("chunk ").count(), 5 + 1);
}

/// The time slices of a log as a raw file.
fn raw_file_of(log: &Path) -> PathBuf {
    let output = gannet(&["export", "--format", "hdf5"], &[log]);
    PathBuf::from(out(&output).trim_end())
}

#[test]
fn inspect_lists_a_raw_file_and_prints_a_record() {
    let directory = tempfile::tempdir().unwrap();
    let raw_file = raw_file_of(&log_in(directory.path()));
    let text = out(&gannet(&["inspect"], &[&raw_file]));
    assert!(text.starts_with("DUNE raw file, 10 records of type TimeSlice\n"), "{text}");
    assert!(text.contains("\nTimeSlice000010, 344 bytes\n"), "{text}");
    let listed = json(&gannet(&["inspect", "--json"], &[&raw_file]));
    assert_eq!(listed[0]["attributes"]["run_number"], 7);
    assert_eq!(listed[10]["data_sets"][1]["bytes"], 312);
    let record = out(&gannet(&["inspect", "--record", "10"], &[&raw_file]));
    assert!(record.contains("  9: channel 99, detector HD_TPC"), "{record}");
    let wrong = gannet(&["inspect", "--chunk", "1"], &[&raw_file]);
    assert!(err(&wrong).contains("use --record"), "{}", err(&wrong));
}

#[test]
fn inspect_still_tells_what_bytes_are() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("source");
    fs::write(&file, [2, 0, 1, 0, 0x64, 0, 0, 0]).unwrap();
    assert_eq!(out(&gannet(&["inspect"], &[&file])), "0: Detector_Readout_0x00000064\n");
    assert_eq!(gannet(&["inspect", "--json"], &[&file]).status.code(), Some(1));
}

#[test]
fn verify_takes_logs_and_raw_files() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_in(directory.path());
    let raw_file = raw_file_of(&log);
    let output = gannet(&["verify"], &[&log, &raw_file]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    assert!(text.contains(".glog: verified: "), "{text}");
    assert!(text.contains("_tps.hdf5: verified: 3440 bytes in 10 records, 10 fragments"), "{text}");
    let other = directory.path().join("text");
    fs::write(&other, "no file of ours").unwrap();
    for file in [&other, Path::new("/no/such/file")] {
        assert_eq!(gannet(&["verify"], &[file]).status.code(), Some(1));
    }

    // A slice number in a header, which no checksum guards.
    let bytes = fs::read(&raw_file).unwrap();
    let header = [0x66, 0x66, 0x55, 0x55, 2, 0, 0, 0, 1];
    let at = bytes.windows(header.len()).position(|window| window == header).unwrap();
    damage(&raw_file, at + 8);
    damage(&log, 8192);
    let output = gannet(&["verify", "--json"], &[&raw_file, &log]);
    assert_eq!(output.status.code(), Some(6), "{}", err(&output));
    let verdicts = json(&output);
    assert!([0, 1].iter().all(|file| verdicts[file]["verified"] == false));
    assert!(verdicts[0]["problem"].as_str().unwrap().contains("the header is that of 0"));
    assert_eq!(verdicts[1]["log"]["problem_count"], 2, "the chunk, and the count at the end");
}
