//! `gannet bench hop`, `cable` and `torus` through the binary: fields and tables.

use std::process::{Command, Output};

use gannet_measure::testing::skipped;
use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gannet")).arg("bench").args(arguments).output().unwrap()
}

/// What a bench of no length prints.
fn bench(arguments: &[&str]) -> String {
    let output = run(&[arguments, &["--seconds", "0"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    serde_json::from_str(&bench(&[arguments, &["--json"]].concat())).unwrap()
}

#[test]
fn each_hop_has_its_limit_beside_it() {
    let rows = rows(&["hop", "--bytes", "64,4096"]);
    let hops: Vec<_> = rows.iter().map(|row| row["hop"].as_str().unwrap()).collect();
    assert_eq!(hops, ["words", "frames", "put", "words", "frames", "put"]);
    for row in &rows {
        let figure = |name: &str| row[name].as_f64().unwrap();
        assert!((figure("ratio") * figure("ns") / figure("limit_ns") - 1.0).abs() < 1e-6, "{row}");
    }
    let table = bench(&["hop", "--bytes", "64"]);
    assert!(table.contains("frames") && table.contains("a check sum at each end"), "{table}");
}

#[test]
fn each_cable_has_plain_datagrams_beside_it() {
    let direct = rows(&["cable", "--bytes", "8,100000", "--frame-bytes", "1472"]);
    let relayed = rows(&["cable", "--bytes", "100000", "--hops", "2"]);
    assert_eq!((direct.len(), &direct[1]["bytes"]), (2, &100_000.into()));
    assert_eq!((&direct[0]["hops"], &relayed[0]["hops"]), (&1.into(), &2.into()));
    for row in direct.iter().chain(&relayed) {
        let figure = |name: &str| row[name].as_f64().unwrap();
        for (beside, ratio) in
            [("plain_gbit_per_s", "plain_ratio"), ("limit_gbit_per_s", "limit_ratio")]
        {
            let expected = figure("gbit_per_s") / figure(beside);
            assert!((figure(ratio) / expected - 1.0).abs() < 1e-6, "{row}");
        }
        assert!(figure("half_trip_ns") > 0.0, "{row}");
    }
    let table = bench(&["cable", "--bytes", "8"]);
    assert!(table.contains("half trip us") && table.lines().count() == 4, "{table}");
    assert!(
        direct[0]["processors"].as_u64() > Some(0) && table.contains("processors: "),
        "{table}"
    );
}

/// The rows between network namespaces, and what is said where none can be made.
#[test]
fn cables_between_namespaces_have_the_same_rows() {
    let arguments = ["cable", "--namespaces", "--bytes", "8", "--hops", "2", "--seconds", "0"];
    let output = run(&[&arguments[..], &["--json"]].concat());
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{error}");
        assert!(error.contains("rights of root") || error.contains("`ip` of iproute2"), "{error}");
        return skipped("PUTs between namespaces", &error);
    }
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((rows.len(), &rows[0]["medium"]), (1, &"namespaces".into()));
    assert!(rows[0]["gbit_per_s"].as_f64() > Some(0.0), "{rows:?}");
}

#[test]
fn the_machine_that_runs_has_the_simulated_one_beside_it() {
    let arguments = ["torus", "--lattice", "2x2", "--load", "0.3", "--seconds", "0.5"];
    let of_json = ["--json", "--arbitration", "equal-shares"];
    let output = run(&[&arguments[..], &of_json].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["lattice"], &report["pattern"]), (&"2x2x1".into(), &"uniform".into()));
    assert_eq!(report["arbitration"], "equal-shares");
    // A packet is stored whole at each node: its 16 flits, and what the node itself takes, as far as few packets tell.
    assert!(report["hop_cycles"].as_f64() > Some(8.0), "{report}");
    let point = |name: &str| report["points"][0][name].as_f64().unwrap();
    assert!((0.2..0.4).contains(&point("simulated")), "{report}");
    assert!((0.0..0.6).contains(&point("accepted")) && point("accepted") > 0.0, "{report}");
    assert!(point("latency_cycles") > 16.0 && point("busy") > 0.0, "{report}");
    let table = run(&arguments);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(
        table.starts_with("2x2x1, uniform, 16 flits a packet") && table.contains("peak: "),
        "{table}"
    );
}

#[test]
fn what_no_torus_can_be_measured_with_is_refused() {
    for (arguments, code, says) in [
        (&["torus", "--lattice", "1"][..], 2, "choose 2 to 64"),
        (&["torus", "--lattice", "5x5x5"], 2, "choose 2 to 64"),
        (&["torus", "--pattern", "trace"], 2, "choose another pattern"),
        (&["torus", "--rate", "20"], 2, "100Gbit/s"),
        (&["torus", "--lattice", "2", "--seconds", "0"], 1, "measure for longer"),
    ] {
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(says), "{error}");
    }
}
