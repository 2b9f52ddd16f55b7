//! The hodoscope through every verb, as somebody would type them.

#[path = "../../../../crates/gannet-cli/tests/it/typed.rs"]
mod typed;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use gannet_wire::capture::{LINK_TYPE_ETHERNET, Packet};
use gannet_wire::network::Addresses;
use gannet_wire::{GeoId, StreamKey, ethernet, pcap};
use serde_json::Value;

const TUTORIAL: &str = include_str!("../../../../docs/tutorial.md");
const SOURCE: &str = include_str!("../../src/main.rs");
/// Lines of code that a detector of one's own may take.
const LINES_MAX: usize = 100;

fn run(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_own-detector"));
    let output = command.args(arguments).current_dir(directory).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} {:?}: {errors}", output.status);
    output
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} of {value:#}"))
}

/// How many items the stages of a report dropped for a reason.
fn dropped(report: &Value, stage: &str) -> u64 {
    let stages = report["ledger"].as_array().unwrap().iter();
    let stage = stages.filter(|statement| statement["stage"] == stage);
    let drops = stage.flat_map(|statement| statement["dropped"].as_array().unwrap());
    drops.map(|drop| number(drop, "/count")).sum()
}

/// The configuration of the demonstration, with other lines in place of some.
fn config(directory: &Path, changes: &[(&str, &str)]) -> PathBuf {
    let mut text = String::from_utf8(run(directory, &["demo", "--print-config"]).stdout).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let path = directory.join("hodoscope.toml");
    fs::write(&path, text).unwrap();
    path
}

/// Starts to take data as the configuration says.
fn readout(directory: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_own-detector"))
        .args(["run", "hodoscope.toml", "--quiet", "--json"])
        .current_dir(directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The report of a readout that is asked to stop.
fn stop(readout: Child) -> Value {
    let interrupt = Command::new("kill").args(["-INT", &readout.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    json(&readout.wait_with_output().unwrap())
}

/// Runs the configuration until `frames` frames of each board were sent, and gives the reports of
/// readout and front end.
fn take(directory: &Path, frames: &str) -> (Value, Value) {
    let readout = readout(directory);
    let send = ["emulate", "hodoscope.toml", "--wait", "--json", "--frames", frames];
    let sent = run(directory, &send);
    (stop(readout), json(&sent))
}

#[test]
fn a_detector_of_ones_own_takes_a_hundred_lines() {
    let code = SOURCE.lines().map(str::trim);
    let code = code.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    assert!(code <= LINES_MAX, "{code} lines");
}

#[test]
fn the_demonstration_finds_the_muons_it_sends() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["demo", "--seconds", "3", "--quiet", "--json", "--directory", "out"];
    let report = json(&run(directory.path(), &arguments));
    let readout = &report["readout"];
    assert_eq!(readout["degraded"], false, "{readout:#}");
    assert_eq!(readout["streams"].as_array().unwrap().len(), 4);
    // A muon every 100 ms.
    assert!(number(readout, "/trigger/decisions") >= 20, "{readout:#}");
    assert_eq!(number(readout, "/recorder/records"), number(readout, "/trigger/decisions"));
    let files = fs::read_dir(directory.path().join("out")).unwrap();
    let names: Vec<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    for ending in ["glog", "hdf5", "parquet", "sha256"] {
        assert!(names.iter().any(|name| name.ends_with(ending)), "{ending}: {names:?}");
    }
}

#[test]
fn the_demonstration_goes_on_with_its_own_program() {
    let directory = tempfile::tempdir().unwrap();
    let shown = run(directory.path(), &["demo", "--seconds", "0.2", "--quiet"]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("own-detector run my.toml"), "{shown}");
    assert!(!shown.contains("gannet run") && !shown.contains("tracks"), "{shown}");
}

#[test]
fn what_it_cannot_do_is_refused_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    for (from, to, told) in [
        ("charge = 400", "charge = -1", "hodoscope.toml:"),
        ("seed = 1", "seed = 1\nfaults = { loss = 2.0 }", "emulate.faults"),
        ("[pipeline.tpg]", "[pipeline.tpg]\nthreshold = [60, 60, 60]", "unknown key `threshold`"),
        (
            "\"hodoscope\"\n\n[pipeline.tpg]",
            "\"dune-tpc\"\n\n[pipeline.tpg]",
            "use one of: hodoscope",
        ),
    ] {
        config(directory.path(), &[(from, to)]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_own-detector"));
        let output = command.args(["check", "hodoscope.toml"]).current_dir(directory.path());
        let output = output.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(4) && errors.contains(told), "{to}: {errors}");
    }
}

#[test]
fn what_is_lost_on_the_way_is_in_the_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let lossy = "[emulate]\nfaults = { loss = 0.05, duplicate = 0.02, truncation = 0.01 }";
    config(
        directory.path(),
        &[("[emulate]", lossy), ("[recorder]", "[recorder]\nraw_streams = \"all\"")],
    );
    let checked = run(directory.path(), &["check", "hodoscope.toml"]);
    assert!(String::from_utf8_lossy(&checked.stdout).contains("detector = \"hodoscope\""));
    let (report, sent) = take(directory.path(), "5000");
    let total = |key: &str| {
        let streams = sent.pointer("/truth/streams").unwrap().as_array().unwrap().iter();
        streams.map(|stream| number(stream, &format!("/faults/{key}"))).sum::<u64>()
    };
    let (lost, truncated) = (total("lost"), total("truncated"));
    assert!(lost > 500 && truncated > 100, "{sent:#}");
    // Cut inside its hits, a datagram of varying length is one all the same; what lacks a whole header
    // is none.
    let missing: u64 =
        report["streams"].as_array().unwrap().iter().map(|s| number(s, "/missing")).sum();
    assert!((lost..=lost + truncated).contains(&missing), "{missing} of {lost}: {report:#}");
    assert_eq!(number(&report, "/frames_lost"), missing);
    assert_eq!(dropped(&report, "sent"), missing);
    assert!(dropped(&report, "frames") >= total("duplicated"), "{report:#}");

    let log = report.pointer("/recorder/files/0").unwrap().as_str().unwrap();
    run(directory.path(), &["verify", log]);
    let listed = run(directory.path(), &["inspect", log]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("trigger record"), "{listed:?}");
}

#[test]
fn its_primitives_are_triggered_on_again_as_its_own_configuration_says() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["demo", "--seconds", "1", "--quiet", "--json", "--directory", "out"];
    let report = json(&run(directory.path(), &arguments));
    let log = report.pointer("/readout/recorder/files/0").unwrap().as_str().unwrap();
    let again = |changes: &[(&str, &str)]| {
        config(directory.path(), changes);
        let arguments = ["trigger", log, "--config", "hodoscope.toml", "--json"];
        number(&json(&run(directory.path(), &arguments)), "/triggers")
    };
    let decisions = number(&report, "/readout/trigger/decisions");
    assert_eq!((again(&[]), decisions > 0), (decisions, true), "{report:#}");
    let tighter = "algorithm = \"horizontal-muon\"\nadjacency_threshold = 200";
    assert_eq!(again(&[("algorithm = \"horizontal-muon\"", tighter)]), 0);
    // It has a finder of its own, which `find` does not know.
    let found = Command::new(env!("CARGO_BIN_EXE_own-detector"))
        .args(["find", log])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&found.stderr);
    assert!(told.contains("the detector \"hodoscope\"; only frames of DUNE's"), "{told}");
}

#[test]
fn a_capture_of_it_is_replayed_and_taken() {
    let directory = tempfile::tempdir().unwrap();
    config(directory.path(), &[("127.0.0.1:7430", "127.0.0.1:7431")]);
    fs::write(directory.path().join("boards.pcap"), capture(500)).unwrap();
    let readout = readout(directory.path());
    let replay = ["replay", "boards.pcap", "--to", "127.0.0.1:7431", "--wait", "--json"];
    let sent = json(&run(directory.path(), &[&replay[..], &["--passes", "2"]].concat()));
    let report = stop(readout);
    assert_eq!(number(&sent, "/datagrams"), 4000, "{sent:#}");
    assert_eq!(number(&report, "/streams/0/frames"), 1000, "{report:#}");
    assert_eq!(number(&report, "/frames_lost"), 0, "{report:#}");
}

#[test]
fn the_tutorials_chapter_on_it_does_what_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let (programs, work) = (directory.path().join("programs"), directory.path().join("work"));
    fs::create_dir(&programs).unwrap();
    fs::create_dir(&work).unwrap();
    symlink(env!("CARGO_BIN_EXE_own-detector"), programs.join("hodoscope")).unwrap();
    fs::write(work.join("boards.pcap"), capture(500)).unwrap();
    let mut script = typed::PRELUDE.to_owned();
    for block in typed::blocks(TUTORIAL).iter().filter(|block| block.language == "sh hodoscope") {
        typed::add_commands(&mut script, block);
    }
    assert!(script.contains("hodoscope demo"), "{script}");
    let output = typed::run(&script, directory.path(), &programs);
    let (out, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{errors}", output.status);
}

#[test]
fn the_tutorial_shows_the_code_as_it_is() {
    let shown: Vec<_> =
        typed::blocks(TUTORIAL).into_iter().filter(|block| block.language == "rust").collect();
    assert!(shown.len() >= 4);
    for block in shown {
        assert!(SOURCE.contains(&block.code.join("\n")), "tutorial.md:{}", block.line);
    }
}

/// A packet capture of datagrams of four boards without hits, `frames` of each.
fn capture(frames: u64) -> Vec<u8> {
    let addresses = Addresses {
        source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
        source: "10.0.0.1:1000".parse().unwrap(),
        destination: "10.0.0.2:7430".parse().unwrap(),
    };
    let mut file = Vec::new();
    let header = pcap::FileHeader::new(LINK_TYPE_ETHERNET);
    let writer = pcap::Writer::new(header, &mut file);
    let datagrams = (0..frames).flat_map(|index| (0..4).map(move |board| (index, board)));
    for (index, board) in datagrams {
        let StreamKey(stream) = GeoId::new(0, 0, board, 0).into();
        let numbers = [1_000_000_000 + 6250 * index, stream, index].map(u64::to_le_bytes);
        let frame = numbers.as_flattened();
        let mut data = vec![0; addresses.buffer_len(frame.len())];
        addresses.emit(frame, &mut data).unwrap();
        let timestamp_ns = Some(100_000 * index);
        let original_len = data.len() as u32;
        let (interface, link_type) = (0, LINK_TYPE_ETHERNET);
        let packet = Packet { interface, link_type, timestamp_ns, original_len, data: &data };
        writer.packet(&packet, &mut file).unwrap();
    }
    file
}
