//! Single events of recordings, as text and as pictures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gannet_log::frames::frames;
use gannet_log::{Kind, Reader};
use gannet_wire::km3net::daq::{Event, Object, Objects};
use gannet_wire::na62::mgp;
use serde_json::Value;

use crate::readout::process::{alone, gannet};

/// What a run tells, and its log.
struct Run {
    directory: tempfile::TempDir,
    report: Value,
    log: PathBuf,
}

/// Runs a front end and its readout in one process for a second.
fn run(config: &str, record: &str) -> Run {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.toml");
    let recorder = format!("[recorder]\ndirectory = {:?}\n", directory.path());
    fs::write(&file, format!("[[source]]\nemulated = true\n{config}\n{recorder}{record}")).unwrap();
    let output = Command::new(gannet())
        .args(["run", "--json", "--seconds", "1"])
        .arg(&file)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).expect(&errors);
    let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let log = files.into_iter().find(|path| path.extension().is_some_and(|it| it == "glog"));
    Run { log: log.expect(&errors), directory, report }
}

impl Run {
    fn specific(&self, name: &str) -> u64 {
        let figures = self.report["specific"].as_array().unwrap();
        let figure = figures.iter().find(|figure| figure["name"] == name);
        figure.unwrap_or_else(|| panic!("{name}: {}", self.report))["value"]["count"]
            .as_u64()
            .unwrap()
    }
}

fn rich(packets: &str) -> Run {
    let links = if packets == "boards" { "[0, 1, 2, 3]" } else { "[0]" };
    run(
        &format!(
            "streams = {{ packets = \"{packets}\", links = {links} }}\n\
         [pipeline]\ndetector = \"na62-rich\"\n\
         [emulate]\nseed = 3\nrate_hz = 10000.0\npool = 1024\npackets = \"{packets}\"\n"
        ),
        "raw_streams = \"all\"\n",
    )
}

fn km3net(pipeline: &str) -> Run {
    run(
        &format!(
            "depth = \"200 ms\"\n\
         [pipeline]\ndetector = \"km3net\"\n{pipeline}\n\
         [emulate]\nseed = 7\nlight = {{ muons_hz = 30.0, showers_hz = 5.0 }}\n"
        ),
        "",
    )
}

fn inspect(file: &Path, number: u64, arguments: &[&str]) -> Output {
    let mut command = Command::new(gannet());
    command.arg("inspect").arg(file).args(["--event", &number.to_string()]).args(arguments);
    command.output().unwrap()
}

fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn values(file: &Path, number: u64) -> Value {
    let output = inspect(file, number, &["--json"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"))
}

/// The circles of the picture of an event: radius in pixels, and whether it is filled.
fn circles(run: &Run, number: u64) -> Vec<(u32, bool)> {
    let svg = run.directory.path().join("event.svg");
    let output = inspect(&run.log, number, &["--overwrite", "--svg", svg.to_str().unwrap()]);
    assert!(output.status.success(), "{}", error(&output));
    let svg = fs::read_to_string(svg).unwrap();
    let of = |circle: &str| {
        let circle = circle.split('>').next().unwrap();
        let radius = circle.split(" r=\"").nth(1).unwrap().split('"').next().unwrap();
        (radius.parse().unwrap(), !circle.contains("fill=\"none\""))
    };
    svg.split("<circle").skip(1).map(of).collect()
}

/// The hits of merged events, in their order.
fn merged(log: &Path) -> Vec<Vec<u16>> {
    let mut events = Vec::new();
    let mut reader = Reader::open(log).unwrap();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        let label = chunk.header.label;
        if label.kind != Kind::SIZED_FRAMES {
            continue;
        }
        for frame in frames(&label, chunk.payload).unwrap() {
            let datagram = mgp::Datagram::new_checked(frame).unwrap();
            for event in datagram.events() {
                let mgp::Event::Merged(event) = event.unwrap() else { panic!("hits of a board") };
                events.push(event.hits().collect());
            }
        }
    }
    events
}

fn length(value: &Value) -> usize {
    value.as_array().unwrap().len()
}

#[test]
fn an_event_of_the_rich_shows_its_hits_and_the_rings_found_in_them() {
    let run = rich("merged");
    let events = merged(&run.log);
    assert!(events.len() > 1000, "{}", events.len());
    let mut rings_seen = 0;
    for number in [0, 1, 2, 7, 40, events.len() as u64 - 1] {
        let values = values(&run.log, number);
        let hits = &events[number as usize];
        assert_eq!(values["hits"], serde_json::json!(hits), "event {number}");
        let rings = length(&values["rings"]);
        rings_seen += rings;
        let circles = circles(&run, number);
        // Photomultipliers are as large as hits; each ring is on both discs. The legend has a dot.
        let large = circles.iter().filter(|(radius, _)| *radius > 30).count();
        let filled = circles.iter().filter(|(_, is_filled)| *is_filled).count();
        assert_eq!((large, filled), (2 * rings, hits.len() + 1), "event {number}");
        let text = inspect(&run.log, number, &[]).stdout;
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(&format!("event {number} at ")), "{text}");
        assert_eq!(text.matches("\n  ring ").count(), rings, "{text}");
    }
    assert!(rings_seen > 2, "{rings_seen}");
    let none = error(&inspect(&run.log, events.len() as u64, &[]));
    let last = events.len() - 1;
    assert!(none.contains(&format!("numbered from 0 to {last}")), "{none}");
}

#[test]
fn hits_of_boards_are_merged_to_the_events_of_the_run() {
    let run = rich("boards");
    let events = run.specific("events merged here");
    let none = error(&inspect(&run.log, u64::MAX, &[]));
    assert!(events > 1000 && none.contains(&format!("the file has {events},")), "{none}");
}

#[test]
fn events_of_km3net_are_drawn_with_all_their_hits() {
    let run = km3net("lattice = { strings = 7, modules = 5 }");
    let objects = fs::read(run.log.with_extension("dat")).unwrap();
    let event = |object| match object {
        Object::Event(event) => Some(event),
        _ => None,
    };
    let events: Vec<Event<'_>> =
        Objects::new(&objects).map(Result::unwrap).filter_map(event).collect();
    assert!(events.len() > 3, "{}", events.len());
    for (number, event) in events.iter().enumerate() {
        let number = number as u64;
        let values = values(&run.log, number);
        let (triggered, all) = (event.triggered_hits().len(), event.snapshot_hits().len());
        assert_eq!(length(&values["triggered_hits"]), triggered);
        assert_eq!(length(&values["snapshot_hits"]), all);
        if number > 2 {
            continue;
        }
        let circles = circles(&run, number);
        let filled = circles.iter().filter(|(_, is_filled)| *is_filled).count();
        // Near and far, and a dot in the legend for each string.
        assert!((2 * triggered + 1..=2 * triggered + 7).contains(&filled), "{filled} {triggered}");
        assert!(circles.len() > triggered + all, "{} of {all}", circles.len());
    }
    let beside = values(&run.log.with_extension("dat"), 0);
    assert_eq!(beside, values(&run.log, 0));
    let none = error(&inspect(&run.log, 1_000_000, &[]));
    assert!(none.contains(&format!("the file has {},", events.len())), "{none}");
}

#[test]
fn without_positions_of_modules_there_is_no_picture() {
    let run = km3net("lattice = { strings = 7, modules = 5 }");
    let alone = run.directory.path().join("alone.dat");
    fs::copy(run.log.with_extension("dat"), &alone).unwrap();
    assert_eq!(values(&alone, 0), values(&run.log, 0));
    let svg = run.directory.path().join("alone.svg");
    let none = error(&inspect(&alone, 0, &["--svg", svg.to_str().unwrap()]));
    assert!(none.contains("nothing tells where the modules were"), "{none}");
    assert!(!svg.exists());
}

#[test]
fn positions_of_a_detector_file_are_those_of_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("small.detx");
    let lattice = gannet_wire::km3net::detector_file::Lattice {
        strings: 7,
        modules: 5,
        ..Default::default()
    };
    let detector = gannet_wire::km3net::DetectorFile::lattice(&lattice);
    fs::write(&file, detector.to_string()).unwrap();
    let run = km3net(&format!("detector_file = {file:?}"));
    drop(directory);
    assert!(circles(&run, 0).len() > 10);
}

#[test]
fn files_without_events_say_so() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("notes.txt");
    fs::write(&text, "no events here, only words\n").unwrap();
    let none = error(&inspect(&text, 0, &[]));
    for part in ["holds events of no detector", "dune-tpc knows no events", "na62-rich", "km3net"] {
        assert!(none.contains(part), "{none}");
    }
}
