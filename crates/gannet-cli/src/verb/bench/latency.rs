//! `gannet bench latency`: how long do buffers of events take, by their size?

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use gannet_dune::tpg::IsaChoice;
use gannet_evaluate::latency::{
    self, Detector, LatencyPlan, LatencyReport, LinkReport, Point, SIZES,
};
use gannet_evaluate::rings::Finder;

use super::names;
use crate::destination::Destination;
use crate::exit::Outcome;
use crate::output;

/// Measures how long buffers of 16 to 8192 events take to arrive at the pace of a link and to be searched.
///
/// Events of the RICH of NA62 (M2EGP, 76 bytes on average) come in datagrams of 16 at the pace of 1 and of
/// 10 Gbit/s, of APElink (2.2 GB/s), or as fast as they are copied. They are laid into buffers of a receive list,
/// and another thread finds the rings of each that is full. Serialised, a buffer is filled when the one before
/// was searched, as NaNet was measured; overlapped, while it is, as in operation.
///
/// The published figures of NaNet are pictures without numbers, so what is measured is compared with what
/// is asked for: an answer within 1 ms, and 10 million events a second. The largest buffer within 1 ms
/// is named for each link. Times are medians, and those of links count bytes of events alone, without headers.
///
/// In JSON each time has beside it what 1 % of the buffers surpass (`p99_us`) and the least that it can be
/// (`limit_us`): that of the link, or of copying, and of reading. For `overlapped`, the time from one buffer to the next,
/// that is the larger of transfer and processing, and `times_larger` how often that went into it.
///
/// Example: gannet bench latency --detector rich --svg latency.svg
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Whose events.
    #[arg(long, default_value = "rich", value_parser = names::parser::<Detector>())]
    detector: Detector,
    /// One ring an event, or up to five.
    #[arg(long, default_value = "single", value_parser = names::parser::<Finder>())]
    finder: Finder,
    /// Instruction set; auto is the fastest that the machine has.
    #[arg(long, default_value = "auto", value_parser = names::parser::<IsaChoice>())]
    isa: IsaChoice,
    /// Length of the measurement of each link and size, twice.
    #[arg(long, default_value = "0.25", value_name = "S", value_parser = output::seconds)]
    seconds: Duration,
    /// Draw latencies against sizes into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Overwrite that file if it exists.
    #[arg(long, requires = "svg")]
    overwrite: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let picture = arguments.svg.as_deref();
    let picture = picture.map(|file| Destination::begin(file, arguments.overwrite)).transpose()?;
    let plan = LatencyPlan {
        detector: arguments.detector,
        finder: arguments.finder,
        isa: arguments.isa,
        time: arguments.seconds,
    };
    let report = latency::measure(&plan, &SIZES)?;
    if let Some(file) = picture {
        file.write(&latency::svg(&report)?)?;
    }
    match arguments.json {
        true => output::json(&report)?,
        false => output::print(|out| print(out, &report))?,
    }
    Ok(Outcome::Ok)
}

fn print(out: &mut impl Write, report: &LatencyReport) -> io::Result<()> {
    writeln!(
        out,
        "{}, {}: events of {:.1} bytes; times in us, in brackets what link and memory allow",
        names::name(&report.finder),
        report.isa,
        report.bytes_per_event
    )?;
    if !report.has_cores {
        writeln!(out, "link and search share a processor: nothing overlaps")?;
    }
    report.links.iter().try_for_each(|link| print_link(out, report, link))?;
    writeln!(
        out,
        "asked for are {:.0} M events/s and an answer within {:.0} us; NaNet's own figures are pictures without numbers",
        report.required_per_s * 1e-6,
        report.budget_us
    )
}

fn print_link(out: &mut impl Write, report: &LatencyReport, link: &LinkReport) -> io::Result<()> {
    let rate = link.bits_per_s.map_or(String::new(), |rate| format!(", {} Gbit/s", rate * 1e-9));
    writeln!(out, "\n{}{rate}", link.link.name())?;
    writeln!(
        out,
        "{:>6} {:>20} {:>20} {:>20} {:>17} {:>19} {:>16}",
        "events",
        "transfer",
        "processing",
        "serialised",
        "overlapped",
        "latency (99 %)",
        "M events/s"
    )?;
    for point in &link.points {
        let Point { events, transfer, processing, serialised, overlapped, .. } = point;
        let spans = [transfer, processing, serialised]
            .map(|span| format!("{:9.1} ({:8.1})", span.us, span.limit_us));
        let overlapped = format!("{:9.1} ({:.2}x)", overlapped.us, point.times_larger);
        let latency = &point.overlapped_latency;
        let latency = format!("{:8.1} ({:8.1})", latency.us, latency.p99_us);
        let rates = [point.events_per_s, point.limit_per_s].map(|per_s| per_s * 1e-6);
        let [transfer, processing, serialised] = spans;
        let [reached, limit] = rates;
        writeln!(
            out,
            "{events:>6} {transfer:>20} {processing:>20} {serialised:>20} {overlapped:>17} {latency:>19} {:>16}",
            format!("{reached:6.2} ({limit:6.2})")
        )?;
    }
    let largest = |events: Option<usize>| {
        events.map_or_else(|| "none".to_owned(), |events| format!("{events} events"))
    };
    writeln!(
        out,
        "largest buffer within {:.0} us: {} serialised, {} overlapped",
        report.budget_us,
        largest(link.largest_serialised),
        largest(link.largest_overlapped)
    )
}
