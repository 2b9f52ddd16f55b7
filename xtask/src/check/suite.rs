//! The tests of the workspace, run once, and what their output tells.
//!
//! A test that cannot run here prints one line `skipped: WHAT, WHY` to standard output or error
//! and returns. Written past the capture of the test harness it arrives at once; written with
//! `println!` it is shown after the tests of its file. Both are found.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::{Context, Result};

use super::steps::cargo;
use super::tally::Tally;
use super::{Check, Outcome};

/// Builds and runs all tests, with the judges and the release binary named in the environment.
pub fn run(check: &mut Check) -> Result<Outcome> {
    let mut command = cargo(check);
    command.args(["test", "--workspace", "--no-fail-fast", "--", "--show-output"]);
    // The variables of a caller must not point tests at another build or another Python.
    set(&mut command, "GANNET_JUDGE_PYTHON", check.judge_python.as_ref());
    set(&mut command, "GANNET_BIN", check.gannet.as_ref());
    set(&mut command, "GANNET_LONG", check.long.then_some("1"));
    set(&mut command, "GANNET_PART", None::<&str>);
    set(&mut command, "GANNET_MAY_MOUNT", Some("1"));
    let log_path = check.target.join("tests.log");
    let cannot_write = || format!("cannot write {}", log_path.display());
    let mut log = fs::File::create(&log_path).with_context(cannot_write)?;
    let (mut report, mut screen) = (Report::default(), Screen::default());
    let success = read(&mut command, |stream, line| {
        if screen.shows(stream, line) {
            println!("{line}");
        }
        report.read(line);
        writeln!(log, "{line}").with_context(cannot_write)
    })?;
    println!("all that the tests printed: {}", log_path.display());
    report.enter(&mut check.tally, success);
    Ok(Outcome::Counted { success })
}

fn set(command: &mut Command, name: &str, value: Option<impl AsRef<std::ffi::OsStr>>) {
    match value {
        Some(value) => command.env(name, value),
        None => command.env_remove(name),
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Output,
    Errors,
}

/// Runs a command, passes each line of its output to `see`, and says whether it succeeded.
fn read(command: &mut Command, mut see: impl FnMut(Stream, &str) -> Result<()>) -> Result<bool> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let (sender, lines) = channel();
    let output = child.stdout.take().context("no standard output")?;
    let errors = child.stderr.take().context("no standard error")?;
    let other = sender.clone();
    thread::spawn(move || send_lines(output, Stream::Output, &other));
    thread::spawn(move || send_lines(errors, Stream::Errors, &sender));
    for (stream, line) in lines {
        see(stream, &line)?;
    }
    Ok(child.wait().context("cannot wait for the tests")?.success())
}

/// Sends line by line what `input` gives; bytes that are no text are replaced.
fn send_lines(input: impl Read, stream: Stream, lines: &Sender<(Stream, String)>) {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    while matches!(input.read_until(b'\n', &mut line), Ok(1..)) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if lines.send((stream, text)).is_err() {
            return;
        }
        line.clear();
    }
}

/// Leaves out what tests that passed have to say: a failure must not drown in it.
#[derive(Debug, Default)]
struct Screen {
    in_successes: bool,
}

impl Screen {
    fn shows(&mut self, stream: Stream, line: &str) -> bool {
        if stream == Stream::Errors {
            return true;
        }
        if line == "successes:" {
            self.in_successes = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.in_successes = false;
        }
        let passed = line.starts_with("test ") && line.ends_with("... ok");
        !(self.in_successes || passed || line.is_empty())
    }
}

/// What the lines of a test run tell.
#[derive(Debug, Default, PartialEq)]
struct Report {
    passed: usize,
    failed: usize,
    failures: Vec<String>,
    /// What tests said they skipped.
    skips: Vec<String>,
    /// Tests that the harness was told to leave out.
    ignored: Vec<String>,
}

impl Report {
    fn read(&mut self, line: &str) {
        if let Some(skip) = skip_in(line) {
            self.skips.push(skip.to_owned());
        } else if let Some((_, counts)) = line.split_once("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
        } else if let Some(test) = line.strip_prefix("test ") {
            match test.rsplit_once(" ... ") {
                Some((name, "FAILED")) => self.failures.push(format!("test {name}")),
                Some((name, end)) if end.starts_with("ignored") => {
                    self.ignored.push(format!("test {name} is ignored"));
                }
                _ => {}
            }
        }
    }

    /// Adds what was read to the account. The harness counts a test that skipped as passed; here
    /// it is not.
    fn enter(self, tally: &mut Tally, success: bool) {
        tally.passed += self.passed.saturating_sub(self.skips.len());
        tally.failed += self.failed;
        if !success && self.failed == 0 {
            tally.failed += 1;
            tally.failures.push("tests: did not build or did not end, see above".into());
        }
        tally.failures.extend(self.failures);
        self.skips.into_iter().chain(self.ignored).for_each(|skip| tally.skip(skip));
    }
}

/// What a line says was skipped. The harness may have begun the line with the name of a test.
fn skip_in(line: &str) -> Option<&str> {
    let start = line.rsplit_once(" ... ").map_or(line, |(_, end)| end);
    start.trim_start().strip_prefix("skipped:").map(str::trim)
}

/// The number before `word` in a line of results such as `ok. 12 passed; 0 failed; ...`.
fn count(results: &str, word: &str) -> usize {
    results
        .split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(word))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 4 tests
test slow ... skipped: AVX-512 not on this machine
test slow ... ok
test later ... ignored
test broken ... FAILED
test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
   Doc-tests gannet_wire
test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.5s
  skipped: raw_file.py was not run
nothing was skipped: this line begins otherwise";

    fn report() -> Report {
        let mut report = Report::default();
        OUTPUT.lines().for_each(|line| report.read(line));
        report
    }

    #[test]
    fn counts_of_all_test_files_are_added() {
        assert_eq!((report().passed, report().failed), (14, 1));
        assert_eq!(report().failures, ["test broken"]);
    }

    #[test]
    fn skips_are_found_wherever_they_were_printed() {
        assert_eq!(report().skips, ["AVX-512 not on this machine", "raw_file.py was not run"]);
        assert_eq!(report().ignored, ["test later is ignored"]);
    }

    #[test]
    fn a_skipped_test_has_not_passed() {
        let mut tally = Tally::default();
        report().enter(&mut tally, false);
        assert_eq!((tally.passed, tally.failed, tally.skipped()), (12, 1, 3));
    }

    #[test]
    fn a_build_that_fails_is_one_failure() {
        let mut tally = Tally::default();
        Report::default().enter(&mut tally, false);
        assert_eq!((tally.passed, tally.failed), (0, 1));
    }

    #[test]
    fn the_screen_shows_failures_whole_and_successes_not() {
        let output = "test a ... ok\ntest b ... FAILED\n\nsuccesses:\n---- a stdout ----\nfine\n\
                      failures:\n---- b stdout ----\nb is wrong\ntest result: FAILED.";
        let mut screen = Screen::default();
        let shown = |line: &&str| screen.shows(Stream::Output, line);
        let shown: Vec<_> = output.lines().filter(shown).collect();
        let expected = [
            "test b ... FAILED",
            "failures:",
            "---- b stdout ----",
            "b is wrong",
            "test result: FAILED.",
        ];
        assert_eq!(shown, expected);
        assert!(Screen { in_successes: true }.shows(Stream::Errors, "warning: unused"));
    }

    #[test]
    fn both_streams_are_read_to_the_end_and_the_status_is_kept() {
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", r"echo out; printf 'err \377' >&2; exit 3"]);
        let see = |stream, line: &str| {
            seen.push((stream, line.to_owned()));
            Ok(())
        };
        assert!(!read(&mut command, see).unwrap());
        seen.sort();
        let (output, errors) = ("out".to_owned(), "err \u{fffd}".to_owned());
        assert_eq!(seen, [(Stream::Output, output), (Stream::Errors, errors)]);
    }
}
