//! `gannet run`: take data.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gannet_control::config::{self, Plan, Role};
use gannet_control::doctor::{System, file_size_doubt, memory_doubt};
use gannet_control::station::Station;
use gannet_measure::quantity::Span;

use crate::Detectors;
use crate::exit::{Outcome, Usage};
use crate::live::{Alone, Stay, Teller, Watch};
use crate::output;
use crate::ready::Readiness;
use crate::serving::{self, Listeners};
use crate::signals::Signals;

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
    /// Start no run, but wait for commands, of browsers and of `gannet ctl`: each start makes the next run. A signal
    /// ends the program.
    #[arg(long)]
    station: bool,
    /// Write a line to this file descriptor and close it when frames are taken, or commands.
    #[arg(long, value_name = "N")]
    ready_fd: Option<i32>,
    /// Take data without recording them.
    #[arg(long)]
    no_record: bool,
    /// Show no panel while the run goes on; addresses for browsers are still printed.
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
    let system = System::default();
    let doubts = [memory_doubt(&system, &plan), file_size_doubt(&system, &plan)];
    plan.doubts().iter().chain(doubts.iter().flatten()).for_each(|doubt| tracing::warn!("{doubt}"));
    if let Some(seconds) = arguments.seconds {
        plan.settings.run.duration = Some(Span(seconds.as_nanos().try_into().unwrap_or(u64::MAX)));
    }
    let listeners = Listeners::open(&plan, &file)?;
    let stay = stay(arguments, &plan, &listeners)?;
    let (teller, heard) = Teller::new();
    let station = Arc::new(Station::new(plan.clone(), Alone(teller))?);
    let watch = Watch::new((&station, &plan, heard), &signals, listeners, stay, arguments.quiet);
    watch.telling(readiness).all(
        |_, _, _| false,
        |report| match arguments.json {
            true => output::json(&report),
            false => report.print(),
        },
    )
}

/// When the program ends.
fn stay(arguments: &Arguments, plan: &Plan, listeners: &Listeners) -> Result<Stay, Usage> {
    let refuse = |why: &str| Err(Usage(format!("--station: {why}")));
    match (arguments.station, listeners.control()) {
        (true, _) if plan.role != Role::All => {
            refuse("readout and builder begin and end together; leave --role out")
        }
        (true, false) => refuse(
            "nobody could start a run; set `control = true` in [web], and `listen` there or --web",
        ),
        (true, true) => Ok(Stay::Always),
        (false, true) if plan.role == Role::All => Ok(Stay::WhileLookedAt),
        (false, _) => Ok(Stay::Never),
    }
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
