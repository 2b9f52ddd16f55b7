//! `gannet bench coincidences`: how fast are coincidences of optical modules found in memory?

use std::io::{self, Write};
use std::time::Duration;

use gannet_dune::tpg::IsaChoice;
use gannet_evaluate::clusters::{self, ClustersPlan, ClustersReport};
use gannet_evaluate::coincidences::{
    self, CoincidencesPlan, CoincidencesReport, Finder, SLICES_MAX,
};
use serde::Deserialize;

use super::names;
use crate::exit::Outcome;
use crate::output;

/// Modules of a string.
const MODULES: u64 = 18;
/// Muons and showers that a detector sees in a second.
const MUONS_HZ: f64 = 100.0;
const SHOWERS_HZ: f64 = 20.0;

/// Measures how fast coincidences of hits of KM3NeT's optical modules are found in memory, on one core,
/// from CLB packets: hits are unpacked, calibrated, sorted by time, and those kept that another
/// photomultiplier of the module confirms.
///
/// Beside it, in turn with it, stand unpacking, calibrating and sorting alone, and the rate at which the
/// same core reads the same bytes. Rates are medians of the passes, that of reading is the fastest.
/// Modules send their hits almost in order; --shuffled is for those that do not.
///
/// The finders muon, shower and events take what l1 keeps of a whole detector, with light of 100 muons and
/// 20 showers a second. Beside them stand a plain loop over all hits of the window of each, and reading; they
/// tell how many cores a detector takes, and how many of the muons and showers with 10 such hits on 5 modules
/// are found.
///
/// JSON output has `ratio`, the rate of the finder by that of reading, and `times_plain`, its time by that
/// of unpacking and sorting alone.
///
/// Example: gannet bench coincidences --finder l2 --angle 60
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Hits that any other photomultiplier confirms, or only one with nearly the same direction, or
    /// coincidences of 4 photomultipliers or more; of all modules muons, showers, or both.
    #[arg(long, default_value = "l1", value_parser = names::parser::<What>())]
    finder: What,
    /// Instruction set; auto is the fastest that the machine has.
    #[arg(long, default_value = "auto", value_parser = names::parser::<IsaChoice>())]
    isa: IsaChoice,
    /// Most time between hits, in ns.
    #[arg(long, default_value = "10", value_name = "NS",
          value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    window: u32,
    /// Most angle between the directions of photomultipliers for l2, in degrees.
    #[arg(long, default_value = "90", value_name = "DEGREES")]
    angle: f64,
    /// Rate of each photomultiplier, in Hz.
    #[arg(long, default_value = "7000", value_name = "HZ")]
    rate: f64,
    /// Send the hits of a slice in random order.
    #[arg(long)]
    shuffled: bool,
    /// Strings of the detector for muon, shower and events, of 18 modules each.
    #[arg(long, default_value = "115", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=227))]
    strings: u64,
    /// Number of slices of 100 ms of a module; for muon, shower and events those of all modules count.
    #[arg(long, default_value = "1000", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=SLICES_MAX as u64))]
    slices: u64,
    /// Length of the measurement.
    #[arg(long, default_value = "2", value_name = "S", value_parser = output::seconds)]
    seconds: Duration,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// What is found.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    L1,
    L2,
    Supernova,
    Muon,
    Shower,
    Events,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match arguments.finder {
        What::L1 => of_module(arguments, Finder::L1),
        What::L2 => of_module(arguments, Finder::L2),
        What::Supernova => of_module(arguments, Finder::Supernova),
        What::Muon => of_detector(arguments, clusters::Finder::Muon),
        What::Shower => of_detector(arguments, clusters::Finder::Shower),
        What::Events => of_detector(arguments, clusters::Finder::Events),
    }
}

fn of_module(arguments: &Arguments, finder: Finder) -> anyhow::Result<Outcome> {
    let report = coincidences::measure(&CoincidencesPlan {
        finder,
        isa: arguments.isa,
        window_ns: arguments.window,
        angle_deg: arguments.angle,
        rate_hz: arguments.rate,
        shuffled: arguments.shuffled,
        slices: arguments.slices as usize,
        time: arguments.seconds,
    })?;
    match arguments.json {
        true => output::json(&report)?,
        false => output::print(|out| print(out, &report))?,
    }
    Ok(Outcome::Ok)
}

fn of_detector(arguments: &Arguments, finder: clusters::Finder) -> anyhow::Result<Outcome> {
    let modules = arguments.strings * MODULES;
    let report = clusters::measure(&ClustersPlan {
        finder,
        isa: arguments.isa,
        strings: arguments.strings as usize,
        window_ns: arguments.window,
        rate_hz: arguments.rate,
        light_hz: [MUONS_HZ, SHOWERS_HZ],
        slices: arguments.slices.div_ceil(modules) as usize,
        time: arguments.seconds,
    })?;
    match arguments.json {
        true => output::json(&report)?,
        false => output::print(|out| print_clusters(out, &report))?,
    }
    Ok(Outcome::Ok)
}

fn print_clusters(out: &mut impl Write, report: &ClustersReport) -> io::Result<()> {
    writeln!(
        out,
        "{}, {}, one core: {} slices of {} modules, {:.0} hits of l1 each",
        names::name(&report.finder),
        report.isa,
        report.slices,
        report.modules,
        report.hits_per_slice
    )?;
    let rate = |per_s: f64| format!("{:9.3} M hits/s, {:9.1} ns", per_s * 1e-6, 1e9 / per_s);
    let [slowest, fastest] = report.hits_per_s_range.map(|per_s| per_s * 1e-6);
    let (passes, per_s) = (report.passes, report.hits_per_s);
    writeln!(out, "finder   {} ({slowest:.2}..{fastest:.2} in {passes} passes)", rate(per_s))?;
    let times = per_s / report.plain_per_s;
    writeln!(out, "plain    {}: the finder is {times:.1} times as fast", rate(report.plain_per_s))?;
    writeln!(out, "reading  {}: ratio {:.4}", rate(report.limit_per_s), report.ratio)?;
    writeln!(out, "cores    {:.3} to keep up with this detector", report.cores)?;
    writeln!(out, "found    {} events, {} of noise alone", report.events, report.of_noise)?;
    let clear = [(report.muons, "muons"), (report.showers, "showers")];
    clear.iter().try_for_each(|([expected, found], what)| {
        writeln!(out, "         {found} of {expected} {what} with 10 hits on 5 modules or more")
    })
}

fn print(out: &mut impl Write, report: &CoincidencesReport) -> io::Result<()> {
    let order = if report.shuffled { "in random order" } else { "as they are sent" };
    writeln!(
        out,
        "{}, {}, one core: {} slices of {:.0} hits, {order}, window {} ns",
        names::name(&report.finder),
        report.isa,
        report.slices,
        report.hits_per_slice,
        report.window_ns
    )?;
    let rate = |per_s: f64| format!("{:7.1} M hits/s, {:5.2} ns", per_s * 1e-6, 1e9 / per_s);
    let [slowest, fastest] = report.hits_per_s_range.map(|per_s| per_s * 1e-6);
    let passes = report.passes;
    writeln!(
        out,
        "finder   {} ({slowest:.1}..{fastest:.1} in {passes} passes)",
        rate(report.hits_per_s)
    )?;
    writeln!(
        out,
        "sorting  {}: the finder takes {:.2} times its time",
        rate(report.plain_per_s),
        report.times_plain
    )?;
    writeln!(out, "reading  {}: ratio {:.3}", rate(report.limit_per_s), report.ratio)?;
    let what = match report.finder {
        Finder::L1 | Finder::L2 => "hits confirmed",
        Finder::Supernova => "coincidences",
    };
    writeln!(out, "found    {} {what}", report.found)?;
    let left_out = [
        (report.unknown_channel, "hits on channels that are none"),
        (report.beyond_slice, "hits beyond their slice"),
        (report.overflow, "hits that there was no room for"),
    ];
    left_out
        .iter()
        .filter(|(count, _)| *count > 0)
        .try_for_each(|(count, what)| writeln!(out, "{count} {what}"))
}
