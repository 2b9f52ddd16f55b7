//! `gannet bench tpg` through the binary: fields, table, picture and exit codes.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    let quick = ["--working-set", "1MiB", "--seconds", "0.05"];
    command.args(["bench", "tpg"]).args(quick).args(arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_single_result_stands_at_the_top_and_in_the_list() {
    let report = json(&bench(&["--json", "--hit-rate", "90000", "--chain", "abs-rs"]));
    assert_eq!(report["results"].as_array().unwrap().len(), 1);
    let fields = report["results"][0].as_object().unwrap();
    assert!(fields.iter().all(|(name, value)| report[name] == *value), "{report}");
    assert_eq!((&report["chain"], &report["hit_rate_hz"]), (&"abs-rs".into(), &90000.0.into()));
    assert_eq!((&report["threads"], &report["streams"]), (&1.into(), &1.into()));
    assert_eq!(report["working_set_bytes"], 1 << 20);
    assert_eq!(report["distinct_frames"], 145, "of 7200 bytes in 1 MiB");
    for field in ["gbit_per_s", "limit_gbit_per_s", "ratio", "ns_per_frame", "tp_per_s"] {
        assert!(report[field].as_f64().unwrap() > 0.0, "{field} of {report}");
    }
    assert!(report["isa"].is_string() && report["cycles_per_sample"].as_f64() != Some(0.0));
    let per_frame = report["tps"].as_f64().unwrap() / report["frames"].as_f64().unwrap();
    assert!((1.0..=190.0).contains(&per_frame), "{per_frame}: running sums join hits");
}

#[test]
fn chains_instruction_sets_and_paths_are_combined_and_share_the_limit() {
    let several = ["--chain", "abs-rs,simple-threshold", "--isa", "scalar,auto,auto"];
    let report = json(&bench(&[&several[..], &["--hit-rate", "90000", "--json"]].concat()));
    let results = report["results"].as_array().unwrap();
    let chains: Vec<_> = results.iter().map(|one| one["chain"].as_str().unwrap()).collect();
    // Where there is no faster instruction set, auto is the scalar one, which is measured once.
    assert!(chains.len() == 4 || chains.len() == 2, "{report}");
    assert!(chains.is_sorted() && chains[0] == "abs-rs" && chains.contains(&"simple-threshold"));
    assert!(report.get("chain").is_none(), "no result stands at the top among several: {report}");
    for one in results {
        let rate = |field: &str| one[field].as_f64().unwrap();
        assert!(rate("gbit_per_s_lowest") <= rate("gbit_per_s"), "{one}");
        assert!(rate("gbit_per_s") <= rate("gbit_per_s_highest"), "{one}");
        assert_eq!(one["limit_gbit_per_s"], results[0]["limit_gbit_per_s"]);
        assert!(one["processors"].as_array().unwrap().len() <= 1, "of one thread: {one}");
    }
    let output = bench(&["--chain", "all", "--path", "all"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.starts_with("wibeth, "), "{table}");
    let rows = |name| table.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(
        (rows("fir "), rows("abs-rs-feedback "), rows("running-sum ")),
        (3, 3, 3),
        "{table}"
    );
}

#[test]
fn a_scan_gives_a_table_row_for_each_rate_and_a_picture() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("scan.svg");
    let svg = file.to_str().unwrap();
    let output = bench(&["--hit-rate", "1000..10000", "--isa", "scalar", "--svg", svg]);
    let (table, log) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    let (table, log) = (table.unwrap(), log.unwrap());
    let rates = ["1000", "1800", "3200", "5600", "10000"];
    let row = |line: &str, rate| line.split_whitespace().nth(2) == Some(rate);
    for rate in rates {
        assert_eq!(table.lines().filter(|line| row(line, rate)).count(), 1, "{rate} in {table}");
    }
    assert!(log.contains("5 of 5:"), "{log}");
    let picture = fs::read_to_string(file).unwrap();
    assert_well_formed(&picture);
    assert!(picture.starts_with("<svg") && picture.contains("rate, Gbit/s"), "{picture}");
}

/// Every element is closed in its order, and no character is left that XML would not have.
fn assert_well_formed(document: &str) {
    let mut open = Vec::new();
    let (mut rest, mut elements) = (document, 0);
    while let Some((text, tag)) = rest.split_once('<') {
        assert!(!text.contains('>') && !text.contains("& "), "stray character in {text:?}");
        let (tag, after) = tag.split_once('>').expect("a tag ends");
        assert_eq!(tag.matches('"').count() % 2, 0, "open quote in <{tag}>");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name.trim())),
            None if tag.ends_with('/') => elements += 1,
            None => open.push(tag.split_whitespace().next().unwrap()),
        }
        rest = after;
    }
    assert!(open.is_empty() && elements > 10, "{open:?} open after {elements} elements");
}

#[test]
fn an_earlier_report_with_better_figures_makes_the_exit_code_6() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("earlier.json");
    let against = |report: &Value, more: &[&str]| {
        fs::write(&file, report.to_string()).unwrap();
        let base = ["--isa", "scalar", "--against", file.to_str().unwrap()];
        bench(&[&base[..], more].concat())
    };
    let both = &["--hit-rate", "90000,100"];
    let measured = json(&bench(&[&["--isa", "scalar", "--json"], &both[..]].concat()));
    let with = |factor: f64| {
        let mut report = measured.clone();
        for result in report["results"].as_array_mut().unwrap() {
            for figure in ["ratio", "gbit_per_s"] {
                result[figure] = (factor * result[figure].as_f64().unwrap()).into();
            }
        }
        report
    };
    let (slower, faster) = (with(0.01), with(100.0));
    for by in ["ratio", "rate"] {
        let by = ["--by", by, "--hit-rate", "90000"];
        assert_eq!(against(&slower, &by).status.code(), Some(0), "{by:?}");
        let output = against(&faster, &by);
        let table = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(6), "{table}");
        let row = |part: &str| table.lines().filter(|line| line.contains(part)).count();
        assert_eq!((row("%  worse"), row("only in the earlier report: ")), (1, 1), "{table}");
    }
    let output = against(&faster, &["--hit-rate", "90000", "--streams", "2", "--json"]);
    assert_eq!(output.status.code(), Some(1), "nothing was compared");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["against"]["only_now"][0]["streams"], 2);
    assert_eq!(document["against"]["only_earlier"].as_array().unwrap().len(), 2);
    for report in [Value::from("x"), serde_json::json!({ "results": [{ "chain": "fir" }] })] {
        let message = String::from_utf8(against(&report, &[]).stderr).unwrap();
        assert!(message.contains("earlier.json is no report of gannet bench tpg"), "{message}");
    }
}

#[test]
fn hits_that_the_pedestal_follows_are_told() {
    let output = bench(&["--hit-rate", "90000,110000", "--isa", "scalar"]);
    let table = String::from_utf8(output.stdout).unwrap();
    let notes: Vec<_> = table.lines().filter(|line| line.contains("pedestal follows")).collect();
    assert_eq!(notes.len(), 1, "{table}");
    assert!(notes[0].starts_with("110000 Hz: hits take 56 % of the samples"), "{table}");
}

#[test]
fn what_cannot_be_measured_says_why() {
    let refused = |arguments: &[&str], code| {
        let output = bench(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        message
    };
    assert!(refused(&["--chain", "threshold"], 2).contains("simple-threshold, "));
    assert!(refused(&["--hit-rate", "1e6"], 2).contains("choose 0 to 150000"));
    assert!(refused(&["--streams", "512"], 2).contains("working set = 1 MiB is out of range"));
    assert!(refused(&["--threads", "1024"], 5).contains("1024 threads were asked for"));
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let (new, there) = (at("new.svg"), at("there.svg"));
    fs::write(&there, "mine").unwrap();
    for one in ["100", "100,100", "0,100"] {
        assert!(refused(&["--svg", &new, "--hit-rate", one], 2).contains("two hit rates"));
    }
    assert!(refused(&["--svg", &at("gone/a.svg")], 5).contains("gone/a.svg: No such file"));
    assert!(refused(&["--svg", &at("")], 2).contains("is a directory"));
    assert!(refused(&["--svg", &there], 1).contains("give --overwrite"));
    // Refused for another cause, it leaves nothing, and what was there as it was.
    let late = ["--streams", "512", "--overwrite", "--svg"];
    refused(&[&late[..], &[&new]].concat(), 2);
    refused(&[&late[..], &[&there]].concat(), 2);
    assert_eq!((fs::read(&there).unwrap(), fs::exists(&new).unwrap()), (b"mine".to_vec(), false));
    #[cfg(not(target_arch = "x86_64"))]
    assert!(refused(&["--isa", "avx2"], 5).contains("does not have avx2"));
}
