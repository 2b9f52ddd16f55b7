//! `gannet replay` and `gannet emulate` as a user runs them, seen from the socket that receives.

mod emulate;
mod receiver;
mod recordings;
mod replay;

use std::ffi::OsStr;
use std::process::{Child, Command, Output, Stdio};

/// The binary with arguments, not yet started.
fn gannet(arguments: &[&dyn AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(arguments.iter().map(|argument| argument.as_ref()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs to the end and expects an exit code.
fn run(arguments: &[&dyn AsRef<OsStr>], code: i32) -> Output {
    let output = gannet(arguments).output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(code), "{}", errors(&output));
    output
}

/// Sends a signal, such as `INT`, and waits for the end.
fn interrupt(child: Child, signal: &str) -> Output {
    let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(kill.expect("kill is there").success());
    child.wait_with_output().expect("the child is ours")
}

/// The JSON document on standard output.
fn report(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON document")
}

/// What was said on standard error.
fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
