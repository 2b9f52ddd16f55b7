//! `gannet bench tlb`: what does it cost to find where a registered page lies?

use std::io::{self, Write};
use std::time::Duration;

use gannet_evaluate::translation::{self, ENTRIES_MAX, PAGES_MAX, TranslationPlan, TranslationRow};

use super::names;
use crate::exit::Outcome;
use crate::output;

/// Pages of the working sets that are measured, if not asked otherwise.
const PAGES: &str = "16,96,128,256,4096";

/// Measures how fast registered pages of 2 MiB are found: in the table of registered buffers each time, and in a
/// TLB in front of it that gives up the entry not used for longest, any, or the one in the only place of a page.
///
/// Pages are drawn at random out of a working set. Beside each look-up stands a load out of an array with an entry
/// for each page, measured in turn with it on the same core; `ratio` is the look-up by this load. Times are medians of seven
/// passes.
///
/// Example: gannet bench tlb --entries 64 --pages 32,64,128
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Entries of the TLB.
    #[arg(long, default_value = "128", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=ENTRIES_MAX as u64))]
    entries: u64,
    /// Pages of the working set, for each measurement, separated by commas.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = PAGES,
          value_parser = clap::value_parser!(u64).range(1..=PAGES_MAX))]
    pages: Vec<u64>,
    /// Pages of each buffer that is registered.
    #[arg(long, default_value = "16", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=PAGES_MAX))]
    buffer_pages: u64,
    /// Length of a pass.
    #[arg(long, default_value = "0.02", value_name = "S", value_parser = output::seconds)]
    seconds: Duration,
    /// Print the measurements as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let rows = translation::measure(&TranslationPlan {
        entries: arguments.entries as usize,
        buffer_pages: arguments.buffer_pages,
        pages: arguments.pages.clone(),
        time: arguments.seconds,
    })?;
    match arguments.json {
        true => output::json(&rows)?,
        false => output::print(|out| print(out, &rows))?,
    }
    Ok(Outcome::Ok)
}

fn print(out: &mut impl Write, rows: &[TranslationRow]) -> io::Result<()> {
    writeln!(
        out,
        "{:<14} {:>7} {:>7} {:>8} {:>7} {:>9} {:>9} {:>7}  limit",
        "way", "entries", "pages", "buffers", "hits", "ns", "limit ns", "ratio"
    )?;
    rows.iter().try_for_each(|row| {
        writeln!(
            out,
            "{:<14} {:>7} {:>7} {:>8} {:>6.1}% {:>9.2} {:>9.2} {:>7.1}  a load by the page",
            names::name(&row.way),
            row.entries,
            row.pages,
            row.buffers,
            100.0 * row.hits,
            row.ns,
            row.limit_ns,
            row.ratio
        )
    })
}
