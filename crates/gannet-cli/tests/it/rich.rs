//! The RICH end to end: front end, readout and level-0 processor in processes of their own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use gannet_measure::testing::free_address;
use serde_json::Value;

use crate::readout::process::{Ended, QUIET, Readout, alone, gannet, scale};

/// Boards at a rate that a busy machine bears, and a budget that it keeps.
fn config(packets: &str, level0: SocketAddr, rest: &str) -> String {
    format!(
        "[[source]]\nstreams = {{ packets = \"{packets}\", links = {links} }}\n\
         udp = {{ listen = [\"127.0.0.1:0\"] }}\ndepth = \"50 ms\"\n\
         [pipeline]\ndetector = \"na62-rich\"\n\
         [pipeline.merge]\nhold = \"50 ms\"\n\
         [pipeline.answer]\nto = \"{level0}\"\nbudget = \"1 s\"\n\
         [recorder]\nenabled = false\n\
         [emulate]\nseed = 3\nrate_hz = {rate_hz}\npool = 4096\npackets = \"{packets}\"\n\
         pace = {{ burst = 1 }}\n{rest}",
        links = if packets == "boards" { "[0, 1, 2, 3]" } else { "[0]" },
        // An event of boards is four items.
        rate_hz = if packets == "boards" { 25_000.0 } else { 100_000.0 },
    )
}

/// What front end, readout and level-0 processor tell of `frames` datagrams of each stream.
struct Told {
    sent: Value,
    readout: Ended,
    level0: Value,
}

impl Told {
    /// A figure of the level-0 processor.
    fn level0(&self, name: &str) -> u64 {
        let figures = self.level0["figures"].as_array().unwrap();
        let figure = figures.iter().find(|figure| figure[0] == name);
        figure.unwrap_or_else(|| panic!("{name}: {}", self.level0))[1].as_u64().unwrap()
    }

    /// A count that only this detector has.
    fn specific(&self, name: &str) -> u64 {
        let figures = self.readout.report["specific"].as_array().unwrap();
        let figure = figures.iter().find(|figure| figure["name"] == name).unwrap();
        figure["value"]["count"].as_u64().unwrap()
    }
}

fn level0(config: &Path) -> Child {
    let mut command = Command::new(gannet());
    command.args(["emulate", "--as", "level0", "--json"]).arg(config);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn run(packets: &str, frames: u64, rest: &str) -> Told {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rich.toml");
    std::fs::write(&file, config(packets, free_address(), rest)).unwrap();
    let processor = level0(&file);
    thread::sleep(QUIET);
    let readout = Readout::start(&file);
    thread::sleep(QUIET);
    let sent = Command::new(gannet())
        .args(["emulate", "--json", "--frames", &frames.to_string(), "--to"])
        .args([&readout.address.to_string(), file.to_str().unwrap()])
        .output()
        .unwrap();
    thread::sleep(QUIET);
    let readout = readout.stop();
    thread::sleep(QUIET);
    let id = processor.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let level0 = processor.wait_with_output().unwrap();
    let parse = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap();
    Told { sent: parse(&sent.stdout), readout, level0: parse(&level0.stdout) }
}

fn events(told: &Told) -> u64 {
    let events = told.sent["truth"]["events"].as_object().unwrap();
    events.values().map(|count| count.as_u64().unwrap()).sum()
}

#[test]
fn every_event_of_four_boards_is_answered() {
    let _alone = alone();
    let told = run("boards", 4000 * scale(10), "");
    if told.readout.kernel_was_short("events of four boards") {
        return;
    }
    assert_eq!(told.readout.open_books(), [""; 0]);
    let sent = events(&told);
    // An event without any hit is of no board.
    let answered = told.readout.ledger("answered", "delivered");
    assert!(answered <= sent && answered * 100 > sent * 99, "{answered} of {sent}");
    assert_eq!(told.level0("primitives"), answered);
    assert_eq!(told.specific("answered in time") + told.specific("answered late"), answered);
    for wrong in ["missing", "doubled", "damaged", "out of step"] {
        assert_eq!(told.level0(wrong), 0, "{wrong}: {}", told.level0);
    }
    assert!(!told.readout.is_degraded(), "{}", told.readout.report);
}

#[test]
fn every_merged_event_is_answered_once() {
    let _alone = alone();
    let told = run("merged", 4000 * scale(10), "");
    if told.readout.kernel_was_short("merged events") {
        return;
    }
    assert_eq!(told.readout.open_books(), [""; 0]);
    assert_eq!(told.readout.ledger("answered", "delivered"), events(&told));
    assert_eq!(told.level0("primitives"), events(&told));
    assert_eq!(told.level0("missing") + told.level0("doubled"), 0);
}

#[test]
fn the_books_close_with_every_fault_of_the_front_end() {
    let _alone = alone();
    let faults = "faults = { loss = 0.01, duplicate = 0.01, reorder = 0.01, truncation = 0.01, \
                  bit_flip = 0.01, wrong_id = 0.01, sequence_jump = 0.001, timestamp_jump = 0.001 }";
    let told = run("boards", 4000 * scale(10), faults);
    assert_eq!(told.readout.open_books(), [""; 0]);
    assert!(told.readout.is_degraded());
    let answered = told.readout.ledger("answered", "delivered");
    assert!(answered * 10 > events(&told) * 9, "{answered} of {}", events(&told));
    assert_eq!(told.level0("primitives"), answered);
}

/// A run whose front end is in its own process, for a second at least.
fn run_in_process(rest: &str) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rich.toml");
    let text = config("merged", free_address(), rest)
        .replace("udp = { listen = [\"127.0.0.1:0\"] }", "emulated = true");
    let (before, after) = text.split_once("to = ").unwrap();
    let (_nobody, after) = after.split_once('\n').unwrap();
    std::fs::write(&file, format!("{before}{after}")).unwrap();
    let seconds = scale(60).to_string();
    let output = Command::new(gannet())
        .args(["run", "--json", "--seconds", &seconds, file.to_str().unwrap()])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).expect(&errors);
    Ended { status: output.status, report, errors }
}

#[test]
fn a_front_end_in_the_process_is_answered_event_by_event() {
    let _alone = alone();
    let ended = run_in_process("");
    assert_eq!(ended.open_books(), [""; 0]);
    let events = ended.report["front_end"]["events"].as_object().unwrap();
    let made: u64 = events.values().map(|count| count.as_u64().unwrap()).sum();
    assert!(made > 50_000, "{made}");
    let busy = ended.ledger("primitives", "trigger_busy");
    assert_eq!(ended.ledger("answered", "delivered") + busy, made, "{}", ended.errors);
    assert_eq!(ended.number("/frames_lost"), 0);
}

#[test]
fn the_books_close_with_every_fault_of_a_front_end_in_the_process() {
    let _alone = alone();
    let ended = run_in_process(
        "faults = { loss = 0.01, duplicate = 0.01, reorder = 0.01, truncation = 0.01, \
         bit_flip = 0.01, wrong_id = 0.01, sequence_jump = 0.001, timestamp_jump = 0.001 }",
    );
    assert_eq!(ended.open_books(), [""; 0]);
    assert!(ended.is_degraded());
    let total: Value = ended.report["front_end"]["streams"][0].clone();
    assert_eq!(ended.ledger("source", "offered"), total["datagrams_sent"].as_u64().unwrap());
}
