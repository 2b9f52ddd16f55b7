//! `gannet torus` through the binary: documents, tables, pictures and exit codes.

mod ablate;
mod animate;
mod demo;
mod faults;
mod kills;
mod link;
mod namespaces;
pub mod node;
mod plan;
mod routes;
mod simulate;
mod survival;
mod tun;

use std::io::BufReader;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;

fn torus(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gannet")).arg("torus").args(arguments).output().unwrap()
}

/// The verb under way, and what it says on standard error.
fn started(arguments: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.arg("torus").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let errors = BufReader::new(child.stderr.take().unwrap());
    (child, errors)
}

/// Sends SIGINT.
fn interrupt(child: &Child) {
    let kill = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill is there").success());
}

fn json(arguments: &[&str]) -> Value {
    let output = torus(&[arguments, &["--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What is said on standard error of arguments that must fail with `code`.
fn refused(arguments: &[&str], code: i32) -> String {
    let output = torus(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    message
}

/// Every element is closed in its order, and no character is left that XML would not have.
fn assert_well_formed(document: &str) {
    let mut open = Vec::new();
    let (mut rest, mut elements) = (document, 0);
    while let Some((text, tag)) = rest.split_once('<') {
        assert!(!text.contains('>') && !text.contains("& "), "stray character in {text:?}");
        let (tag, after) = tag.split_once('>').expect("a tag ends");
        assert_eq!(tag.matches('"').count() % 2, 0, "open quote in <{tag}>");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name.trim())),
            None if tag.ends_with('/') => elements += 1,
            None => open.push(tag.split_whitespace().next().unwrap()),
        }
        rest = after;
    }
    assert!(open.is_empty() && elements > 10, "{open:?} open after {elements} elements");
}
