//! `gannet torus faults`: how soon does a master know of a fault?

mod hardship;
mod reroute;
mod routing;
mod table;
mod trials;

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use gannet_lattice::Lattice;
use gannet_lofamo::Mode;
use gannet_measure::quantity::Span;
use gannet_torus_study::awareness::{
    Campaign, CampaignReport, FAULTS_MAX, Jitter, NODES_MAX, Quiet, QuietReport, Surroundings,
    Watched,
};
use gannet_torus_study::trials::TRIALS_MAX;
use gannet_torus_study::{PlotError, awareness_svg};
use serde::Serialize;

use self::hardship::HardshipArguments;
use self::trials::Judged;
use super::quantity::{number, period};
use crate::destination::Destination;
use crate::exit::{Outcome, Usage};
use crate::log;
use crate::output;

/// Watchdog periods of a sweep.
const SWEEP_MS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const THREADS_MAX: i64 = 256;
/// Longest run without faults: a year.
const HOURS_MAX: f64 = 8784.0;

/// Breaks hosts, NICs, cables and networks of a torus at random and reports how soon the master
/// knows.
///
/// Nodes watch themselves and each other by LO|FA|MO, either as published (poll), or with a
/// deadline re-armed by every heartbeat and neighbours notified at once (push). Hosts, NICs and
/// master are the same state machines as on live links. A trial has several faults, network
/// partitions among them. A fault has to become known if anything that can detect it is connected
/// to a host that can reach the master. Awareness time runs from the fault until the master has the
/// right component marked as broken.
///
/// The watchdog period T is the longest time that anything watched may stay silent or any watcher
/// may look away. In poll mode hosts beat every 0.85 T, and NICs and hosts check every 0.97 T;
/// awareness may take 1.5 T on average and 3 T + 10 ms at most. In push mode there are two beats
/// per T, and 0.75 T of silence is a failure; awareness may take 0.6 T on average and 1.2 T + 10 ms
/// at most. Averages are judged from 100 faults of a kind on. A live host may be late by 0.10 T in
/// poll mode and by 0.24 T in push mode before it is reported as failed.
///
/// By default faults stay, cables are cut both ways and get sixteen errors at once when they are
/// flaky, working links lose no credit word, and the master never dies: so the published figures
/// are made. The options for harder trials change that. What healed must be forgotten within the
/// longest awareness time and T; a new master must know within that time all that the one before
/// it knew.
///
/// The exit code is 6 when a detectable fault was missed, something healthy was reported as broken,
/// or one of these limits was exceeded; standard error says which. Each failed trial is listed with
/// the command that replays it. A machine of one node has no neighbours and no limits. Ctrl-C
/// prints the results so far.
///
/// `routing` and `reroute` show what faults do to the network.
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
    /// Maximum number of faults in a trial, not counting partitions.
    #[arg(long, default_value = "6", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=FAULTS_MAX as i64))]
    faults: u32,
    /// Seed; trial I depends only on the seed and on I.
    #[arg(long, default_value = "1", value_name = "SEED")]
    seed: u64,
    /// Run only this trial and report what happens in it.
    #[arg(long, value_name = "I", conflicts_with_all = ["svg", "json"])]
    trial: Option<u64>,
    /// Jitter of every period, as a fraction of it.
    #[arg(long, default_value = "0.01", value_name = "PART", value_parser = part)]
    jitter: f64,
    /// Delay of one host action in a thousand, up to this fraction of the watchdog period T; poll
    /// mode tolerates 0.10, push mode 0.24.
    #[arg(long, default_value = "0.05", value_name = "PART", value_parser = part)]
    late: f64,
    /// Fraction of messages that the service network loses. Reports and probes are sent again; the
    /// limits are for a network that loses nothing.
    #[arg(long, default_value = "0", value_name = "PART", value_parser = part)]
    service_loss: f64,
    #[command(flatten)]
    hardship: HardshipArguments,
    /// Also simulate this many hours without faults and look for false reports.
    #[arg(long, default_value = "0", value_name = "HOURS", value_parser = hours)]
    hours: f64,
    /// Number of threads; the results do not depend on it.
    #[arg(long, default_value = "1", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX))]
    threads: u16,
    /// Plot how long it takes until a hung host is known to this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Overwrite the file if it exists.
    #[arg(long, requires = "svg")]
    overwrite: bool,
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
    /// As published: beats, checks and readings run independently of each other.
    Poll,
    /// A deadline re-armed by every beat; neighbours are notified at once.
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
    let period = |text| period(text).map_err(|error| format!("{error}; or sweep"));
    text.split(',').map(period).collect::<Result<_, _>>().map(Periods)
}

fn lattice(text: &str) -> Result<Lattice, String> {
    let lattice: Lattice = text.parse().map_err(|error| format!("{error}"))?;
    let nodes = lattice.nodes();
    if nodes <= NODES_MAX {
        Ok(lattice)
    } else {
        Err(format!("{nodes} nodes; at most {NODES_MAX} are simulated"))
    }
}

fn part(text: &str) -> Result<f64, String> {
    number(text, 0.0..=0.9)
}

fn hours(text: &str) -> Result<f64, String> {
    number(text, 0.0..=HOURS_MAX)
}

#[derive(Debug, Serialize)]
struct Report {
    /// Whether nothing was missed and nothing invented.
    sound: bool,
    /// Whether all was known in the time promised.
    in_time: bool,
    campaigns: Vec<Judged<CampaignReport>>,
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
    if arguments.trials == 0 && arguments.hours == 0.0 {
        return Err(Usage("nothing to do; ask for --trials or --hours".to_owned()).into());
    }
    let picture = arguments.picture()?;
    let (report, signal) = measure(arguments)?;
    match arguments.json {
        true => output::json(&report)?,
        false => output::print(|out| table::print(out, &report))?,
    }
    if let Some(picture) = picture {
        let reports: Vec<_> = report.campaigns.iter().map(|it| it.report.clone()).collect();
        match awareness_svg(&reports) {
            Ok(drawn) => picture.write(&drawn)?,
            // A signal came before there was enough to draw.
            Err(_) if signal.is_some() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(signal.map_or_else(|| judge(&report), Outcome::Interrupted))
}

impl Arguments {
    /// Where the picture goes, found out before the work begins.
    fn picture(&self) -> anyhow::Result<Option<Destination>> {
        let Some(file) = &self.svg else { return Ok(None) };
        if self.trials == 0 || self.lattice.len() > 1 || self.period.0.len() > 1 {
            return Err(Usage(PlotError::Unfit.to_string()).into());
        }
        Ok(Some(Destination::begin(file, self.overwrite)?))
    }
}

/// The exit code, and on standard error why it is not 0.
fn judge(report: &Report) -> Outcome {
    for Judged { report: it, .. } in &report.campaigns {
        let why = [
            (it.undetected > 0, "faults were missed"),
            (it.false_reports > 0, "healthy things were called broken"),
            (!it.is_in_time(), "faults were known later than the limits allow"),
        ];
        for (_, why) in why.into_iter().filter(|it| it.0) {
            let (lattice, mode, period) = (&it.lattice, it.mode.name(), table::span(it.period_s));
            log::say(format_args!("{lattice}, {mode}, T = {period}: {why}"));
        }
    }
    if report.quiet.iter().any(|it| it.false_reports > 0) {
        log::say(format_args!("without faults, healthy things were called broken"));
    }
    if report.sound && report.in_time { Outcome::Ok } else { Outcome::NotVerified }
}

/// Runs all campaigns; what was done, and the number of a signal that ended it.
fn measure(arguments: &Arguments) -> anyhow::Result<(Report, Option<i32>)> {
    let campaigns = campaigns(arguments);
    let name = |it: &Watched| format!("{}, {}", it.lattice, it.mode.name());
    let named: Vec<_> = campaigns.iter().map(|it| (name(&it.machine), *it)).collect();
    let trials::Done { reports, mut signal } = trials::run(&named)?;
    let judged = |(campaign, report): (&Campaign, Option<CampaignReport>)| {
        let command = |trial| command(arguments, campaign, trial);
        Some(Judged::new(report?, campaign.trials, |it| &it.failures, command))
    };
    let campaigns: Vec<_> = campaigns.iter().zip(reports).filter_map(judged).collect();
    let mut quiet = Vec::new();
    if arguments.hours > 0.0 && signal.is_none() {
        let hours = machines(arguments).into_iter().map(|machine| {
            let quiet = Quiet { machine, hours: arguments.hours };
            (format!("{}, without faults", name(&machine)), quiet)
        });
        let done = trials::run(&hours.collect::<Vec<_>>())?;
        signal = done.signal;
        quiet.extend(done.reports.into_iter().flatten());
    }
    let sound = campaigns.iter().all(|it| it.report.is_sound())
        && quiet.iter().all(|it: &QuietReport| it.false_reports == 0);
    let in_time = campaigns.iter().all(|it| it.report.is_in_time());
    Ok((Report { sound, in_time, campaigns, quiet }, signal))
}

/// The machines asked for.
fn machines(arguments: &Arguments) -> Vec<Watched> {
    let jitter = Jitter { period: arguments.jitter, late_max: arguments.late, ..Jitter::default() };
    let service_loss = arguments.service_loss;
    let surroundings = Surroundings { jitter, service_loss, ..Surroundings::default() };
    let surroundings = arguments.hardship.harden(surroundings);
    let (seed, threads) = (arguments.seed, arguments.threads.into());
    let mut machines = Vec::new();
    for &lattice in &arguments.lattice {
        for period in &arguments.period.0 {
            for &mode in arguments.mode.modes() {
                let machine = Watched::new(lattice, mode, period.ns());
                machines.push(Watched { surroundings, seed, threads, ..machine });
            }
        }
    }
    machines
}

/// The campaigns asked for.
fn campaigns(arguments: &Arguments) -> Vec<Campaign> {
    let Arguments { trials, faults, .. } = *arguments;
    let machines = machines(arguments).into_iter();
    let hardship = arguments.hardship.hardship();
    machines.map(|machine| Campaign { machine, trials, faults, hardship }).collect()
}

/// The command that runs a trial again.
fn command(arguments: &Arguments, campaign: &Campaign, trial: u64) -> String {
    let Watched { lattice, mode, period_ns, seed, .. } = campaign.machine;
    let (mode, period, faults) = (mode.name(), Span(period_ns).to_string(), campaign.faults);
    let Arguments { jitter, late, service_loss, .. } = arguments;
    format!(
        "gannet torus faults --lattice {lattice} --mode {mode} --period {} --faults {faults} \
         --jitter {jitter} --late {late} --service-loss {service_loss}{} --seed {seed} --trial {trial}",
        period.replace(' ', ""),
        arguments.hardship.options()
    )
}

/// Runs one trial for each campaign asked for, and tells what happens.
fn replay(arguments: &Arguments, index: u64) -> anyhow::Result<Outcome> {
    let mut sound = true;
    for campaign in campaigns(arguments) {
        let command = command(arguments, &campaign, index);
        let result = trials::replay(&campaign, index, &command, "")?;
        let failures = [&result.undetected, &result.false_reports, &result.late];
        sound &= failures.iter().all(|it| it.is_empty());
        output::print(|out| table::end_of_trial(out, &result))?;
    }
    Ok(if sound { Outcome::Ok } else { Outcome::NotVerified })
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
