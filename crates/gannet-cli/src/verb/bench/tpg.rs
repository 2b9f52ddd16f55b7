//! `gannet bench tpg`: how fast are trigger primitives found in memory?

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gannet_evaluate::tpg::{
    self, FrameFormat, HIT_RATE_MAX_HZ, PathChoice, PlotError, STREAMS_MAX, Step, THREADS_MAX,
    THRESHOLD_MAX, TpgPlan, TpgReport, TpgResult, WorkingSet,
};
use gannet_measure::quantity::Bytes;
use gannet_trigger::tpg::{Chain, IsaChoice};

use super::names;
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
/// measured in turn with the search, is printed next to it. Every pass must find the same number of
/// primitives, and those of the first 1024 frames of each thread must equal those of the scalar
/// chain. Rates count whole frames. Cycles are ticks of the time-stamp counter. On a busy machine
/// the figures mean little.
///
/// JSON output is an object with `results`, one for each working set and hit rate; the fields of a
/// single result also stand at the top level.
///
/// Example: gannet bench tpg --chain abs-rs --hit-rate 100,90000 --working-set L2,512MiB
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Steps between the samples and the threshold.
    #[arg(long, default_value = "simple-threshold", value_parser = names::parser::<Chain>())]
    chain: Chain,
    /// Instruction set; auto is the fastest that the machine has.
    #[arg(long, default_value = "auto", value_parser = names::parser::<IsaChoice>())]
    isa: IsaChoice,
    /// Form of the vector kernels: for rare hits, for frequent ones, or chosen frame by frame.
    #[arg(long, default_value = "adaptive", value_parser = names::parser::<PathChoice>())]
    path: PathChoice,
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
    /// Length of each measurement; preparing it takes about as long.
    #[arg(long, default_value = "1", value_name = "S", value_parser = output::seconds)]
    seconds: Duration,
    /// Draw the rates against the hit rate into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Overwrite that file if it exists.
    #[arg(long, requires = "svg")]
    overwrite: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
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
    let plan = TpgPlan {
        chain: arguments.chain,
        isa: arguments.isa,
        path: arguments.path,
        format: arguments.format,
        hit_rates_hz,
        working_sets: arguments.working_set.clone(),
        threads: arguments.threads.into(),
        streams: arguments.streams.into(),
        threshold: arguments.threshold,
        time: arguments.seconds,
    };
    let (count, mut done) = (plan.hit_rates_hz.len() * plan.working_sets.len(), 0);
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
                progress(done, count, result);
            }
        }
    })?;
    if let Some(file) = file {
        file.write(&tpg::svg(&title(&plan), &report.results)?)?;
    }
    match arguments.json {
        true => output::json(&report)?,
        false => output::print(|out| print(out, &plan, &report))?,
    }
    Ok(Outcome::Ok)
}

/// Where the picture goes, if it can be drawn and written; found out before anything is measured
/// for it.
fn picture(file: &Path, overwrite: bool, hit_rates_hz: &[f64]) -> anyhow::Result<Destination> {
    if !tpg::is_drawable(hit_rates_hz) {
        return Err(Usage(PlotError::TooFew.to_string()).into());
    }
    Destination::begin(file, overwrite)
}

fn progress(done: usize, count: usize, result: &TpgResult) {
    log::say(format_args!(
        "{done:>3} of {count}: {:>6} Hz, {}: {:.1} Gbit/s, reading {:.1}",
        result.hit_rate_hz,
        Bytes(result.working_set_bytes),
        result.gbit_per_s,
        result.limit_gbit_per_s
    ));
}

/// What all results have in common.
fn title(plan: &TpgPlan) -> String {
    let (chain, isa) = (names::name(&plan.chain), plan.isa.isa());
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let (threads, streams) = (plan.threads, plan.streams);
    let (t, s) = (plural(threads), plural(streams));
    let (format, path) = (names::name(&plan.format), names::name(&plan.path));
    format!(
        "{format}, {chain}, {isa}, {path}, {threads} thread{t} of {streams} stream{s}, threshold {}",
        plan.threshold
    )
}

/// Heading, unit and value of a column.
type Column = (&'static str, &'static str, fn(&TpgResult) -> String);

const COLUMNS: [Column; 9] = [
    ("memory", "a thread", |r| Bytes(r.working_set_bytes).to_string()),
    ("hits", "Hz", |r| r.hit_rate_hz.to_string()),
    ("search", "Gbit/s", |r| format!("{:.1}", r.gbit_per_s)),
    ("reading", "Gbit/s", |r| format!("{:.1}", r.limit_gbit_per_s)),
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

fn print(out: &mut impl Write, plan: &TpgPlan, report: &TpgReport) -> io::Result<()> {
    writeln!(out, "{}", title(plan))?;
    let several: &[Column] = if plan.threads > 1 { &SCALING } else { &[] };
    let columns = || COLUMNS.iter().chain(several);
    line(out, columns().map(|(heading, ..)| (*heading).to_owned()))?;
    line(out, columns().map(|(_, unit, _)| (*unit).to_owned()))?;
    for result in &report.results {
        line(out, columns().map(|(.., value)| value(result)))?;
    }
    let of_sets = |a: &TpgResult, b: &TpgResult| a.working_set_bytes == b.working_set_bytes;
    for results in report.results.chunk_by(of_sets) {
        notes(out, &results[0])?;
    }
    for result in report.results.iter().filter(|result| result.occupancy >= FOLLOWS) {
        let (hz, percent) = (result.hit_rate_hz, 100.0 * result.occupancy);
        writeln!(
            out,
            "{hz} Hz: hits take {percent:.0} % of the samples, so the pedestal follows them; what is \
             found are no longer the hits"
        )?;
    }
    let share = report.results.iter().map(|result| result.running_share).fold(1.0, f64::min);
    if share < QUIET_SHARE {
        writeln!(
            out,
            "the machine was busy: at worst, threads had a core for only {:.0} % of the time",
            100.0 * share
        )?;
    }
    Ok(())
}

fn line(out: &mut impl Write, mut cells: impl Iterator<Item = String>) -> io::Result<()> {
    cells.try_for_each(|cell| write!(out, "{cell:>11}"))?;
    writeln!(out)
}

/// What the table does not say of the results with one working set.
fn notes(out: &mut impl Write, result: &TpgResult) -> io::Result<()> {
    let memory = Bytes(result.working_set_bytes);
    let (distinct, pages) = (grouped(result.distinct_frames), &result.pages);
    writeln!(
        out,
        "{memory}: {distinct} distinct frames on {pages}, read fastest by {}",
        result.limit_way
    )?;
    match result.verified_frames {
        0 => Ok(()),
        frames => writeln!(
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
