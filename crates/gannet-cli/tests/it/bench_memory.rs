//! `gannet bench tlb` and `gannet bench register` through the binary: fields and tables.

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
fn each_look_up_has_its_limit_beside_it() {
    let rows = rows(&["tlb", "--entries", "16", "--pages", "8,64", "--buffer-pages", "4"]);
    let ways: Vec<_> = rows.iter().map(|row| row["way"].as_str().unwrap()).collect();
    assert_eq!(ways[..4], ["walk", "least-recent", "random", "direct"]);
    assert_eq!((rows.len(), &rows[7]["buffers"]), (8, &16.into()));
    assert_eq!((&rows[1]["hits"], &rows[0]["hits"]), (&1.0.into(), &0.0.into()));
    for row in &rows {
        let figure = |name: &str| row[name].as_f64().unwrap();
        assert!((figure("ratio") * figure("limit_ns") / figure("ns") - 1.0).abs() < 1e-6, "{row}");
    }
    let table = bench(&["tlb", "--entries", "16", "--pages", "64"]);
    assert!(table.contains("least-recent") && table.contains("a load by the page"), "{table}");
}

#[test]
fn each_step_of_registering_has_its_limit_beside_it() {
    let rows = rows(&["register", "--bytes", "4096,1000000"]);
    let steps: Vec<_> = rows.iter().map(|row| row["step"].as_str().unwrap()).collect();
    assert_eq!(steps[..5], ["map", "attach", "lock", "register", "check"]);
    assert_eq!((rows.len(), &rows[5]["bytes"]), (10, &1_000_000.into()));
    for row in &rows {
        let (ns, limit) = (row["ns"].as_f64(), row["limit_ns"].as_f64().unwrap());
        assert_eq!(ns.is_none(), row["refusal"].is_string(), "{row}");
        let ratio = row["ratio"].as_f64();
        assert!(ns.is_none_or(|ns| (ratio.unwrap() * limit / ns - 1.0).abs() < 1e-6), "{row}");
    }
    let table = bench(&["register", "--bytes", "4096"]);
    assert!(table.contains("filling as many bytes with zeros"), "{table}");
}
