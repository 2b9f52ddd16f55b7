//! `gannet doctor` through the binary: exit code, remedy and both forms.

use std::process::{Command, Output};

use serde_json::Value;

fn doctor(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.arg("doctor").args(arguments).output().unwrap()
}

#[test]
fn a_missing_directory_has_exit_code_5_and_its_remedy_mends_it() {
    let root = tempfile::tempdir().unwrap();
    let (config, data) = (root.path().join("a.toml"), root.path().join("data"));
    let text = format!("[recorder]\ndirectory = {:?}\n", data.to_str().unwrap());
    std::fs::write(&config, text).unwrap();
    let check = |output: &Output| -> Value {
        let checks: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let name = format!("directory {}", data.display());
        checks.into_iter().find(|check| check["name"] == *name).unwrap()
    };
    let output = doctor(&[config.to_str().unwrap(), "--json"]);
    assert_eq!((output.status.code(), &check(&output)["verdict"]), (Some(5), &"bad".into()));
    let remedy = check(&output)["remedy"].as_str().unwrap().to_owned();
    assert!(Command::new("sh").args(["-c", &remedy]).status().unwrap().success(), "{remedy}");
    let output = doctor(&[config.to_str().unwrap(), "--json"]);
    assert_eq!(check(&output)["verdict"], "ok");
}

#[test]
fn off_a_terminal_there_are_no_colours_and_the_exit_code_is_that_of_the_worst() {
    let output = doctor(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.lines().last().unwrap().contains(" ok, "), "{text}");
    let bad = text.lines().any(|line| line.starts_with("bad "));
    assert_eq!(output.status.code(), Some(if bad { 5 } else { 0 }), "{text}");
}

#[test]
fn the_table_comes_first_then_a_script_that_mends_then_one_line() {
    let root = tempfile::tempdir().unwrap();
    let config = root.path().join("a.toml");
    std::fs::write(&config, "[recorder]\ndirectory = \"/no/such place\"\n").unwrap();
    let output = doctor(&[config.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    let (table, rest) = text.split_once("\n\n").unwrap();
    let verdicts = ["ok ", "slow ", "bad ", "unknown "];
    let has_verdict = |line: &str| verdicts.iter().any(|verdict| line.starts_with(verdict));
    assert!(table.lines().all(has_verdict), "{text}");
    assert!(table.lines().all(|line| line[..9].ends_with("  ")), "{text}");
    assert_eq!(rest.matches("\nmkdir -p '/no/such place'\n").count(), 1, "{text}");
    let script = &rest[..rest.trim_end().rfind('\n').unwrap()];
    let shell = Command::new("sh").args(["-n", "-c", script]).status().unwrap();
    assert!(shell.success(), "{script}");
}
