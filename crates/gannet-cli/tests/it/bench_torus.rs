//! `gannet bench hop` and `gannet bench cable` through the binary: fields and tables.

use std::process::Command;

use serde_json::Value;

/// What a bench of no length prints.
fn bench(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    let output = command.arg("bench").args(arguments).args(["--seconds", "0"]).output().unwrap();
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
    let rows = rows(&["cable", "--bytes", "8,100000", "--frame-bytes", "1472"]);
    assert_eq!((rows.len(), &rows[1]["bytes"]), (2, &100_000.into()));
    for row in &rows {
        let figure = |name: &str| row[name].as_f64().unwrap();
        let ratio = figure("gbit_per_s") / figure("limit_gbit_per_s");
        assert!((figure("rate_ratio") / ratio - 1.0).abs() < 1e-6, "{row}");
        assert!(figure("half_trip_ns") > 0.0, "{row}");
    }
    let table = bench(&["cable", "--bytes", "8"]);
    assert!(table.contains("half trip us") && table.lines().count() == 4, "{table}");
    assert!(rows[0]["processors"].as_u64() > Some(0) && table.contains("processors: "), "{table}");
}
