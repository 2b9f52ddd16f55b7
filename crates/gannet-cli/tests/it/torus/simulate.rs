//! `gannet torus simulate`.

use std::fs;

use serde_json::Value;

use super::{assert_well_formed, json, refused, text, torus};

const QUICK: [&str; 7] = ["simulate", "--lattice", "4x4", "--cycles", "500", "--warm-up", "200"];

fn quick(arguments: &[&str]) -> Value {
    json(&[&QUICK, arguments].concat())
}

#[test]
fn a_single_load_stands_at_the_top_and_in_the_list() {
    let report = quick(&["--load", "0.2"]);
    assert_eq!(report["points"].as_array().unwrap().len(), 1);
    for (name, value) in report["points"][0].as_object().unwrap() {
        assert_eq!(report[name], *value, "{name}");
    }
    let figures = ["load", "accepted", "latency_mean_cycles", "latency_p99_cycles", "cycles_per_s"];
    for name in figures.iter().chain(&["flit_visits_per_s", "bytes_per_node"]) {
        assert!(report[name].as_f64().unwrap() > 0.0, "{name} of {report}");
    }
    assert_eq!((&report["setup"]["lattice"], &report["load"]), (&"4x4x1".into(), &0.2.into()));
    assert_eq!(report["limits"]["zero_load_latency_cycles"], 14.0, "6 + 4 * 2");
    assert_eq!((&report["window_cycles"], &report["saturated"]), (&500.into(), &false.into()));
}

#[test]
fn a_range_gives_a_point_for_each_load_in_order() {
    let report = quick(&["--load", "0.1..0.3:0.1,0.9", "--pattern", "neighbor", "--links"]);
    let loads = report["points"].as_array().unwrap().iter().map(|point| &point["load"]);
    assert!(loads.eq([0.1, 0.2, 0.3, 0.9].iter()), "{report}");
    assert_eq!((&report["load"], &report["setup"]["pattern"]), (&0.9.into(), &"neighbour".into()));
    let links = report["links"]["links"].as_array().unwrap();
    assert_eq!(links.len(), 64, "16 nodes of 4 links");
    let plus = |link: &&Value| link["direction"].as_str().unwrap().ends_with('+');
    let busy = |link: &&Value| link["load"].as_f64().unwrap() > 0.5;
    assert!(links.iter().filter(plus).all(|link| busy(&link)));
    assert!(!links.iter().filter(|link| !plus(link)).any(|link| busy(&link)));
    assert!(report["links"]["busiest"][0]["direction"].as_str().unwrap().ends_with('+'));
}

#[test]
fn the_same_seed_gives_the_same_document_on_one_and_two_threads() {
    let report = |threads, seed| {
        let mut report = quick(&["--load", "0.3,0.6", "--threads", threads, "--seed", seed]);
        report["setup"]["threads"] = Value::Null;
        let timing = ["wall_s", "cycles_per_s", "flit_visits_per_s", "bytes_per_node"];
        let fields = report.as_object_mut().unwrap();
        timing.iter().for_each(|name| _ = fields.remove(*name));
        for point in report["points"].as_array_mut().unwrap() {
            let fields = point.as_object_mut().unwrap();
            timing.iter().for_each(|name| _ = fields.remove(*name));
        }
        report
    };
    let one = report("1", "7");
    assert_eq!(one, report("2", "7"));
    assert_ne!(one["points"], report("1", "8")["points"]);
}

#[test]
fn saturation_is_searched_and_told() {
    let options = ["--pattern", "tornado", "--lattice", "8", "--saturation"];
    let arguments = [&["simulate", "--cycles", "20000", "--drain", "0"][..], &options].concat();
    let report = json(&arguments);
    let found = report["saturation"]["load"].as_f64().unwrap();
    assert!((0.25..0.34).contains(&found), "three hops each: below a third, not {found}");
    assert_eq!(report["points"].as_array().unwrap().len(), 1, "the default load");
    assert!(report["saturation"]["ratio"].as_f64().unwrap() <= 1.02);
    let table = text(&torus(&arguments).stdout);
    assert!(table.contains("bound: 0.3333") && table.contains("by the busiest link"), "{table}");
    assert!(table.contains("\nsaturation: 0.2"), "{table}");
}

#[test]
fn latencies_of_saturated_loads_stand_in_brackets() {
    let output = torus(&[&QUICK[..], &["--load", "0.1,1", "--pattern", "hot-spot"]].concat());
    let table = text(&output.stdout);
    let brackets = |line: &&str| line.matches('(').count() == 3;
    assert_eq!(table.lines().filter(brackets).count(), 1, "{table}");
    assert!(table.contains("in brackets: saturated"), "{table}");
    assert!(table.contains("by the node that receives most"), "{table}");
}

#[test]
fn a_curve_is_drawn() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("curve.svg");
    let arguments = ["--load", "0.1,0.5,0.9", "--svg", file.to_str().unwrap()];
    let output = torus(&[&QUICK[..], &arguments].concat());
    assert!(text(&output.stderr).contains("3 of 3: load 0.9"));
    let picture = fs::read_to_string(file).unwrap();
    assert_well_formed(&picture);
    assert!(picture.contains("latency, cycles") && picture.contains("4x4x1, uniform"));
    let message = refused(&[&QUICK[..], &["--svg", "/dev/null"]].concat(), 2);
    assert!(message.contains("two loads at least"), "{message}");
}

#[test]
fn a_trace_is_played() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("trace.csv");
    fs::write(&file, "cycle,source,destination,flits\n0,0,5,4\n9,3,0,1\n").unwrap();
    let trace = ["simulate", "--lattice", "4x4", "--pattern", "trace", "--trace"];
    let arguments = [&trace[..], &[file.to_str().unwrap()]].concat();
    let report = json(&arguments);
    assert_eq!((&report["packets"], &report["unfinished"]), (&2.into(), &0.into()));
    // 6 cycles to get in and out, 4 for each of 2 links and of 1, 3 more flits of the first.
    assert_eq!(report["latency_mean_cycles"], 13.5);
    assert_eq!(report["limits"]["zero_load_latency_cycles"], 13.5);
    assert!(report["setup"]["packet_flits"].is_null(), "{report}");
    let table = text(&torus(&arguments).stdout);
    assert!(table.contains("4x4x1, trace, 1 to 4 flits a packet"), "{table}");
    // The last flit arrives at cycle 9 + 10, five of them by then.
    let accepted = report["accepted"].as_f64().unwrap();
    assert!((accepted - 5.0 / 20.0 / 16.0).abs() < 1e-12, "{report}");
    let message = refused(&[&arguments[..], &["--load", "0.1"]].concat(), 2);
    assert!(message.contains("leave out the load"), "{message}");
    let message = refused(&[&arguments[..], &["--packet-flits", "2"]].concat(), 2);
    assert!(message.contains("leave out --packet-flits"), "{message}");
    let message = refused(&[&arguments[..], &["--warm-up", "steady"]].concat(), 2);
    assert!(message.contains("never steady"), "{message}");
    fs::write(&file, "0,0,99,4\n").unwrap();
    let message = refused(&arguments, 1);
    assert!(message.contains("trace.csv: line 1: there is no node 99"), "{message}");
}

#[test]
fn what_nothing_was_measured_of_is_no_number() {
    let alone = json(&["simulate", "--lattice", "1", "--cycles", "100", "--warm-up", "0"]);
    assert!(alone["limits"]["channel_bound"].is_null(), "{alone}");
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("trace.csv");
    fs::write(&file, "0,0,5,1\n").unwrap();
    let arguments = ["simulate", "--lattice", "4x4", "--pattern", "trace", "--dead-node", "5"];
    let arguments = [&arguments[..], &["--trace", file.to_str().unwrap()]].concat();
    let lost = json(&arguments);
    assert!(lost["limits"]["zero_load_latency_cycles"].is_null(), "{lost}");
    assert!(lost["latency_mean_cycles"].is_null(), "{lost}");
    let table = text(&torus(&arguments).stdout);
    assert!(table.contains("a packet alone: -, as no packet can arrive"), "{table}");
    assert!(table.contains("100.00 % of the packets are refused"), "{table}");
}

#[test]
fn a_trace_without_packets_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("trace.csv");
    fs::write(&file, "cycle,source,destination,flits\n# none\n").unwrap();
    let arguments = ["simulate", "--lattice", "4x4", "--pattern", "trace", "--trace"];
    let message = refused(&[&arguments[..], &[file.to_str().unwrap()]].concat(), 1);
    assert!(message.contains("trace.csv: there are no packets"), "{message}");
    let alone = torus(&["simulate", "--lattice", "1", "--pattern", "halo", "--cycles", "10"]);
    assert!(!text(&alone.stdout).contains("refused"), "nobody sends: {}", text(&alone.stdout));
}

#[test]
fn the_table_says_that_channels_bind() {
    let options = ["--pattern", "neighbour", "--vcs", "2", "--load", "0.1"];
    let table = text(&torus(&[&QUICK[..], &options].concat()).stdout);
    assert!(table.contains("bound: 0.5000 flits per node and cycle where all send"), "{table}");
    assert!(table.contains("by the channels of a class on a link"), "{table}");
    let options = ["--pattern", "neighbour", "--vcs", "3", "--load", "1"];
    let table = text(&torus(&[&QUICK[..], &options].concat()).stdout);
    assert!(table.contains("more than the bound is accepted where nodes"), "{table}");
}

#[test]
fn no_load_is_simulated_for_a_reader_that_has_gone() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let loads =
        ["simulate", "--lattice", "16x16", "--cycles", "1000000", "--load", "0.1..0.9:0.001"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gannet"));
    let status = command.arg("torus").args(loads).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn routes_lead_round_dead_nodes_and_cables() {
    let report = quick(&["--dead-node", "5", "--dead-link", "0:X+,9:y-", "--load", "0.1"]);
    let faults = report["setup"]["faults"].as_array().unwrap();
    assert_eq!(
        (faults.len(), &faults[0]["kind"], &faults[0]["node"]),
        (3, &"node".into(), &5.into())
    );
    assert_eq!((&faults[2]["node"], &faults[2]["direction"]), (&5.into(), &"Y+".into()));
    assert_eq!(
        (&report["setup"]["means"], &report["unfinished"]),
        (&"early-turn".into(), &0.into())
    );
    assert!(
        (report["limits"]["reachable"].as_f64().unwrap() - (15.0f64 / 16.0).powi(2)).abs() < 1e-9
    );
    assert_eq!(report["saturated"], false);
}

#[test]
fn packets_lost_to_a_script_are_sent_again() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("script.csv");
    fs::write(&file, "300,cable-down,0,X+\n400,node-down,9\n").unwrap();
    let script = ["--script", file.to_str().unwrap(), "--reroute-after", "100", "--load", "0.3"];
    let lost = quick(&script);
    assert!(lost["lost"].as_u64().unwrap() > 0, "{lost}");
    assert_eq!(lost["replayed"], 0);
    let again = quick(&[&script[..], &["--replay-after", "50"]].concat());
    assert!(again["replayed"].as_u64().unwrap() > 0, "{again}");
}

#[test]
fn more_memory_than_there_is_is_refused_before_any_is_taken() {
    let large = ["simulate", "--lattice", "1024x1024", "--vcs", "8", "--vc-depth", "4096"];
    let message = refused(&large, 5);
    assert!(message.contains("a simulation of 1024x1024x1 needs"), "{message}");
    let gannet = env!("CARGO_BIN_EXE_gannet");
    let limited = format!("ulimit -v 400000; exec {gannet} torus simulate --lattice 40x40x40");
    let output = std::process::Command::new("sh").args(["-c", &limited]).output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{message}");
    assert!(message.contains("can be had (the limit of the address space"), "{message}");
}

#[test]
fn loss_by_a_cut_is_told_as_such() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("script.csv");
    fs::write(&file, "300,cut,X,1\n").unwrap();
    let script = ["--load", "0.2", "--script", file.to_str().unwrap()];
    let report = quick(&script);
    assert_eq!(report["saturated"], false, "{report}");
    let table = text(&torus(&[&QUICK[..], &script].concat()).stdout);
    assert!(table.contains("at a load of 0.2000, faults took 0.0"), "{table}");
    assert!(!table.contains("in brackets"), "{table}");
}

#[test]
fn what_comes_after_the_end_is_told() {
    let root = tempfile::tempdir().unwrap();
    let (script, trace) = (root.path().join("script.csv"), root.path().join("trace.csv"));
    fs::write(&script, "300,cable-down,0,X+\n100000,cut,X,1\n").unwrap();
    let script = ["--script", script.to_str().unwrap()];
    let told = text(&torus(&[&QUICK[..], &script].concat()).stderr);
    assert!(told.contains("so these events of the script were left out: 4; raise"), "{told}");
    fs::write(&trace, "0,0,5,4\n500,3,0,1\n").unwrap();
    let trace = ["--pattern", "trace", "--trace", trace.to_str().unwrap()];
    let told = text(&torus(&[&["simulate", "--lattice", "4x4"], &trace[..]].concat()).stderr);
    assert!(!told.contains("left out"), "{told}");
    let short = ["simulate", "--lattice", "4x4", "--cycles", "100"];
    let told = text(&torus(&[&short[..], &trace].concat()).stderr);
    assert!(told.contains("so these packets of the trace were left out: 1; raise"), "{told}");
}

#[test]
fn files_without_end_are_refused() {
    let script = ["simulate", "--lattice", "4x4", "--script", "/dev/zero"];
    let message = refused(&script, 1);
    assert!(message.contains("/dev/zero: longer than 4 MiB: leave lines out"), "{message}");
    let trace = ["simulate", "--lattice", "4x4", "--pattern", "trace", "--trace", "/dev/zero"];
    assert!(refused(&trace, 1).contains("/dev/zero: longer than 64 MiB: leave lines out"));
}

#[test]
fn what_cannot_be_simulated_says_why() {
    let message = |arguments: &[&str]| refused(&[&["simulate"], arguments].concat(), 2);
    assert!(message(&["--lattice", "8x8x"]).contains("such as 8x8x8"));
    assert!(message(&["--load", "0.1..0.9"]).contains("a range has a step"));
    assert!(message(&["--load", "2"]).contains("choose 0 to 1 flit"));
    assert!(message(&["--load", "-0.1"]).contains("choose 0 to 1 flit"));
    assert!(message(&["--lattice", "65536"]).contains("a ring has at most 65535 nodes"));
    assert!(message(&["--packet-flits", "100000"]).contains("not in 1..=4096"));
    assert!(message(&["--vc-depth", "0"]).contains("not in 1..=4096"));
    assert!(message(&["--vcs", "1"]).contains("virtual channels is 1: it must be 2 to 8"));
    assert!(message(&["--trace", "x.csv"]).contains("--pattern trace alone"));
    assert!(message(&["--hot-spot-fraction", "0.2"]).contains("--pattern hot-spot alone"));
    assert!(message(&["--dead-node", "512"]).contains("there is no node 512"));
    assert!(message(&["--lattice", "8x8", "--dead-link", "0:Z+"]).contains("no link Z+"));
    assert!(message(&["--pattern", "trace"]).contains("--trace"));
    assert!(message(&["--pattern", "spiral"]).contains("tornado"));
    let cut_through = ["--flow-control", "virtual-cut-through", "--packet-flits", "20"];
    assert!(message(&cut_through).contains("depth of a virtual channel in flits is 16"));
}
