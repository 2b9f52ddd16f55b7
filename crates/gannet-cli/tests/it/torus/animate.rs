//! `gannet torus animate`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{refused, text, torus};

const QUICK: [&str; 8] =
    ["--lattice", "4x3", "--frames", "5", "--frame-cycles", "40", "--load", "0.1,0.3"];

fn page(file: &Path, arguments: &[&str]) -> (String, Value) {
    let name = file.to_str().unwrap();
    let output = torus(&[&["animate", name], &QUICK[..], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = fs::read_to_string(file).unwrap();
    let begin = page.find("const data = ").unwrap() + "const data = ".len();
    let data = page[begin..].lines().next().unwrap().strip_suffix(';').unwrap();
    let data = serde_json::from_str(&data.replace("<\\/", "</")).unwrap();
    (page, data)
}

#[test]
fn a_page_needs_nothing_but_itself() {
    let root = tempfile::tempdir().unwrap();
    let (page, data) = page(&root.path().join("a.html"), &[]);
    for outside in ["http", "src=", "@import", "url(", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert_eq!((&data["load"], &data["sizes"]), (&0.3.into(), &serde_json::json!([4, 3, 1])));
    let frames = data["frames"].as_array().unwrap();
    assert_eq!((frames.len(), &frames[4]["cycle"]), (5, &160.into()));
    assert!(frames.iter().all(|frame| frame["links"].as_str().unwrap().len() == 12 * 6));
    assert_eq!(data["curve"].as_array().unwrap().len(), 2, "the loads that were asked for");
}

#[test]
fn faults_of_options_and_script_are_in_the_frames() {
    let root = tempfile::tempdir().unwrap();
    let script = root.path().join("script.csv");
    fs::write(&script, "50,cable-down,0,X+\n90,node-down,7\n").unwrap();
    let script = ["--script", script.to_str().unwrap(), "--reroute-after", "5"];
    let other = root.path().join("b.html");
    let short = ["animate", other.to_str().unwrap(), "--lattice", "4x3", "--frames", "1"];
    let told = text(&torus(&[&short[..], &script].concat()).stderr);
    assert!(told.contains("events of the script were left out: 2; raise --frames"), "{told}");
    let options = [&["--dead-node", "11"], &script[..]].concat();
    let (_, data) = page(&root.path().join("a.html"), &options);
    let faults = |frame: usize| data["frames"][frame]["faults"].as_array().unwrap();
    assert_eq!([faults(0).len(), faults(1).len(), faults(4).len()], [1, 2, 3]);
    let cable = serde_json::json!({"cycle": 50, "kind": "cable", "node": 0, "direction": 0});
    assert!(faults(1).contains(&cable), "{data}");
    let events = data["frames"][1]["events"].to_string();
    assert!(
        events.contains("cable at node 0 X+ dead") && events.contains("new routes"),
        "{events}"
    );
}

#[test]
fn a_page_is_not_written_over_another_nor_made_too_large() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("a.html");
    fs::write(&file, "mine").unwrap();
    let name = file.to_str().unwrap();
    assert!(refused(&["animate", name], 1).contains("give --overwrite"));
    let large = ["--overwrite", "--lattice", "64x64x64", "--frames", "10"];
    let message = refused(&[&["animate", name], &large[..]].concat(), 2);
    assert!(message.contains("show at most 2"), "{message}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let script = root.path().join("script.csv");
    fs::write(&script, "5,cable-gone,0,X+\n").unwrap();
    let script = ["simulate", "--lattice", "4x4", "--script", script.to_str().unwrap()];
    assert!(refused(&script, 1).contains("script.csv: line 1"));
}
