//! `gannet replay`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use gannet_dune::raw_file::{RawFileReader, Role, verify};
use gannet_wire::{GeoId, tpc_frame, wibeth};

use crate::readout::process::{Bench, QUIET, Readout};
use crate::sending::receiver::Receiver;
use crate::sending::recordings::{self, FRAMES, REPEATED, SECOND, STREAMS, frames};
use crate::sending::{errors, gannet, interrupt, report, run};

/// Slow enough for the kernel's smallest buffers: about 200 frames a second.
const SCALE: &str = "0.003";
/// Interpreter with h5py, for the test of a file made elsewhere.
const PYTHON: &str = "GANNET_JUDGE_PYTHON";

/// Replays a file once and returns what was received, and the report.
fn replay(file: &Path) -> (Vec<Vec<u8>>, serde_json::Value) {
    let receiver = Receiver::start();
    let output = run(
        &[&"replay", &file, &"--to", &receiver.address(), &"--rate-scale", &SCALE, &"--json"],
        0,
    );
    (receiver.finish(), report(&output))
}

/// Compares frames without printing them.
fn assert_same(received: &[Vec<u8>], expected: &[Vec<u8>]) {
    assert_eq!(received.len(), expected.len());
    let different = received.iter().zip(expected).position(|(one, other)| one != other);
    assert_eq!(different, None, "the first frame that differs");
}

#[test]
fn captures_give_their_datagrams_at_the_recorded_rate() {
    let directory = tempfile::tempdir().unwrap();
    let frames = frames();
    let pcap = recordings::pcap_file(directory.path(), &frames);
    let pcapng = recordings::pcapng_file(directory.path(), &frames);
    for file in [pcap, pcapng] {
        let (received, report) = replay(&file);
        assert_same(&received, &frames);
        assert_eq!(report["datagrams"], frames.len());
        assert_eq!(report["unsent"], 0);
        assert_eq!(report["skipped"]["packets"], 4);
        // The last packet was recorded (40 - 1) * 16.384 us after the first.
        assert!(report["elapsed_ns"].as_u64().unwrap() >= (39.0 * 16_384.0 / 0.003) as u64);
        assert_eq!(report["lateness_ns"]["count"], frames.len());
    }
}

#[test]
fn a_recording_goes_to_where_a_configuration_expects_it() {
    let bench = Bench::new(
        "[[source]]\nstreams = { count = 2 }\nfabric = { backend = \"shm\", listen = \"ring\" }",
    );
    let file = recordings::pcap_file(bench.directory.path(), &frames());
    let readout = Readout::start(&bench.config());
    thread::sleep(QUIET);
    let to = bench.config();
    let arguments: [&dyn AsRef<OsStr>; 7] =
        [&"replay", &file, &"--config", &to, &"--wait", &"--unpaced", &"--json"];
    let report = report(&run(&arguments, 0));
    thread::sleep(QUIET);
    let ended = readout.stop();
    assert_eq!((&report["datagrams"], &report["unsent"]), (&frames().len().into(), &0.into()));
    assert_eq!(ended.ledger("frames", "delivered"), frames().len() as u64, "{}", ended.report);
}

#[test]
fn records_give_each_frame_once_in_the_order_of_time() {
    let directory = tempfile::tempdir().unwrap();
    let frames = frames();
    let raw_file = recordings::raw_file(directory.path(), &frames);
    let log_file = recordings::log_file(directory.path(), &frames);
    // The log holds the last frame of each stream once more.
    for (file, repeated) in [(raw_file, REPEATED), (log_file, REPEATED + STREAMS as u64)] {
        let (received, report) = replay(&file);
        // Fragments were stored in the reverse order, or h5py's: both streams of a time may
        // come in either order.
        let (mut received, mut expected) = (received, frames.clone());
        let time = |frame: &Vec<u8>| wibeth::Frame::new_checked(&frame[..]).unwrap().timestamp();
        assert!(received.is_sorted_by_key(time));
        received.sort();
        expected.sort();
        assert_same(&received, &expected);
        assert_eq!(report["skipped"]["repeated"], repeated);
        assert_eq!(report["skipped"]["fragments"], 2);
        assert_eq!(report["skipped"]["damaged"], 0);
    }
}

#[test]
fn damage_in_a_log_is_stepped_over_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let file = recordings::log_file(directory.path(), &frames());
    let mut bytes = fs::read(&file).unwrap();
    // In the first record, which begins behind the file header.
    bytes[20_000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let (received, report) = replay(&file);
    assert_eq!(received.len(), SECOND * STREAMS);
    assert_eq!(report["skipped"]["damaged"], 1);
    assert_eq!(report["skipped"]["repeated"], STREAMS);
}

#[test]
fn passes_look_like_one_long_run() {
    let directory = tempfile::tempdir().unwrap();
    let file = recordings::raw_file(directory.path(), &frames());
    let receiver = Receiver::start();
    let to = receiver.address();
    let arguments: [&dyn AsRef<std::ffi::OsStr>; 8] =
        [&"replay", &file, &"--to", &to, &"--passes", &"3", &"--rate-scale", &SCALE];
    let output = run(&arguments, 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let per_pass = FRAMES as usize * STREAMS;
    assert!(said.contains(&format!("sent       {} frames", 3 * per_pass)), "{said}");
    assert!(said.contains(&format!("rewritten  {} frames", 2 * per_pass)), "{said}");
    let mut streams: BTreeMap<GeoId, Vec<(u64, u16)>> = BTreeMap::new();
    for frame in receiver.finish() {
        let frame = wibeth::Frame::new_checked(&frame[..]).unwrap();
        let seen = (frame.timestamp(), frame.daq().seq_id());
        streams.entry(frame.geo_id()).or_default().push(seen);
    }
    assert_eq!(streams.len(), STREAMS);
    for frames in streams.values() {
        assert_eq!(frames.len() as u64, 3 * FRAMES);
        for pair in frames.windows(2) {
            assert_eq!(pair[1].0 - pair[0].0, wibeth::TICKS_PER_FRAME);
            assert_eq!((pair[1].1 + 4096 - pair[0].1) % 4096, 1);
        }
    }
}

#[test]
fn a_signal_ends_an_endless_replay_with_its_report() {
    let directory = tempfile::tempdir().unwrap();
    let file = recordings::pcap_file(directory.path(), &frames());
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let receiver = Receiver::start();
        let to = receiver.address();
        let arguments: [&dyn AsRef<std::ffi::OsStr>; 9] = [
            &"replay",
            &file,
            &"--to",
            &to,
            &"--passes",
            &"0",
            &"--rate-scale",
            &"0.01",
            &"--json",
        ];
        let child = gannet(&arguments).spawn().unwrap();
        receiver.await_datagrams(10);
        let output = interrupt(child, signal);
        assert_eq!(output.status.code(), Some(code), "{}", errors(&output));
        let sent = report(&output)["datagrams"].as_u64().unwrap();
        assert!(sent >= 10);
        assert_eq!(receiver.finish().len() as u64, sent);
    }
}

#[test]
fn unpaced_frames_all_leave() {
    let directory = tempfile::tempdir().unwrap();
    let file = recordings::log_file(directory.path(), &frames());
    let receiver = Receiver::start();
    let to = receiver.address();
    let arguments: [&dyn AsRef<std::ffi::OsStr>; 7] =
        [&"replay", &file, &"--to", &to, &"--unpaced", &"--passes", &"10"];
    let output = run(&[&arguments[..], &[&"--json"]].concat(), 0);
    let report = report(&output);
    assert_eq!(report["datagrams"], 10 * FRAMES * STREAMS as u64);
    assert_eq!(report["lateness_ns"]["count"], 0);
}

#[test]
fn what_cannot_be_replayed_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("notes.txt");
    fs::write(&text, "these are no frames, but notes").unwrap();
    let empty = recordings::log_without_frames(directory.path());
    let mut cut = fs::read(recordings::pcap_file(directory.path(), &frames())).unwrap();
    cut.truncate(cut.len() - 1);
    let capture = directory.path().join("cut.pcap");
    fs::write(&capture, cut).unwrap();
    let missing = directory.path().join("missing.pcap");
    for (file, cause) in [
        (text, "notes.txt is neither a packet capture"),
        (empty, "holds no front-end frames"),
        (missing, "missing.pcap: No such file"),
        (capture, "what lies before was replayed"),
    ] {
        let to = Receiver::start().address();
        let output = run(&[&"replay", &file, &"--to", &to, &"--unpaced"], 1);
        assert!(errors(&output).contains(cause), "{}", errors(&output));
    }
    let output = run(&[&"replay", &"a.pcap", &"--to", &"127.0.0.1:7000", &"--rate-scale", &"0"], 2);
    assert!(errors(&output).contains("rate_scale = 0"), "{}", errors(&output));
}

#[test]
fn a_record_file_made_elsewhere_gives_exactly_its_frames() {
    let Some(python) = std::env::var_os(PYTHON) else {
        let why = format!("set {PYTHON} to a Python with h5py");
        return gannet_measure::testing::skipped("a record file made elsewhere", why);
    };
    let directory = tempfile::tempdir().unwrap();
    let (file, frames) = (directory.path().join("a.hdf5"), directory.path().join("frames"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/judges/make_foreign_records.py");
    let made = Command::new(python).args([Path::new(script), &file, &frames]).status().unwrap();
    assert!(made.success());

    assert_eq!(verify(&file).unwrap().records, 3);
    let raw_file = RawFileReader::open(&file).unwrap();
    assert_eq!(raw_file.text("application_name").unwrap(), "another-dataflow0");
    for record in raw_file.records() {
        let entries = record.entries().unwrap();
        let fragments = entries.iter().filter(|entry| matches!(entry.role, Role::Fragment(..)));
        assert_eq!(fragments.count(), 4);
    }

    let expected = fs::read(frames).unwrap();
    let expected = expected.chunks(tpc_frame::FRAME_LEN).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (received, report) = replay(&file);
    assert_same(&received, &expected);
    assert_eq!(report["skipped"]["fragments"], 3);
    assert!(report["skipped"]["repeated"].as_u64().unwrap() > 0);
}
