//! `gannet torus faults routing` and `gannet torus faults reroute`.

use std::fs;

use serde_json::Value;

use super::{assert_well_formed, json, refused, text, torus};

const ROUTING: [&str; 8] =
    ["faults", "routing", "--lattice", "4x4", "--trials", "12", "--cycles", "100"];
const REROUTE: [&str; 8] =
    ["faults", "reroute", "--lattice", "4x4", "--trials", "4", "--aware-after", "300"];

#[test]
fn every_campaign_of_routing_stands_in_the_document() {
    let options = ["--lattice", "3x2", "--vcs", "2,4"];
    let report =
        json(&[&["faults", "routing", "--trials", "9", "--cycles", "50"], &options[..]].concat());
    assert_eq!(report["sound"], true);
    let campaigns = report["campaigns"].as_array().unwrap();
    assert_eq!(campaigns.len(), 2);
    for (campaign, vcs) in campaigns.iter().zip([2, 4]) {
        assert_eq!((&campaign["lattice"], &campaign["vcs"]), (&"3x2x1".into(), &vcs.into()));
        let total = &campaign["total"];
        assert_eq!((&total["trials"], &campaign["failed"]), (&9.into(), &0.into()));
        assert_eq!(total["refused_fraction"], 0.0);
        let of_rows = |rows: &str| -> u64 {
            let rows = campaign[rows].as_array().unwrap().iter();
            rows.map(|row| row["trials"].as_u64().unwrap()).sum()
        };
        assert_eq!((of_rows("by_faults"), of_rows("by_dead_nodes")), (9, 9));
    }
}

#[test]
fn the_same_seed_gives_the_same_documents_on_one_and_two_threads() {
    let routing = |more: &[&str]| json(&[&ROUTING[..], more].concat());
    let one = routing(&["--seed", "7"]);
    assert_eq!(one, routing(&["--seed", "7", "--threads", "2"]));
    assert_ne!(one, routing(&["--seed", "8"]));
    let reroute = |more: &[&str]| {
        let mut report = json(&[&REROUTE[..], more].concat());
        report["planning_wall_ns"] = Value::Null;
        report
    };
    assert_eq!(reroute(&[]), reroute(&["--threads", "2"]));
}

#[test]
fn tables_tell_means_and_what_became_of_packets() {
    let output = torus(&ROUTING);
    let table = text(&output.stdout);
    for words in ["early turn", "refused", "12 drained with every packet accounted for", "overload"]
    {
        assert!(table.contains(words), "{words} is not in {table}");
    }
    let table = text(&torus(&REROUTE).stdout);
    for words in ["aware after", "then new routes after", "planning here", "0 trials failed"] {
        assert!(table.contains(words), "{words} is not in {table}");
    }
}

#[test]
fn a_trial_is_told_under_the_command_that_replays_it() {
    for arguments in [&ROUTING, &REROUTE] {
        let told = text(&torus(&[&arguments[..], &["--trial", "3"]].concat()).stdout);
        let command = told.lines().next().unwrap();
        let again: Vec<&str> = command.split(' ').skip(2).collect();
        assert_eq!(text(&torus(&again).stdout), told);
        assert!(told.contains("dead cables") && told.contains("drained"), "{told}");
    }
}

#[test]
fn pictures_are_drawn_once() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, words) in [(&ROUTING, "early turns"), (&REROUTE, "packets a kilocycle")] {
        let file = directory.path().join(format!("{}.svg", arguments[1]));
        let svg = ["--svg", file.to_str().unwrap()];
        let output = torus(&[&arguments[..], &svg].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let picture = fs::read_to_string(&file).unwrap();
        assert_well_formed(&picture);
        assert!(picture.contains(words));
        assert!(refused(&[&arguments[..], &svg].concat(), 1).contains("--overwrite"));
    }
    let two = ["faults", "routing", "--vcs", "2,4", "--svg", "x.svg"];
    assert!(refused(&two, 2).contains("a picture shows one"));
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    for (options, words) in [
        (&["routing", "--vcs", "1"][..], "virtual channels is 1"),
        (&["routing", "--dead-nodes", "3..1"], "3 is more than 1"),
        (&["routing", "--lattice", "17x16x16"], "4096"),
        (&["routing", "--load", "1.5"], "the load is 1.5"),
        (&["routing", "--cycles", "0"], "the overload takes 0 cycles"),
        (&["reroute", "--dead-cables", "0..1"], "nothing would fail"),
        (&["reroute", "--aware-after", "1s"], "200000000 cycles"),
        (&["reroute", "--aware-after", "soon"], "neither cycles nor a time"),
        (&["reroute", "--mode", "push", "--aware-after", "5"], "cannot be used with"),
    ] {
        let message = refused(&[&["faults"], options].concat(), 2);
        assert!(message.contains(words), "{options:?}: {message}");
    }
}
