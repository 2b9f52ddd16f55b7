//! `gannet bench coincidences` through the binary: fields, table and exit codes.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(["bench", "coincidences", "--seconds", "0", "--slices", "5"]);
    command.args(arguments).output().unwrap()
}

#[test]
fn a_report_has_the_figures_and_their_ratios() {
    for finder in ["l1", "l2", "supernova"] {
        let output = bench(&["--finder", finder, "--json", "--window", "20"]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{message}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let figure = |name: &str| report[name].as_f64().unwrap();
        assert_eq!((&report["finder"], figure("slices")), (&Value::from(finder), 5.0));
        let ratio = figure("hits_per_s") / figure("limit_per_s");
        assert!((figure("ratio") / ratio - 1.0).abs() < 1e-6);
        let times = figure("plain_per_s") / figure("hits_per_s");
        assert!((figure("times_plain") / times - 1.0).abs() < 1e-6);
        assert!((20e3..24e3).contains(&figure("hits_per_slice")), "{report}");
        assert!(report["isa"].is_string());
        assert!(finder == "supernova" || figure("found") > 100.0, "{report}");
    }
}

#[test]
fn a_report_of_events_has_their_figures_too() {
    for finder in ["muon", "shower", "events"] {
        let output = bench(&["--finder", finder, "--strings", "7", "--json", "--isa", "scalar"]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{message}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let figure = |name: &str| report[name].as_f64().unwrap();
        assert_eq!((&report["finder"], figure("modules")), (&Value::from(finder), 126.0));
        let ratio = figure("hits_per_s") / figure("limit_per_s");
        assert!((figure("ratio") / ratio - 1.0).abs() < 1e-6);
        let cores = figure("hits_per_slice") * 10.0 / figure("hits_per_s");
        assert!((figure("cores") / cores - 1.0).abs() < 1e-6 && figure("plain_per_s") > 0.0);
        assert!((25e3..35e3).contains(&figure("hits_per_slice")), "{report}");
    }
    let output = bench(&["--finder", "events", "--strings", "7"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["126 modules", "plain", "reading", "cores", "of noise alone", "muons with 10 hits"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_table_tells_the_finder_and_what_stands_beside_it() {
    let output = bench(&["--isa", "scalar", "--shuffled"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["l1, scalar", "in random order", "sorting", "reading", "hits confirmed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_rate_that_no_module_has_is_refused() {
    let output = bench(&["--rate=-1"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("rate"), "{message}");
}
