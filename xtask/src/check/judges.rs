//! The judges of our files and interfaces: a Python with the libraries that people read and call them with.
//!
//! Tests that write HDF5, Parquet or arrays ask these libraries, not our own readers, whether the
//! files are right; the description of the web interface is judged by its validator, and by a client that is generated
//! from it. The environment is made once, under the target directory.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::{Check, Outcome};

/// What the judges need.
const LIBRARIES: [&str; 5] =
    ["h5py", "numpy", "pyarrow", "openapi-spec-validator", "openapi-python-client"];
/// Holds [`LIBRARIES`] once all are installed; an environment without it is made again.
const DONE: &str = "installed.txt";

/// Makes the environment unless it is there, and remembers its interpreter.
pub fn prepare(check: &mut Check) -> Result<Outcome> {
    let environment = check.target.join("judges");
    let interpreter = environment.join("bin").join("python");
    if !is_ready(&environment) {
        println!("installing {} in {}", LIBRARIES.join(", "), environment.display());
        if let Err(reason) = install(&environment, &interpreter) {
            return Ok(Outcome::Skipped(reason));
        }
        fs::write(environment.join(DONE), LIBRARIES.join("\n"))
            .with_context(|| format!("cannot write in {}", environment.display()))?;
    }
    check.judge_python = Some(interpreter);
    Ok(Outcome::Passed)
}

fn is_ready(environment: &Path) -> bool {
    fs::read_to_string(environment.join(DONE)).is_ok_and(|text| text == LIBRARIES.join("\n"))
}

/// Makes the environment afresh; the error says what is missing and what to do.
fn install(environment: &Path, interpreter: &Path) -> std::result::Result<(), String> {
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(environment);
    attempt(&mut venv)
        .map_err(|error| format!("python3 with its venv module is needed ({error})"))?;
    let mut pip = Command::new(interpreter);
    // Few and short attempts: a machine without a network must not wait for minutes.
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(["--retries", "1", "--timeout", "20", "--only-binary", ":all:"])
        .args(LIBRARIES);
    attempt(&mut pip)
        .map_err(|error| format!("pip cannot install {}: {error}", LIBRARIES.join(", ")))
}

/// Runs a command; the error is the last line that it printed.
pub fn attempt(command: &mut Command) -> std::result::Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rfind(|line| !line.trim().is_empty());
    Err(last.map_or_else(|| output.status.to_string(), |line| line.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_with_other_libraries_is_made_again() {
        let environment = tempfile::tempdir().unwrap();
        assert!(!is_ready(environment.path()));
        fs::write(environment.path().join(DONE), "h5py").unwrap();
        assert!(!is_ready(environment.path()));
        fs::write(environment.path().join(DONE), LIBRARIES.join("\n")).unwrap();
        assert!(is_ready(environment.path()));
    }

    #[test]
    fn a_failed_attempt_tells_its_last_line() {
        let mut missing = Command::new("no-such-program-of-gannet");
        assert!(attempt(&mut missing).is_err());
        let mut loud = Command::new("sh");
        loud.args(["-c", "echo first >&2; echo 'no network' >&2; exit 1"]);
        assert_eq!(attempt(&mut loud), Err("no network".into()));
    }
}
