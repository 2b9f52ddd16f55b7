//! `gannet torus plan`.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, Read};

use super::{interrupt, json, refused, started, text, torus};

const CUBE: [&str; 7] = ["plan", "--nodes", "64", "--ports", "6", "--rate", "100Gbit/s"];

#[test]
fn sixty_four_nodes_of_six_ports_are_a_cube_of_192_cables() {
    let plan =
        json(&[&CUBE[..], &["--fail", "2", "--trials", "5", "--hop-time", "500 ns"]].concat());
    assert_eq!((&plan["lattice"], &plan["cables"]), (&"4x4x4".into(), &192.into()));
    assert_eq!((&plan["missing"], &plan["separating_cables"]), (&0.into(), &6.into()));
    assert_eq!(plan["bisection_bit_per_s"], 6.4e12);
    assert_eq!(plan["shapes"][0]["lattice"], plan["lattice"]);
    let latency = plan["zero_load_latency_ns"].as_f64().unwrap();
    assert!((latency - (3.0 * 500.0 + 260.0 * 1.28 * 130.0 / 128.0)).abs() < 1e-6, "{latency}");
    let tornado = plan["patterns"].as_array().unwrap().iter().find(|p| p["pattern"] == "tornado");
    assert_eq!(tornado.unwrap()["bound_bit_per_s"], 100e9);
    let survival = plan["survival"].as_array().unwrap();
    assert_eq!(survival.len(), 4, "1 and 2 cables, 1 and 2 nodes");
    assert!(survival.iter().all(|row| row["connected"] == 1.0 && row["routed"] == 1.0));
    assert!(survival[0]["extra_hops"].as_f64().unwrap() > 0.0);
}

#[test]
fn every_port_is_on_the_list_of_cables_once() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("cables.csv");
    let cabling = ["--cabling", file.to_str().unwrap(), "--fail", "0"];
    let output = torus(&[&CUBE[..], &cabling].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let list = fs::read_to_string(&file).unwrap();
    let mut lines = list.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let column = |name| names.iter().position(|other| *other == name).unwrap();
    let [from, from_port, to, to_port] = ["from", "from_port", "to", "to_port"].map(column);
    let rows: Vec<_> = lines.collect();
    let ports = rows.iter().flat_map(|row| [(row[from], row[from_port]), (row[to], row[to_port])]);
    assert_eq!((rows.len(), ports.collect::<HashSet<_>>().len()), (192, 384));
    assert!(rows.iter().all(|row| ["1", "2"].contains(row.last().unwrap())), "{list}");
    let message = refused(&[&CUBE[..], &cabling].concat(), 1);
    assert!(message.contains("give --overwrite"), "{message}");
}

#[test]
fn the_table_compares_with_a_switch_and_prices_that_are_given() {
    let prices = ["--switch-ports", "32", "--switch-cost", "1000", "--cable-cost", "10"];
    let output = torus(&[&CUBE[..], &prices, &["--fail", "1", "--trials", "2"]].concat());
    let table = text(&output.stdout);
    let row = |name: &str| {
        let line = table.lines().find(|line| line.trim().starts_with(name)).expect(name);
        line.split_whitespace().rev().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("cables and switch"), ["small", "too"], "no price of what would not do");
    assert!(table.contains("600 Gbit/s"), "{table}");
    assert!(table.contains("a switch of 32 ports is too small for 64 nodes"), "{table}");
    assert!(table.contains("any 5; the wrong 6 separate a part"), "{table}");
    let fits = ["--switch-ports", "64", "--switch-cost", "1000", "--cable-cost", "10"];
    let table = text(&torus(&[&CUBE[..], &fits, &["--fail", "0"]].concat()).stdout);
    let line = table.lines().find(|line| line.trim().starts_with("cables and switch")).unwrap();
    assert!(line.ends_with(" 1640") && line.contains(" 1920 "), "{line}");
}

#[test]
fn a_ring_is_planned_with_two_links_a_node() {
    let ring = ["plan", "--nodes", "16", "--ports", "6", "--rate", "10Gbit/s", "--lattice", "16"];
    let table = text(&torus(&[&ring[..], &["--fail", "0"]].concat()).stdout);
    let line = table.lines().find(|line| line.trim().starts_with("a node's links")).unwrap();
    assert!(line.contains(" 20.0 Gbit/s"), "{line}");
}

#[test]
fn a_large_machine_is_looked_at_less_often_and_says_so() {
    let large = ["plan", "--nodes", "4096", "--ports", "6", "--rate", "10Gbit/s", "--fail", "1"];
    let table = text(&torus(&large).stdout);
    assert!(table.contains("routes round failures are not planned"), "{table}");
}

#[test]
fn saturation_is_measured_when_asked_for() {
    let ring = ["plan", "--nodes", "4", "--ports", "2", "--rate", "1Gbit/s", "--simulate"];
    let plan = json(&[&ring[..], &["--fail", "0"]].concat());
    for pattern in plan["patterns"].as_array().unwrap() {
        let (bound, measured) = (&pattern["bound"], &pattern["measured"]);
        let ratio = measured.as_f64().unwrap() / bound.as_f64().unwrap();
        assert!((0.3..1.03).contains(&ratio), "{pattern}");
    }
}

#[test]
fn patterns_of_which_nothing_arrives_have_no_figures() {
    let three = ["plan", "--nodes", "3", "--ports", "6", "--rate", "1Gbit/s", "--lattice", "4x4x4"];
    let three = [&three[..], &["--fail", "9"]].concat();
    let plan = json(&three);
    let uniform = &plan["patterns"][0];
    assert!((uniform["max_channel_load"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9, "{uniform}");
    let patterns = plan["patterns"].as_array().unwrap();
    let complement = patterns.iter().find(|p| p["pattern"] == "bit-complement").unwrap();
    let names = ["bound", "bound_bit_per_s", "max_channel_load", "mean_hops"];
    assert!(names.iter().all(|name| complement[name].is_null()), "{complement}");
    let rows = plan["survival"].as_array().unwrap().iter();
    let rows: Vec<_> = rows.map(|row| (row["what"].as_str().unwrap(), &row["failed"])).collect();
    let most: [(_, u64); 4] = [("cables", 1), ("cables", 2), ("nodes", 1), ("nodes", 2)];
    assert_eq!(
        rows,
        most.map(|(what, failed)| (what, failed.into())).each_ref().map(|r| (r.0, &r.1))
    );
    let table = text(&torus(&three).stdout);
    let line = table.lines().find(|line| line.contains("bit-complement")).unwrap();
    assert_eq!(line.split_whitespace().filter(|cell| *cell == "-").count(), 6, "{table}");
}

#[test]
fn more_than_a_packet_holds_takes_several() {
    let output = torus(&[&CUBE[..], &["--packet-bytes", "5000", "--fail", "0"]].concat());
    let table = text(&output.stdout);
    assert!(table.contains("0.959 of the rate in 2 packets of the APElink"), "{table}");
    assert!(table.contains("a credit every 128 words"), "{table}");
}

#[test]
fn ctrl_c_prints_what_is_planned_so_far() {
    // Ten thousand machines with routes take minutes.
    let long = ["--trials", "10000", "--json"];
    let (mut child, mut errors) = started(&[&CUBE[..], &long].concat());
    let mut line = String::new();
    while !line.starts_with("failures: ") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "it tells where it is");
    }
    interrupt(&child);
    let mut document = String::new();
    child.stdout.take().unwrap().read_to_string(&mut document).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let plan: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(
        (&plan["lattice"], plan["patterns"].as_array().unwrap().len()),
        (&"4x4x4".into(), 6)
    );
    assert!(plan["survival"].as_array().unwrap().len() < 8, "{plan}");
}

#[test]
fn ctrl_c_prints_the_plan_without_what_is_not_yet_measured() {
    let (mut child, mut errors) = started(&[&CUBE[..], &["--simulate", "--json"]].concat());
    let mut line = String::new();
    while !line.contains("1 of 6: uniform") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "it measures");
    }
    interrupt(&child);
    let mut document = String::new();
    child.stdout.take().unwrap().read_to_string(&mut document).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let plan: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!((&plan["lattice"], &plan["patterns"][5]["measured"]), (&"4x4x4".into(), &().into()));
}

#[test]
fn what_cannot_be_planned_says_why() {
    let ports = ["plan", "--nodes", "64", "--ports", "5", "--rate", "1Gbit/s"];
    assert!(refused(&ports, 2).contains("2, 4 or 6"));
    let rate = ["plan", "--nodes", "64", "--ports", "6", "--rate", "100"];
    assert!(refused(&rate, 2).contains("as 100Gbit/s"));
    let small = [&CUBE[..], &["--lattice", "4x4x3"]].concat();
    assert!(refused(&small, 2).contains("48 places for 64 nodes"));
    let few = ["plan", "--nodes", "8", "--ports", "4", "--rate", "1Gbit/s", "--lattice", "2x2x2"];
    assert!(refused(&few, 2).contains("needs 6 ports"));
}
