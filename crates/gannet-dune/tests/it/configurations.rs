//! Configurations of DUNE's detector: what is valid, and what is refused with place, cause and suggestion.

use std::path::Path;

use gannet_control::config::{self, Problem};
use gannet_dune::detector::DUNE_TPC;

/// A configuration that names every table.
const FULL: &str = include_str!("full.toml");

fn parse(text: &str) -> Result<(), Problem> {
    config::parse("full.toml", text, Path::new("."), &[&DUNE_TPC]).map(|_| ())
}

#[test]
fn the_whole_configuration_is_valid() {
    assert_eq!(parse(FULL), Ok(()));
    let mut plan = config::parse("full.toml", FULL, Path::new("."), &[&DUNE_TPC]).unwrap();
    let mut again = config::parse("full.toml", &plan.filled, Path::new("."), &[&DUNE_TPC]).unwrap();
    // How long the disk lasts is asked of the disk, to which others write meanwhile.
    assert!(
        plan.forecast.disk_time_s.take().is_some() && again.forecast.disk_time_s.take().is_some()
    );
    assert_eq!(again.filled, plan.filled);
    assert_eq!((again.settings, again.forecast), (plan.settings, plan.forecast));
}

#[test]
fn mistakes_are_refused_where_they_are() {
    for (good, bad, words) in [
        ("number = 7", "numbr = 7", "did you mean `number`?"),
        ("depth = \"1 s\"", "depth = \"1 sec\"", "unit"),
        ("depth = \"1 s\"", "depth = 5", "text with a unit"),
        ("threshold = [60, 60, 80]", "threshold = [60, 60]", "3"),
        ("engine = \"auto\"", "engine = \"dpdk\"", "use one of"),
        ("rate_scale = 0.5", "rate_scale = 0.0", "rate_scale"),
        ("count = 2,", "count = 5000,", "4096"),
        ("algorithm = \"channel-distance\"", "algorithm = \"muon\"", "horizontal-muon"),
        ("crate = 3", "crate = 5000", "1023"),
        ("raw_streams = []", "raw_streams = \"some\"", "\"all\", or a list of streams"),
        ("raw_streams = []", "raw_streams = [\"3/1/0\"]", "comes from no [[source]]"),
        ("\"dune-tpc\"", "\"dune-tcp\"", "use one of: dune-tpc"),
        ("raw_streams = []", "raw_streams = [\"3/9/0/0\"]", "comes from no [[source]]"),
        ("\"10.0.0.0/24\"", "\"10.0.0.0/240\"", "10.0.0.0/240"),
    ] {
        let text = FULL.replacen(good, bad, 1);
        let line = text.lines().position(|line| line.contains(bad)).unwrap() + 1;
        let problem = parse(&text).unwrap_err();
        let told = problem.to_string();
        assert!(told.contains(words), "{bad}: {told}");
        assert_eq!(problem.line, line, "{bad}: {told}");
    }
}

#[test]
fn a_key_at_its_old_place_is_refused_with_the_new_one() {
    for (old, line, new) in [
        ("[tpg]\nthreshold = [60, 60, 60]", 1, "`pipeline.tpg`"),
        ("[run]\n[trigger]\n[trigger.merge]\nhold_ticks = 1", 2, "`pipeline.trigger`"),
        ("channel_map = \"a.txt\"", 1, "`pipeline.channel_map`"),
        ("[exports]\nformats = []", 1, "`pipeline.exports`"),
        ("[channels]\nfile = false", 1, "`pipeline.channels`"),
        ("[record]\nslice_ticks = 0", 2, "`pipeline.slice_ticks`"),
        ("[record]\nsource_id_first = 1", 2, "`pipeline.source_id_first`"),
        ("[record.request]\nwindow_ticks_max = 1", 2, "`record.window_ticks_max`"),
    ] {
        let problem = parse(old).unwrap_err();
        let told = problem.to_string();
        assert!(problem.cause.contains("it has moved to") && told.contains(new), "{told}");
        assert_eq!(problem.line, line, "{told}");
    }
}

#[test]
fn a_table_of_links_is_as_good_as_a_source_for_each() {
    let directory = tempfile::tempdir().unwrap();
    let csv = "name,address,crate,slot,stream\n\
               a,127.0.0.1:7000,1,0,0\na,127.0.0.1:7001,1,0,64\nb,127.0.0.1:7002,2,3,67\n";
    std::fs::write(directory.path().join("links.csv"), csv).unwrap();
    let parse = |text: &str| config::parse("a.toml", text, directory.path(), &[&DUNE_TPC]);
    let shared = "depth = \"10 ms\"\nudp = { kernel_buffer = \"8 MiB\" }\n";
    let by_links = parse(&format!("[[source]]\nlinks = \"links.csv\"\n{shared}")).unwrap();
    let source = |name: &str, listen: &str, list: &str| {
        format!(
            "[[source]]\nname = {name:?}\nstreams = {{ list = [{list}] }}\ndepth = \"10 ms\"\n\
             udp = {{ listen = [{listen}], kernel_buffer = \"8 MiB\" }}\n"
        )
    };
    let first = source("a", "\"127.0.0.1:7000\", \"127.0.0.1:7001\"", "\"3/1/0/0\", \"3/1/0/64\"");
    let one_by_one = parse(&(first + &source("b", "\"127.0.0.1:7002\"", "\"3/2/3/67\""))).unwrap();
    assert_eq!(by_links.filled, one_by_one.filled);
    let names: Vec<_> = by_links.streams().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, ["3/1/0/0", "3/1/0/64", "3/2/3/67"]);
    assert_eq!(parse(&by_links.filled).unwrap().filled, by_links.filled);

    let refused = |text: &str| parse(text).unwrap_err().to_string();
    let both = "[[source]]\nlinks = \"links.csv\"\nudp = { listen = [\"127.0.0.1:7000\"] }\n";
    assert!(refused(both).contains("the file lists the addresses"), "{}", refused(both));
    let gone = refused("[[source]]\nlinks = \"gone.csv\"\n");
    assert!(gone.starts_with("a.toml:2:") && gone.contains("gone.csv"), "{gone}");
    std::fs::write(directory.path().join("links.csv"), csv.replace("2,3,67", "2,3,x")).unwrap();
    let line = refused("[[source]]\nlinks = \"links.csv\"\n");
    assert!(line.contains("links.csv:4:1: "), "{line}");
    std::fs::write(directory.path().join("links.csv"), csv.replace("2,3,67", "1,0,64")).unwrap();
    let twice = refused("[[source]]\nlinks = \"links.csv\"\n");
    assert!(twice.contains("3/1/0/64 comes from an earlier source"), "{twice}");
}

#[test]
fn what_is_hardly_meant_is_doubted() {
    let doubts = |text: &str| {
        let plan = config::parse("full.toml", text, Path::new("."), &[&DUNE_TPC]).unwrap();
        plan.doubts().join("; ")
    };
    assert_eq!(doubts(FULL), "");
    assert!(doubts("").contains("no [[source]]"));
    let raw = FULL.replace("raw_streams = []", "raw_streams = [\"3/1/0/0\", \"3/1/0/1\"]");
    assert!(doubts(&raw).contains("439 MB/s (3.52 Gbit/s)"), "{}", doubts(&raw));
    let long = FULL.replace("time_before = 1_000", "time_before = 625_000_000");
    assert!(doubts(&long).contains("make `depth` longer"), "{}", doubts(&long));
}
