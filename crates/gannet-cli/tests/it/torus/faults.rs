//! `gannet torus faults`.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{json, refused, text, torus};

const QUICK: [&str; 7] = ["faults", "--lattice", "4x4", "--period", "10ms", "--trials", "40"];

#[test]
fn what_is_found_stands_in_the_document_on_any_number_of_threads() {
    let report = json(&QUICK);
    assert_eq!((&report["sound"], &report["in_time"]), (&true.into(), &true.into()));
    let campaigns = report["campaigns"].as_array().unwrap();
    assert_eq!(campaigns.len(), 2);
    for campaign in campaigns {
        assert_eq!((&campaign["trials"], &campaign["trials_asked"]), (&40.into(), &40.into()));
        assert_eq!((&campaign["within_limits"], &campaign["late"]), (&true.into(), &0.into()));
    }
    assert_eq!(report, json(&[&QUICK[..], &["--threads", "2"]].concat()));
}

#[test]
fn harder_trials_are_replayed_under_their_options() {
    let hard = ["--half-cut", "1", "--heal", "0.25", "--random-errors", "0.5", "--mortal-master"];
    let bad = ["--credit-loss", "0.4", "--credit-late", "0.00001"];
    let all = [&QUICK[..], &hard, &bad].concat();
    let output = torus(&[&all[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(6), "links so bad look dead");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let campaign = &report["campaigns"][1];
    assert_eq!(
        (&campaign["beats_per_period"], &campaign["hardship"]["half_cut"]),
        (&2.0.into(), &1.0.into())
    );
    let replay = campaign["replays"][0].as_str().unwrap();
    for (name, value) in [("half-cut", "1"), ("heal", "0.25"), ("credit-late", "0.00001")] {
        assert!(replay.contains(&format!("--{name} {value} ")), "{replay}");
    }
    assert!(replay.contains("--mortal-master"), "{replay}");
    let arguments: Vec<&str> = replay.split(' ').skip(2).collect();
    assert!(refused(&arguments, 6).is_empty());
    let table = text(&torus(&QUICK).stdout);
    assert!(
        table.contains("published: 18.0 ms, at a beat in T; here there are 2.00 beats"),
        "{table}"
    );
}

#[test]
fn one_node_alone_has_no_limits() {
    let report = json(&["faults", "--lattice", "1", "--trials", "20"]);
    assert_eq!(report["campaigns"][0]["within_limits"], Value::Null);
    let table = text(&torus(&["faults", "--lattice", "1", "--trials", "20"]).stdout);
    assert!(table.contains("limits: none") && !table.contains("kept"), "{table}");
}

#[test]
fn hosts_that_are_too_late_end_with_code_6_and_the_reason() {
    let late = ["faults", "--lattice", "4x4", "--trials", "0", "--hours", "1", "--late", "0.9"];
    let message = refused(&late, 6);
    assert!(message.contains("without faults, healthy things were called broken"), "{message}");
    let late = ["faults", "--lattice", "4x4", "--mode", "push", "--period", "1s", "--late", "0.9"];
    let message = refused(&[&late[..], &["--trials", "4000"]].concat(), 6);
    assert!(message.contains("4x4x1, push, T = 1 s: "), "{message}");
}

#[test]
fn what_cannot_be_done_is_told_before_the_work() {
    assert!(refused(&["faults", "--trials", "0"], 2).contains("nothing to do"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.svg");
    let long = ["faults", "--trials", "100000000", "--svg", file.to_str().unwrap()];
    let message = refused(&[&long[..], &["--lattice", "4x4,2x2"]].concat(), 2);
    assert!(message.contains("one --lattice"), "{message}");
    fs::write(&file, "mine").unwrap();
    assert!(refused(&long, 1).contains("--overwrite"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let again = torus(&[&QUICK[..], &["--svg", file.to_str().unwrap(), "--overwrite"]].concat());
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert!(fs::read_to_string(&file).unwrap().starts_with("<svg"));
}

#[test]
fn an_interrupt_prints_what_is_done_so_far() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(["torus", "faults", "--lattice", "2x2", "--mode", "push"]);
    command.args(["--period", "10ms", "--trials", "100000000"]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    while !catches_interrupts(&pid) {
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_secs(1));
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let table = text(&output.stdout);
    assert!(table.contains(" of 100 000 000 trials") && table.contains("undetected"), "{table}");
}

/// Whether the process has a handler for the signal 2.
fn catches_interrupts(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 0b10 != 0
}
