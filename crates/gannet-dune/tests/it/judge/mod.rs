//! Runs the scripts of `tests/judges`: other people's libraries, asked whether our files are right.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// Interpreter with h5py and pyarrow, for the tests that compare with them.
const PYTHON: &str = "GANNET_JUDGE_PYTHON";

/// Runs a script of `tests/judges`, or says loudly that it cannot.
pub fn run(script: &str, arguments: &[&OsStr]) -> Option<Output> {
    let Some(python) = std::env::var_os(PYTHON) else {
        gannet_measure::testing::skipped(script, format!("set {PYTHON} to a Python with h5py"));
        return None;
    };
    let judges = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/judges");
    let output = Command::new(python).arg(judges.join(script)).args(arguments).output();
    Some(output.expect("the interpreter starts"))
}

/// What a script says that must find no fault; `None` when it cannot be run.
pub fn accepts(script: &str, arguments: &[&OsStr]) -> Option<String> {
    let output = run(script, arguments)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
