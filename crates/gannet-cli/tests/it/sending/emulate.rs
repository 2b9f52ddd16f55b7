//! `gannet emulate`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gannet_wire::{GeoId, wibeth};

use crate::sending::receiver::Receiver;
use crate::sending::{errors, gannet, interrupt, report, run};

/// Two streams, slow enough for the kernel's smallest buffers: about 300 frames a second each.
const EMULATE: &str = r#"
[emulate]
streams = { count = 2 }
pace = { rate_scale = 0.01, burst = 1 }
tracks = { rate_hz = 2000.0 }
"#;

/// Writes a configuration whose sources listen to one stream each, on the ports given.
fn configuration(directory: &Path, sources: &str) -> PathBuf {
    let path = directory.join("detector.toml");
    fs::write(&path, format!("{sources}{EMULATE}")).unwrap();
    path
}

/// Number of frames of each stream.
fn counts(received: &[Vec<u8>]) -> BTreeMap<GeoId, u64> {
    let mut counts = BTreeMap::new();
    for frame in received {
        let frame = wibeth::Frame::new_checked(&frame[..]).unwrap();
        *counts.entry(frame.geo_id()).or_default() += 1;
    }
    counts
}

#[test]
fn streams_go_to_the_source_that_expects_them_and_the_truth_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::start();
    let source = format!(
        "[[source]]\nstreams = {{ count = 2 }}\nudp = {{ listen = [\"0.0.0.0:{}\"] }}\n",
        receiver.port()
    );
    let file = configuration(directory.path(), &source);
    let (truth, hits) = (directory.path().join("truth.json"), directory.path().join("hits.jsonl"));
    let arguments: [&dyn AsRef<std::ffi::OsStr>; 9] =
        [&"emulate", &file, &"--frames", &"70", &"--truth", &truth, &"--hits", &hits, &"--json"];
    let report = report(&run(&arguments, 0));
    let expected = (0..2).map(|stream| (GeoId::new(3, 1, 0, stream), 70)).collect();
    assert_eq!(counts(&receiver.finish()), expected);
    assert_eq!(report["truth"]["streams"][1]["datagrams_sent"], 70);
    assert_eq!(report["truth"]["streams"][1]["stream"], "3/1/0/1");

    let truth: serde_json::Value = serde_json::from_slice(&fs::read(truth).unwrap()).unwrap();
    assert_eq!(truth, report);
    let hits = fs::read_to_string(hits).unwrap();
    let events =
        ["track", "deposit"].map(|kind| report["truth"]["events"][kind].as_u64().unwrap_or(0));
    assert!(events[0] > 0);
    assert_eq!(hits.lines().count() as u64, events.iter().sum::<u64>());
    for line in hits.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["event"]["hits"], line["hits"].as_array().unwrap().len());
    }
}

#[test]
fn without_a_receiver_an_address_has_to_be_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = configuration(directory.path(), "");
    let output = run(&[&"emulate", &file, &"--frames", &"1"], 4);
    assert!(errors(&output).contains("name an address with --to"), "{}", errors(&output));
    let receiver = Receiver::start();
    let to = receiver.address();
    let output = run(&[&"emulate", &file, &"--frames", &"30", &"--to", &to], 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("3/1/0/1"), "{said}");
    assert_eq!(receiver.finish().len(), 60);
}

#[test]
fn it_runs_until_a_signal_and_still_reports() {
    let directory = tempfile::tempdir().unwrap();
    let file = configuration(directory.path(), "");
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let receiver = Receiver::start();
        let to = receiver.address();
        let child = gannet(&[&"emulate", &file, &"--to", &to, &"--json"]).spawn().unwrap();
        // More than a second of 305 frames/s of each stream.
        receiver.await_datagrams(700);
        let output = interrupt(child, signal);
        assert_eq!(output.status.code(), Some(code), "{}", errors(&output));
        assert!(errors(&output).contains("frames/s"), "a line a second: {}", errors(&output));
        let streams = &report(&output)["truth"]["streams"];
        let made = streams[0]["frames_made"].as_u64().unwrap();
        assert!(made >= 350);
        assert_eq!(streams[1]["frames_made"], made);
        assert_eq!(receiver.finish().len() as u64, 2 * made);
    }
}

#[test]
fn it_never_writes_over_what_it_reads() {
    let directory = tempfile::tempdir().unwrap();
    let file = configuration(directory.path(), "");
    let before = std::fs::read(&file).unwrap();
    let new = directory.path().join("truth.json");
    let to = "127.0.0.1:9";
    for option in ["--truth", "--hits"] {
        let output = run(&[&"emulate", &file, &"--to", &to, &option, &file], 2);
        assert!(errors(&output).contains(option), "{}", errors(&output));
    }
    run(&[&"emulate", &file, &"--to", &to, &"--truth", &new, &"--hits", &new], 2);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert!(!new.exists());
}

#[test]
fn it_stops_by_itself_after_the_seconds_given() {
    let directory = tempfile::tempdir().unwrap();
    let file = configuration(directory.path(), "");
    let receiver = Receiver::start();
    let to = receiver.address();
    let output = run(&[&"emulate", &file, &"--to", &to, &"--seconds", &"0.3", &"--json"], 0);
    assert!(report(&output)["pace"]["elapsed_ns"].as_u64().unwrap() >= 300_000_000);
    assert!(!receiver.finish().is_empty());
    run(&[&"emulate", &file, &"--to", &to, &"--seconds", &"-1"], 2);
}
