//! `gannet bench rings`: how fast are rings of the RICH found in memory, and how many of the true ones?

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use gannet_dune::tpg::IsaChoice;
use gannet_evaluate::rings::{
    self, CENTRE_MAX, EVENTS_MAX, Finder, Fit, HITS_MIN, Quality, RADIUS_MAX, Recorded, RingsPlan,
    RingsReport,
};
use gannet_wire::na62::PmMap;

use super::names;
use crate::exit::Outcome;
use crate::output;

/// Measures how fast rings of the NA62 RICH are found in merged events (M2EGP) in memory, on one core.
///
/// Beside it, in turn with it, stand a plain loop for one ring (the mean, then moments about it, in double
/// precision) and the rate at which the same core reads the same bytes. Rates are medians of the
/// passes, that of reading is the fastest; time in which the thread had no core does not count. A true ring is found if a ring reported has its centre
/// within 20 mm and its radius within 12 mm, one for one; efficiency counts true rings of 6 hits or more,
/// purity all rings reported.
///
/// Events are generated: 0, 1, 2, 3, 4 rings in 5, 50, 20, 20, 5 % of them, 24 photons at the speed of light,
/// 1.5 hits of noise. With --events they come from a file, M2EGP back to back, and their rings from a
/// table with a line for each: event (from 0), x, y, radius in mm, and how many hits it has. Without that
/// number the hits within 12 mm of it count. A heading, empty lines and lines with # are passed over.
///
/// JSON output has `ratio`, the rate of the finder by that of reading, and `times_plain`, by that of the
/// plain loop.
///
/// Example: gannet bench rings --finder multi --times
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// One ring an event, or up to five.
    #[arg(long, default_value = "single", value_parser = names::parser::<Finder>())]
    finder: Finder,
    /// How one ring is fitted.
    #[arg(long, default_value = "taubin", value_parser = names::parser::<Fit>())]
    fit: Fit,
    /// Instruction set; auto is the fastest that the machine has.
    #[arg(long, default_value = "auto", value_parser = names::parser::<IsaChoice>())]
    isa: IsaChoice,
    /// Tell the finder of several rings the times of the hits.
    #[arg(long, conflicts_with = "events")]
    times: bool,
    /// Number of generated events.
    #[arg(long, default_value = "500000", value_name = "N", conflicts_with = "events",
          value_parser = clap::value_parser!(u64).range(1..=EVENTS_MAX as u64))]
    count: u64,
    /// Take recorded events of this file.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Table of their rings [default: the name of the events, with .csv].
    #[arg(long, value_name = "FILE", requires = "events")]
    truth: Option<PathBuf>,
    /// Table of 2560 channels that says which reads which photomultiplier [default: in their order].
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Length of the measurement.
    #[arg(long, default_value = "2", value_name = "S", value_parser = output::seconds)]
    seconds: Duration,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let report = rings::measure(&plan(arguments)?)?;
    match arguments.json {
        true => output::json(&report)?,
        false => output::print(|out| print(out, &report))?,
    }
    Ok(Outcome::Ok)
}

fn plan(arguments: &Arguments) -> anyhow::Result<RingsPlan> {
    let map = match &arguments.map {
        Some(file) => {
            let cannot = || format!("cannot read {}", file.display());
            PmMap::parse(&fs::read_to_string(file).with_context(cannot)?).with_context(cannot)?
        }
        None => PmMap::numbered(),
    };
    let recorded = arguments.events.clone().map(|events| {
        let truth = arguments.truth.clone().unwrap_or_else(|| events.with_extension("csv"));
        Recorded { events, truth }
    });
    Ok(RingsPlan {
        finder: arguments.finder,
        fit: arguments.fit,
        isa: arguments.isa,
        times: arguments.times,
        count: arguments.count as usize,
        recorded,
        map,
        time: arguments.seconds,
    })
}

fn print(out: &mut impl Write, report: &RingsReport) -> io::Result<()> {
    let (finder, fit) = (names::name(&report.finder), names::name(&report.fit));
    let kind = match report.finder {
        Finder::Single => format!("{finder}, {fit}"),
        Finder::Multi if report.times => format!("{finder}, with times of hits"),
        Finder::Multi => finder,
    };
    writeln!(
        out,
        "{kind}, {}, one core: {} events of {:.1} hits and {:.1} bytes",
        report.isa, report.events, report.hits_per_event, report.bytes_per_event
    )?;
    let rate = |per_s: f64| format!("{:8.2} M events/s, {:6.1} ns", per_s * 1e-6, 1e9 / per_s);
    let [slowest, fastest] = report.events_per_s_range.map(|per_s| per_s * 1e-6);
    let passes = report.passes;
    writeln!(
        out,
        "finder      {} ({slowest:.2}..{fastest:.2} in {passes} passes)",
        rate(report.events_per_s)
    )?;
    writeln!(
        out,
        "plain loop  {}: the finder is {:.2} times as fast",
        rate(report.plain_per_s),
        report.times_plain
    )?;
    writeln!(out, "reading     {}: ratio {:.3}", rate(report.limit_per_s), report.ratio)?;
    writeln!(
        out,
        "rings       {} found, within {CENTRE_MAX} mm and {RADIUS_MAX} mm of a true one:",
        report.rings
    )?;
    let Quality { efficiency, purity, exact, efficiency_by_rings, .. } = &report.quality;
    writeln!(
        out,
        "  efficiency {efficiency:.4} of rings of {HITS_MIN} hits or more, purity {purity:.4}, number right in {exact:.4}"
    )?;
    let by_rings = efficiency_by_rings.iter().enumerate();
    let by_rings =
        by_rings.filter_map(|(index, part)| Some(format!("{}: {:.4}", index + 1, (*part)?)));
    writeln!(
        out,
        "  efficiency by rings of the event: {}",
        by_rings.collect::<Vec<_>>().join(", ")
    )?;
    let single = &report.single_rings;
    writeln!(
        out,
        "  single rings without noise: radius to {:.2} mm (68 %), centre to {:.2} mm (median)",
        single.radius_sigma_mm, single.centre_median_mm
    )?;
    let skipped = [
        (report.dead_hits, "hits on channels that read nothing"),
        (report.unknown_channels, "hits of numbers that are no channel's"),
        (report.board_counts_wrong, "events whose boards do not add up"),
    ];
    skipped
        .iter()
        .filter(|(count, _)| *count > 0)
        .try_for_each(|(count, what)| writeln!(out, "{count} {what}"))
}
