//! `gannet demo`: the whole way from front end to file, on this machine.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use gannet_control::config::{self, Plan};
use gannet_control::detector::{Comparison, Detector};
use gannet_control::emulation::{
    EmulationError, EmulationReport, EventSink, Playing, RoleReport, Target,
};
use gannet_control::run::Run;
use gannet_control::snapshot::Figure;
use gannet_control::watch::Watch;

use crate::display::LiveDisplay;
use crate::exit::Outcome;
use crate::output::{self, grouped};
use crate::report::Report;
use crate::serving::{self, Listeners};
use crate::signals::Signals;
use crate::{Detectors, detector, live};

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
    /// Show no panel while the run goes on.
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
    plan.settings.web.listen = (!arguments.no_web && !arguments.quiet).then_some(serving::PAGES);
    plan.settings.web.control.get_or_insert(true);
    plan.plays_front_end = true;
    let listeners = Listeners::open(&plan, "demo.toml")?;
    let mut display = LiveDisplay::open(arguments.quiet);
    let run = super::run::configure(&plan, &mut display)?;
    let figures = run.figures();
    let watch = Watch::start(move || Arc::clone(&figures), &plan)?;
    let serving = listeners.serve(&run, watch.watched(), &mut display)?;
    // To make what it sends may take a while, in which no stream is to be told silent.
    let front_end = plan.detector.front_end()?;
    run.start()?;
    // Whom the answers go to. A port that is taken costs the demonstration a line, no more.
    let mut played = Vec::new();
    for (name, listen, role) in plan.detector.roles() {
        match Playing::start(listen, role) {
            Ok(playing) => played.push((name, playing)),
            Err(error) => display.note(&format!("{name} is not played: {error}")),
        }
    }
    let truth = Truth::of(&plan);
    let emulation = front_end.start(&target(&plan, &run)?, truth.sink())?;
    let begin = Instant::now();
    let mut is_prolonged = false;
    super::run::announce(&mut display, &plan, &run);
    let end = live::watch(&run, &mut display, &signals, |display| {
        let is_over = begin.elapsed() >= arguments.seconds;
        if is_over && serving.is_looked_at() && !is_prolonged {
            is_prolonged = true;
            display.note("a browser looks on: this goes on until it leaves, or Ctrl-C");
        }
        is_over && !serving.is_looked_at()
    });
    emulation.stop();
    let sent = emulation.join()?;
    let report = live::drain(run, display, &signals);
    let played: Vec<_> =
        played.into_iter().map(|(name, playing)| stop(name, playing)).collect::<Result<_, _>>()?;
    let found = truth.compare(&sent, &report)?;
    match arguments.json {
        true => output::json(&serde_json::json!({
            "readout": report, "front_end": sent, "played": played, "put_in_and_found": found
        }))?,
        false => print(&report, &sent, &found, &played, arguments.detector.as_deref())?,
    }
    report.outcome(end)
}

/// What somebody was sent who was played.
fn stop(
    name: &'static str,
    playing: Playing,
) -> Result<(&'static str, RoleReport), EmulationError> {
    playing.stop();
    Ok((name, playing.join()?))
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

/// Where the front end sends, held back to what the kernel gives the readout's sockets.
fn target(plan: &Plan, run: &Run) -> anyhow::Result<Target> {
    let to = *run.addresses().first().context("the readout has no socket")?;
    Ok(Target {
        receivers: vec![to.into(); plan.detector.emulated().len()],
        frames: None,
        flow_control: Some(run.flow_control()),
        faults: run.faults().map(|faults| faults.switch()),
    })
}

/// What compares what was put in with what is found, while it is told what was put in.
#[derive(Clone)]
struct Truth(Arc<Mutex<Option<Box<dyn Comparison>>>>);

impl Truth {
    fn of(plan: &Plan) -> Self {
        Self(Arc::new(Mutex::new(plan.detector.comparison())))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Comparison>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be told of each event, if it wants to know.
    fn sink(&self) -> Option<EventSink> {
        let wants_events = self.lock().as_ref().is_some_and(|truth| truth.wants_events());
        let truth = self.clone();
        let sink: EventSink = Box::new(move |event| {
            truth.lock().iter_mut().for_each(|truth| truth.put_in(event));
        });
        wants_events.then_some(sink)
    }

    fn compare(&self, sent: &EmulationReport, report: &Report) -> anyhow::Result<Vec<Figure>> {
        let figures = self.lock().as_ref().map(|truth| truth.compare(sent, &report.snapshot));
        figures.transpose().map(Option::unwrap_or_default).map_err(anyhow::Error::msg)
    }
}

/// Prints what happened, and what to try next.
fn print(
    report: &Report,
    sent: &EmulationReport,
    found: &[Figure],
    played: &[(&str, RoleReport)],
    detector: Option<&str>,
) -> anyhow::Result<()> {
    report.print()?;
    for (name, told) in played {
        let figures =
            told.figures.iter().map(|(figure, count)| format!("{} {figure}", grouped(*count)));
        output::text(&format!("{name}: {}\n", figures.collect::<Vec<_>>().join(", ")))?;
    }
    output::print(|out| print_next(out, report, sent, found, detector))
}

fn print_next(
    out: &mut impl Write,
    report: &Report,
    sent: &EmulationReport,
    found: &[Figure],
    detector: Option<&str>,
) -> io::Result<()> {
    writeln!(out, "front end: {} frames sent", grouped(sent.datagrams_taken()))?;
    match found {
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
