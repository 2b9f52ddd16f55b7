//! Whatever is done to a configuration of any detector, it is valid or refused with place, cause and
//! suggestion.

use std::panic::catch_unwind;
use std::path::Path;

use gannet_control::config::{self, Plan, Problem};
use gannet_control::detector::Detector;
use gannet_dune::detector::DUNE_TPC;
use gannet_km3::KM3NET;
use gannet_measure::random::Random;
use gannet_rich::NA62_RICH;

/// A configuration for DUNE's chambers that names every table.
const DUNE_FULL: &str = include_str!("../../../gannet-dune/tests/it/full.toml");
/// The detectors of the program.
const DETECTORS: [&dyn Detector; 3] = [&DUNE_TPC, &NA62_RICH, &KM3NET];

/// What the demonstration of the RICH has not.
const RICH_LEVEL0: &str = r#"
    [[source]]
    name = "chod"
    streams = { packets = "primitives", links = [0], source = 24 }
    udp = { listen = ["127.0.0.1:7561"] }
    [pipeline.level0]
    reference = 24
    sources = [{ source = 28, cut_fine = 100 }]
    [[pipeline.level0.masks]]
    conditions = [{ source = 28, care = 0x4000, value = 0x4000 }, { source = 24, care = 1, value = 0 }]
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
        return "[run]".to_owned();
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
    assert_eq!(file, "mutated.toml");
    let place = text.lines().nth(line - 1).unwrap_or_default();
    assert!(*line <= text.lines().count() + 1, "{problem}\n{text}");
    assert!((1..=place.chars().count() + 2).contains(column), "{problem}\n{place}");
    assert!(!cause.is_empty() && !suggestion.is_empty(), "{problem:?}");
}

fn parse(text: &str) -> Result<Plan, Problem> {
    config::parse("mutated.toml", text, Path::new("."), &DETECTORS)
}

#[test]
fn mutated_configurations_of_every_detector_are_valid_or_refused_with_reasons() {
    let rounds = if std::env::var_os("GANNET_LONG").is_some() { 20_000 } else { 500 };
    let demonstrations = DETECTORS.map(|detector| detector.demonstration());
    let rich = format!("{}{RICH_LEVEL0}", NA62_RICH.demonstration());
    for text in demonstrations.into_iter().chain([DUNE_FULL, &rich]) {
        // With every key that has a default.
        let full = parse(text).unwrap().filled;
        assert_eq!(parse(&full).unwrap().filled, full);
        let mut random = Random::new(8);
        let (mut valid, mut refused) = (0, 0);
        for round in 0..rounds {
            let mut text = full.clone();
            (0..=random.below(3)).for_each(|_| text = mutate(&text, &mut random));
            let outcome = catch_unwind(|| parse(&text));
            match outcome.unwrap_or_else(|_| panic!("round {round}:\n{text}")) {
                Ok(_) => valid += 1,
                Err(problem) => {
                    refused += 1;
                    assert_helpful(&problem, &text);
                }
            }
        }
        assert!(
            valid > rounds / 20 && refused > rounds / 4,
            "{valid} valid, {refused} refused: {text}"
        );
    }
}
