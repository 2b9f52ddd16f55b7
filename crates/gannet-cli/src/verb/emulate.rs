//! `gannet emulate`: be the front end.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use gannet_control::config::{self, Plan};
use gannet_control::emulation::{self, EmulationReport, EventFile, Playing, Target};
use gannet_emulate::StreamTruth;
use gannet_log::files::is_same_file;

use crate::Detectors;
use crate::exit::{Outcome, Usage};
use crate::output::grouped;
use crate::signals::Signals;
use crate::{log, output, sending};

/// Name of the role of the modules that take commands.
const MODULES: &str = "modules";

/// Sends the frames that the `[emulate]` table of a configuration describes.
///
/// Each stream goes to the source of the same configuration that expects it, as that source takes frames: as datagrams, by
/// RDMA WRITEs (`roce`), or by shared memory, UDP or libfabric into the ring of the readout (`fabric`). With --to all go to one
/// address, as datagrams. Exit code 3 when not all frames were accepted, also after a signal.
///
/// Example: gannet emulate detector.toml --to 127.0.0.1:7000 --seconds 5
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration file.
    file: PathBuf,
    /// Send all streams to this address, whatever the sources in the configuration say.
    #[arg(long, value_name = "ADDR")]
    to: Option<SocketAddr>,
    /// Stop after this time; without it and `--frames`, on Ctrl-C.
    #[arg(long, value_parser = output::seconds)]
    seconds: Option<std::time::Duration>,
    /// Stop after this number of frames per stream.
    #[arg(long)]
    frames: Option<u64>,
    /// Wait until something listens at each address before sending the first frame. Empty datagrams
    /// probe for it; where a firewall drops them or the replies, this does not wait.
    #[arg(long)]
    wait: bool,
    /// Play somebody else than the front end: `level0` takes the answers of a RICH trigger, `modules` are
    /// those of `[slow_control]`, which take commands and say what they applied. They listen where the
    /// configuration sends to, or at `--to`.
    #[arg(long = "as", value_name = "NAME", conflicts_with_all = ["frames", "wait", "truth", "hits"])]
    role: Option<String>,
    /// Write the truth to this file, as JSON: what was sent and which faults were injected.
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Write each track and deposit with its hits to this file, one line of JSON each.
    #[arg(long, value_name = "FILE")]
    hits: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments, detectors: Detectors) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let plan = config::load(&arguments.file, detectors)?;
    if let Some(name) = &arguments.role {
        return play(arguments, name, &plan, &signals);
    }
    let receivers = match arguments.to {
        Some(address) => vec![address.into(); plan.detector.emulated().len()],
        None => emulation::receivers(&plan)?,
    };
    let inputs = plan.detector.inputs();
    keep_inputs(arguments, inputs.iter().chain([&arguments.file]))?;
    let hits = arguments.hits.as_ref().map(|path| {
        EventFile::create(path).with_context(|| format!("cannot write {}", path.display()))
    });
    let hits = hits.transpose()?;
    if arguments.wait && !sending::wait_for_listeners(&receivers, &signals)? {
        return Ok(signals.received().map_or(Outcome::Ok, Outcome::Interrupted));
    }
    let target = Target { receivers, frames: arguments.frames, flow_control: None, faults: None };
    let running = plan.detector.front_end()?.start(&target, hits.as_ref().map(EventFile::sink))?;
    sending::watch(&running, &signals, arguments.seconds);
    let report = running.join()?;
    if let Some(path) = &arguments.truth {
        let truth = serde_json::to_vec_pretty(&report)?;
        fs::write(path, truth).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let (Some(file), Some(path)) = (hits, &arguments.hits) {
        file.finish().with_context(|| format!("cannot write {}", path.display()))?;
    }
    if arguments.json {
        output::json(&report)?;
    } else {
        output::text(&table(&report))?;
    }
    Ok(sending::outcome(report.datagrams_unsent() > 0, &signals))
}

/// Plays `name` until it is stopped, and says what came.
fn play(
    arguments: &Arguments,
    name: &str,
    plan: &Plan,
    signals: &Signals,
) -> anyhow::Result<Outcome> {
    let playing = if name == MODULES && !plan.slow_control.modules.is_empty() {
        play_modules(arguments, plan)?
    } else {
        play_role(arguments, name, plan)?
    };
    sending::watch(&playing, signals, arguments.seconds);
    let report = playing.join()?;
    if arguments.json {
        output::json(&report)?;
    } else {
        let line = |(name, count): &(String, u64)| format!("{name:<24} {:>14}\n", grouped(*count));
        output::text(&report.figures.iter().map(line).collect::<String>())?;
    }
    // It is the signal that ends it, as a rule.
    Ok(match signals.received() {
        Some(signal) => Outcome::Interrupted(signal),
        None if !report.is_sound => Outcome::Degraded,
        None => Outcome::Ok,
    })
}

/// Plays the modules of slow control, which say what they apply.
fn play_modules(arguments: &Arguments, plan: &Plan) -> anyhow::Result<Playing> {
    let is_silent = arguments.json;
    let applied = move |module: u32, key: &str, value: &str| {
        if !is_silent {
            // Whoever closed the pipe has seen enough.
            let _seen = output::text(&format!("module {module}: {key} = {value}\n"));
        }
    };
    let playing = emulation::play_modules(&plan.slow_control, arguments.to, Box::new(applied))?;
    log::say(format_args!("{} modules listen", plan.slow_control.modules.len()));
    Ok(playing)
}

/// Plays somebody whom only this detector has.
fn play_role(arguments: &Arguments, name: &str, plan: &Plan) -> anyhow::Result<Playing> {
    let mut roles = plan.detector.roles();
    let mut known: Vec<_> = roles.iter().map(|(name, ..)| *name).collect();
    let Some(place) = known.iter().position(|known| *known == name) else {
        known.extend((!plan.slow_control.modules.is_empty()).then_some(MODULES));
        let known = match known.is_empty() {
            true => format!(
                "this detector has nobody but its front end, and [slow_control] no {MODULES}"
            ),
            false => format!("this detector has {}", known.join(", ")),
        };
        return Err(Usage(format!("nobody is called {name:?} here: {known}")).into());
    };
    let (_, listen, role) = roles.swap_remove(place);
    let listen = arguments.to.unwrap_or(listen);
    let playing = Playing::start(listen, role)?;
    log::say(format_args!("{name} listens on {listen}"));
    Ok(playing)
}

/// Refuses to write over what is read, or twice to one file.
fn keep_inputs<'a>(
    arguments: &'a Arguments,
    inputs: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), Usage> {
    let mut taken: Vec<&PathBuf> = inputs.collect();
    for (option, path) in [("--truth", &arguments.truth), ("--hits", &arguments.hits)] {
        let Some(path) = path else { continue };
        if taken.iter().any(|other| is_same_file(path, other)) {
            let path = path.display();
            return Err(Usage(format!(
                "{option} {path} would replace another file of this command"
            )));
        }
        taken.push(path);
    }
    Ok(())
}

/// The report for people: a row a stream, the sum, and the figures of all.
fn table(report: &EmulationReport) -> String {
    let truth = &report.truth;
    let mut text = row(["stream", "made", "sent", "unsent", "faults"].map(str::to_owned));
    for (stream, &unsent) in truth.streams.iter().zip(&report.unsent) {
        text += &stream_row(&stream.stream, stream, unsent);
    }
    text += &stream_row("all", &truth.total(), report.datagrams_unsent());
    let pace = &report.pace;
    let aim = match pace.target_hz {
        Some(target_hz) => format!("of {target_hz:.1} aimed at"),
        None => "unpaced".into(),
    };
    text += &format!("rate       {:.1} frames/s a stream, {aim}\n", pace.reached_hz);
    text += &format!("lateness   {}\n", sending::lateness(&pace.lateness_ns));
    text += &format!("slips      {}, {:.3} s in all\n", pace.slips, pace.slipped_ns as f64 * 1e-9);
    let events = output::kinds(&truth.events);
    text += &format!("events     {}\n", if events.is_empty() { "none" } else { &events });
    if report.refused > 0 {
        text += &format!("refused    {} times: nobody listens there\n", report.refused);
    }
    text
}

fn stream_row(name: &str, truth: &StreamTruth, unsent: u64) -> String {
    let numbers = [truth.frames_made, truth.datagrams_sent - unsent, unsent, truth.faults.total()];
    let [made, sent, unsent, faults] = numbers.map(|number| number.to_string());
    row([name.to_owned(), made, sent, unsent, faults])
}

fn row([name, made, sent, unsent, faults]: [String; 5]) -> String {
    format!("{name:<16} {made:>12} {sent:>12} {unsent:>8} {faults:>8}\n")
}
