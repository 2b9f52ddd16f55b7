//! `gannet torus demo`: nothing is lost, and the last lines say so.

use std::io::{BufRead, Read};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::torus::{interrupt, json, refused, started, text, torus};

/// What stands while other tests run.
const CALM: [&str; 6] = ["--watchdog", "1 s", "--lattice", "2x2", "--rate", "3000"];

#[test]
fn faults_are_survived_and_every_put_arrives_once() {
    let document = json(&[&["demo", "--duration", "3 s", "--every", "500 ms"], &CALM[..]].concat());
    assert_eq!((&document["lattice"], &document["rate"]), (&"2x2x1".into(), &3000.into()));
    let puts = &document["puts"];
    let count = |name: &str| puts[name].as_u64().unwrap();
    assert!(count("arrived") > 50, "{document}");
    for none in ["wrong", "twice", "refused", "missing"] {
        assert_eq!(count(none), 0, "{document}");
    }
    assert_eq!(count("posted"), count("arrived") + count("failed") + count("orphaned"));
    assert!(count("bytes") >= 12_000 * count("arrived"), "{document}");
    let cut = &document["faults"]["cut"];
    assert!(cut["faults"].as_u64().unwrap() >= 1, "{document}");
    let (mean, max) = (&cut["known_ms"]["mean"], &cut["known_ms"]["max"]);
    assert!(0.0 < mean.as_f64().unwrap() && mean.as_f64() <= max.as_f64(), "{document}");
}

#[test]
fn a_stop_by_ctrl_c_lets_all_arrive() {
    let (mut child, mut errors) =
        started(&[&["demo", "--json", "--duration", "300 s"], &CALM[..]].concat());
    let mut line = String::new();
    while !line.contains("is whole") {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "it ends before it is whole");
    }
    interrupt(&child);
    let mut document = String::new();
    child.stdout.take().unwrap().read_to_string(&mut document).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["puts"]["missing"], 0, "{document}");
    assert!(document["puts"]["arrived"].as_u64().unwrap() > 0, "{document}");
}

#[test]
fn a_demo_ends_when_nobody_reads() {
    let (mut child, _errors) = started(&[&["demo", "--duration", "300 s"], &CALM[..]].concat());
    drop(child.stdout.take());
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(120), "it runs on");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_demo_that_the_system_has_no_memory_for_says_so() {
    let gannet = env!("CARGO_BIN_EXE_gannet");
    let limited = format!("ulimit -v 400000; exec {gannet} torus demo --duration '5 s'");
    let output = Command::new("sh").args(["-c", &limited]).output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{message}");
    assert!(message.contains("bytes of memory more") && message.lines().count() == 1, "{message}");
}

#[test]
fn lines_are_told_where_there_is_no_terminal() {
    let output = torus(&[&["demo", "--duration", "10 ms"], &CALM[..]].concat());
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("4 hosts make a 2x2x1 torus of 8 cables"), "{said}");
    let last: Vec<_> = said.lines().rev().take(2).collect();
    assert!(last[1].contains("arrived, each once") && last[0].starts_with("packets"), "{said}");
    assert!(!said.contains('\x1b'), "{said}");
}

#[test]
fn what_cannot_be_shown_is_refused() {
    assert!(refused(&["demo", "--lattice", "8x8x8"], 2).contains("512 hosts"));
    assert!(refused(&["demo", "--watchdog", "1 ms"], 2).contains("--watchdog must be"));
    assert!(refused(&["demo", "--every", "1 ms"], 2).contains("--every must be"));
    assert!(refused(&["demo", "--lattice", "1x1x1"], 2).contains("1 host;"));
    assert!(refused(&["demo", "--rate", "0"], 2).contains("write a number of PUTs a second"));
}
