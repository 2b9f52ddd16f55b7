//! The whole check, step by step.

mod judges;
mod room;
mod steps;
mod suite;
mod tally;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use suite::{Beside, Program};
use tally::Tally;

/// What the steps need to know of each other.
struct Check {
    /// Root of the workspace.
    root: PathBuf,
    /// Where cargo builds.
    target: PathBuf,
    /// Whether tests run their long versions.
    long: bool,
    /// Interpreter with the libraries of the judges, once it is there.
    judge_python: Option<PathBuf>,
    /// The `gannet` that is tested, once it is built.
    gannet: Option<PathBuf>,
    /// The test programs that are built and not started yet.
    programs: Vec<Program>,
    /// Those that run beside the other steps.
    beside: Option<Beside>,
    tally: Tally,
}

/// How a step ended.
enum Outcome {
    Passed,
    /// With what was wrong, if the step has not printed it.
    Failed(String),
    /// With what was missing.
    Skipped(String),
    /// It belongs to the long check, which this is not.
    Long,
    /// The step has counted its own tests, and this is how they ended.
    Counted {
        success: bool,
        /// How long they ran beside other steps.
        beside: Option<Duration>,
    },
}

type Step = (&'static str, fn(&mut Check) -> Result<Outcome>);

/// In this order: what answers soonest first, and builds before what uses them. The tests of the
/// program wait more than they compute, so they run beside all that comes after the build.
const STEPS: [Step; 15] = [
    ("format", steps::format),
    ("tidy", steps::tidy),
    ("judges' Python", judges::prepare),
    ("release build", steps::release_build),
    ("build of the tests", suite::build),
    ("reference pages", steps::reference_pages),
    ("clippy", steps::clippy),
    ("rustdoc", steps::rustdoc),
    ("licences", steps::licences),
    ("advisories", steps::advisories),
    ("kernels for aarch64", steps::kernels_for_aarch64),
    ("memory model", steps::memory_model),
    ("tests", suite::run),
    ("tests in documents", suite::run_documents),
    ("tests of the program", suite::finish_beside),
];

/// Runs every step, prints the account, and says whether all is well.
///
/// A step that fails, or cannot be started, does not keep the next from running: one run shows all
/// there is to fix.
///
/// # Errors
/// When it cannot tell where cargo builds, or there is no room for what it writes.
pub fn run(root: &Path, long: bool) -> Result<bool> {
    let mut check = Check {
        root: root.to_path_buf(),
        target: target_directory()?,
        long,
        judge_python: None,
        gannet: None,
        programs: Vec::new(),
        beside: None,
        tally: Tally::default(),
    };
    room::require(&check.target, suite::has_run(&check))?;
    let start = Instant::now();
    let mut times = Vec::new();
    for (name, step) in STEPS {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome =
            step(&mut check).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        times.push(time_line(&outcome, name, start.elapsed()));
        check.tally.count(name, outcome);
        println!("{}", times.last().map_or("", String::as_str));
    }
    println!("\n== Steps\n{}", times.join("\n"));
    println!("{:>8.1} s  in all", start.elapsed().as_secs_f64());
    check.tally.print();
    Ok(check.tally.is_success())
}

fn time_line(outcome: &Outcome, name: &str, time: Duration) -> String {
    let verdict = match outcome {
        Outcome::Passed | Outcome::Counted { success: true, .. } => "ok",
        Outcome::Failed(_) | Outcome::Counted { success: false, .. } => "FAILED",
        Outcome::Skipped(_) => "skipped",
        Outcome::Long => "with --long only",
    };
    let line = format!("{:>8.1} s  {name}: {verdict}", time.as_secs_f64());
    match outcome {
        Outcome::Counted { beside: Some(time), .. } => {
            format!("{line}, {:.1} s beside the others", time.as_secs_f64())
        }
        _ => line,
    }
}

/// Where cargo builds, told from where this program lies: `TARGET/PROFILE/xtask`. So it is right
/// whatever environment or configuration moved it.
fn target_directory() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell where xtask lies")?;
    let target = program.parent().and_then(Path::parent);
    Ok(target.context("xtask does not lie in a target directory")?.to_path_buf())
}
