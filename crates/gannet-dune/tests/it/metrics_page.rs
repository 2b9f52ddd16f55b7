//! The page about metrics tells of every family, with its type and labels, and of no other; and
//! what is served keeps the rules of Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use gannet_control::config::{self, Plan};
use gannet_control::emulation::Target;
use gannet_control::metrics::{TextFormat, render};
use gannet_control::run::Run;
use gannet_control::snapshot::Snapshot;
use gannet_dune::detector::DUNE_TPC;

const PAGE: &str = include_str!("../../../../docs/reference/metrics.md");

/// Type and names of labels of a family.
type Family = (String, BTreeSet<String>);

/// The families that the page tells of.
fn told() -> BTreeMap<String, Family> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `gannet_"));
    let family = |row: &str| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").filter(|label| !label.is_empty());
        let labels = labels.map(|label| label.trim_matches('`').to_owned()).collect();
        (cells[1].trim_matches('`').to_owned(), (cells[2].to_owned(), labels))
    };
    rows.map(family).collect()
}

/// The families of a text in OpenMetrics.
fn served(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' ')) {
            current = name.to_owned();
            families.insert(current.clone(), (kind.to_owned(), BTreeSet::new()));
        }
        let Some((name, labels)) = line.split_once('{').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let family = families.get_mut(&current).unwrap();
        let ending = if family.0 == "counter" { "_total" } else { "" };
        assert_eq!(name, format!("{current}{ending}"));
        let labels = labels.rsplit_once('}').unwrap().0.split("\",");
        let names = labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        family.1.extend(names);
    }
    families
}

/// Sends some frames to `to`.
fn emulate(plan: &Plan, to: SocketAddr) {
    let target =
        Target { receivers: vec![to.into()], frames: Some(100), flow_control: None, faults: None };
    plan.detector.front_end().unwrap().start(&target, None).unwrap().join().unwrap();
}

/// The end of a run in which every family has a value.
fn last_snapshot() -> Arc<Snapshot> {
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "[[source]]\nstreams = {{ count = 1 }}\nudp = {{ listen = [\"127.0.0.1:0\"] }}\n\
         name = \"an \\\"odd\\\" \\\\ name\"\n\
         depth = \"1 ms\"\n[pipeline.channels]\nmetrics = true\n[recorder]\ndirectory = {:?}\n\
         [pipeline.tpg]\nthreshold = [10, 10, 10]\ninitial_pedestal = 840\n\
         [emulate]\nstreams = {{ count = 1 }}\npace = {{ rate_scale = 0.1 }}\n\
         [slow_control]\nmodules = [{{ id = 1, address = \"127.0.0.1:6000\" }}]\n",
        directory.path()
    );
    let plan = config::parse("page.toml", &text, Path::new("."), &[&DUNE_TPC]).unwrap();
    let run = Run::configure(&plan).unwrap();
    run.start().unwrap();
    emulate(&plan, run.addresses()[0]);
    // The last look at the channels is part of the drain.
    Arc::new(run.drain())
}

#[test]
fn the_page_tells_of_every_family_and_of_no_other() {
    let served = served(&render(last_snapshot(), TextFormat::OpenMetrics).unwrap());
    assert_eq!(told(), served, "left: docs/reference/metrics.md, right: what is served");
}

#[test]
fn board_and_alert_rules_ask_for_families_that_there_are() {
    let files = [
        include_str!("../../../../deploy/grafana/gannet.json"),
        include_str!("../../../../deploy/prometheus/gannet.rules.yml"),
    ];
    let told = told();
    let names = told.iter().map(|(name, (kind, _))| match kind.as_str() {
        "counter" => format!("{name}_total"),
        _ => name.clone(),
    });
    let names: BTreeSet<_> = names.collect();
    for file in files {
        let words = file.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let asked: Vec<_> = words.filter(|word| word.starts_with("gannet_")).collect();
        assert!(asked.len() >= 9, "{asked:?}");
        let unknown: Vec<_> = asked.iter().filter(|name| !names.contains(**name)).collect();
        assert_eq!(unknown, [&""; 0]);
    }
}

/// What `promtool check metrics` would complain of, by the rules that it documents.
fn complaints(text: &str) -> Vec<String> {
    let (mut helped, mut kinds) = (BTreeSet::new(), BTreeMap::new());
    let mut found = Vec::new();
    let mut samples = 0;
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), Some(help)) if !help.is_empty() => {
                helped.insert(name);
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                found.extend(complaint_of(name, kind));
                let again = kinds.insert(name, kind).is_some();
                found.extend((again || !helped.contains(name)).then(|| line.to_owned()));
            }
            _ => {
                samples += 1;
                let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
                let value = rest.rsplit_once(' ').unwrap().1;
                let fits = kinds.contains_key(name)
                    && value.parse::<f64>().is_ok_and(f64::is_finite)
                    && !["quantile", "le"].iter().any(|label| labels(rest).any(|it| it == *label));
                found.extend((!fits).then(|| line.to_owned()));
            }
        }
    }
    assert!(samples > 100, "{text}");
    found
}

/// Names of the labels in what follows the name of a sample.
fn labels(rest: &str) -> impl Iterator<Item = &str> {
    let inside = rest.strip_prefix('{').and_then(|rest| rest.rsplit_once('}'));
    let parts = inside.map_or("", |(labels, _)| labels).split("\",");
    parts.filter_map(|part| Some(part.split_once('=')?.0))
}

/// What is wrong with the name of a family of this kind.
fn complaint_of(name: &str, kind: &str) -> Option<String> {
    const UNITS: [&str; 14] = [
        "ms",
        "us",
        "ns",
        "milliseconds",
        "microseconds",
        "nanoseconds",
        "minutes",
        "hours",
        "days",
        "kilobytes",
        "megabytes",
        "gigabytes",
        "bits",
        "percent",
    ];
    const KINDS: [&str; 4] = ["counter", "gauge", "histogram", "summary"];
    let words: Vec<&str> = name.split('_').collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let snake = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let counts = words.last() == Some(&"total");
    let fine = name.chars().all(snake)
        && counts == (kind == "counter")
        && ["counter", "gauge"].contains(&kind)
        && !has(&UNITS)
        && !has(&KINDS)
        && !["count", "sum", "bucket"].contains(words.last().unwrap());
    (!fine).then(|| format!("{name} {kind}"))
}

#[test]
fn the_text_for_prometheus_keeps_its_rules() {
    let text = render(last_snapshot(), TextFormat::Prometheus).unwrap();
    assert_eq!(complaints(&text), [""; 0]);
    assert!(text.contains(r#"source="an \"odd\" \\ name""#), "{text}");
    let open = render(Arc::default(), TextFormat::OpenMetrics).unwrap();
    assert!(complaints_are_found(&open), "the rules tell nothing");
}

/// Whether the rules see that a text is not in the format of Prometheus.
fn complaints_are_found(text: &str) -> bool {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).any(|line| {
        let (name, kind) = line.split_once(' ').unwrap();
        complaint_of(name, kind).is_some()
    })
}

#[test]
fn promtool_has_nothing_to_say() {
    let promtool = std::env::var_os("GANNET_PROMTOOL").unwrap_or_else(|| "promtool".into());
    let spawned = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        return gannet_measure::testing::skipped(
            "promtool as a judge of the metrics",
            "it is not here",
        );
    };
    let text = render(last_snapshot(), TextFormat::Prometheus).unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
