//! `gannet bench ingest`: how many frames a second arrive without loss?

use std::io::{self, Write};
use std::time::Duration;

use gannet_evaluate::ingest::{
    self, Cost, Floor, IngestConfig, IngestReport, LimitedBy, SOCKETS_MAX, STREAMS_MAX, Step,
};
use gannet_ingest::udp::Engine;

use crate::exit::Outcome;
use crate::log;
use crate::output::{self, grouped};

/// Finds the highest rate at which one core receives frames over loopback UDP without loss, reading
/// every byte.
///
/// The rates of copying and of reading memory, measured in the same run, are printed next to it; so
/// is what the sender can do alone. The cost of a frame is compared, in turn and at 0.8 of the rate
/// found, with that of a bare loop that receives coalesced messages and reads every byte, and of one
/// that looks at nothing.
///
/// Sender and receivers need a core each, and stay on it where that is permitted. What limits is
/// said of a thread only if it had its core; on a busy machine the figures mean little. Takes about
/// 40 seconds.
///
/// Example: gannet bench ingest --engine recvmmsg
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// How datagrams are taken from the kernel: auto, recvmsg or recvmmsg.
    #[arg(long, default_value = "auto", value_parser = engine)]
    engine: Engine,
    /// Length of a trial. The search makes two to four of each of about ten rates, and confirms the
    /// result by trials twice as long.
    #[arg(long, default_value = "0.6", value_name = "S", value_parser = output::seconds)]
    seconds_per_step: Duration,
    /// Number of streams that share the rate.
    #[arg(long, default_value = "16", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=STREAMS_MAX as i64))]
    streams: u16,
    /// Number of sockets of the address, each with a thread of its own. With several, each stream
    /// has a sender of its own, by which the kernel chooses the socket.
    #[arg(long, default_value = "1", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=SOCKETS_MAX as i64))]
    sockets: u16,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn engine(name: &str) -> Result<Engine, String> {
    match name {
        "auto" => Ok(Engine::Auto),
        "recvmsg" => Ok(Engine::Recvmsg),
        "recvmmsg" => Ok(Engine::Recvmmsg),
        _ => Err("use one of: auto, recvmsg, recvmmsg".to_owned()),
    }
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let config = IngestConfig {
        engine: arguments.engine,
        streams: arguments.streams.into(),
        sockets: arguments.sockets.into(),
        trial: arguments.seconds_per_step,
    };
    let report = ingest::measure(&config, &mut progress)?;
    match arguments.json {
        true => output::json(&report)?,
        false => output::print(|out| print(out, &report))?,
    }
    Ok(Outcome::Ok)
}

fn progress(step: &Step) {
    let asked = match step.asked_hz {
        Some(hz) => format!("{:.3} Mframe/s asked", hz * 1e-6),
        None => "no pause".to_owned(),
    };
    let stage = format!("{:?}", step.stage).to_lowercase();
    let again = if step.counts { "" } else { "; a thread had no core, so again" };
    log::say(format_args!(
        "{stage:<9} {asked}, {:.3} sent, {} lost of {}{again}",
        step.reached_hz * 1e-6,
        grouped(step.lost),
        grouped(step.sent)
    ));
}

fn print(out: &mut impl Write, report: &IngestReport) -> io::Result<()> {
    let mut row = |name: &str, value: String| writeln!(out, "{name:<24} {value}");
    let buffer = report.kernel_buffer_bytes >> 10;
    row("engine", format!("{}, {buffer} KiB of kernel memory", report.engine))?;
    let (rate, gbit) = (report.loss_free_frames_per_s * 1e-6, report.loss_free_gbit_per_s);
    let maximum = match rate > 0.0 {
        true => format!("{rate:.3} Mframe/s, {gbit:.1} Gbit/s"),
        false => "none: frames were lost at every rate; is the machine busy?".to_owned(),
    };
    row("loss-free maximum", maximum)?;
    row("limited by", limited_by(report.limited_by).to_owned())?;
    let cycles = match report.cycles_per_frame {
        Some(cycles) => format!("{cycles:.0} cycles of the time-stamp counter"),
        None => "cycles cannot be read here".to_owned(),
    };
    row("cost of a frame", format!("{:.0} ns, {cycles}", report.ns_per_frame))?;
    if let [_, _, ..] = report.socket_frames[..] {
        let frames: Vec<String> = report.socket_frames.iter().map(|one| grouped(*one)).collect();
        row("frames by socket", format!("{}, in the last trial", frames.join(", ")))?;
    }
    if let Some(floor) = &report.floor {
        floor_rows(floor, &mut row)?;
    }
    let alone = report.sender_alone_frames_per_s * 1e-6;
    row("sender alone", format!("{alone:.3} Mframe/s, to a socket that nobody reads"))?;
    let saturated = report.saturated_frames_per_s * 1e-6;
    let loss = 100.0 * report.saturated_loss;
    row("sender unpaced", format!("{saturated:.3} Mframe/s received, {loss:.1} % lost"))?;
    let (copy, read) = (report.copy_limit_gbit_per_s, report.read_limit_gbit_per_s);
    row("limit: copying frames", format!("{copy:.1} Gbit/s; reached {:.2} of it", report.ratio))?;
    row("limit: reading memory", format!("{read:.1} Gbit/s; reached {:.2} of it", gbit / read))?;
    if !report.pinned {
        row("note", "sender and receivers did not have a core each to stay on".to_owned())?;
    }
    Ok(())
}

fn limited_by(limited_by: LimitedBy) -> &'static str {
    match limited_by {
        LimitedBy::Receiver => "the receiver: at higher rates it lost frames",
        LimitedBy::Sender => "the sender: asked for more it sent no faster, and nothing was lost",
        LimitedBy::Machine => {
            "the machine: at higher rates a thread had no core for part of the time"
        }
        LimitedBy::Search => "the search: no higher rate is tried",
    }
}

/// The cost of a frame beside that of bare loops.
fn floor_rows(
    floor: &Floor,
    row: &mut impl FnMut(&str, String) -> io::Result<()>,
) -> io::Result<()> {
    let cost = |Cost { ns_per_frame, lowest, highest }: Cost| {
        format!("{ns_per_frame:.0} ns a frame ({lowest:.0} to {highest:.0})")
    };
    let (rate, passes) = (floor.asked_hz * 1e-6, floor.passes);
    row(
        &format!("at {rate:.3} Mframe/s"),
        format!("{}, medians of {passes} in turn", cost(floor.path)),
    )?;
    let (reading, blind) = (cost(floor.reading), cost(floor.blind));
    let (over_reading, over_blind) = (floor.path_over_reading, floor.path_over_blind);
    row("bare loop, all bytes", format!("{reading}; {over_reading:.2} times that"))?;
    row("bare loop, no byte", format!("{blind}; {over_blind:.2} times that"))
}
