//! The examples are what they say: each is a right configuration, and those that need no special
//! machine are run.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gannet_dune::detector::TpcPlan;
use gannet_emulate::FrontEnd;
use gannet_emulate::tpc::TpcFrontEnd;
use gannet_measure::testing::{free_address, skipped};
use gannet_wire::capture::{LINK_TYPE_ETHERNET, Packet};
use gannet_wire::network::Addresses;
use gannet_wire::{ChannelMap, ethernet, pcap, tpc_frame};
use serde_json::Value;

/// Frames of each stream in a capture: somewhat more than two intervals of the trigger.
const CAPTURED: u64 = 700;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn gannet(directory: &Path) -> Command {
    let binary = std::env::var_os("GANNET_BIN").unwrap_or(env!("CARGO_BIN_EXE_gannet").into());
    let mut command = Command::new(binary);
    command.current_dir(directory).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The report of a run that must have ended with `code`.
fn report(output: &Output, code: i32) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    serde_json::from_slice(&output.stdout).expect("the report is JSON")
}

fn number(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}"))
}

#[test]
fn every_example_is_a_right_configuration_and_is_told_of() {
    let told = fs::read_to_string(examples().join("README.md")).unwrap();
    let mut count = 0;
    for entry in fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        count += 1;
        let output =
            gannet(Path::new(".")).args(["check", "--elsewhere"]).arg(&path).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", path.display());
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(told.contains(&format!("]({name})")), "examples/README.md does not tell of {name}");
    }
    assert!(count >= 4, "{count} examples");
}

#[test]
fn calibration_pulses_are_read_out_by_the_periodic_trigger() {
    let directory = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(examples().join("calibration-pulser.toml")).unwrap();
    let port = free_address().port();
    let text = text.replace("7440", &port.to_string());
    fs::write(directory.path().join("pulser.toml"), text).unwrap();
    // It ends by itself whenever the front end is done, however slow the machine is.
    let run = ["run", "pulser.toml", "--seconds", "6", "--json"];
    let said = directory.path().join("said.txt");
    let mut readout = gannet(directory.path());
    let mut readout = readout.args(run).stderr(fs::File::create(&said).unwrap()).spawn().unwrap();
    let emulate = ["emulate", "pulser.toml", "--seconds", "3"];
    while !fs::read_to_string(&said).unwrap().contains("is running") {
        assert!(readout.try_wait().unwrap().is_none(), "the readout ended");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let front_end = gannet(directory.path()).args(emulate).output().unwrap();
    assert!(front_end.status.success(), "{front_end:?}");
    let output = readout.wait_with_output().unwrap();
    // A machine whose kernel drops frames even at this rate cannot tell anything about the example.
    let report: Value = serde_json::from_slice(&output.stdout).expect("the report is JSON");
    if number(&report, "/sources/0/kernel_drops") > 0 {
        let why = "net.core.rmem_max is too small for it";
        return gannet_measure::testing::skipped("the example of the pulser", why);
    }
    assert_eq!(output.status.code(), Some(0), "{report}");
    let frames = number(&report, "/sources/0/frames");
    // Each pulse is on all 256 channels; the first and the last may be cut.
    let pulses = frames / 4 * 2048 / 625_000;
    assert!(pulses > 4, "{pulses}");
    assert!(number(&report, "/trigger/primitives") > (pulses - 2) * 256, "{report}");
    assert!(number(&report, "/recorder/records") >= pulses - 1, "{report}");
}

#[test]
fn a_capture_is_read_out_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("capture.toml");
    fs::copy(examples().join("capture.toml"), &config).unwrap();
    fs::write(directory.path().join("capture.pcap"), capture(&config)).unwrap();
    let run = ["run", "capture.toml", "--quiet", "--json"];
    let output = gannet(directory.path()).args(run).output().unwrap();
    let report = report(&output, 0);
    assert_eq!(number(&report, "/sources/0/frames"), 4 * CAPTURED);
    assert!(number(&report, "/recorder/records") >= 2, "{report}");
}

/// What a network card would have seen of the front end of a configuration, as a pcap file.
fn capture(config: &Path) -> Vec<u8> {
    let plan = TpcPlan::load(config).unwrap();
    let streams = &plan.config.emulate.streams;
    let start = 112_000_000_000_000_000;
    let map = ChannelMap::synthetic(&streams.geo_ids()).unwrap();
    let mut front_end = TpcFrontEnd::new(&plan.config.emulate, &map, start).unwrap();
    let addresses = Addresses {
        source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
        source: SocketAddrV4::new(Ipv4Addr::new(10, 73, 139, 16), 17476),
        destination: SocketAddrV4::new(Ipv4Addr::new(10, 73, 139, 17), 17476),
    };
    let mut file = Vec::new();
    let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut file);
    let mut frame = [0; tpc_frame::FRAME_LEN];
    let mut data = vec![0; addresses.buffer_len(frame.len())];
    for index in 0..CAPTURED {
        for stream in 0..streams.count {
            frame.copy_from_slice(&front_end.frame(stream, index));
            addresses.emit(&frame, &mut data).unwrap();
            let packet = Packet {
                interface: 0,
                link_type: LINK_TYPE_ETHERNET,
                timestamp_ns: Some(1_795_000_000_000_000_000 + index * 32_768),
                original_len: data.len() as u32,
                data: &data,
            };
            writer.packet(&packet, &mut file).unwrap();
        }
    }
    file
}

#[test]
fn the_story_of_a_torus_comes_to_its_end_and_leaves_nothing() {
    let mut story = Command::new(examples().join("torus/story.sh"));
    story.env("GANNET", gannet(Path::new(".")).get_program());
    story.env("PAUSE", "0").env("WATCHDOG", "1 s");
    let child = story.arg("2x2").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let namespaces = format!("gannet-story-{}-", child.id());
    let output = child.wait_with_output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(5) {
        return skipped("the story of a torus", errors.trim());
    }
    assert!(output.status.success(), "{said}{errors}");
    for step in ["is pulled", "it should go to", "cannot be reached", "whole at the end"] {
        assert!(said.contains(step), "{step}: {said}");
    }
    let left = Command::new("ip").args(["netns"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&left.stdout).contains(&namespaces));
}
