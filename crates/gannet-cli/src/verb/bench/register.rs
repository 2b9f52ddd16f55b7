//! `gannet bench register`: what does it cost to make memory that far nodes may reach?

use std::io::{self, Write};
use std::time::Duration;

use gannet_evaluate::registering::{self, RegisterRow};

use super::names;
use crate::exit::Outcome;
use crate::output;

/// Bytes that are measured, if not asked otherwise.
const SIZES: &str = "4096,65536,1048576,67108864";

/// Measures what registering memory costs, step by step.
///
/// map makes shared memory with all its pages and gives it back, attach maps it once more by its descriptor, as another
/// process does, lock keeps its pages in memory and lets them go, as a driver pins them, register enters a buffer in
/// the table of those that far nodes may reach and takes it out again, and check looks at an access to a buffer that is
/// registered, which is all that is left when it is used again.
///
/// Beside each stands what the same pages allow, measured in turn with it on the same core; `ratio` is the time by this limit.
/// Times are medians of seven passes. What the system refuses is told with its reason (`ulimit -l` for lock).
///
/// Example: gannet bench register --bytes 1048576,1073741824
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Bytes of the memory, for each measurement, separated by commas.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = SIZES,
          value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    bytes: Vec<u64>,
    /// Least length of a pass of each step.
    #[arg(long, default_value = "0.02", value_name = "S", value_parser = output::seconds)]
    seconds: Duration,
    /// Print the measurements as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let rows = registering::measure(&arguments.bytes, arguments.seconds)?;
    match arguments.json {
        true => output::json(&rows)?,
        false => output::print(|out| print(out, &rows))?,
    }
    Ok(Outcome::Ok)
}

fn print(out: &mut impl Write, rows: &[RegisterRow]) -> io::Result<()> {
    writeln!(
        out,
        "{:<9} {:>11} {:>14} {:>11} {:>14} {:>7}  limit",
        "step", "bytes", "ns", "ns a page", "limit ns", "ratio"
    )?;
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.1}"));
    for row in rows {
        write!(
            out,
            "{:<9} {:>11} {:>14} {:>11} {:>14.1} {:>7}  {}",
            names::name(&row.step),
            row.bytes,
            figure(row.ns),
            figure(row.ns_per_page),
            row.limit_ns,
            figure(row.ratio),
            row.limit_is
        )?;
        match &row.refusal {
            Some(refusal) => writeln!(out, "; refused: {refusal}")?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}
