//! `gannet torus faults`: how soon does a master know of a fault?

mod reroute;
mod routing;
mod trials;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use gannet_evaluate::awareness::svg;
use gannet_measure::quantity::Span;
use gannet_torus::Lattice;
use gannet_torus::awareness::{
    Campaign, CampaignReport, Distribution, FAULTS_MAX, Jitter, NODES_MAX, Quiet, QuietReport,
    Surroundings, TRIALS_MAX, TrialResult, run_campaign, run_quiet, tell_trial,
};
use gannet_torus::lofamo::{Mode, Timing};
use serde::Serialize;

use crate::exit::Outcome;
use crate::log;
use crate::output::{self, grouped};

/// Watchdog periods of a sweep.
const SWEEP_MS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const THREADS_MAX: i64 = 256;
/// Longest run without faults: a year.
const HOURS_MAX: f64 = 8784.0;

/// Breaks hosts, NICs, cables and networks of a torus at random, and tells how soon a master knows.
///
/// Nodes watch themselves and each other by LO|FA|MO: as published (poll), or with a deadline
/// re-armed by every beat and neighbours told at once (push). Hosts, NICs and master are the same
/// state machines as on live links. Each trial has several faults, partitions among them. A fault
/// must become known if what can tell of it is connected with a host that can speak with the
/// master. Awareness counts from the fault until the master holds the right thing for broken.
///
/// The exit code is 6 when such a fault was missed, or something healthy was called broken. Each
/// trial that failed is listed with the command that replays it.
///
/// What the network makes of faults is told by `routing` and `reroute`.
///
/// Example: gannet torus faults --lattice 4x4x1 --trials 1000 --hours 1
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    study: Option<Study>,
    /// Sizes of the rings in x, y and z, such as 4x4x4 or 4x4; several with commas.
    #[arg(long, default_value = "4x4x4", value_name = "SIZES", value_delimiter = ',',
          value_parser = lattice)]
    lattice: Vec<Lattice>,
    /// How nodes are watched.
    #[arg(long, default_value = "both")]
    mode: ModeName,
    /// Watchdog period, 1 ms to 60 s: a time, several with commas, or sweep for 1 ms to 1 s.
    #[arg(long, default_value = "500ms", value_name = "TIME", value_parser = periods)]
    period: Periods,
    /// Trials in each mode, at each period, on each lattice.
    #[arg(long, default_value = "10000", value_name = "N",
          value_parser = clap::value_parser!(u64).range(0..=TRIALS_MAX))]
    trials: u64,
    /// Most faults of a trial, partitions apart.
    #[arg(long, default_value = "6", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=FAULTS_MAX as i64))]
    faults: u32,
    /// Seed; trial I depends on it and on I alone.
    #[arg(long, default_value = "1", value_name = "SEED")]
    seed: u64,
    /// Run this trial only, and tell what happens in it.
    #[arg(long, value_name = "I")]
    trial: Option<u64>,
    /// Every period strays by up to this part of it.
    #[arg(long, default_value = "0.01", value_name = "PART", value_parser = part)]
    jitter: f64,
    /// One action of a host in a thousand is late, by up to this part of the watchdog period.
    #[arg(long, default_value = "0.05", value_name = "PART", value_parser = part)]
    late: f64,
    /// Also simulate so many hours without faults, and look for false reports.
    #[arg(long, default_value = "0", value_name = "HOURS", value_parser = hours)]
    hours: f64,
    /// Threads; the results do not depend on them.
    #[arg(long, default_value = "1", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX))]
    threads: u16,
    /// Draw how long it takes until a hung host is known into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Study {
    Routing(routing::Arguments),
    Reroute(reroute::Arguments),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// As published: beats, checks and readings in no step with each other.
    Poll,
    /// A deadline re-armed by every beat; neighbours are told at once.
    Push,
    /// One after the other.
    Both,
}

impl ModeName {
    fn modes(self) -> &'static [Mode] {
        match self {
            Self::Poll => &[Mode::Poll],
            Self::Push => &[Mode::Push],
            Self::Both => &Mode::ALL,
        }
    }
}

/// Watchdog periods.
#[derive(Clone, Debug, PartialEq)]
struct Periods(Vec<Span>);

fn periods(text: &str) -> Result<Periods, String> {
    if text == "sweep" {
        return Ok(Periods(SWEEP_MS.map(Span::ms).to_vec()));
    }
    let period = |text: &str| {
        let span: Span = text.parse().map_err(|error| format!("{error}, or sweep"))?;
        match (Timing::PERIOD_MIN_NS..=Timing::PERIOD_MAX_NS).contains(&span.ns()) {
            true => Ok(span),
            false => Err(format!("{text} is out of range; choose 1 ms to 60 s")),
        }
    };
    text.split(',').map(period).collect::<Result<_, _>>().map(Periods)
}

fn lattice(text: &str) -> Result<Lattice, String> {
    let lattice: Lattice = text.parse().map_err(|error| format!("{error}"))?;
    match lattice.nodes() {
        nodes if nodes > NODES_MAX => {
            Err(format!("{nodes} nodes; at most {NODES_MAX} are simulated"))
        }
        _ => Ok(lattice),
    }
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().map_err(|_| format!("\"{text}\" is not a number"))?;
    if (0.0..=0.9).contains(&part) { Ok(part) } else { Err("choose 0 to 0.9".to_owned()) }
}

fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse().map_err(|_| format!("\"{text}\" is not a number of hours"))?;
    let range = 0.0..=HOURS_MAX;
    if range.contains(&hours) { Ok(hours) } else { Err(format!("choose 0 to {HOURS_MAX}")) }
}

/// A campaign, and how to see its failures again.
#[derive(Debug, Serialize)]
struct Judged {
    #[serde(flatten)]
    report: CampaignReport,
    /// A command for each failure.
    replays: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Whether nothing was missed and nothing invented.
    sound: bool,
    campaigns: Vec<Judged>,
    quiet: Vec<QuietReport>,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match &arguments.study {
        Some(Study::Routing(arguments)) => return routing::run(arguments),
        Some(Study::Reroute(arguments)) => return reroute::run(arguments),
        None => {}
    }
    if let Some(index) = arguments.trial {
        return replay(arguments, index);
    }
    let (mut campaigns, mut quiet) = (Vec::new(), Vec::new());
    for (campaign, hours) in campaigns_of(arguments) {
        if campaign.trials > 0 {
            campaigns.push(judge(arguments, &campaign));
        }
        if hours > 0.0 {
            quiet.push(run_quiet(&Quiet {
                lattice: campaign.lattice,
                mode: campaign.mode,
                period_ns: campaign.period_ns,
                hours,
                seed: campaign.seed,
                surroundings: campaign.surroundings,
                threads: campaign.threads,
            }));
        }
    }
    if let Some(file) = &arguments.svg {
        let reports: Vec<CampaignReport> = campaigns.iter().map(|it| it.report.clone()).collect();
        fs::write(file, svg(&reports)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        log::say(format_args!("{}: written", file.display()));
    }
    let sound = campaigns.iter().all(|it| it.report.is_sound())
        && quiet.iter().all(|it| it.false_reports == 0);
    let report = Report { sound, campaigns, quiet };
    match arguments.json {
        true => output::json(&report)?,
        false => output::print(|out| print(out, &report))?,
    }
    Ok(if sound { Outcome::Ok } else { Outcome::NotVerified })
}

/// The campaigns asked for, each with its hours without faults.
fn campaigns_of(arguments: &Arguments) -> Vec<(Campaign, f64)> {
    let mut campaigns = Vec::new();
    for &lattice in &arguments.lattice {
        for period in &arguments.period.0 {
            for &mode in arguments.mode.modes() {
                campaigns.push((campaign(arguments, lattice, mode, period.ns()), arguments.hours));
            }
        }
    }
    campaigns
}

fn campaign(arguments: &Arguments, lattice: Lattice, mode: Mode, period_ns: u64) -> Campaign {
    let jitter = Jitter { period: arguments.jitter, late_max: arguments.late, ..Jitter::default() };
    Campaign {
        lattice,
        mode,
        period_ns,
        trials: arguments.trials,
        faults: arguments.faults,
        seed: arguments.seed,
        surroundings: Surroundings { jitter, ..Surroundings::default() },
        threads: arguments.threads.into(),
    }
}

fn judge(arguments: &Arguments, campaign: &Campaign) -> Judged {
    let mut tenths = 0;
    let report = run_campaign(campaign, &mut |done| {
        let now = 10 * done / campaign.trials;
        if now > tenths && done < campaign.trials {
            tenths = now;
            let (lattice, mode) = (campaign.lattice, campaign.mode.name());
            log::say(format_args!(
                "{lattice}, {mode}: {} of {} trials",
                grouped(done),
                grouped(campaign.trials)
            ));
        }
    });
    let failures = report.failures.iter();
    let replays = failures.map(|failure| command(arguments, campaign, failure.trial)).collect();
    Judged { report, replays }
}

/// The command that runs a trial again.
fn command(arguments: &Arguments, campaign: &Campaign, trial: u64) -> String {
    let Campaign { lattice, faults, seed, .. } = campaign;
    let (mode, period) = (campaign.mode.name(), Span(campaign.period_ns).to_string());
    let (jitter, late) = (arguments.jitter, arguments.late);
    format!(
        "gannet torus faults --lattice {lattice} --mode {mode} --period {} --faults {faults} \
         --jitter {jitter} --late {late} --seed {seed} --trial {trial}",
        period.replace(' ', "")
    )
}

/// Runs one trial for each campaign asked for, and tells what happens.
fn replay(arguments: &Arguments, index: u64) -> anyhow::Result<Outcome> {
    let mut sound = true;
    for (campaign, _) in campaigns_of(arguments) {
        let (result, story) = tell_trial(&campaign.trial(index));
        sound &= result.undetected.is_empty() && result.false_reports.is_empty();
        output::print(|out| {
            writeln!(out, "{}", command(arguments, &campaign, index))?;
            for (at_ns, line) in story {
                writeln!(out, "{:>14.6} s  {line}", at_ns as f64 * 1e-9)?;
            }
            end_of_story(out, &result)
        })?;
    }
    Ok(if sound { Outcome::Ok } else { Outcome::NotVerified })
}

fn end_of_story(out: &mut impl Write, result: &TrialResult) -> io::Result<()> {
    for what in &result.undetected {
        writeln!(out, "undetected: {what}")?;
    }
    for what in &result.false_reports {
        writeln!(out, "false: {what}")?;
    }
    for what in &result.late {
        writeln!(out, "late: {what}")?;
    }
    writeln!(
        out,
        "{} faults known, {} beyond the rule, {} known before, {} unreachable, {} undetected, {} false reports",
        result.known.len(),
        result.known_beyond_rule,
        result.known_before,
        result.unreachable,
        result.undetected.len(),
        result.false_reports.len()
    )
}

fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for campaign in &report.campaigns {
        print_campaign(out, campaign)?;
    }
    for quiet in &report.quiet {
        writeln!(
            out,
            "{}, {}, T = {}: {} false reports in {} h without faults",
            quiet.lattice,
            quiet.mode.name(),
            span(quiet.period_s),
            quiet.false_reports,
            quiet.hours
        )?;
        quiet.claims.iter().try_for_each(|claim| writeln!(out, "  {claim}"))?;
    }
    Ok(())
}

fn span(seconds: f64) -> Span {
    Span((seconds * 1e9).round() as u64)
}

fn print_campaign(out: &mut impl Write, campaign: &Judged) -> io::Result<()> {
    let report = &campaign.report;
    let period = span(report.period_s);
    let mode = report.mode.name();
    writeln!(out, "{}, {mode}, T = {period}, {} trials", report.lattice, grouped(report.trials))?;
    writeln!(
        out,
        "  {} faults: {} known, {} undetected, {} unreachable, {} beyond the rule, {} known \
         before; {} false reports, {} late",
        grouped(report.faults),
        grouped(report.known),
        report.undetected,
        grouped(report.unreachable),
        grouped(report.known_beyond_rule),
        grouped(report.known_before),
        report.false_reports,
        report.late
    )?;
    let headings = ["mean", "median", "99 %", "longest"];
    let units = headings.map(|_| format!("{:>11}", "ms"));
    writeln!(out, "  {:<22}{:>11}{}", "aware after", "faults", units.concat())?;
    writeln!(out, "  {:<33}{}", "", headings.map(|it| format!("{it:>11}")).concat())?;
    for kind in &report.kinds {
        line(out, kind.kind.name(), &kind.awareness)?;
    }
    line(out, "all", &report.awareness)?;
    let limits = &report.limits;
    let verdict = if report.within_limits { "kept by every kind" } else { "NOT kept" };
    writeln!(
        out,
        "  limits: mean {:.1} ms, longest {:.1} ms: {verdict}",
        limits.mean_s * 1e3,
        limits.worst_s * 1e3
    )?;
    for (failure, replay) in report.failures.iter().zip(&campaign.replays) {
        writeln!(out, "  trial {}: {}\n    {replay}", failure.trial, failure.what)?;
    }
    Ok(())
}

fn line(out: &mut impl Write, name: &str, times: &Distribution) -> io::Result<()> {
    let seconds = [times.mean_s, times.p50_s, times.p99_s, times.max_s];
    let cells = seconds.map(|seconds| format!("{:>11.3}", seconds * 1e3)).concat();
    writeln!(out, "  {name:<22}{:>11}{cells}", grouped(times.count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_read_with_units_and_commas() {
        let read = |text: &str| periods(text).map(|periods| periods.0);
        assert_eq!(read("500ms"), Ok(vec![Span::ms(500)]));
        assert_eq!(read("1 ms,1 s"), Ok(vec![Span::ms(1), Span::s(1)]));
        assert_eq!(read("sweep").unwrap().len(), 10);
        for bad in ["", "500", "0.5ms", "2min", "1ms,,2ms"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn limits_of_arguments_are_told() {
        assert!(lattice("16x16x16").is_ok() && lattice("17x16x16").unwrap_err().contains("4096"));
        assert!(part("0.95").is_err() && hours("-1").is_err() && hours("nan").is_err());
    }
}
