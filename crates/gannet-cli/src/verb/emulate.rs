//! `gannet emulate`: be the front end.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use gannet_control::config::{self, Plan};
use gannet_control::emulation::{
    self, Emulation, EmulationError, EmulationReport, EventFile, Target, unix_ticks,
};
use gannet_emulate::tpc::TpcFrontEnd;
use gannet_emulate::{FrontEnd, StreamTruth};
use gannet_log::files::is_same_file;
use gannet_wire::daq_ethernet::CLOCK;
use gannet_wire::{ChannelMap, GeoId};

use crate::exit::{Outcome, Usage};
use crate::signals::Signals;
use crate::{output, sending};

/// Sends the frames that the `[emulate]` table of a configuration describes.
///
/// Each stream goes to the source of the same configuration that expects it, or all of them to one
/// address. Exit code 3 when the network did not accept all frames.
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

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let plan = config::load(&arguments.file)?;
    let front_end = front_end(&plan)?;
    let addresses = match arguments.to {
        Some(address) => vec![address; front_end.streams().len()],
        None => emulation::addresses(&plan, &front_end)?,
    };
    let inputs = [Some(&arguments.file), plan.config.channel_map.as_ref()];
    keep_inputs(arguments, inputs.into_iter().flatten())?;
    let hits = arguments.hits.as_ref().map(|path| {
        EventFile::create(path).with_context(|| format!("cannot write {}", path.display()))
    });
    let hits = hits.transpose()?;
    if arguments.wait && !sending::wait_for_listeners(&addresses, &signals)? {
        return Ok(signals.received().map_or(Outcome::Ok, Outcome::Interrupted));
    }
    let target = Target { addresses, frames: arguments.frames, flow_control: None };
    let events = hits.as_ref().map(EventFile::sink);
    let running = Emulation::start(front_end, &plan.config.emulate.settings(), &target, events)?;
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
    Ok(match signals.received() {
        Some(signal) => Outcome::Interrupted(signal),
        None if report.datagrams_unsent() > 0 => Outcome::Degraded,
        None => Outcome::Ok,
    })
}

/// The front end of the `[emulate]` table.
///
/// Its channels are those of the plan, so that a receiver with the same configuration agrees about
/// them. Without a configured map, streams that no source has get a synthetic one.
fn front_end(plan: &Plan) -> anyhow::Result<TpcFrontEnd> {
    let config = &plan.config.emulate;
    let streams = config.streams.geo_ids();
    let known = |stream: &GeoId| plan.channel_map.stream(*stream).is_some();
    let map = match plan.config.channel_map.is_some() || streams.iter().all(known) {
        true => plan.channel_map.clone(),
        false => ChannelMap::synthetic(&streams)?,
    };
    let front_end = TpcFrontEnd::new(config, &map, unix_ticks(CLOCK));
    Ok(front_end.map_err(EmulationError::from)?)
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
    let events = truth.events.iter().map(|(kind, count)| format!("{kind} {count}"));
    let events = events.collect::<Vec<_>>().join(", ");
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
