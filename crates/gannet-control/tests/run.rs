//! A whole run in one process: emulator, loopback sockets, trigger, records, log.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::config::{self, Plan};
use gannet_control::emulation::{Emulation, EmulationReport, Target};
use gannet_control::run::Run;
use gannet_control::run_control::State;
use gannet_control::snapshot::Snapshot;
use gannet_emulate::Emulator;
use gannet_readout::log::{self, Kind};
use gannet_trigger::tpg::{FrameTiming, StreamTpg};
use gannet_wire::record::Record;
use gannet_wire::{TriggerPrimitive, tpc_frame, wibeth};

/// Four streams at a tenth of the true rate, with tracks that trigger.
const CONFIG: &str = r#"
[[source]]
streams = { count = 4 }
udp = { listen = ["127.0.0.1:0"] }

[tpg]
threshold = [60, 60, 60]

[trigger]
[[trigger.activity]]
algorithm = "horizontal-muon"

[emulate]
seed = 7
pace = { rate_scale = 0.1 }
tracks = { rate_hz = 200.0 }
"#;

struct Outcome {
    snapshot: Snapshot,
    report: EmulationReport,
    plan: Plan,
    directory: tempfile::TempDir,
}

/// Runs `text` until `frames` frames of each stream have been sent.
fn run(text: &str, frames: u64) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let mut plan = config::parse("test.toml", text, Path::new(".")).unwrap();
    plan.config.recorder.directory = directory.path().into();
    let run = Run::configure(&plan).unwrap();
    run.start().unwrap();
    let report = emulate(&plan, run.addresses()[0], frames);
    let snapshot = run.drain();
    Outcome { snapshot, report, plan, directory }
}

fn emulate(plan: &Plan, to: SocketAddr, frames: u64) -> EmulationReport {
    let config = &plan.config.emulate;
    let target = Target {
        addresses: vec![to; config.streams.count],
        frames: Some(frames),
        flow_control: None,
    };
    Emulation::start(config, &plan.channel_map, &target, None).unwrap().join().unwrap()
}

impl Outcome {
    /// The one log file of the run.
    fn log(&self) -> log::Reader<std::fs::File> {
        let [file] = &self.snapshot.recorder.files[..] else {
            panic!("{:?}", self.snapshot.recorder)
        };
        assert_eq!(file.parent(), Some(self.directory.path()));
        assert!(log::verify(file).unwrap().is_complete());
        log::Reader::open(file).unwrap()
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

    /// All recorded primitives, sorted.
    fn primitives(&self) -> Vec<[u64; 3]> {
        let mut all = Vec::new();
        for slice in self.payloads(Kind::TP_SLICE) {
            let headers = gannet_wire::TimeSliceHeader::LEN + gannet_wire::FragmentRepr::LEN;
            let words = |tp: &[u8]| {
                let mut words = tp.chunks_exact(8);
                [(); 3].map(|()| u64::from_le_bytes(words.next().unwrap().try_into().unwrap()))
            };
            all.extend(slice[headers..].chunks_exact(TriggerPrimitive::LEN).map(words));
        }
        all.sort_unstable();
        all
    }

    /// The primitives that the same chain finds in the same frames, without any network.
    fn expected_primitives(&self) -> Vec<[u64; 3]> {
        let mut config = self.plan.config.emulate.clone();
        config.start_timestamp = self.snapshot.streams[0].first_timestamp;
        let mut emulator = Emulator::new(&config, &self.plan.channel_map, 0).unwrap();
        let mut found = Vec::new();
        for (stream, planned) in self.plan.streams().enumerate() {
            let detector = planned.geo_id.detector as u8;
            let tpg = &self.plan.config.tpg;
            let mut tpg =
                StreamTpg::new(tpg, &planned.channels, detector, FrameTiming::WIBETH).unwrap();
            let front_end = emulator.front_end();
            let mut frame = [0; tpc_frame::FRAME_LEN];
            for index in 0..self.snapshot.streams[stream].frames {
                front_end.frame(stream, index, &mut frame);
                let frame = wibeth::Frame::new_unchecked(&frame[..]);
                tpg.process(frame.adc_block(), frame.timestamp(), &mut found);
            }
        }
        let mut words: Vec<_> = found.iter().map(|tp| tp.words).collect();
        words.sort_unstable();
        words
    }
}

#[test]
fn every_frame_is_taken_and_every_primitive_is_recorded() {
    let frames = 6000;
    let outcome = run(CONFIG, frames);
    let snapshot = &outcome.snapshot;
    assert_eq!(snapshot.state, State::Stopped);
    assert!(!snapshot.degraded, "{snapshot:#?}");
    assert_eq!(snapshot.frames(), outcome.report.datagrams_taken());
    assert_eq!(snapshot.frames(), 4 * frames);
    assert!(snapshot.ledger.iter().all(|statement| statement.closes()), "{:#?}", snapshot.ledger);
    assert!(snapshot.trigger.decisions > 10, "{:#?}", snapshot.trigger);
    assert_eq!(outcome.payloads(Kind::TRIGGER_RECORD).len() as u64, snapshot.trigger.decisions);
    let expected = outcome.expected_primitives();
    assert!(expected.len() > 1000);
    assert_eq!(outcome.primitives(), expected);
    assert_eq!(outcome.payloads(Kind::RUN_START).len(), 1);
    assert_eq!(outcome.payloads(Kind::RUN_END).len(), 1);
}

#[test]
fn a_run_that_is_never_started_ends_cleanly() {
    let outcome = {
        let directory = tempfile::tempdir().unwrap();
        let mut plan = config::parse("test.toml", CONFIG, Path::new(".")).unwrap();
        plan.config.recorder.directory = directory.path().into();
        Run::configure(&plan).unwrap().drain()
    };
    assert_eq!(outcome.state, State::Stopped);
    assert_eq!(outcome.frames(), 0);
}

#[test]
fn only_the_stream_that_never_comes_is_reported_silent() {
    let directory = tempfile::tempdir().unwrap();
    let text = CONFIG.replace("count = 4", "count = 5");
    let mut plan = config::parse("test.toml", &text, Path::new(".")).unwrap();
    plan.config.recorder.directory = directory.path().into();
    plan.config.emulate.streams.count = 4;
    plan.config.emulate.pace.rate_scale = 1.0;
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
