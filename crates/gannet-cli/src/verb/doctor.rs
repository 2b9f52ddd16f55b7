//! `gannet doctor`: is this machine fit for it?

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use crossterm::style::Stylize;
use gannet_control::config::{self, Plan};
use gannet_control::doctor::{Check, Needs, ReceiveCost, System, Verdict, examine};

use crate::Detectors;
use crate::exit::Outcome;
use crate::output;

/// Checks whether this machine is ready to take data: socket buffers, packet sizes, memory,
/// processor, rights, disk, and for half a second what receiving a frame costs. Reports what falls
/// short and prints the shell commands that fix it. Nothing is changed. Exit code 5 when something would lose data or keep a run from starting.
///
/// Example: gannet doctor detector.toml
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Judge by what this configuration needs, instead of sixteen streams over loopback.
    config: Option<PathBuf>,
    /// Print the checks as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments, detectors: Detectors) -> anyhow::Result<Outcome> {
    let plan = arguments.config.as_deref().map(|file| config::load(file, detectors)).transpose()?;
    let needs = plan.as_ref().map(Needs::of).unwrap_or_default();
    let cost = match plan.filter(|plan| !plan.sources.is_empty()) {
        Some(plan) => ReceiveCost::measure(&plan, &needs),
        None => ReceiveCost::measure(&demonstration(detectors)?, &needs),
    };
    let checks = examine(&System::default(), &needs, &cost);
    match arguments.json {
        true => output::json(&checks)?,
        false => output::print(|out| print(out, &checks))?,
    }
    let is_bad = checks.iter().any(|check| check.verdict == Verdict::Bad);
    Ok(if is_bad { Outcome::ResourceMissing } else { Outcome::Ok })
}

/// What is received where no configuration names streams.
fn demonstration(detectors: Detectors) -> anyhow::Result<Plan> {
    let detector = detectors.first().context("the program knows no detector")?;
    let text = detector.demonstration();
    Ok(config::parse("demo.toml", text, Path::new("."), detectors)?)
}

/// A table of all checks, then the commands that fix what falls short, then one line of summary. What is printed
/// between table and summary can be given to a shell.
fn print(out: &mut impl Write, checks: &[Check]) -> io::Result<()> {
    let names = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    for check in checks {
        let verdict = colored(check.verdict);
        writeln!(out, "{verdict}  {:<names$}  {}", check.name, check.value)?;
    }
    writeln!(out)?;
    for (remedy, fixed) in remedies(checks) {
        for check in fixed {
            writeln!(out, "# {}: {}", check.name, check.reason)?;
        }
        writeln!(out, "{remedy}\n")?;
    }
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let (ok, slow, bad) = (count(Verdict::Ok), count(Verdict::Slow), count(Verdict::Bad));
    writeln!(out, "{ok} ok, {slow} slow, {bad} bad, {} unknown", count(Verdict::Unknown))
}

/// Each remedy once, with all that it fixes.
fn remedies(checks: &[Check]) -> Vec<(&str, Vec<&Check>)> {
    let mut remedies: Vec<(&str, Vec<&Check>)> = Vec::new();
    for check in checks.iter().filter(|check| !check.remedy.is_empty()) {
        match remedies.iter_mut().find(|(remedy, _)| *remedy == check.remedy) {
            Some((_, fixed)) => fixed.push(check),
            None => remedies.push((&check.remedy, vec![check])),
        }
    }
    remedies
}

/// The verdict in its width, with its colour on a terminal.
fn colored(verdict: Verdict) -> String {
    let text = format!("{verdict:<7}");
    #[expect(clippy::disallowed_methods, reason = "nothing is written")]
    let has_colors = output::takes_control_codes(&io::stdout());
    if !has_colors {
        return text;
    }
    match verdict {
        Verdict::Ok => text.green(),
        Verdict::Slow | Verdict::Unknown => text.yellow(),
        Verdict::Bad => text.red(),
    }
    .to_string()
}
