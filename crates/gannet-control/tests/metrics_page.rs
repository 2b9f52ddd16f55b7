//! The page about metrics tells of every family, with its type and labels, and of no other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use gannet_control::config::{self, Plan};
use gannet_control::emulation::{Emulation, Target};
use gannet_control::metrics::{TextFormat, render};
use gannet_control::run::Run;

const PAGE: &str = include_str!("../../../docs/reference/metrics.md");

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
    let target = Target { addresses: vec![to], frames: Some(100), flow_control: None };
    let config = &plan.config.emulate;
    Emulation::start(config, &plan.channel_map, &target, None).unwrap().join().unwrap();
}

#[test]
fn the_page_tells_of_every_family_and_of_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "[[source]]\nstreams = {{ count = 1 }}\nudp = {{ listen = [\"127.0.0.1:0\"] }}\n\
         depth = \"1 ms\"\n[channels]\nmetrics = true\n[recorder]\ndirectory = {:?}\n\
         [tpg]\nthreshold = [10, 10, 10]\ninitial_pedestal = 840\n\
         [emulate]\nstreams = {{ count = 1 }}\npace = {{ rate_scale = 0.1 }}\n",
        directory.path()
    );
    let plan = config::parse("page.toml", &text, Path::new(".")).unwrap();
    let run = Run::configure(&plan).unwrap();
    run.start().unwrap();
    emulate(&plan, run.addresses()[0]);
    // The last look at the channels is part of the drain.
    let snapshot = Arc::new(run.drain());
    let served = served(&render(snapshot, TextFormat::OpenMetrics).unwrap());
    assert_eq!(told(), served, "left: docs/reference/metrics.md, right: what is served");
}
