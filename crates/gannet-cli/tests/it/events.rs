//! Events of recordings: single ones as text and as pictures, all of them as tables.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gannet_log::frames::frames;
use gannet_log::{Kind, Reader};
use gannet_wire::capture::{LINK_TYPE_ETHERNET, Packet};
use gannet_wire::km3net::daq::{Event, Object, Objects};
use gannet_wire::na62::mgp;
use gannet_wire::{ethernet, network, pcap};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
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
            "streams = {{ packets = \"{packets}\", links = {links} }}\ndepth = \"500 ms\"\n\
         [pipeline]\ndetector = \"na62-rich\"\nmerge = {{ hold = \"50 ms\" }}\n\
         [emulate]\nseed = 3\nrate_hz = 10000.0\npool = 1024\npace = {{ burst = 1 }}\npackets = \"{packets}\"\n"
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

/// The hits of merged events, in their order, and the datagrams that they came in.
fn merged(log: &Path) -> (Vec<Vec<u16>>, Vec<Vec<u8>>) {
    let (mut events, mut datagrams) = (Vec::new(), Vec::new());
    let mut reader = Reader::open(log).unwrap();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        let label = chunk.header.label;
        if label.kind != Kind::SIZED_FRAMES {
            continue;
        }
        for frame in frames(&label, chunk.payload).unwrap() {
            datagrams.push(frame.to_vec());
            let datagram = mgp::Datagram::new_checked(frame).unwrap();
            for event in datagram.events() {
                let mgp::Event::Merged(event) = event.unwrap() else { panic!("hits of a board") };
                events.push(event.hits().collect());
            }
        }
    }
    (events, datagrams)
}

/// A capture of these datagrams.
fn capture(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let addresses = network::Addresses {
        source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
        source: "10.0.0.1:1000".parse().unwrap(),
        destination: "10.0.0.2:2000".parse().unwrap(),
    };
    let mut file = Vec::new();
    let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut file);
    for datagram in datagrams {
        let mut data = vec![0; addresses.buffer_len(datagram.len())];
        addresses.emit(datagram, &mut data).unwrap();
        let packet = Packet {
            interface: 0,
            link_type: LINK_TYPE_ETHERNET,
            timestamp_ns: Some(0),
            original_len: data.len() as u32,
            data: &data,
        };
        writer.packet(&packet, &mut file).unwrap();
    }
    file
}

fn length(value: &Value) -> usize {
    value.as_array().unwrap().len()
}

/// Exports the tables of a log, which have to verify; the rows of the one that ends in `ending`, and what `export`
/// tells.
fn exported(log: &Path, ending: &str) -> (Vec<HashMap<String, f64>>, Value) {
    let export = |arguments: &[&str]| {
        Command::new(gannet()).arg("export").args(arguments).arg(log).output().unwrap()
    };
    let output = export(&["--json", "--format", "parquet"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let stem = log.with_extension("");
    let file = PathBuf::from(format!("{}{ending}", stem.display()));
    assert_eq!(told[0]["files"], serde_json::json!([file]), "{told}");
    let verified = Command::new(gannet()).arg("verify").arg(&file).output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
    let again = error(&export(&["--format", "parquet"]));
    assert!(again.contains("exists; move it away or export with --overwrite"), "{again}");
    let none = export(&["--format", "hdf5", "--json"]);
    let none: Value = serde_json::from_slice(&none.stdout).unwrap();
    assert_eq!(length(&none[0]["files"]), 0, "{none}");
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let value = |field: &Field| match field {
        Field::Bool(value) => f64::from(u8::from(*value)),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => *value as f64,
        Field::Float(value) => (*value).into(),
        Field::Double(value) => *value,
        other => panic!("{other}"),
    };
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
    });
    (rows.collect(), told[0].clone())
}

#[test]
fn the_table_of_rings_has_those_that_the_run_found() {
    let run = rich("boards");
    let (rows, told) = exported(&run.log, "_rings.parquet");
    let of = |rings: u64| {
        let s = if rings == 1 { "" } else { "s" };
        run.specific(&format!("events with {rings} ring{s}"))
    };
    let rings: u64 = (1..=5).map(|rings| rings * of(rings)).sum();
    assert!(rings > 5000, "{rings}");
    assert_eq!((rows.len() as u64, &told["rings"]), (rings, &serde_json::json!(rings)));
    assert_eq!(told["events"], run.specific("events merged here"));
    let runs = run.report["run"].as_u64().unwrap_or(1) as f64;
    assert!(rows.iter().all(|row| row["run"] == runs && row["hits"] >= 3.0 && row["ring"] < 5.0));
    for number in [0, 5, 1234] {
        let values = values(&run.log, number);
        let own: Vec<_> = rows.iter().filter(|row| row["event"] == number as f64).collect();
        assert_eq!(own.len(), length(&values["rings"]), "event {number}");
        for (row, ring) in own.iter().zip(values["rings"].as_array().unwrap()) {
            for name in ["x", "y", "radius", "hits"] {
                let shown = ring[name].as_f64().unwrap();
                assert!((row[name] - shown).abs() < 1e-3, "{name}: {} {shown}", row[name]);
            }
            assert_eq!(row["time"], values["time"].as_f64().unwrap());
        }
    }
}

#[test]
fn the_table_of_hits_has_those_that_made_triggers() {
    let run = km3net("lattice = { strings = 7, modules = 5 }");
    let (rows, told) = exported(&run.log, "_hits.parquet");
    let objects = fs::read(run.log.with_extension("dat")).unwrap();
    let mut expected = Vec::new();
    for object in Objects::new(&objects) {
        if let Object::Event(event) = object.unwrap() {
            let header = event.header();
            expected.extend(event.triggered_hits().map(|hit| {
                let time = header.header.begin_ns() + u64::from(hit.snapshot.hit.time);
                let tot = hit.snapshot.hit.time_over_threshold.into();
                let place = (hit.snapshot.module.into(), hit.snapshot.hit.channel.into());
                let muon = f64::from(u8::from(hit.trigger_mask >> 4 & 1 == 1));
                (header.trigger_counter as f64, place, time as f64, tot, muon)
            }));
        }
    }
    let got = |row: &HashMap<String, f64>| {
        let place = (row["module"], row["channel"]);
        (row["trigger_counter"], place, row["time"], row["time_over_threshold"], row["muon"])
    };
    assert!(expected.len() > 30, "{}", expected.len());
    assert_eq!(rows.iter().map(got).collect::<Vec<_>>(), expected);
    assert_eq!(told["hits"], expected.len());
}

#[test]
fn an_event_of_the_rich_shows_its_hits_and_the_rings_found_in_them() {
    let run = rich("merged");
    let (events, datagrams) = merged(&run.log);
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
    let directory = run.directory.path();
    let (bytes, packets) = (directory.join("events.m2egp"), directory.join("events.pcap"));
    let of_events =
        datagrams.iter().flat_map(|it| mgp::Datagram::new_checked(it).unwrap().event_bytes());
    fs::write(&bytes, of_events.copied().collect::<Vec<u8>>()).unwrap();
    fs::write(&packets, capture(&datagrams)).unwrap();
    for file in [bytes, packets] {
        let (mut other, own) = (values(&file, 40), values(&run.log, 40));
        assert_eq!(other["run"], Value::Null, "{file:?}");
        other["run"] = own["run"].clone();
        assert_eq!(other, own, "{file:?}");
    }
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
