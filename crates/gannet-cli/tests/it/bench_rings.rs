//! `gannet bench rings` through the binary: fields, table, recorded events and exit codes.

use std::process::{Command, Output};

use gannet_emulate::rich::Generator;
use gannet_emulate::rich::config::Content;
use gannet_wire::na62::{PmMap, Time};
use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(["bench", "rings", "--seconds", "0"]).args(arguments).output().unwrap()
}

fn report(arguments: &[&str]) -> Value {
    let output = bench(&[arguments, &["--json"]].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_report_has_the_figures_and_their_ratios() {
    for finder in ["single", "multi"] {
        let report = report(&["--finder", finder, "--count", "2000"]);
        let figure = |name: &str| report[name].as_f64().unwrap();
        assert_eq!((&report["finder"], figure("events")), (&Value::from(finder), 2000.0));
        let ratio = figure("events_per_s") / figure("limit_per_s");
        assert!((figure("ratio") / ratio - 1.0).abs() < 1e-6);
        let times = figure("events_per_s") / figure("plain_per_s");
        assert!((figure("times_plain") / times - 1.0).abs() < 1e-6);
        let least = if finder == "multi" { 0.93 } else { 0.15 };
        assert!(figure("efficiency") > least && figure("purity") > least, "{report}");
        assert!(report["isa"].is_string());
        assert!(report["single_rings"]["radius_sigma_mm"].as_f64().unwrap() <= 1.5);
    }
}

#[test]
fn the_table_tells_the_finder_and_what_stands_beside_it() {
    let output = bench(&["--finder", "multi", "--times", "--count", "1000", "--isa", "scalar"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["multi, with times of hits, scalar", "plain loop", "reading", "purity", "(median)"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn recorded_events_give_what_the_same_events_gave_when_generated() {
    let directory = tempfile::tempdir().unwrap();
    let map = PmMap::numbered();
    let generator = Generator::new(&Content::default(), &map, 5);
    let (mut bytes, mut table) = (Vec::new(), "event,x,y,radius,hits\n".to_owned());
    for number in 0..1500 {
        let event = generator.event(number);
        event.write_m2egp(Time::from_fine_units(number), &mut bytes);
        for ring in &event.rings {
            let (x, y, radius) = (ring.x, ring.y, ring.radius);
            table += &format!("{number},{x},{y},{radius},{}\n", ring.hits);
        }
    }
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (events, truth, map_file) = (path("run.m2egp"), path("run.csv"), path("map.txt"));
    std::fs::write(&events, &bytes).unwrap();
    std::fs::write(&truth, table).unwrap();
    std::fs::write(&map_file, map.table()).unwrap();
    let found = report(&["--finder", "multi", "--events", &events]);
    assert_eq!(found["events"], 1500);
    assert!(found["efficiency"].as_f64().unwrap() > 0.93, "{found}");
    let named = ["--finder", "multi", "--events", &events, "--truth", &truth, "--map", &map_file];
    let by_map = report(&named);
    assert_eq!((&by_map["efficiency"], &by_map["rings"]), (&found["efficiency"], &found["rings"]));

    std::fs::write(&events, &bytes[..bytes.len() - 16]).unwrap();
    let refused = bench(&["--events", &events]);
    assert_eq!(refused.status.code(), Some(1));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("no event 1499"), "{message}");
    std::fs::write(&events, &bytes).unwrap();
    std::fs::write(&truth, "0,1,2\n").unwrap();
    let refused = bench(&["--events", &events]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("run.csv:1"), "{message}");
    assert_eq!(bench(&["--events", &events, "--times"]).status.code(), Some(2));
    assert_eq!(bench(&["--events", &path("none.m2egp")]).status.code(), Some(1));
}
