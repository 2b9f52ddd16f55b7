//! `gannet bench latency` through the binary: fields, table and picture.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(["bench", "latency", "--detector", "rich", "--seconds", "0"]);
    command.args(arguments).output().unwrap()
}

#[test]
fn every_link_and_size_has_its_times_and_the_least_that_they_can_be() {
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("latency.svg");
    let output = bench(&["--json", "--svg", picture.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let links = report["links"].as_array().unwrap();
    let names: Vec<&str> = links.iter().map(|link| link["link"].as_str().unwrap()).collect();
    assert_eq!(names, ["GbE", "10GbE", "APElink", "unpaced"]);
    for link in links {
        let points = link["points"].as_array().unwrap();
        let sizes: Vec<u64> = points.iter().map(|it| it["events"].as_u64().unwrap()).collect();
        assert_eq!(sizes, [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]);
        let mut largest = None;
        for point in points {
            let us = |span: &str| point[span]["us"].as_f64().unwrap();
            let limit = |span: &str| point[span]["limit_us"].as_f64().unwrap();
            let larger = us("transfer").max(us("processing"));
            assert!((limit("overlapped") / larger - 1.0).abs() < 1e-9);
            let times = us("overlapped") / larger;
            assert!((point["times_larger"].as_f64().unwrap() / times - 1.0).abs() < 1e-9);
            let both = limit("transfer") + limit("processing");
            assert!((limit("serialised") / both - 1.0).abs() < 1e-9);
            if us("serialised") <= 1000.0 {
                largest = point["events"].as_u64();
            }
        }
        assert_eq!(link["largest_serialised"].as_u64(), largest, "{link}");
    }
    // 1024 events of 76 bytes take 0.62 ms at 1 Gbit/s.
    let transfer = &links[0]["points"][6]["transfer"];
    assert!((transfer["limit_us"].as_f64().unwrap() - 623.0).abs() < 10.0, "{transfer}");
    let picture = fs::read_to_string(picture).unwrap();
    assert!(picture.contains("size of a buffer, events"), "{picture}");
}

#[test]
fn the_table_names_the_largest_buffer_within_the_budget_of_each_link() {
    let output = bench(&["--finder", "multi"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("largest buffer within 1000 us: ").count(), 4, "{text}");
    for part in ["GbE, 1 Gbit/s", "10GbE, 10 Gbit/s", "APElink, 17.6 Gbit/s", "\nunpaced\n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
