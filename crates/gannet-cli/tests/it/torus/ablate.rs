//! `gannet torus ablate`.

use std::fs;

use crate::torus::{assert_well_formed, json, refused, text, torus};

#[test]
fn published_gains_stand_beside_ours_and_come_from_the_tables() {
    let report = json(&["ablate"]);
    let gains = report["comparisons"].as_array().unwrap();
    let published: Vec<f64> = gains.iter().map(|it| it["published"].as_f64().unwrap()).collect();
    assert_eq!(published, [0.6, 0.6, 0.4, 0.45]);
    for it in gains {
        let [ours, published] = ["ours", "published"].map(|field| it[field].as_f64().unwrap());
        assert!((ours - published).abs() < 0.05, "{it}");
    }
    for (table, rows) in [("tlb", 17), ("dma", 17), ("receive", 17), ("replacement", 7)] {
        assert_eq!(report[table].as_array().unwrap().len(), rows, "{table}");
    }
    assert_eq!(report["parameters"]["walk_ns"], 1900);
}

#[test]
fn parameters_change_what_comes_out() {
    // A processor that is as fast as the TLB leaves nothing to gain, and half the bus no second engine.
    let report =
        json(&["ablate", "--walk", "124", "--one-engine-share", "0.9", "--write-setup", "0"]);
    let ours = |at: usize| report["comparisons"][at]["ours"].as_f64().unwrap();
    assert!(ours(0) < 0.1, "{}", ours(0));
    assert!(ours(2) < 0.2 && ours(3) < 0.3, "{} {}", ours(2), ours(3));
    assert_eq!(report["parameters"]["write_setup_ns"], 0);
}

#[test]
fn the_table_has_all_parts_and_the_picture_both_memories() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("tlb.svg");
    let output = torus(&["ablate", "--svg", file.to_str().unwrap()]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for part in ["second DMA engine", "up to 60.0 %", "about 45.0 %", "random", "write_setup_ns"] {
        assert!(table.contains(part), "{part} is not in {table}");
    }
    let picture = fs::read_to_string(file).unwrap();
    assert_well_formed(&picture);
    assert!(picture.contains("GPU, none") && picture.contains("bandwidth, GB/s"), "{picture}");
}

#[test]
fn values_out_of_range_are_refused() {
    for wrong in [["--tlb-entries", "0"], ["--link-rate", "1bit/s"], ["--one-engine-share", "2"]] {
        let message = refused(&["ablate", wrong[0], wrong[1]], 2);
        assert!(message.contains(wrong[0]), "{message}");
    }
}
