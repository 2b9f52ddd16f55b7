//! `gannet run`: take data.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::config::{self, Plan, Role};
use gannet_control::doctor::{System, file_size_doubt, memory_doubt};
use gannet_control::run::{Run, RunError};
use gannet_control::run_control::State;
use gannet_control::watch::Watch;
use gannet_measure::quantity::Bytes;

use crate::Detectors;
use crate::display::LiveDisplay;
use crate::exit::{Outcome, Usage};
use crate::ready::Readiness;
use crate::report::End;
use crate::serving::{self, Listeners};
use crate::signals::Signals;
use crate::{live, output};

/// Time between two looks whether the builder is there.
const LOOK: Duration = Duration::from_millis(20);

/// Takes data as a configuration describes, until its duration is over, its files are read, or a
/// signal asks to stop.
///
/// Ctrl-C, SIGTERM, and SIGHUP when the terminal is gone, drain the run: nothing that was taken is
/// lost. A second signal says what the drain is waiting for; a third cuts it short: the log is
/// closed with what is written, and the rest is counted as lost.
///
/// systemd is notified once frames are taken (`Type=notify`). Exit code 3 when anything was lost or
/// no frame came, 5 when nothing can be recorded, and 129, 130 or 143 after SIGHUP, Ctrl-C or
/// SIGTERM.
///
/// A run may be several processes, on one host or many, with one configuration, whose `[builder]` says where they meet:
/// `--role readout` takes frames and finds what is in them, `--role builder` decides and records. There is one builder,
/// and as many readouts as there are hosts where links end, each of which takes the frames of the sources that `--source`
/// names. They find each other, and go on without one that is gone; what is lost is counted.
///
/// Example: gannet run detector.toml --seconds 60
///
/// Example: gannet run detector.toml --role readout --source north,south
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration file.
    file: PathBuf,
    /// Run number; the default is the one in the configuration, or the next one.
    #[arg(long)]
    run: Option<u32>,
    /// Stop after this time, instead of the duration in the configuration.
    #[arg(long, value_parser = output::seconds)]
    seconds: Option<Duration>,
    /// Which part of the run this process is.
    #[arg(long, value_enum, default_value_t)]
    role: Part,
    /// Sources whose frames this readout takes, by their names in the configuration; the default is all. Once or more often.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    source: Vec<String>,
    /// Address of the HTTP server with the metrics, instead of that in the configuration.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Show the run in browsers, at this address; without one at that in the configuration, or else at a free port of
    /// this machine.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true)]
    web: Option<Option<SocketAddr>>,
    /// Write a line to this file descriptor and close it when frames are taken.
    #[arg(long, value_name = "N")]
    ready_fd: Option<i32>,
    /// Take data without recording them.
    #[arg(long)]
    no_record: bool,
    /// Show no panel while the run goes on.
    #[arg(short, long)]
    quiet: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// All of it, in one process
    #[default]
    All,
    /// Takes frames, and finds what is in them
    Readout,
    /// Decides, builds records and writes them
    Builder,
}

impl From<Part> for Role {
    fn from(part: Part) -> Self {
        match part {
            Part::All => Self::All,
            Part::Readout => Self::Readout,
            Part::Builder => Self::Builder,
        }
    }
}

pub fn run(arguments: &Arguments, detectors: Detectors) -> anyhow::Result<Outcome> {
    let readiness = Readiness::new(arguments.ready_fd)?;
    let signals = Signals::install()?;
    let mut plan = config::load(&arguments.file, detectors)?;
    let file = arguments.file.display().to_string();
    plan.require_sources(&file)?;
    plan.take_role(arguments.role.into(), &file)?;
    take_sources(&mut plan, arguments)?;
    serving::take_addresses(&mut plan, arguments.metrics, arguments.web)?;
    plan.settings.run.number = arguments.run.or(plan.settings.run.number);
    plan.settings.recorder.enabled &= !arguments.no_record;
    let duration = arguments.seconds.or(plan.settings.run.duration.map(|span| span.duration()));
    let system = System::default();
    let doubts = [memory_doubt(&system, &plan), file_size_doubt(&system, &plan)];
    plan.doubts().iter().chain(doubts.iter().flatten()).for_each(|doubt| tracing::warn!("{doubt}"));
    let listeners = Listeners::open(&plan, &file)?;
    let mut display = LiveDisplay::open(arguments.quiet);
    let run = configure(&plan, &mut display)?;
    let figures = run.figures();
    let watch = Watch::start(move || Arc::clone(&figures), &plan)?;
    let _serving = listeners.serve(&run, watch.watched(), run.faults(), &mut display)?;
    let end = match wait_for_builder(&plan, &run, &mut display, &signals) {
        Some(end) => end,
        None => {
            run.start()?;
            readiness.announce(&running(&plan, &run));
            let until = duration.map(|duration| Instant::now() + duration);
            announce(&mut display, &plan, &run);
            live::watch(&run, &mut display, &signals, |_| {
                until.is_some_and(|it| Instant::now() >= it)
            })
        }
    };
    let report = live::drain(run, display, &signals);
    match arguments.json {
        true => output::json(&report)?,
        false => report.print()?,
    }
    report.outcome(end)
}

/// Lets a readout take the frames of the named sources only.
fn take_sources(plan: &mut Plan, arguments: &Arguments) -> Result<(), Usage> {
    match (arguments.role, &arguments.source[..]) {
        (_, []) => Ok(()),
        (Part::Readout, names) => {
            plan.take_sources(names).map_err(|error| Usage(format!("--source: {error}")))
        }
        _ => Err(Usage("--source is for `--role readout`: other parts have all sources".into())),
    }
}

/// Waits until a readout has found its builder; gives why it ends, if it has to end before.
fn wait_for_builder(
    plan: &Plan,
    run: &Run,
    display: &mut LiveDisplay,
    signals: &Signals,
) -> Option<End> {
    if plan.role != Role::Readout {
        return None;
    }
    let others = plan.others().map(|others| format!(", and for readouts of {others}"));
    let (builder, others) = (&plan.settings.builder.listen, others.unwrap_or_default());
    display.note(&format!("waiting for the builder at {builder}{others}"));
    while run.joined() == Some(false) {
        if let Some(signal) = signals.received() {
            return Some(End::Signal(signal));
        }
        if run.state() == State::Error {
            return Some(End::Over);
        }
        thread::sleep(LOOK);
    }
    None
}

/// Sets the run up; its memory may take seconds to be had.
pub fn configure(plan: &Plan, display: &mut LiveDisplay) -> Result<Run, RunError> {
    if plan.role == Role::Builder {
        return Run::configure(plan);
    }
    let memory = Bytes(plan.forecast.memory_bytes >> 20 << 20);
    display.note(&format!("allocating {memory} for the last {:.2} s", plan.forecast.depth_s));
    Run::configure(plan)
}

/// Says what was set up, and what it falls short of.
pub fn announce(display: &mut LiveDisplay, plan: &Plan, run: &Run) {
    let snapshot = run.snapshot();
    for source in &snapshot.sources {
        let cpu = source.cpu.map(|cpu| format!(", on CPU {cpu}")).unwrap_or_default();
        display.note(&format!("{}: {}{cpu}", source.name, source.engine));
    }
    if let Some(socket) = run.control_socket() {
        display.note(&format!("socket for `gannet ctl`: {}", socket.display()));
    }
    display.note(&running(plan, run));
}

/// That the run takes frames, in one line.
fn running(plan: &Plan, run: &Run) -> String {
    let (number, streams) = (run.snapshot().run, plan.forecast.streams);
    let recorder = &plan.settings.recorder;
    let files = match recorder.enabled {
        true => format!("files in {}", recorder.directory.display()),
        false => "nothing is recorded".into(),
    };
    let part = match plan.role {
        Role::All => "",
        Role::Readout => "readout of ",
        Role::Builder => "builder of ",
    };
    format!("{part}run {number} is running: {streams} streams, {files}")
}
