//! `gannet bench cable`: what do cables of the torus carry between two nodes?

use std::io::{self, Write};
use std::time::Duration;

use gannet_evaluate::Medium;
use gannet_evaluate::cable::{self, BYTES_MAX, CablePlan, CableRow, HOPS_MAX};
use gannet_evaluate::hop::FRAME_BYTES_MAX;

use crate::exit::Outcome;
use crate::output;

/// Bytes that are measured, if not asked otherwise.
const SIZES: &str = "8,4096,65536,1048576";

/// Measures PUTs between two nodes of the torus that UDP joins, each on a processor of its own, or by way of
/// others.
///
/// Beside each figure stands plain UDP: datagrams as long as a frame of the cable, or as the
/// PUT if that is shorter, 32 of them under way, nothing mended, passed on by a plain relay for each node between. `plain` gives the kernel
/// one datagram with each call, of which the other end counts each; `limit` up to 16, as cables do, which are counted together. Over one hop nodes
/// and plain UDP look for datagrams without pause, on the same two processors; over more, all threads sleep while none come, and the system chooses their
/// processors.
/// `rate` is of bytes that are acknowledged, `half trip` from a PUT to the completion of the answer to it, halved. Medians of
/// seven repeats.
///
/// The nodes, and the ends and relays of plain UDP, are on one host, joined by the loopback interface, or with --namespaces each in a network
/// namespace of its own, joined by virtual cables, which only root can lay.
///
/// Example: gannet bench cable --bytes 8,65536 --frame-bytes 1472
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Bytes of a PUT, for each measurement, separated by commas.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = SIZES,
          value_parser = clap::value_parser!(u64).range(1..=BYTES_MAX))]
    bytes: Vec<u64>,
    /// Hops from one node to the other.
    #[arg(long, value_name = "N", default_value = "1",
          value_parser = clap::value_parser!(u64).range(1..=HOPS_MAX as u64))]
    hops: u64,
    /// Join nodes by virtual cables between network namespaces instead of the loopback interface.
    #[arg(long)]
    namespaces: bool,
    /// Longest frame, bytes.
    #[arg(long, value_name = "N", default_value = "8972",
          value_parser = clap::value_parser!(u64).range(576..=FRAME_BYTES_MAX as u64))]
    frame_bytes: u64,
    /// Length of a repeat of each figure.
    #[arg(long, default_value = "0.1", value_name = "S", value_parser = output::seconds)]
    seconds: Duration,
    /// Print the measurements as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let rows = cable::measure(&CablePlan {
        bytes: arguments.bytes.clone(),
        hops: arguments.hops as usize,
        medium: if arguments.namespaces { Medium::Namespaces } else { Medium::Loopback },
        frame_bytes: arguments.frame_bytes as usize,
        time: arguments.seconds,
    })?;
    match arguments.json {
        true => output::json(&rows)?,
        false => output::print(|out| print(out, &rows))?,
    }
    Ok(Outcome::Ok)
}

fn print(out: &mut impl Write, rows: &[CableRow]) -> io::Result<()> {
    writeln!(
        out,
        "{:>9} {:>8} {:>8} {:>6} {:>8} {:>6} {:>13} {:>9} {:>6}",
        "bytes", "Gbit/s", "plain", "ratio", "limit", "ratio", "half trip us", "plain", "ratio"
    )?;
    rows.iter().try_for_each(|row| {
        writeln!(
            out,
            "{:>9} {:>8.3} {:>8.3} {:>6.2} {:>8.3} {:>6.2} {:>13.1} {:>9.1} {:>6.2}",
            row.bytes,
            row.gbit_per_s,
            row.plain_gbit_per_s,
            row.plain_ratio,
            row.limit_gbit_per_s,
            row.limit_ratio,
            row.half_trip_ns / 1e3,
            row.limit_half_trip_ns / 1e3,
            row.trip_ratio
        )
    })?;
    let processors = rows.first().map_or(0, |row| row.processors);
    writeln!(out, "\nprocessors: {processors}")
}
