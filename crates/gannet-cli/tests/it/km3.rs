//! KM3NeT end to end: front end and readout in processes of their own, and what is written.

use std::path::Path;
use std::process::Command;
use std::{env, fs, thread};

use gannet_measure::testing::skipped;
use gannet_wire::km3net::daq::{
    self, Event, EventHeader, Object, Objects, SnapshotHit, SummaryFrame, SummarySlice,
    TriggeredHit, rate_code,
};
use serde_json::Value;

use crate::readout::process::{Ended, QUIET, Readout, alone, gannet, scale};

/// Slices that are sent, and datagrams of each, as the front end makes them.
const SLICES: u64 = 20;
/// Begin of the first slice.
const START: u64 = 1_700_000_000_000_000_000;

fn config(directory: &Path, rest: &str) -> String {
    format!(
        "[[source]]\nudp = {{ listen = [\"127.0.0.1:0\"] }}\ndepth = \"200 ms\"\n\
         [pipeline]\ndetector = \"km3net\"\nlattice = {{ strings = 7, modules = 5 }}\n\
         written = {{ time_slices = [\"l1\"] }}\n\
         [recorder]\ndirectory = \"{}\"\n\
         [emulate]\nseed = 7\nstart_timestamp = {START}\n\
         light = {{ muons_hz = 30.0, showers_hz = 5.0 }}\n{rest}",
        directory.display()
    )
}

/// What front end and readout tell of `slices` slices.
struct Told {
    /// One object a slice, muon or shower.
    truth: Vec<Value>,
    readout: Ended,
    written: Vec<u8>,
}

fn run(slices: u64, rest: &str) -> Told {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("km3net.toml");
    fs::write(&file, config(directory.path(), rest)).unwrap();
    let hits = directory.path().join("truth.jsonl");
    let readout = Readout::start(&file);
    thread::sleep(QUIET);
    let sent = Command::new(gannet())
        .args(["emulate", "--json", "--frames", &(128 * slices).to_string(), "--hits"])
        .args([hits.as_path(), Path::new("--to"), Path::new(&readout.address.to_string()), &file])
        .output()
        .unwrap();
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    thread::sleep(QUIET);
    let readout = readout.stop();
    let lines = fs::read_to_string(&hits).unwrap();
    let truth = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let objects = readout.report["recorder"]["exports"][0].as_str().expect("an export");
    let written = fs::read(objects).unwrap();
    Told { truth, readout, written }
}

impl Told {
    fn objects(&self) -> impl Iterator<Item = Object<'_>> {
        Objects::new(&self.written).map(|object| object.unwrap())
    }

    fn summaries(&self) -> Vec<SummarySlice<'_>> {
        let summary = |object| match object {
            Object::SummarySlice(slice) => Some(slice),
            _ => None,
        };
        self.objects().filter_map(summary).collect()
    }

    fn events(&self) -> Vec<Event<'_>> {
        let event = |object| match object {
            Object::Event(event) => Some(event),
            _ => None,
        };
        self.objects().filter_map(event).collect()
    }
}

/// Whether the triggered hits of an event have one that this muon made.
fn has_hit_of(event: &Event<'_>, muon: &Value) -> bool {
    let slice = START + muon["slice"].as_u64().unwrap() * 100_000_000;
    event.header().header.begin_ns() == slice
        && event.triggered_hits().any(|triggered| {
            let found = triggered.snapshot;
            muon["hits"].as_array().unwrap().iter().any(|made| {
                // Times in the truth have t0, at most 50 ns, added.
                let late = made["time_ns"].as_f64().unwrap() - f64::from(found.hit.time);
                made["module"] == found.module
                    && made["channel"] == found.hit.channel
                    && (-1.0..51.0).contains(&late)
            })
        })
}

#[test]
fn summaries_are_those_of_the_truth_and_bright_muons_are_in_events() {
    let _alone = alone();
    let told = run(SLICES * scale(10), "");
    if told.readout.kernel_was_short("slices of optical modules") {
        return;
    }
    assert_eq!(told.readout.open_books(), [""; 0]);
    let slices: Vec<&Value> = told.truth.iter().filter(|it| it.get("kind").is_none()).collect();
    let summaries = told.summaries();
    assert!(slices.len() > 10 && summaries.len() + 1 >= slices.len(), "{}", summaries.len());
    for summary in &summaries {
        let begin = summary.header().begin_ns();
        let slice = slices.iter().find(|it| it["time"] == begin).unwrap();
        let modules = slice["hits"].as_object().unwrap();
        assert_eq!(summary.frames().len(), modules.len());
        for frame in summary.frames().filter(SummaryFrame::is_complete) {
            let counts = modules[&frame.module.to_string()].as_array().unwrap();
            let rates: Vec<u8> =
                counts.iter().map(|count| rate_code(10.0 * count.as_f64().unwrap())).collect();
            assert_eq!(frame.rates[..], rates, "module {} at {begin}", frame.module);
        }
    }
    // Of the last slice not everything was sent.
    let last = slices.len() as u64 - 1;
    let is_bright = |it: &&Value| {
        it["kind"] == "muon"
            && it["slice"].as_u64() < Some(last)
            && it["l1_hits"].as_u64() >= Some(10)
            && it["l1_modules"].as_u64() >= Some(5)
    };
    let muons: Vec<&Value> = told.truth.iter().filter(is_bright).collect();
    let events = told.events();
    let found = |muon: &&&Value| events.iter().any(|event| has_hit_of(event, muon));
    let (all, found) = (muons.len(), muons.iter().filter(found).count());
    assert!(all > 10 && 100 * found >= 99 * all, "{found} of {all} in {} events", events.len());
    for event in &events {
        let snapshot: Vec<_> = event.snapshot_hits().collect();
        assert!(event.triggered_hits().all(|hit| snapshot.contains(&hit.snapshot)));
        let bits = [daq::trigger_bit::MUON, daq::trigger_bit::SHOWER];
        assert!(bits.iter().any(|bit| event.header().trigger_mask >> bit & 1 == 1));
    }
}

#[test]
fn the_books_close_with_every_fault_of_the_modules() {
    let _alone = alone();
    let faults = "faults = { loss = 0.01, duplicate = 0.01, reorder = 0.01, truncation = 0.01, \
                  bit_flip = 0.01, wrong_id = 0.01, sequence_jump = 0.001, timestamp_jump = 0.001 }";
    let told = run(SLICES * scale(10), faults);
    assert_eq!(told.readout.open_books(), [""; 0]);
    assert!(told.readout.is_degraded());
    let specific = told.readout.report["specific"].as_array().unwrap();
    let incomplete = specific.iter().find(|figure| figure["name"] == "  incomplete").unwrap();
    assert!(incomplete["value"]["count"].as_u64() > Some(0));
    assert!(told.summaries().len() as u64 > SLICES / 2, "{}", told.summaries().len());
}

/// What the script of km3pipe says of the events of a run, as we read them.
fn event_lines(told: &Told) -> Vec<String> {
    let words = |SnapshotHit { module, hit }: SnapshotHit| {
        format!("{module} {} {} {}", hit.channel, hit.time, hit.time_over_threshold)
    };
    let mut lines = Vec::new();
    for event in told.events() {
        let EventHeader { header, trigger_counter, trigger_mask, overlays } = event.header();
        let daq::Header { detector, run, frame_index, utc_seconds, ticks, white_rabbit } = header;
        let white_rabbit = u8::from(white_rabbit);
        lines.push(format!(
            "event {detector} {run} {frame_index} {utc_seconds} {ticks} {white_rabbit} \
             {trigger_counter} {trigger_mask} {overlays}"
        ));
        let triggered = event.triggered_hits();
        lines.extend(triggered.map(|TriggeredHit { snapshot, trigger_mask }| {
            format!("triggered {} {trigger_mask}", words(snapshot))
        }));
        lines.extend(event.snapshot_hits().map(|hit| format!("snapshot {}", words(hit))));
    }
    lines
}

#[test]
fn km3pipe_reads_the_events_of_a_run_with_the_same_hits() {
    const PYTHON: &str = "GANNET_KM3PIPE_PYTHON";
    let Some(python) = env::var_os(PYTHON) else {
        let why = format!("set {PYTHON} to a Python that has it");
        return skipped("the file of a run read by km3pipe", why);
    };
    let _alone = alone();
    let told = run(SLICES, "");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.dat");
    fs::write(&file, &told.written).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/judges/km3pipe_files.py");
    let output = Command::new(python).arg(script).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let of = |kinds: &[&str]| -> Vec<&str> {
        let is_kind = |line: &&str| line.split(' ').next().is_some_and(|it| kinds.contains(&it));
        text.lines().filter(is_kind).collect()
    };
    let expected = event_lines(&told);
    assert!(expected.len() > 100, "{} lines of events", expected.len());
    assert_eq!(of(&["event", "triggered", "snapshot"]), expected);
    assert_eq!(of(&["summary"]).len(), told.summaries().len());
    assert_eq!(of(&["bytes"]), [""; 0]);
}

#[test]
fn the_demonstration_compares_what_was_put_in_with_what_was_found() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(gannet())
        .args(["demo", "--detector", "km3", "--seconds", "3", "--json", "--directory"])
        .arg(directory.path())
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = told["put_in_and_found"].as_array().unwrap();
    let value = |name: &str| {
        let own = figures.iter().find(|figure| figure["name"] == name);
        own.unwrap_or_else(|| panic!("no {name} in {figures:?}"))["value"].clone()
    };
    assert!(value("muons")["count"].as_u64() > Some(10), "{figures:?}");
    let share = |name: &str| {
        let value = value(name);
        (value["share"]["part"].as_u64().unwrap(), value["share"]["of"].as_u64().unwrap())
    };
    let ((bright, all), (equal, whole)) =
        (share("  of 10 L1 hits, 5 modules"), share("  with the rates put in"));
    assert!(all > 3 && whole > 100, "{figures:?}");
    assert_eq!(equal, whole, "{figures:?}");
    let mut block = told["readout"]["specific"].as_array().unwrap().iter();
    let block = block.find(|it| it["name"] == "cores of a whole block").unwrap();
    assert!(block["value"]["estimate"]["value"].as_f64() > Some(0.1), "{block}");
    if told["readout"]["degraded"] == false {
        assert_eq!(output.status.code(), Some(0));
        assert!(10 * bright >= 9 * all, "{figures:?}");
    }
}
