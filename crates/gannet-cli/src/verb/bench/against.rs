//! Results beside those of an earlier report: reading it, and a table.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use gannet_evaluate::tpg::{Comparison, Conditions, Earlier, Figure, TOLERANCE};
use gannet_measure::quantity::Bytes;

use super::names;

/// Longest report that is read; each of its results takes about 1 KiB.
const FILE_MAX: Bytes = Bytes::mib(64);

/// Reads a report that `gannet bench tpg --json` wrote.
pub fn read(file: &Path) -> anyhow::Result<Earlier> {
    let name = file.display();
    let facts = fs::metadata(file).with_context(|| format!("cannot read {name}"))?;
    if !facts.is_file() || facts.len() > FILE_MAX.0 {
        bail!("{name} is no report of gannet bench tpg: not a file of at most {FILE_MAX}");
    }
    let mut text = Vec::new();
    let read = File::open(file).and_then(|file| file.take(FILE_MAX.0).read_to_end(&mut text));
    read.with_context(|| format!("cannot read {name}"))?;
    let is_no_report = || format!("{name} is no report of gannet bench tpg --json");
    serde_json::from_slice(&text).with_context(is_no_report)
}

/// Prints both figures of each search and the difference, and what only one report has.
pub fn print(out: &mut impl Write, file: &Path, comparison: &Comparison) -> io::Result<()> {
    let (figure, unit) = match comparison.figure {
        Figure::Ratio => ("ratio to reading", ""),
        Figure::Rate => ("rate", ", Gbit/s"),
    };
    writeln!(out, "\nagainst {}: {figure}{unit}", file.display())?;
    let names: Vec<String> =
        comparison.compared.iter().map(|one| conditions(&one.conditions)).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    writeln!(out, "{:width$} {:>9} {:>9} {:>9}", "", "earlier", "now", "change")?;
    for (name, one) in names.iter().zip(&comparison.compared) {
        let verdict = if one.is_worse { "  worse" } else { "" };
        let (earlier, now, percent) = (one.earlier, one.now, 100.0 * one.change);
        writeln!(out, "{name:width$} {earlier:>9.3} {now:>9.3} {percent:>+7.1} %{verdict}")?;
    }
    for one in &comparison.only_now {
        writeln!(out, "not in the earlier report: {}", conditions(one))?;
    }
    for one in &comparison.only_earlier {
        writeln!(out, "only in the earlier report: {}", conditions(one))?;
    }
    if comparison.is_worse() {
        writeln!(out, "worse by more than {:.0} %", 100.0 * TOLERANCE)?;
    }
    Ok(())
}

fn conditions(conditions: &Conditions) -> String {
    let Conditions { isa, threshold, hit_rate_hz, threads, streams, .. } = conditions;
    let (chain, path) = (names::name(&conditions.chain), names::name(&conditions.path));
    let (format, set) = (names::name(&conditions.format), Bytes(conditions.working_set_bytes));
    format!(
        "{format}, {chain}, {isa}, {path}, {set}, {hit_rate_hz} Hz, threads {threads}, streams \
         {streams}, threshold {threshold}"
    )
}
