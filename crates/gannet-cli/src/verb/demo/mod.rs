//! `gannet demo`: the whole way from front end to file, on this machine.

mod players;

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use gannet_control::config::{self, Plan};
use gannet_control::detector::Detector;
use gannet_control::station::Station;

use crate::exit::Outcome;
use crate::live::{Stay, Teller, Watch};
use crate::output::{self, grouped};
use crate::report::Report;
use crate::serving::{self, Listeners};
use crate::signals::Signals;
use crate::{Detectors, detector};
use players::{Played, Players};

/// Shows everything at once: an emulated front end, UDP over loopback, what a detector finds in its
/// data, its trigger, records and files. Needs no rights, no network card and no set-up.
///
/// Example: gannet demo --seconds 10
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Stop after this time.
    #[arg(long, default_value = "20", value_parser = output::seconds)]
    seconds: Duration,
    /// Directory for the files; created if it does not exist.
    #[arg(long, default_value = "gannet-demo")]
    directory: PathBuf,
    /// The detector that is demonstrated, by its name or the begin of a word of it, such as `rich` or `km3`; the first that the
    /// program knows when absent.
    #[arg(long, value_name = "NAME")]
    detector: Option<String>,
    /// Print the configuration and exit: a starting point for your own.
    #[arg(long)]
    print_config: bool,
    /// Show no panel while the run goes on; the address for browsers is still printed.
    #[arg(short, long)]
    quiet: bool,
    /// Show nothing in browsers.
    #[arg(long)]
    no_web: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments, detectors: Detectors) -> anyhow::Result<Outcome> {
    let detector = detector(arguments.detector.as_deref(), detectors)?;
    if arguments.print_config {
        output::text(detector.demonstration())?;
        return Ok(Outcome::Ok);
    }
    let signals = Signals::install()?;
    let directory = &arguments.directory;
    fs::create_dir_all(directory).with_context(|| {
        format!("cannot make {}; choose another --directory", directory.display())
    })?;
    let mut plan = plan(detector, directory)?;
    plan.settings.web.listen = (!arguments.no_web).then_some(serving::PAGES);
    plan.settings.web.control.get_or_insert(true);
    plan.plays_front_end = true;
    let listeners = Listeners::open(&plan, "demo.toml")?;
    let (teller, heard) = Teller::new();
    let played = Arc::<Mutex<Option<Played>>>::default();
    let crew = Players::new(plan.clone(), teller, Arc::clone(&played));
    let station = Arc::new(Station::new(plan.clone(), crew)?);
    let (quiet, stay) = (arguments.quiet, Stay::WhileLookedAt);
    let watch = Watch::new((&station, &plan, heard), &signals, listeners, stay, quiet);
    let mut is_prolonged = false;
    watch.all(
        |display, elapsed, is_looked_at| {
            let is_over = elapsed >= arguments.seconds;
            if is_over && is_looked_at && !is_prolonged {
                is_prolonged = true;
                display.note("a browser looks on: this goes on until it leaves, or Ctrl-C");
            }
            is_over && !is_looked_at
        },
        |report| {
            let played = played.lock().unwrap_or_else(PoisonError::into_inner).take();
            match (played, arguments.json) {
                (Some(Played { sent, roles, found }), true) => output::json(&serde_json::json!({
                    "readout": report, "front_end": sent, "played": roles, "put_in_and_found": found
                })),
                (Some(played), false) => print(report, &played, arguments.detector.as_deref()),
                // It was stopped before anything was sent.
                (None, true) => output::json(&serde_json::json!({ "readout": report })),
                (None, false) => report.print(),
            }
        },
    )
}

/// The built-in configuration with the files in `directory`, on any free port.
fn plan(detector: &dyn Detector, directory: &Path) -> anyhow::Result<Plan> {
    let mut plan =
        config::parse("demo.toml", detector.demonstration(), Path::new("."), &[detector])?;
    plan.settings.recorder.directory = directory.into();
    for source in &mut plan.sources {
        if let config::SourceInput::Udp(udp) = &mut source.input {
            udp.listen.iter_mut().for_each(|address| address.set_port(0));
        }
    }
    Ok(plan)
}

/// Prints what happened, and what to try next.
fn print(report: &Report, played: &Played, detector: Option<&str>) -> anyhow::Result<()> {
    report.print()?;
    for (name, told) in &played.roles {
        let figures =
            told.figures.iter().map(|(figure, count)| format!("{} {figure}", grouped(*count)));
        output::text(&format!("{name}: {}\n", figures.collect::<Vec<_>>().join(", ")))?;
    }
    output::print(|out| print_next(out, report, played, detector))
}

fn print_next(
    out: &mut impl Write,
    report: &Report,
    Played { sent, found, .. }: &Played,
    detector: Option<&str>,
) -> io::Result<()> {
    writeln!(out, "front end: {} frames sent", grouped(sent.datagrams_taken()))?;
    match &found[..] {
        [] if sent.truth.events.is_empty() => (),
        [] => writeln!(out, "made: {}", output::kinds(&sent.truth.events))?,
        figures => {
            writeln!(out, "put in, and found")?;
            for own in figures {
                writeln!(out, "  {}", output::figure(own, 22, 15))?;
            }
        }
    }
    writeln!(out, "\nnext:")?;
    let program = program();
    let recorder = &report.snapshot.recorder;
    match (recorder.exports.first(), recorder.files.first()) {
        (Some(export), _) if recorder.records > 0 => {
            writeln!(out, "  {program} inspect {} --record 1", export.display())?
        }
        (Some(export), _) => writeln!(out, "  {program} inspect {}", export.display())?,
        (None, Some(log)) => writeln!(out, "  {program} inspect {}", log.display())?,
        (None, None) => (),
    }
    let detector = detector.map_or_else(String::new, |name| format!(" --detector {name}"));
    writeln!(
        out,
        "  {program} demo{detector} --print-config > my.toml && {program} check my.toml"
    )?;
    writeln!(
        out,
        "  {program} run my.toml      and, in another terminal, {program} emulate my.toml"
    )
}

/// The name by which this program was called.
fn program() -> String {
    let called = env::args_os().next().map(PathBuf::from);
    let name = called.as_deref().and_then(Path::file_name);
    name.map_or_else(|| "gannet".into(), |name| name.to_string_lossy().into_owned())
}
