//! `gannet torus link`.

use crate::torus::{json, refused, text, torus};

#[test]
fn rows_follow_the_model_and_both_readings_are_told() {
    let report = json(&["link", "--payload", "64,4096", "--credit-interval", "8,128"]);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    let of = |row: usize, field: &str| rows[row][field].as_f64().unwrap();
    assert!((of(0, "efficiency") - 0.5 * 0.8).abs() < 1e-9);
    assert!((of(3, "efficiency") - 256.0 / 260.0 * 128.0 / 130.0).abs() < 1e-9);
    assert!((of(3, "total_efficiency") / of(3, "efficiency") - 0.8).abs() < 1e-9);
    let rates = [0, 1].map(|at| report["readings"][at]["payload_bytes_per_s"].as_f64().unwrap());
    assert!((rates[0] / 2.195e9 - 1.0).abs() < 1e-3 && (rates[1] / 2.744e9 - 1.0).abs() < 1e-3);
}

#[test]
fn a_fifo_that_is_too_small_limits_the_line() {
    let arguments = ["link", "--payload", "4096", "--fifo", "512", "--round-trip", "1000"];
    let row = &json(&arguments)["rows"][0];
    assert!(row["efficiency"].as_f64().unwrap() < 0.5, "{row}");
    assert_eq!(row["efficiency"], row["fifo_limit"]);
    assert!(row["fifo_least_words"].as_f64().unwrap() > 512.0);
}

#[test]
fn the_table_tells_the_rates() {
    let table = text(&torus(&["link", "--code", "64b66b", "--rate", "45.2Gbit/s"]).stdout);
    assert!(table.contains("0.784") && table.contains("2.195 GB/s"), "{table}");
    let message = refused(&["link", "--payload", "100"], 2);
    assert!(message.contains("no multiple of 16"), "{message}");
    refused(&["link", "--credit-interval", "0"], 2);
}
