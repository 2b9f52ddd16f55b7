//! Noisy and dead channels through the binary: from frames to the table of channels, to a mask, to
//! a run with that mask.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gannet_control::channels::{Condition, file};
use gannet_control::config;
use gannet_dune::detector::{DUNE_TPC, TpcPlan};
use gannet_emulate::FrontEnd;
use gannet_wire::capture::{LINK_TYPE_ETHERNET, Packet};
use gannet_wire::network::Addresses;
use gannet_wire::{adc14, ethernet, pcap, tpc_frame};
use serde_json::Value;

const CONFIG: &str = r#"
source = [{ streams = { count = 1 }, capture = "frames.pcap", depth = "20 ms" }]
pipeline.exports = { formats = [] }

[emulate]
streams = { count = 1 }
noise = { induction_pedestal = 2000.0, collection_pedestal = 2000.0, collection_rms = 6.0 }
tracks = { rate_hz = 0.0 }
deposits = { rate_hz = 0.0 }

[pipeline.tpg]
initial_pedestal = 2000
"#;
/// Frames in the capture.
const FRAMES: u64 = 1500;
/// Channels of the stream with a hit in each frame, and one whose samples stand still.
const NOISY: [usize; 2] = [40, 17];
const DEAD: usize = 50;

/// A directory with a capture, in which some channels are not well, and a configuration for it.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        fs::write(bench.path("frames.pcap"), capture()).unwrap();
        fs::write(bench.path("run.toml"), CONFIG).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn gannet(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
        command.args(arguments).current_dir(self.0.path()).output().unwrap()
    }

    /// Reads the capture as a run; gives its report.
    fn run(&self, number: &str) -> Value {
        let output = self.gannet(&["run", "run.toml", "--quiet", "--json", "--run", number]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Frames of the emulator as a packet capture.
fn capture() -> Vec<u8> {
    let plan = config::parse("run.toml", CONFIG, Path::new("."), &[&DUNE_TPC]).unwrap();
    let plan = TpcPlan::of(&plan).unwrap();
    let mut emulator = plan.config.emulate.emulator(&plan.channel_map, 1 << 40).unwrap();
    let addresses = Addresses {
        source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
        source: "10.0.0.1:1000".parse().unwrap(),
        destination: "10.0.0.2:7000".parse().unwrap(),
    };
    let mut capture = Vec::new();
    let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut capture);
    let mut frame = [0; tpc_frame::FRAME_LEN];
    for index in 0..FRAMES {
        frame.copy_from_slice(&emulator.front_end().frame(0, index));
        spoil(&mut frame, index);
        let mut data = vec![0; addresses.buffer_len(frame.len())];
        addresses.emit(&frame, &mut data).unwrap();
        let packet = Packet {
            interface: 0,
            link_type: LINK_TYPE_ETHERNET,
            timestamp_ns: Some(index * 32_768),
            original_len: data.len() as u32,
            data: &data,
        };
        writer.packet(&packet, &mut capture).unwrap();
    }
    capture
}

/// Puts hits into the noisy channels, into the first in each frame, into the second in every
/// other, and holds the dead one still.
fn spoil(frame: &mut [u8; tpc_frame::FRAME_LEN], index: u64) {
    let samples = &mut frame[tpc_frame::FRAME_LEN - adc14::BLOCK_LEN..];
    let block: &mut adc14::Block = samples.try_into().unwrap();
    let hits = if index.is_multiple_of(2) { &NOISY[..] } else { &NOISY[..1] };
    for channel in hits {
        (20..28).for_each(|sample| adc14::set(block, *channel, sample, 4000));
    }
    (0..64).for_each(|sample| adc14::set(block, DEAD, sample, 1999));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Offline number of a channel of the stream.
fn offline(channel: usize) -> u64 {
    let plan = config::parse("run.toml", CONFIG, Path::new("."), &[&DUNE_TPC]).unwrap();
    let plan = TpcPlan::of(&plan).unwrap();
    u64::from(plan.streams[0].channels.offline[channel])
}

#[test]
fn noisy_channels_are_found_ranked_and_masked() {
    let bench = Bench::new();
    let report = bench.run("1");
    let channels = &report["channels"];
    assert_eq!((&channels["noisy"], &channels["dead"]), (&2.into(), &1.into()), "{channels}");
    let ranked: Vec<_> = (0..2).map(|rank| channels["loudest"][rank]["channel"].clone()).collect();
    assert_eq!(ranked, NOISY.map(offline));
    let summary = &report["streams"][0]["channels"];
    assert_eq!((&summary["noisy"], &summary["dead"]), (&2.into(), &1.into()), "{summary}");

    // The table is beside the log, and everything in it is as it was put in.
    let table = channels["file"].as_str().unwrap();
    let log = report["recorder"]["files"][0].as_str().unwrap();
    assert_eq!(file::beside(Path::new(log)).unwrap(), Path::new(table));
    let all = file::read(&bench.path(table)).unwrap();
    assert_eq!(all.len(), 64);
    for (index, channel) in all.iter().enumerate() {
        assert_eq!(u64::from(channel.channel), offline(index));
        let condition = match index {
            DEAD => Condition::Dead,
            index if NOISY.contains(&index) => Condition::Noisy,
            _ => Condition::Good,
        };
        assert_eq!(channel.condition, condition, "{channel:?}");
        // Three looks at a channel: their mean has an error of a tenth.
        let rms = if channel.plane == 2 { 6.0 } else { 12.0 };
        let error = channel.rms.unwrap() / rms - 1.0;
        assert!(condition != Condition::Good || error.abs() < 0.4, "{channel:?}");
    }
    assert_eq!((all[NOISY[0]].tps, all[NOISY[1]].tps), (FRAMES, FRAMES / 2));

    let listed = text(&bench.gannet(&["channels", table]).stdout);
    assert!(listed.starts_with("64 channels: 2 noisy, 1 dead, 0 masked\n"), "{listed}");
    let limit = bench.gannet(&["channels", table, "--noisy-above", "20000", "--mask"]);
    assert!(text(&limit.stdout).ends_with(&format!("mask = [{}]\n", offline(NOISY[0]))));

    // The mask stands at the end of the file, which is the table [pipeline.tpg].
    let mask = text(&bench.gannet(&["channels", table, "--mask"]).stdout);
    fs::write(bench.path("mask.toml"), &mask).unwrap();
    let find = ["find", "frames.pcap", "--config", "run.toml", "--mask", "mask.toml", "--json"];
    let found: Value = serde_json::from_slice(&bench.gannet(&find).stdout).unwrap();
    let masked: Vec<_> = found["tpg"]["mask"].as_array().unwrap().clone();
    assert_eq!(masked, [offline(NOISY[1]), offline(NOISY[0])], "{found}");
    fs::write(bench.path("run.toml"), format!("{CONFIG}{mask}")).unwrap();
    let channels = &bench.run("2")["channels"];
    assert_eq!((&channels["noisy"], &channels["masked"]), (&0.into(), &2.into()), "{channels}");
    // A mask of that run holds the channels still, though they made no primitives in it.
    let again = bench.gannet(&["channels", channels["file"].as_str().unwrap(), "--mask"]);
    assert_eq!(text(&again.stdout).lines().nth(1), mask.lines().nth(1));
}

#[test]
fn other_files_are_refused_and_no_table_is_kept_unasked() {
    let bench = Bench::new();
    let output = bench.gannet(&["channels", "run.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is no table of channels"), "{}", text(&output.stderr));
    for limit in ["nan", "-1", "inf", "many"] {
        let output = bench.gannet(&["channels", "a.csv", &format!("--noisy-above={limit}")]);
        assert_eq!(output.status.code(), Some(2), "{limit}");
        assert!(text(&output.stderr).contains("--noisy-above"), "{}", text(&output.stderr));
    }
    let config = format!("{CONFIG}[pipeline.channels]\nfile = false\n");
    fs::write(bench.path("run.toml"), config).unwrap();
    let report = bench.run("1");
    assert_eq!(
        (&report["channels"]["file"], &report["channels"]["noisy"]),
        (&Value::Null, &2.into())
    );
    let mut files = fs::read_dir(bench.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(files.all(|name| !name.to_str().unwrap().contains("_channels")));
}
