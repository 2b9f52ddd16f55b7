//! The tests of the workspace, built and run once, and what their output tells.
//!
//! A test that cannot run here prints one line `skipped: WHAT, WHY` to standard output or error
//! and returns. Written past the capture of the test harness it arrives at once; written with
//! `println!` it is shown after the tests of its file. Both are found.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::steps::cargo;
use super::tally::Tally;
use super::{Check, Outcome};

/// The package whose tests start the program and wait for it.
const PROGRAM: &str = "gannet-cli";
/// How long a test program may run; the slowest has taken less than half of it, on a slow machine.
const LIMIT: Duration = Duration::from_secs(30 * 60);
const LIMIT_LONG: Duration = Duration::from_secs(12 * 60 * 60);
/// How long the output of a test program that was ended is waited for.
const LIMIT_OUTPUT: Duration = Duration::from_secs(5);

/// A built test program.
#[derive(Debug, PartialEq)]
pub struct Program {
    /// Package and target.
    name: String,
    path: PathBuf,
    /// Directory of its package, in which it runs.
    directory: PathBuf,
}

/// The tests of the program, at work.
pub struct Beside {
    thread: JoinHandle<Result<Vec<Ran>>>,
}

/// What a test program printed, and how it ended.
struct Ran {
    name: String,
    lines: Vec<(Stream, String)>,
    success: bool,
    time: Duration,
}

/// Builds all tests, and starts those of the program, beside which the other steps run.
pub fn build(check: &mut Check) -> Result<Outcome> {
    let mut command = cargo(check);
    command.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        return Ok(Outcome::Failed(output.status.to_string()));
    }
    let built = Built::read(&String::from_utf8_lossy(&output.stdout))?;
    check.gannet = check.gannet.take().or(built.gannet);
    let (beside, programs) =
        built.programs.into_iter().partition(|program| program.name.starts_with(PROGRAM));
    check.programs = programs;
    check.beside = Some(start_beside(check, beside));
    File::create(log_path(check)).context("cannot write the log of the tests")?;
    Ok(Outcome::Passed)
}

/// What a build of all tests has made.
#[derive(Debug, Default, PartialEq)]
struct Built {
    programs: Vec<Program>,
    gannet: Option<PathBuf>,
}

impl Built {
    /// Reads the messages of cargo, one JSON object a line.
    fn read(messages: &str) -> Result<Self> {
        let mut built = Self::default();
        for line in messages.lines().filter(|line| line.starts_with('{')) {
            let message: Value = serde_json::from_str(line).context("a message of cargo")?;
            let text = |pointer| message.pointer(pointer).and_then(Value::as_str);
            let Some(path) = text("/executable").map(PathBuf::from) else { continue };
            let manifest = text("/manifest_path").context("a program without a manifest")?;
            let directory = Path::new(manifest).parent().context("a manifest without a place")?;
            let package = directory.file_name().context("a package without a name")?;
            let target = text("/target/name").context("a program without a name")?;
            if message.pointer("/profile/test") == Some(&Value::Bool(true)) {
                let name = format!("{} {target}", package.display());
                built.programs.push(Program { name, path, directory: directory.to_path_buf() });
            } else if target == "gannet" {
                built.gannet = Some(path);
            }
        }
        built.programs.sort_by(|a, b| a.name.cmp(&b.name));
        if built.programs.is_empty() {
            bail!("cargo tells of no test program");
        }
        Ok(built)
    }
}

fn start_beside(check: &Check, programs: Vec<Program>) -> Beside {
    let limit = limit(check);
    let commands: Vec<_> =
        programs.into_iter().map(|program| (test_command(check, &program), program.name)).collect();
    let run_all = move || {
        let run = |(mut command, name)| {
            let (start, mut lines) = (Instant::now(), Vec::new());
            let success = read(&mut command, limit, |stream, line| {
                lines.push((stream, line.to_owned()));
                Ok(())
            })?;
            Ok(Ran { name, lines, success, time: start.elapsed() })
        };
        commands.into_iter().map(run).collect()
    };
    Beside { thread: thread::spawn(run_all) }
}

/// Runs all tests but those of the program and those in documents.
pub fn run(check: &mut Check) -> Result<Outcome> {
    if check.programs.is_empty() {
        return Ok(Outcome::Skipped("they are not built".into()));
    }
    let mut success = true;
    let mut account = Account::open(check)?;
    for program in std::mem::take(&mut check.programs) {
        success &= account.run(check, &program.name, &mut test_command(check, &program))?;
    }
    println!("all that the tests printed: {}", log_path(check).display());
    Ok(Outcome::Counted { success, beside: None })
}

/// Runs the examples in the documentation of the code.
pub fn run_documents(check: &mut Check) -> Result<Outcome> {
    let mut command = cargo(check);
    command.args(["test", "--workspace", "--doc", "--no-fail-fast", "--", "--show-output"]);
    set_variables(check, &mut command);
    let success = Account::open(check)?.run(check, "tests in documents", &mut command)?;
    Ok(Outcome::Counted { success, beside: None })
}

/// Waits for the tests of the program, and tells of them.
pub fn finish_beside(check: &mut Check) -> Result<Outcome> {
    let Some(beside) = check.beside.take() else {
        return Ok(Outcome::Skipped("they are not built".into()));
    };
    let all = beside.thread.join().map_err(|_| anyhow!("reading the tests panicked"))??;
    let time = all.iter().map(|ran| ran.time).sum();
    let mut success = true;
    let mut account = Account::open(check)?;
    for ran in all {
        account.begin(&ran.name)?;
        ran.lines.iter().try_for_each(|(stream, line)| account.line(*stream, line))?;
        account.end(check, &ran.name, ran.success);
        success &= ran.success;
    }
    Ok(Outcome::Counted { success, beside: Some(time) })
}

/// Shows, writes down and counts what test programs print.
struct Account {
    log: File,
    screen: Screen,
    report: Report,
}

impl Account {
    fn open(check: &Check) -> Result<Self> {
        let path = log_path(check);
        let log = fs::OpenOptions::new().append(true).create(true).open(&path);
        let log = log.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { log, screen: Screen::default(), report: Report::default() })
    }

    /// Runs a test program, and says whether all its tests passed.
    fn run(&mut self, check: &mut Check, name: &str, command: &mut Command) -> Result<bool> {
        self.begin(name)?;
        let success = read(command, limit(check), |stream, line| self.line(stream, line))?;
        self.end(check, name, success);
        Ok(success)
    }

    fn begin(&mut self, name: &str) -> Result<()> {
        (self.screen, self.report) = Default::default();
        self.line(Stream::Output, &format!("     Running {name}"))
    }

    fn line(&mut self, stream: Stream, line: &str) -> Result<()> {
        if self.screen.shows(stream, line) {
            println!("{line}");
        }
        self.report.read(line);
        writeln!(self.log, "{line}").context("cannot write the log of the tests")
    }

    fn end(&mut self, check: &mut Check, name: &str, success: bool) {
        std::mem::take(&mut self.report).enter(&mut check.tally, name, success);
    }
}

/// Whether all was built here before.
pub fn has_run(check: &Check) -> bool {
    log_path(check).exists()
}

fn log_path(check: &Check) -> PathBuf {
    check.target.join("tests.log")
}

fn test_command(check: &Check, program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    command.arg("--show-output").current_dir(&program.directory);
    // As cargo sets it.
    command.env("CARGO_MANIFEST_DIR", &program.directory);
    set_variables(check, &mut command);
    command
}

/// Names the judges and the program that is tested. The variables of a caller must not point tests at
/// another build or another Python.
fn set_variables(check: &Check, command: &mut Command) {
    set(command, "GANNET_JUDGE_PYTHON", check.judge_python.as_ref());
    set(command, "GANNET_BIN", check.gannet.as_ref());
    set(command, "GANNET_LONG", check.long.then_some("1"));
    set(command, "GANNET_PART", None::<&str>);
    set(command, "GANNET_MAY_MOUNT", Some("1"));
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

fn limit(check: &Check) -> Duration {
    if check.long { LIMIT_LONG } else { LIMIT }
}

/// Runs a command, passes each line of its output to `see`, and says whether it succeeded, which it did not if
/// it had to be ended after `limit`.
fn read(
    command: &mut Command,
    limit: Duration,
    mut see: impl FnMut(Stream, &str) -> Result<()>,
) -> Result<bool> {
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
    let (mut deadline, mut in_time) = (Instant::now() + limit, true);
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((stream, line)) => see(stream, &line)?,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if in_time => {
                see(Stream::Errors, &format!("ended, since it ran for {} s", limit.as_secs()))?;
                end_with_children(child.id());
                (deadline, in_time) = (Instant::now() + LIMIT_OUTPUT, false);
            }
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    Ok(child.wait().context("cannot wait for the tests")?.success() && in_time)
}

/// Ends a process and all those that it has started, which would otherwise keep its output open.
fn end_with_children(process: u32) {
    let mut all = vec![process.to_string()];
    let mut next = 0;
    while let Some(process) = all.get(next) {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().map(str::to_owned));
        }
        next += 1;
    }
    // One that has ended by itself by now is no longer there.
    let _gone = Command::new("kill").arg("-KILL").args(all).stderr(Stdio::null()).status();
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
    /// Tests that take long and have not ended.
    unended: Vec<String>,
}

impl Report {
    fn read(&mut self, line: &str) {
        if let Some(skip) = skip_in(line) {
            self.skips.push(skip.to_owned());
        } else if let Some((_, counts)) = line.split_once("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
        } else if let Some(test) = line.strip_prefix("test ") {
            if let Some(name) = test.strip_suffix(" has been running for over 60 seconds") {
                self.unended.push(name.to_owned());
            }
            let Some((name, end)) = test.rsplit_once(" ... ") else { return };
            self.unended.retain(|test| test != name);
            if end == "FAILED" {
                self.failures.push(format!("test {name}"));
            } else if end.starts_with("ignored") {
                self.ignored.push(format!("test {name} is ignored"));
            }
        }
    }

    /// Adds what was read to the account. The harness counts a test that skipped as passed; here
    /// it is not.
    fn enter(self, tally: &mut Tally, name: &str, success: bool) {
        tally.passed += self.passed.saturating_sub(self.skips.len());
        tally.failed += self.failed;
        if !success && self.failed == 0 {
            tally.failed += 1;
            tally.failures.push(format!("{name}: did not build or did not end, see above"));
        }
        tally.failures.extend(self.failures);
        let unended = self.unended.iter();
        tally.failures.extend(unended.map(|name| format!("test {name} did not end")));
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
    fn test_programs_and_the_program_itself_are_found_in_the_messages_of_a_build() {
        let message = |package: &str, name: &str, test: bool, executable: Value| {
            let manifest = format!("/house/crates/{package}/Cargo.toml");
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": manifest,
                "target": { "name": name }, "profile": { "test": test }, "executable": executable,
            })
            .to_string()
        };
        let messages = [
            message("gannet-wire", "it", true, "/t/it-1".into()),
            message("gannet-wire", "gannet_wire", false, Value::Null),
            message("gannet-cli", "gannet", false, "/t/gannet".into()),
            message("gannet-cli", "it", true, "/t/it-2".into()),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let built = Built::read(&messages.join("\n")).unwrap();
        let program = |package: &str, path: &str| Program {
            name: format!("{package} it"),
            path: path.into(),
            directory: Path::new("/house/crates").join(package),
        };
        let programs = [program("gannet-cli", "/t/it-2"), program("gannet-wire", "/t/it-1")];
        assert_eq!(built.programs, programs);
        assert_eq!(built.gannet.unwrap(), Path::new("/t/gannet"));
        assert!(Built::read("").is_err());
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
        report().enter(&mut tally, "all", false);
        assert_eq!((tally.passed, tally.failed, tally.skipped()), (12, 1, 3));
    }

    #[test]
    fn a_build_that_fails_is_one_failure() {
        let mut tally = Tally::default();
        Report::default().enter(&mut tally, "all", false);
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
        assert!(!read(&mut command, LIMIT, see).unwrap());
        seen.sort();
        let (output, errors) = ("out".to_owned(), "err \u{fffd}".to_owned());
        assert_eq!(seen, [(Stream::Output, output), (Stream::Errors, errors)]);
    }

    #[test]
    fn tests_that_do_not_end_are_ended_with_all_they_started_and_named() {
        let (mut report, mut started) = (Report::default(), String::new());
        let mut command = Command::new("sh");
        let slow = "test slow has been running for over 60 seconds";
        let fair = "test fair has been running for over 60 seconds\ntest fair ... ok";
        command.args([
            "-c",
            &format!("sh -c 'sleep 1000 & echo $!; wait' & echo '{slow}\n{fair}'; wait"),
        ]);
        let see = |_, line: &str| {
            report.read(line);
            if line.parse::<u32>().is_ok() {
                line.clone_into(&mut started);
            }
            Ok(())
        };
        assert!(!read(&mut command, Duration::from_secs(5), see).unwrap());
        assert_eq!(report.unended, ["slow"]);
        assert_ne!(started, "");
        // The system may take a moment to end it.
        let state = || fs::read_to_string(format!("/proc/{started}/stat")).unwrap_or_default();
        let is_gone = || state().is_empty() || state().contains(" Z ");
        assert!((0..100).any(|_| is_gone() || (thread::sleep(LIMIT_OUTPUT / 50), false).1));
        let mut tally = Tally::default();
        report.enter(&mut tally, "all", false);
        assert!(tally.failures.contains(&"test slow did not end".to_owned()));
    }
}
