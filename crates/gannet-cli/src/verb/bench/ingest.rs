//! `gannet bench ingest`: how many frames a second arrive without loss?

use std::io::{self, Write};
use std::time::Duration;

use gannet_evaluate::ingest::{self, IngestConfig, IngestReport, STREAMS_MAX, Step};
use gannet_ingest::udp::Engine;

use crate::exit::Outcome;
use crate::log;
use crate::output::{self, grouped};

/// Finds the highest rate at which one core receives frames over loopback UDP without loss, reading
/// every byte.
///
/// The rates of copying and of reading memory, measured in the same run, are printed next to it.
/// Sender and receiver need a core each: on a busy machine the figures mean little. Takes about 20
/// seconds.
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
    /// Number of streams that share the rate, all sent to one socket.
    #[arg(long, default_value = "16", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=STREAMS_MAX as i64))]
    streams: u16,
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
    log::say(format_args!(
        "{stage:<9} {asked}, {:.3} sent, {} lost of {}",
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
    if report.sender_limited {
        row(
            "",
            "the sender limits: asked for more it sent no faster, and nothing was lost".to_owned(),
        )?;
    }
    let cycles = match report.cycles_per_frame {
        Some(cycles) => format!("{cycles:.0} cycles of the time-stamp counter"),
        None => "cycles cannot be read here".to_owned(),
    };
    row("cost of a frame", format!("{:.0} ns, {cycles}", report.ns_per_frame))?;
    let saturated = report.saturated_frames_per_s * 1e-6;
    let loss = 100.0 * report.saturated_loss;
    row("sender unpaced", format!("{saturated:.3} Mframe/s received, {loss:.1} % lost"))?;
    let (copy, read) = (report.copy_limit_gbit_per_s, report.read_limit_gbit_per_s);
    row("limit: copying frames", format!("{copy:.1} Gbit/s; reached {:.2} of it", report.ratio))?;
    row("limit: reading memory", format!("{read:.1} Gbit/s; reached {:.2} of it", gbit / read))
}
