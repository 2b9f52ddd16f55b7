//! Whatever is done to a configuration, it is valid or refused with place, cause and suggestion.

use std::panic::catch_unwind;
use std::path::Path;

use gannet_control::config::{self, Problem};
use gannet_dune::detector::DUNE_TPC;
use gannet_measure::random::Random;

/// A configuration that names every table.
const FULL: &str = r#"
[run]
number = 7
application = "bench"
duration = "30 s"

[[source]]
name = "wib"
streams = { count = 4, format = "wibeth", crate = 1, slot = 0 }
udp = { listen = ["127.0.0.1:7000"], sockets = 1, engine = "auto", kernel_buffer = "8 MiB", allow = ["10.0.0.0/24"] }
depth = "1 s"
buffer_max = "2 GiB"

[[source]]
streams = { count = 2, format = "tdeeth", detector = 11, crate = 3 }
udp = { listen = ["[::1]:7001", "127.0.0.1:7001"] }

[pipeline]
detector = "dune-tpc"
source_id_first = 100
slice_ticks = 15_625_000

[pipeline.tpg]
chain = "abs-rs"
threshold = [60, 60, 80]
sot_minimum = [2, 2, 1]
mask = [1, 2]
isa = "scalar"

[pipeline.trigger.merge]
late_after = "50 ms"
hold_ticks = 10_000

[[pipeline.trigger.activity]]
algorithm = "horizontal-muon"
window_length = 8_000

[[pipeline.trigger.activity]]
algorithm = "channel-distance"

[[pipeline.trigger.candidate]]
algorithm = "horizontal-muon"

[[pipeline.trigger.source]]
kind = "random"
mean_interval_ticks = 62_500_000

[pipeline.trigger.module_level]
time_before = 1_000
overlap = "merge"
ignore = ["Random"]

[pipeline.channels]
file = true

[record]
request_timeout = "500 ms"

[recorder]
directory = "."
prefix = "full"
file_size_max = "1 GiB"
durability = "process"
raw_streams = []

[pipeline.exports]
formats = ["hdf5"]

[metrics]
listen = "127.0.0.1:9180"

[emulate]
seed = 1
streams = { count = 4 }
pace = { rate_scale = 0.5 }
noise = { induction_rms = 10.0 }
tracks = { rate_hz = 5.0 }
faults = { loss = 0.001, outages = [{ stream = 1, stop = "1 s", restart = "2 s" }] }
"#;

/// Things that people and programs write where something else belongs.
const VALUES: [&str; 22] = [
    "0",
    "-1",
    "1",
    "1e300",
    "nan",
    "inf",
    "-0.5",
    "4294967296",
    "18446744073709551615",
    "99999999999999999999",
    "true",
    "\"\"",
    "\"auto\"",
    "\"1 s\"",
    "\"10 parsec\"",
    "\"\u{1f980}\"",
    "[]",
    "[1, 2, 3, 4]",
    "[\"a\"]",
    "{}",
    "{ x = 1 }",
    "1979-05-27",
];

/// One thing that is done to a text.
fn mutate(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return FULL.to_owned();
    }
    let place = random.below(lines.len() as u64) as usize;
    let other = random.below(lines.len() as u64) as usize;
    match random.below(9) {
        0 => drop(lines.remove(place)),
        1 => lines.insert(other, lines[place].clone()),
        2 => lines.swap(place, other),
        3 | 4 => replace_value(&mut lines[place], random),
        5 => misspell(&mut lines[place], random),
        6 => lines.truncate(place),
        7 => lines.insert(place, "[unheard_of]\nkey = 1".to_owned()),
        _ => return damage(text, random),
    }
    lines.join("\n")
}

/// Another value for one of the keys of a line.
fn replace_value(line: &mut String, random: &mut Random) {
    let value = VALUES[random.below(VALUES.len() as u64) as usize];
    let equals: Vec<usize> = line.match_indices('=').map(|(at, _)| at).collect();
    if equals.is_empty() {
        return;
    }
    let at = equals[random.below(equals.len() as u64) as usize] + 1;
    let end = line[at..].find([',', '}']).map_or(line.len(), |end| at + end);
    line.replace_range(at..end, &format!(" {value} "));
}

/// Doubles, drops or changes a character.
fn misspell(line: &mut String, random: &mut Random) {
    let mut characters: Vec<char> = line.chars().collect();
    if characters.is_empty() {
        return;
    }
    let place = random.below(characters.len() as u64) as usize;
    match random.below(3) {
        0 => drop(characters.remove(place)),
        1 => characters.insert(place, characters[place]),
        _ => characters[place] = char::from(33 + random.below(94) as u8),
    }
    *line = characters.into_iter().collect();
}

/// Inverts a bit of a byte; what is no text then has a replacement character.
fn damage(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let place = random.below(bytes.len() as u64) as usize;
    bytes[place] ^= 1 << random.below(8);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn assert_helpful(problem: &Problem, text: &str) {
    let Problem { file, line, column, cause, suggestion } = problem;
    assert_eq!(file, "full.toml");
    let place = text.lines().nth(line - 1).unwrap_or_default();
    assert!(*line <= text.lines().count() + 1, "{problem}\n{text}");
    assert!((1..=place.chars().count() + 2).contains(column), "{problem}\n{place}");
    assert!(!cause.is_empty() && !suggestion.is_empty(), "{problem:?}");
}

fn parse(text: &str) -> Result<(), Problem> {
    config::parse("full.toml", text, Path::new("."), &[&DUNE_TPC]).map(|_| ())
}

#[test]
fn the_whole_configuration_is_valid() {
    assert_eq!(parse(FULL), Ok(()));
    let plan = config::parse("full.toml", FULL, Path::new("."), &[&DUNE_TPC]).unwrap();
    let again = config::parse("full.toml", &plan.filled, Path::new("."), &[&DUNE_TPC]).unwrap();
    assert_eq!(again.filled, plan.filled);
    assert_eq!((again.settings, again.forecast), (plan.settings, plan.forecast));
}

#[test]
fn mutated_configurations_are_valid_or_refused_with_reasons() {
    let rounds = if std::env::var_os("GANNET_LONG").is_some() { 100_000 } else { 2000 };
    let mut random = Random::new(8);
    let (mut valid, mut refused) = (0, 0);
    for round in 0..rounds {
        let mut text = FULL.to_owned();
        (0..=random.below(3)).for_each(|_| text = mutate(&text, &mut random));
        let outcome = catch_unwind(|| parse(&text));
        match outcome.unwrap_or_else(|_| panic!("round {round}:\n{text}")) {
            Ok(()) => valid += 1,
            Err(problem) => {
                refused += 1;
                assert_helpful(&problem, &text);
            }
        }
    }
    assert!(valid > rounds / 20 && refused > rounds / 2, "{valid} valid, {refused} refused");
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
        ("count = 2,", "count = 2000,", "1024"),
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
