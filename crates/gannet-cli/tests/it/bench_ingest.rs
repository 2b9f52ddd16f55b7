//! `gannet bench ingest` through the binary: fields, table and exit codes.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    let quick = ["--seconds-per-step", "0.005"];
    command.args(["bench", "ingest"]).args(quick).args(arguments).output().unwrap()
}

#[test]
fn the_report_names_the_limit_and_the_floor() {
    let output = bench(&["--json", "--streams", "4", "--sockets", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["streams"], &report["sockets"]), (&4.into(), &2.into()));
    assert_eq!(report["socket_frames"].as_array().unwrap().len(), 2, "{report}");
    let limited_by = report["limited_by"].as_str().unwrap();
    assert!(["receiver", "sender", "machine", "search"].contains(&limited_by), "{report}");
    assert_eq!(report["sender_limited"], limited_by == "sender");
    assert!(report["sender_alone_frames_per_s"].as_f64().unwrap() > 0.0);
    // On a busy machine every rate may lose, and then there is no rate to compare at.
    let found = report["loss_free_frames_per_s"].as_f64().unwrap() > 0.0;
    assert_eq!(report["floor"].is_object(), found, "{report}");
    if found {
        for field in ["path_over_reading", "path_over_blind"] {
            assert!(report["floor"][field].as_f64().unwrap() > 0.0, "{report}");
        }
    }
}

#[test]
fn the_table_says_what_limits() {
    let output = bench(&["--streams", "2"]);
    let table = String::from_utf8(output.stdout).unwrap();
    for name in ["loss-free maximum", "limited by ", "sender alone ", "limit: copying frames"] {
        assert_eq!(table.lines().filter(|line| line.starts_with(name)).count(), 1, "{table}");
    }
    assert!(!table.contains("frames by socket"), "there is one socket: {table}");
}

#[test]
fn numbers_out_of_range_are_refused() {
    for arguments in [["--streams", "513"], ["--sockets", "65"], ["--sockets", "0"]] {
        assert_eq!(bench(&arguments).status.code(), Some(2), "{arguments:?}");
    }
}
