//! `gannet bench hop`: what does a hop of the torus cost in software?

use std::io::{self, Write};
use std::time::Duration;

use gannet_evaluate::hop::{self, FRAME_BYTES_MAX, HopPlan, HopRow, PAYLOAD_LEN_MAX};

use super::names;
use crate::exit::Outcome;
use crate::output;

/// Bytes of payload that are measured, if not asked otherwise.
const SIZES: &str = "64,512,1500,4096";

/// Measures a hop of the torus in memory: both ends of a link on one core, word by word and in frames of whole packets,
/// and PUTs of 64 KiB between two nodes.
///
/// Beside each stands what hops with check sums commonly take, measured in turn with it on the same core: copying the
/// payload and then taking its CRC-32C, at each end; `ratio` is this limit by the hop, and may be more than 1 where both are done in one pass. `beside` is what is left of a packet when
/// all copies and check sums that the hop makes are taken off, which are measured in as much memory as it goes through. Times are medians of seven passes.
///
/// Example: gannet bench hop --bytes 1024,4096 --frame-bytes 8972
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Bytes of payload of a packet, for each measurement, separated by commas.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = SIZES,
          value_parser = clap::value_parser!(u64).range(1..=PAYLOAD_LEN_MAX as u64))]
    bytes: Vec<u64>,
    /// Longest frame, bytes.
    #[arg(long, value_name = "N", default_value = "8972",
          value_parser = clap::value_parser!(u64).range(4300..=FRAME_BYTES_MAX as u64))]
    frame_bytes: u64,
    /// Length of a pass.
    #[arg(long, default_value = "0.02", value_name = "S", value_parser = output::seconds)]
    seconds: Duration,
    /// Print the measurements as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let rows = hop::measure(&HopPlan {
        bytes: arguments.bytes.iter().map(|&bytes| bytes as usize).collect(),
        frame_bytes: arguments.frame_bytes as usize,
        time: arguments.seconds,
    })?;
    match arguments.json {
        true => output::json(&rows)?,
        false => output::print(|out| print(out, &rows))?,
    }
    Ok(Outcome::Ok)
}

fn print(out: &mut impl Write, rows: &[HopRow]) -> io::Result<()> {
    writeln!(
        out,
        "{:<7} {:>6} {:>9} {:>8} {:>9} {:>7} {:>10}  limit",
        "hop", "bytes", "ns", "Gbit/s", "limit ns", "ratio", "beside ns"
    )?;
    rows.iter().try_for_each(|row| {
        writeln!(
            out,
            "{:<7} {:>6} {:>9.1} {:>8.2} {:>9.1} {:>7.2} {:>10.1}  a copy and a check sum at each end",
            names::name(&row.hop),
            row.bytes,
            row.ns,
            row.gbit_per_s,
            row.limit_ns,
            row.ratio,
            row.beside_ns
        )
    })
}
