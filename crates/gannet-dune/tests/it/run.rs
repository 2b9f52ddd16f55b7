//! A whole run in one process: emulator, loopback sockets, trigger, records, log.

use std::io::BufRead;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::config::{self, Plan};
use gannet_control::emulation::{EmulationReport, Target};
use gannet_control::run::Run;
use gannet_control::run_control::State;
use gannet_control::snapshot::Snapshot;
use gannet_dune::detector::{DUNE_TPC, TpcPlan};
use gannet_emulate::FrontEnd;
use gannet_log::Kind;
use gannet_wire::capture::{LINK_TYPE_ETHERNET, Packet};
use gannet_wire::network::Addresses;
use gannet_wire::{ethernet, pcap, tpc_frame};

/// Four streams at a tenth of the true rate, with tracks that trigger.
const CONFIG: &str = r#"
[[source]]
streams = { count = 4 }
udp = { listen = ["127.0.0.1:0"] }

[pipeline.tpg]
threshold = [60, 60, 60]

[pipeline.trigger]
[[pipeline.trigger.activity]]
algorithm = "horizontal-muon"

[emulate]
seed = 7
pace = { rate_scale = 0.1 }
tracks = { rate_hz = 200.0 }
"#;

struct Outcome {
    snapshot: Snapshot,
    report: EmulationReport,
    directory: tempfile::TempDir,
}

/// Runs `text` until `frames` frames of each stream have been sent.
fn run(text: &str, frames: u64) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let mut plan = config::parse("test.toml", text, Path::new("."), &[&DUNE_TPC]).unwrap();
    plan.settings.recorder.directory = directory.path().into();
    let run = Run::configure(&plan).unwrap();
    run.start().unwrap();
    let report = emulate(&plan, run.addresses()[0], frames);
    let snapshot = run.drain();
    Outcome { snapshot, report, directory }
}

fn emulate(plan: &Plan, to: SocketAddr, frames: u64) -> EmulationReport {
    let target = Target {
        receivers: vec![to.into(); plan.detector.emulated().len()],
        frames: Some(frames),
        flow_control: None,
        faults: None,
    };
    plan.detector.front_end().unwrap().start(&target, None).unwrap().join().unwrap()
}

impl Outcome {
    /// The one log file of the run.
    fn log(&self) -> gannet_log::Reader<std::fs::File> {
        let [file] = &self.snapshot.recorder.files[..] else {
            panic!("{:?}", self.snapshot.recorder)
        };
        assert_eq!(file.parent(), Some(self.directory.path()));
        assert!(gannet_log::verify(file).unwrap().is_complete());
        gannet_log::Reader::open(file).unwrap()
    }

    /// Payloads of all chunks of a kind.
    fn payloads(&self, kind: Kind) -> Vec<Vec<u8>> {
        let mut reader = self.log();
        let mut payloads = Vec::new();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            if chunk.header.label.kind == kind {
                payloads.push(chunk.payload.to_vec());
            }
        }
        payloads
    }
}

#[test]
fn every_frame_is_taken_and_every_decision_is_recorded() {
    let frames = 6000;
    let outcome = run(CONFIG, frames);
    let snapshot = &outcome.snapshot;
    assert_eq!(snapshot.state, State::Stopped);
    assert!(!snapshot.degraded, "{snapshot:#?}");
    assert_eq!(snapshot.frames(), outcome.report.datagrams_taken());
    assert_eq!(snapshot.frames(), 4 * frames);
    assert!(snapshot.ledger.iter().all(|statement| statement.closes()), "{:#?}", snapshot.ledger);
    assert!(snapshot.trigger.decisions > 10, "{:#?}", snapshot.trigger);
    let source = &snapshot.sources[0];
    // A time on the clock may be more than that of the processor, which others want, too.
    assert!(source.tpg_busy_s > 0.0 && source.receive_cpu_s > 0.0, "{source:#?}");
    assert_eq!(snapshot.tpg_share, Some(source.tpg_busy_s / source.receive_cpu_s));
    assert_eq!(outcome.payloads(Kind::TRIGGER_RECORD).len() as u64, snapshot.trigger.decisions);
    assert!(!outcome.payloads(Kind::TP_SLICE).is_empty());
    assert_eq!(outcome.payloads(Kind::RUN_START).len(), 1);
    assert_eq!(outcome.payloads(Kind::RUN_END).len(), 1);
}

/// Two addresses with two sockets each: a stream is where its first frame came.
#[test]
fn streams_come_by_any_socket_of_a_source() {
    let directory = tempfile::tempdir().unwrap();
    let text = CONFIG.replace("127.0.0.1:0\"]", "127.0.0.1:0\", \"127.0.0.2:0\"], sockets = 2");
    let mut plan = config::parse("test.toml", &text, Path::new("."), &[&DUNE_TPC]).unwrap();
    plan.settings.recorder.directory = directory.path().into();
    let run = Run::configure(&plan).unwrap();
    run.start().unwrap();
    let addresses = run.addresses();
    assert_eq!(addresses.len(), 4);
    let target = Target {
        receivers: [0, 3, 0, 3].map(|at| addresses[at].into()).to_vec(),
        frames: Some(2000),
        flow_control: None,
        faults: None,
    };
    plan.detector.front_end().unwrap().start(&target, None).unwrap().join().unwrap();
    let snapshot = run.drain();
    assert_eq!(snapshot.sources.len(), 4);
    assert_eq!(snapshot.frames(), 8000);
    assert!(!snapshot.degraded, "{:#?}", snapshot.ledger);
    assert!(snapshot.streams.iter().all(|stream| stream.frames == 2000));
    assert!(snapshot.trigger.decisions > 0 && snapshot.recorder.incomplete == 0);
}

#[test]
fn a_capture_is_read_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("frames.pcap");
    let plan = config::parse("test.toml", CONFIG, Path::new("."), &[&DUNE_TPC]).unwrap();
    write_capture(&plan, 2000, &path);
    let text = CONFIG.replace(
        "udp = { listen = [\"127.0.0.1:0\"] }",
        &format!("capture = {:?}", path.to_str().unwrap()),
    );
    let mut plan = config::parse("test.toml", &text, Path::new("."), &[&DUNE_TPC]).unwrap();
    plan.settings.recorder.directory = directory.path().into();
    let run = Run::configure(&plan).unwrap();
    run.start().unwrap();
    while !run.is_exhausted() {
        thread::sleep(Duration::from_millis(1));
    }
    let snapshot = run.drain();
    assert_eq!(snapshot.frames(), 8000);
    assert!(!snapshot.degraded, "{:#?}", snapshot.ledger);
    assert!(snapshot.recorder.records > 0 && snapshot.recorder.incomplete == 0);
}

/// Writes `frames` frames of each stream as a packet capture, one stream after the other in
/// turns.
fn write_capture(plan: &Plan, frames: u64, path: &Path) {
    let plan = TpcPlan::of(plan).unwrap();
    let mut emulator = plan.config.emulate.emulator(&plan.channel_map, 1 << 40).unwrap();
    let front_end = emulator.front_end();
    let addresses = Addresses {
        source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
        source: "10.0.0.1:1000".parse().unwrap(),
        destination: "10.0.0.2:7000".parse().unwrap(),
    };
    let mut file = Vec::new();
    let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut file);
    let mut frame = [0; tpc_frame::FRAME_LEN];
    for index in 0..frames {
        for stream in 0..plan.config.emulate.streams.count {
            frame.copy_from_slice(&front_end.frame(stream, index));
            let mut data = vec![0; addresses.buffer_len(frame.len())];
            addresses.emit(&frame, &mut data).unwrap();
            let packet = Packet {
                interface: 0,
                link_type: LINK_TYPE_ETHERNET,
                timestamp_ns: Some(index * 32_768),
                original_len: data.len() as u32,
                data: &data,
            };
            writer.packet(&packet, &mut file).unwrap();
        }
    }
    std::fs::write(path, file).unwrap();
}

#[test]
fn busy_times_are_recorded() {
    let text = CONFIG.replace(
        "[pipeline.trigger]",
        "[pipeline.trigger]\nsource = [{ kind = \"periodic\", interval_ticks = 100_000 }]\n\
         module_level = { dead_time_ticks = 150_000 }",
    );
    let outcome = run(&text, 3000);
    assert!(outcome.snapshot.trigger.dead_ticks > 0);
    let lines: Vec<serde_json::Value> = outcome
        .payloads(Kind::BUSY)
        .iter()
        .flat_map(|payload| payload.lines())
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    let ticks =
        |line: &serde_json::Value| line["end"].as_u64().unwrap() - line["begin"].as_u64().unwrap();
    assert!(lines.iter().all(|line| line["cause"] == "dead_time"));
    assert_eq!(lines.iter().map(ticks).sum::<u64>(), outcome.snapshot.trigger.dead_ticks);
    assert!(!outcome.snapshot.degraded, "a trigger that is busy by configuration loses no data");
}

#[test]
fn a_run_that_is_never_started_ends_cleanly() {
    let outcome = {
        let directory = tempfile::tempdir().unwrap();
        let mut plan = config::parse("test.toml", CONFIG, Path::new("."), &[&DUNE_TPC]).unwrap();
        plan.settings.recorder.directory = directory.path().into();
        Run::configure(&plan).unwrap().drain()
    };
    assert_eq!(outcome.state, State::Stopped);
    assert_eq!(outcome.frames(), 0);
}

#[test]
fn only_the_stream_that_never_comes_is_reported_silent() {
    let directory = tempfile::tempdir().unwrap();
    let text =
        CONFIG.replace("count = 4", "count = 5").replace("rate_scale = 0.1", "rate_scale = 1.0");
    let text = text.replace("[emulate]", "[emulate]\nstreams = { count = 4 }");
    let mut plan = config::parse("test.toml", &text, Path::new("."), &[&DUNE_TPC]).unwrap();
    plan.settings.recorder.directory = directory.path().into();
    let run = Run::configure(&plan).unwrap();
    run.start().unwrap();
    let begin = Instant::now();
    let to = run.addresses()[0];
    let emulation = thread::spawn(move || emulate(&plan, to, 15_000));
    let stalled = || run.snapshot().streams.iter().map(|stream| stream.stalled).collect::<Vec<_>>();
    while stalled() != [false, false, false, false, true] {
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", stalled());
        thread::sleep(Duration::from_millis(1));
    }
    emulation.join().unwrap();
}

/// A recorder without a directory takes nothing, so the streams run over their buffers of 256
/// frames; then the directory is there, and recording goes on.
#[test]
fn raw_frames_that_the_recorder_takes_too_late_are_lost_by_name() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("out");
    let text = CONFIG
        .replace("[pipeline.tpg]", "depth = \"1 ms\"\n[pipeline.tpg]")
        .replace("200.0", "0.0");
    let text = format!(
        "{text}\n[recorder]\nraw_streams = \"all\"\nqueue_bytes_max = \"1 MiB\"\nrequired = false\n"
    );
    let mut plan = config::parse("test.toml", &text, Path::new("."), &[&DUNE_TPC]).unwrap();
    plan.settings.recorder.directory.clone_from(&directory);
    let run = Run::configure(&plan).unwrap();
    run.start().unwrap();
    emulate(&plan, run.addresses()[0], 2000);
    std::fs::create_dir(&directory).unwrap();
    let begin = Instant::now();
    while run.snapshot().recorder.acknowledged == 0 {
        assert!(begin.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(10));
    }
    let snapshot = run.drain();
    let statement = |stage: &str| snapshot.ledger.iter().find(|s| s.stage == stage).unwrap();
    let raw = statement("raw_frames");
    assert!(raw.closes(), "{raw}");
    assert_eq!(raw.offered, 8000);
    let dropped = |reason: &str| raw.dropped.iter().find(|d| d.reason == reason).unwrap().count;
    // All but the buffers, a chunk in hand for each stream, and 9 MiB with the recorder.
    assert!(dropped("recorder_busy") >= 8000 - 4 * (256 + 128) - 1312, "{raw}");
    assert_eq!(snapshot.recorder.raw_frames, raw.delivered);
    assert_eq!(snapshot.recorder.raw_dropped, raw.dropped_total());
    assert_eq!(statement("recorder").dropped_total(), 0);
    assert!(snapshot.degraded);

    let [file] = &snapshot.recorder.files[..] else { panic!("{:?}", snapshot.recorder) };
    let report = gannet_log::verify(file).unwrap();
    let total = &report.kinds[&Kind::RAW_FRAMES.0];
    assert!(report.is_complete(), "{report}");
    assert_eq!((total.items, total.items_missing), (raw.delivered, raw.dropped_total()));
}
