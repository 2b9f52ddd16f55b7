//! `gannet bench tpg`: how fast are trigger primitives found in memory?

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gannet_dune::tpg::{Chain, IsaChoice};
use gannet_evaluate::tpg::{
    self, Comparison, Figure, FrameFormat, HIT_RATE_MAX_HZ, PathChoice, PlotError, STREAMS_MAX,
    Step, THREADS_MAX, THRESHOLD_MAX, TpgPlan, TpgReport, TpgResult, TpgSearch, WorkingSet,
};
use gannet_measure::quantity::Bytes;
use serde::Serialize;

use super::against;
use super::names::{self, Values};
use crate::destination::Destination;
use crate::exit::{Outcome, Usage};
use crate::log;
use crate::output::{self, grouped};
use crate::progress::Progress;

/// Points of a scan over hit rates for each factor of ten.
const POINTS_PER_DECADE: f64 = 4.0;
/// Hit rates of a picture, unless others are asked for.
const SCAN: &str = "100..90000";
/// Below this part of the time with a core, the figures are those of a busy machine.
const QUIET_SHARE: f64 = 0.98;
/// From this part of the samples on that hits take up, the median of the samples is in the hits.
const FOLLOWS: f64 = 0.5;
/// Hit rate, unless others are asked for.
const HIT_RATE: &str = "100";

/// Measures how fast trigger primitives are found in frames that are already in memory.
///
/// The rate at which the same threads read the same memory, by the fastest of several ways and
/// measured in turn with the search, is printed next to it. Several chains, instruction sets and
/// paths are combined with each other; all take turns over the same frames. Every pass must find
/// the same number of primitives, and those of the first 1024 frames of each thread must equal those
/// of the scalar chain. Rates count whole frames; they are medians of up to nine passes, with the
/// lowest and the highest beside them. Cycles are ticks of the time-stamp counter.
///
/// Each thread stays on a core of its own where that is permitted. Passes in which one had no core
/// for 2 % of the time or more are left out while at least half remain. On a busy machine the
/// figures mean little all the same.
///
/// JSON output is an object with `results`, one for each working set, hit rate and search; the
/// fields of a single result also stand at the top level. With --against, the object `against` has
/// both figures of each search that both reports have, and the difference.
///
/// Example: gannet bench tpg --chain abs-rs,fir --hit-rate 100,90000 --working-set L2,512MiB
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Steps between the samples and the threshold; several with commas.
    #[arg(long, default_value = "simple-threshold", value_delimiter = ',',
          value_parser = names::one_or_all::<Chain>())]
    chain: Vec<Values<Chain>>,
    /// Instruction set; auto is the fastest that the machine has. Several with commas.
    #[arg(long, default_value = "auto", value_delimiter = ',',
          value_parser = names::parser::<IsaChoice>())]
    isa: Vec<IsaChoice>,
    /// Form of the vector kernels: for rare hits, for frequent ones, or chosen frame by frame.
    /// Several with commas.
    #[arg(long, default_value = "adaptive", value_delimiter = ',',
          value_parser = names::one_or_all::<PathChoice>())]
    path: Vec<Values<PathChoice>>,
    /// Format of the frames: WIBEth, or super-chunks of 12 ProtoDUNE-SP frames.
    #[arg(long, default_value = "wibeth", value_parser = names::parser::<FrameFormat>())]
    format: FrameFormat,
    /// Hits per second on each channel: a number, several with commas, or a scan as 100..90000 in
    /// steps of equal factors [default: 100, with --svg 100..90000].
    #[arg(long, value_name = "HZ", value_parser = hit_rates)]
    hit_rate: Option<HitRates>,
    /// Memory of each thread: a size, L2 for half of that cache, memory for twice what the caches
    /// hold; or several with commas.
    #[arg(long, default_value = "512MiB", value_name = "SIZE", value_delimiter = ',')]
    working_set: Vec<WorkingSet>,
    /// Threads that search at the same time, each in its own memory. With more than one, the first
    /// is measured alone, too.
    #[arg(long, default_value = "1", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX as i64))]
    threads: u16,
    /// Streams of each thread: their frames lie in turn, and each has its own chain.
    #[arg(long, default_value = "1", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=STREAMS_MAX as i64))]
    streams: u16,
    /// A sample belongs to a hit when it is above this, in ADC counts.
    #[arg(long, default_value = "60", value_name = "ADC",
          value_parser = clap::value_parser!(u16).range(0..=THRESHOLD_MAX as i64))]
    threshold: u16,
    /// Length of the measurement of each search; preparing it takes about as long.
    #[arg(long, default_value = "1", value_name = "S", value_parser = output::seconds)]
    seconds: Duration,
    /// Draw the rates against the hit rate into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Overwrite that file if it exists.
    #[arg(long, requires = "svg")]
    overwrite: bool,
    /// Compare with an earlier report of --json: a search that is worse by more than 5 % makes the
    /// exit code 6. What only one of the reports has is named.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// What is compared: the ratio to reading, as machines and days differ, or the rate itself.
    #[arg(long, default_value = "ratio", requires = "against",
          value_parser = names::parser::<Figure>())]
    by: Figure,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// The report as a document.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a TpgReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<&'a Comparison>,
}

/// Hits a second on each channel.
#[derive(Clone, Debug, PartialEq)]
struct HitRates(Vec<f64>);

/// Reads hit rates with commas, each a number or a scan.
fn hit_rates(text: &str) -> Result<HitRates, String> {
    let mut rates = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            Some((first, last)) => rates.extend(scan(hit_rate(first)?, hit_rate(last)?)?),
            None => rates.push(hit_rate(part)?),
        }
    }
    Ok(HitRates(rates))
}

fn hit_rate(text: &str) -> Result<f64, String> {
    let rate = text.trim().parse().map_err(|_| format!("\"{text}\" is not a number of Hz"))?;
    match (0.0..=HIT_RATE_MAX_HZ).contains(&rate) {
        true => Ok(rate),
        false => Err(format!("{text} Hz is out of range; choose 0 to {HIT_RATE_MAX_HZ}")),
    }
}

/// Rates from `first` to `last` in steps of about equal factors, of two digits each.
fn scan(first: f64, last: f64) -> Result<Vec<f64>, String> {
    if !(first >= 1.0 && first < last) {
        return Err("a scan goes up, from 1 Hz or more".to_owned());
    }
    let decades = (last / first).log10();
    let steps = (decades * POINTS_PER_DECADE).ceil();
    let between = (1..steps as u32).map(|step| {
        let rate = first * 10_f64.powf(decades * f64::from(step) / steps);
        let unit = 10_f64.powf(rate.log10().floor() - 1.0);
        (rate / unit).round() * unit
    });
    let between = between.filter(|rate| *rate > first && *rate < last);
    Ok([first].into_iter().chain(between).chain([last]).collect())
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let default = if arguments.svg.is_some() { SCAN } else { HIT_RATE };
    let rates = arguments.hit_rate.clone().map_or_else(|| hit_rates(default), Ok);
    let HitRates(hit_rates_hz) = rates.map_err(anyhow::Error::msg)?;
    let file = arguments.svg.as_deref();
    let file = file.map(|file| picture(file, arguments.overwrite, &hit_rates_hz)).transpose()?;
    let earlier = arguments.against.as_deref();
    let earlier = earlier.map(|file| Ok::<_, anyhow::Error>((file, against::read(file)?)));
    let earlier = earlier.transpose()?;
    let plan = TpgPlan {
        searches: searches(arguments),
        format: arguments.format,
        hit_rates_hz,
        working_sets: arguments.working_set.clone(),
        threads: arguments.threads.into(),
        streams: arguments.streams.into(),
        threshold: arguments.threshold,
        time: arguments.seconds,
    };
    let points = plan.hit_rates_hz.len() * plan.working_sets.len();
    let (count, mut done) = (points * plan.searches.len(), 0);
    let varying = Varying::of(&plan);
    let mut line = None;
    let report = tpg::measure(&plan, &mut |step| match step {
        Step::Preparing { done, total } => {
            let line = line.get_or_insert_with(|| Progress::new("preparing frames"));
            line.show(done, total);
        }
        Step::Measuring => drop(line.take()),
        Step::Measured(result) => {
            done += 1;
            if count > 1 {
                progress(done, count, &varying.name(result), result);
            }
        }
    })?;
    if let Some(file) = file {
        let name = |result: &TpgResult| varying.name(result);
        file.write(&tpg::svg(&title(&plan), &report.results, &name)?)?;
    }
    let comparison = earlier
        .map(|(file, earlier)| (file, Comparison::of(&report.results, &earlier, arguments.by)));
    let against = comparison.as_ref().map(|(_, comparison)| comparison);
    match arguments.json {
        true => output::json(&Document { report: &report, against })?,
        false => output::print(|out| {
            print(out, &plan, &varying, &report)?;
            let comparison = comparison.as_ref();
            comparison.map_or(Ok(()), |(file, comparison)| against::print(out, file, comparison))
        })?,
    }
    match comparison {
        Some((file, comparison)) if comparison.compared.is_empty() => {
            anyhow::bail!("{} has nothing that was measured now", file.display())
        }
        Some((_, comparison)) if comparison.is_worse() => Ok(Outcome::NotVerified),
        _ => Ok(Outcome::Ok),
    }
}

/// Where the picture goes, if it can be drawn and written; found out before anything is measured
/// for it.
fn picture(file: &Path, overwrite: bool, hit_rates_hz: &[f64]) -> anyhow::Result<Destination> {
    if !tpg::is_drawable(hit_rates_hz) {
        return Err(Usage(PlotError::TooFew.to_string()).into());
    }
    Destination::begin(file, overwrite)
}

/// All combinations, each once.
fn searches(arguments: &Arguments) -> Vec<TpgSearch> {
    let mut searches: Vec<TpgSearch> = Vec::new();
    for &chain in arguments.chain.iter().flat_map(|Values(chains)| chains) {
        for &isa in &arguments.isa {
            for &path in arguments.path.iter().flat_map(|Values(paths)| paths) {
                let is_same = |other: &TpgSearch| {
                    (other.chain, other.isa.isa(), other.path) == (chain, isa.isa(), path)
                };
                if !searches.iter().any(is_same) {
                    searches.push(TpgSearch { chain, isa, path });
                }
            }
        }
    }
    searches
}

/// What differs among the searches of a plan.
#[derive(Clone, Copy)]
struct Varying {
    chain: bool,
    isa: bool,
    path: bool,
}

impl Varying {
    fn of(plan: &TpgPlan) -> Self {
        let (first, searches) = (plan.searches[0], || plan.searches.iter());
        Self {
            chain: searches().any(|search| search.chain != first.chain),
            isa: searches().any(|search| search.isa.isa() != first.isa.isa()),
            path: searches().any(|search| search.path != first.path),
        }
    }

    /// Name of the search of a result among those of the plan; empty with a single one.
    fn name(self, result: &TpgResult) -> String {
        let chain = self.chain.then(|| names::name(&result.chain));
        let isa = self.isa.then(|| result.isa.to_owned());
        let path = self.path.then(|| names::name(&result.path));
        [chain, isa, path].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

fn progress(done: usize, count: usize, name: &str, result: &TpgResult) {
    let gap = if name.is_empty() { "" } else { ", " };
    log::say(format_args!(
        "{done:>3} of {count}: {:>6} Hz, {}{gap}{name}: {:.1} Gbit/s, reading {:.1}",
        result.hit_rate_hz,
        Bytes(result.working_set_bytes),
        result.gbit_per_s,
        result.limit_gbit_per_s
    ));
}

/// What all results have in common.
fn title(plan: &TpgPlan) -> String {
    let (first, varying) = (plan.searches[0], Varying::of(plan));
    let mut parts = vec![names::name(&plan.format)];
    parts.extend((!varying.chain).then(|| names::name(&first.chain)));
    parts.extend((!varying.isa).then(|| first.isa.isa().to_string()));
    parts.extend((!varying.path).then(|| names::name(&first.path)));
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let (threads, streams) = (plan.threads, plan.streams);
    let (t, s) = (plural(threads), plural(streams));
    parts.push(format!("{threads} thread{t} of {streams} stream{s}"));
    parts.push(format!("threshold {}", plan.threshold));
    parts.join(", ")
}

/// Heading, unit and value of a column.
type Column = (&'static str, &'static str, fn(&TpgResult) -> String);

const COLUMNS: [Column; 11] = [
    ("memory", "a thread", |r| Bytes(r.working_set_bytes).to_string()),
    ("hits", "Hz", |r| r.hit_rate_hz.to_string()),
    ("search", "Gbit/s", |r| format!("{:.1}", r.gbit_per_s)),
    ("from..to", "", |r| range(r.gbit_per_s_lowest, r.gbit_per_s_highest)),
    ("reading", "Gbit/s", |r| format!("{:.1}", r.limit_gbit_per_s)),
    ("from..to", "", |r| range(r.limit_gbit_per_s_lowest, r.limit_gbit_per_s_highest)),
    ("ratio", "", |r| format!("{:.2}", r.ratio)),
    ("frame", "ns", |r| format!("{:.1}", r.ns_per_frame)),
    ("sample", "cycles", |r| optional(r.cycles_per_sample, 3)),
    ("TPs", "/frame", |r| format!("{:.2}", r.tps_per_frame)),
    ("TPs", "million/s", |r| format!("{:.3}", r.tp_per_s * 1e-6)),
];
/// Beside them with several threads.
const SCALING: [Column; 2] = [
    ("one thread", "Gbit/s", |r| optional(r.one_thread_gbit_per_s, 1)),
    ("scaling", "", |r| optional(r.scaling, 2)),
];

fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn range(lowest: f64, highest: f64) -> String {
    format!("{lowest:.1}..{highest:.1}")
}

fn print(
    out: &mut impl Write,
    plan: &TpgPlan,
    varying: &Varying,
    report: &TpgReport,
) -> io::Result<()> {
    writeln!(out, "{}", title(plan))?;
    let several: &[Column] = if plan.threads > 1 { &SCALING } else { &[] };
    let columns = || COLUMNS.iter().chain(several);
    let names: Vec<String> = report.results.iter().map(|result| varying.name(result)).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let mut row = |name: &str, mut cells: &mut dyn Iterator<Item = String>| {
        write!(out, "{name:width$}")?;
        (&mut cells).try_for_each(|cell| write!(out, "{cell:>13}"))?;
        writeln!(out)
    };
    row("", &mut columns().map(|(heading, ..)| (*heading).to_owned()))?;
    row("", &mut columns().map(|(_, unit, _)| (*unit).to_owned()))?;
    for (name, result) in names.iter().zip(&report.results) {
        row(name, &mut columns().map(|(.., value)| value(result)))?;
    }
    let of_sets = |a: &TpgResult, b: &TpgResult| a.working_set_bytes == b.working_set_bytes;
    for results in report.results.chunk_by(of_sets) {
        notes(out, results)?;
    }
    let mut followed: Vec<f64> = Vec::new();
    for result in report.results.iter().filter(|result| result.occupancy >= FOLLOWS) {
        let (hz, percent) = (result.hit_rate_hz, 100.0 * result.occupancy);
        if followed.contains(&hz) {
            continue;
        }
        followed.push(hz);
        writeln!(
            out,
            "{hz} Hz: hits take {percent:.0} % of the samples, so the pedestal follows them; what is \
             found are no longer the hits"
        )?;
    }
    disturbances(out, report)
}

/// What other programs did to the measurement.
fn disturbances(out: &mut impl Write, report: &TpgReport) -> io::Result<()> {
    let results = || report.results.iter();
    if results().any(|result| result.processors.is_empty()) {
        writeln!(out, "the threads could not be kept on a core each: that is not permitted here")?;
    }
    let left_out: usize = results().map(|result| result.passes_left_out).sum();
    if left_out > 0 {
        let made = left_out + results().map(|result| result.passes).sum::<usize>();
        writeln!(
            out,
            "{left_out} of {made} passes left out: a thread had no core for part of them"
        )?;
    }
    let share = results().map(|result| result.running_share).fold(1.0, f64::min);
    if share < QUIET_SHARE {
        writeln!(
            out,
            "the machine was busy: at worst, threads had a core for only {:.0} % of the time",
            100.0 * share
        )?;
    }
    Ok(())
}

/// What the table does not say of the results with one working set.
fn notes(out: &mut impl Write, results: &[TpgResult]) -> io::Result<()> {
    let result = &results[0];
    let memory = Bytes(result.working_set_bytes);
    let (distinct, pages) = (grouped(result.distinct_frames), &result.pages);
    writeln!(
        out,
        "{memory}: {distinct} distinct frames on {pages}, read fastest by {}, fetched {} and {} bytes \
         ahead",
        result.limit_way, result.fetch_near, result.fetch_far
    )?;
    match results.iter().map(|result| result.verified_frames).max() {
        None | Some(0) => Ok(()),
        Some(frames) => writeln!(
            out,
            "{memory}: primitives of {} frames verified against the scalar chain",
            grouped(frames)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hit_rates_are_read_with_commas_and_scans() {
        let read = |text: &str| hit_rates(text).map(|rates| rates.0);
        assert_eq!(read("100"), Ok(vec![100.0]));
        assert_eq!(read("0,2e3, 90000"), Ok(vec![0.0, 2e3, 9e4]));
        assert_eq!(read("100..1000"), Ok(vec![100.0, 180.0, 320.0, 560.0, 1000.0]));
        assert_eq!(read("7,100..110"), Ok(vec![7.0, 100.0, 110.0]));
        let scan = read(SCAN).unwrap();
        assert_eq!((scan.len(), scan[0], scan[12]), (13, 100.0, 90e3));
        for bad in ["", "many", "-1", "200000", "nan", "5..5", "9..2", "0..10", "1..2..3"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
