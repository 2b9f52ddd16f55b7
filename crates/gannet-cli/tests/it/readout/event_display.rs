//! The event display of the tracks of a demonstration, against what the front end put in.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

use gannet_control::config;
use gannet_dune::detector::{DUNE_TPC, TpcPlan};
use gannet_emulate::tpc::{EventKind, Hit, TpcFrontEnd};
use serde_json::Value;

use crate::readout::pages::Demo;
use crate::readout::process::{alone, gannet};

/// Tracks whose display is compared.
const TRACKS: usize = 50;
const START: u64 = 1 << 50;
/// Ticks of a frame.
const FRAME: u64 = 2048;
/// Ticks of a sample.
const SAMPLE: u64 = 32;
/// A hit is found for sure if it is so far above the threshold, in ADC counts: noise ends at 4 x 12, and pedestals are
/// known to a few.
const SURE: u16 = 60 + 60;
/// Samples in which a pulse that is that large comes back to its pedestal.
const PULSE: u64 = 14;
/// How long to wait for anything.
const PATIENCE: Duration = Duration::from_secs(180);

/// The configuration of the demonstration, whose front end is emulated in the process of the readout, more slowly.
fn demonstration() -> String {
    let shown = Command::new(gannet()).args(["demo", "--print-config"]).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    text.replace("udp = { listen = [\"127.0.0.1:7420\"] }", "emulated = true").replace(
        "\nseed = 2026\n",
        &format!("\nseed = 2026\nstart_timestamp = {START}\npace = {{ rate_scale = 0.3 }}\n"),
    )
}

/// The numbers in a column of the primitives of an event.
fn column(event: &Value, name: &str) -> Vec<u64> {
    let numbers = event["primitives"][name].as_array().unwrap();
    numbers.iter().map(|number| number.as_u64().unwrap()).collect()
}

/// The displays of decisions, until there are `TRACKS` of them whose windows have come whole, by the begin of the window.
fn displays(demo: &Demo) -> BTreeMap<u64, Value> {
    let (cookie, begin, mut found) = (demo.cookie(), Instant::now(), BTreeMap::new());
    while found.len() < TRACKS + 10 {
        assert!(begin.elapsed() < PATIENCE, "{} decisions", found.len());
        let (status, told) = demo.json("decisions?last=200", &cookie);
        assert_eq!(status, 200, "{told}");
        for decision in told["decisions"].as_array().unwrap() {
            let number = &decision["number"];
            let at = decision["begin"].as_u64().unwrap();
            // What nobody looked at from its begin on has left no primitives.
            let is_held = Some(at) >= told["held"]["begin"].as_u64();
            if !is_held || found.contains_key(&at) {
                continue;
            }
            let (status, event) = demo.json(&format!("records/{number}"), &cookie);
            if status == 200 && event["is_complete"] == true {
                assert_eq!(event["kept"], event["seen"], "all primitives are kept at this rate");
                found.insert(at, event);
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    found
}

#[test]
fn the_channels_that_are_drawn_for_tracks_are_those_that_the_front_end_names() {
    let _alone = alone();
    let text = demonstration();
    let demo = Demo::with(&text);
    let displays = displays(&demo);
    demo.interrupt();
    demo.end();

    let plan = config::parse("demo.toml", &text, std::path::Path::new("."), &[&DUNE_TPC]).unwrap();
    let plan = TpcPlan::of(&plan).unwrap();
    let mut front_end = TpcFrontEnd::new(&plan.config.emulate, &plan.emulated_map, START).unwrap();
    let last = displays.values().last().unwrap()["decision"]["end"].as_u64().unwrap();
    let (mut hits, mut tracks) = (Vec::<Hit>::new(), Vec::new());
    front_end.events(0..(last - START) / FRAME + 2, |event, of_event| {
        hits.extend_from_slice(of_event);
        if event.kind == EventKind::Track {
            tracks.push((event.time_start, event.time_end));
        }
    });
    hits.sort_unstable_by_key(|hit| hit.time);
    let (mut compared, mut exact) = (0, 0);
    for (begin, event) in displays {
        let end = event["decision"]["end"].as_u64().unwrap();
        // A hit at the border of the window may begin within it or not, and one below the threshold is seen or not.
        let within = tracks.iter().filter(|(first, last)| begin <= *first && *last < end).count();
        compared += within;
        let drawn: BTreeSet<u64> = column(&event, "channel").into_iter().collect();
        let of = |hits: &mut dyn Iterator<Item = &Hit>| -> BTreeSet<u64> {
            hits.map(|hit| hit.channel.into()).collect()
        };
        // Its primitives begin in the window if it does so early enough; those that began before are not in it.
        let whole = |hit: &&Hit| begin + PULSE * SAMPLE <= hit.time && hit.time < end;
        let touches =
            |hit: &&Hit| begin <= hit.time + PULSE * SAMPLE && hit.time < end + PULSE * SAMPLE;
        let sure = of(&mut hits.iter().filter(whole).filter(|hit| hit.adc_peak >= SURE));
        let possible = of(&mut hits.iter().filter(touches));
        let unseen: Vec<_> = sure.difference(&drawn).collect();
        let unmade: Vec<_> = drawn.difference(&possible).collect();
        assert!(
            unseen.is_empty() && unmade.is_empty(),
            "record {}: {unseen:?} are not drawn, and {unmade:?} are though nothing was put in",
            event["decision"]["number"]
        );
        exact += usize::from(drawn == of(&mut hits.iter().filter(whole)));
    }
    eprintln!("{compared} tracks compared, {exact} records equal in every channel");
    assert!(compared >= TRACKS, "{compared}");
}
