//! `gannet torus simulate`: what does this machine do under this load?

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use gannet_torus_study::{
    Error, Experiment, Limits, LinkTable, LoadReport, PlotError, Point, Saturation, curve_svg,
};

use super::machine::{MachineArguments, tell_left_out, title};
use crate::background;
use crate::destination::Destination;
use crate::exit::{Outcome, Usage};
use crate::log;
use crate::output;
use crate::progress::Progress;

/// Simulates a torus flit by flit and prints throughput and latency next to their limits.
///
/// With several loads it gives the latency-load curve. Latencies are in cycles, from the creation
/// of a packet to the arrival of its last flit. The limits follow from the routes alone: the
/// latency of a packet that meets no other, and the load at which the busiest link, virtual channel
/// class or receiver is full. The same seed gives the same figures on any number of threads.
///
/// JSON output is an object with setup, limits and `points`, one for each load; the fields of the
/// last point also stand at the top level. Latencies are null where no packet of the window
/// arrived, and `packet_flits` is null where the packets of a trace differ. Ctrl-C prints the
/// results so far.
///
/// Example: gannet torus simulate --lattice 4x4x4 --load 0.1..0.9:0.1 --svg curve.svg
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    machine: MachineArguments,
    /// Also find the highest load with at least 98 % accepted, and the peak throughput.
    #[arg(long)]
    saturation: bool,
    /// Also report the load of the links at the last load; with --json, of every link.
    #[arg(long)]
    links: bool,
    /// Plot latency and throughput against load to this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Overwrite the file if it exists.
    #[arg(long, requires = "svg")]
    overwrite: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// What the measurement has come to.
enum Step {
    Point(Box<Point>),
    Trial(Box<Point>),
    Saturation(Box<Saturation>),
    Failed(Error),
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let experiment = match arguments.machine.experiment()? {
        ControlFlow::Continue(experiment) => experiment,
        ControlFlow::Break(signal) => return Ok(Outcome::Interrupted(signal)),
    };
    let is_trace = experiment.own_load().is_some();
    if is_trace && arguments.saturation {
        return Err(Error::TraceLoad.into());
    }
    let picture = arguments.picture(is_trace)?;
    let mut report = LoadReport::new(&experiment);
    let title = title(experiment.machine());
    let lattice = experiment.machine().setup.lattice;
    let is_read = arguments.json || output::offer(|out| print_head(out, &title, &report.limits))?;
    if !is_read && arguments.svg.is_none() {
        return Ok(Outcome::Ok);
    }
    let signal = measure(arguments, experiment, &mut report)?;
    if arguments.links {
        report.links = report.last.as_ref().map(|point| point.link_table(lattice));
    }
    if let Some(picture) = picture {
        match curve_svg(&title, &report) {
            Ok(curve) => picture.write(&curve)?,
            // A signal came before there were two points.
            Err(_) if signal.is_some() => {}
            Err(error) => return Err(error.into()),
        }
    }
    if arguments.json {
        output::json(&report)?;
    } else {
        output::print(|out| print_rest(out, &report))?;
    }
    Ok(signal.map_or(Outcome::Ok, Outcome::Interrupted))
}

impl Arguments {
    /// Where the picture goes, if one is asked for and there will be a curve to draw.
    fn picture(&self, is_trace: bool) -> anyhow::Result<Option<Destination>> {
        let Some(file) = &self.svg else { return Ok(None) };
        let mut loads = self.machine.loads();
        loads.dedup();
        if is_trace || (loads.len() < 2 && !self.saturation) {
            return Err(Usage(PlotError::TooFew.to_string()).into());
        }
        Ok(Some(Destination::begin(file, self.overwrite)?))
    }
}

/// Measures all loads, and where the machine saturates; the number of a signal that ended it.
fn measure(
    arguments: &Arguments,
    experiment: Experiment,
    report: &mut LoadReport,
) -> anyhow::Result<Option<i32>> {
    let loads = match experiment.own_load() {
        Some(load) => vec![load],
        None => arguments.machine.loads(),
    };
    let (count, saturation) = (loads.len(), arguments.saturation);
    let machine = experiment.machine().clone();
    let mut progress = Progress::new("simulating");
    progress.show(0, count as u64);
    let mut failed = None;
    let work = move |steps: &Sender<Step>| work(&experiment, &loads, saturation, steps);
    let signal = background::until_break(work, |step| {
        match step {
            Step::Point(point) => {
                let (line, row) = (line_of(&point), row_of(&point, &report.limits));
                let (name, end) = (format!("load {}", point.load), point.cycles);
                report.add(*point);
                let done = report.points.len();
                if count > 1 && (arguments.json || !output::is_terminal()) {
                    log::say(format_args!("{done:>3} of {count}: {line}"));
                }
                tell_left_out(&machine, &name, end, "--cycles");
                progress.show(done as u64, count as u64);
                // With a reader that has gone, nobody will see the other loads.
                if !arguments.json {
                    match output::offer(|out| writeln!(out, "{row}")) {
                        Ok(true) => {}
                        Ok(false) if arguments.svg.is_some() => {}
                        Ok(false) => return ControlFlow::Break(()),
                        Err(error) => {
                            failed = Some(error);
                            return ControlFlow::Break(());
                        }
                    }
                }
            }
            Step::Trial(point) => log::say(format_args!("saturation: {}", line_of(&point))),
            Step::Saturation(saturation) => report.saturation = Some(*saturation),
            Step::Failed(error) => failed = Some(error.into()),
        }
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(signal), Err)
}

fn work(experiment: &Experiment, loads: &[f64], saturation: bool, steps: &Sender<Step>) {
    // Nobody hears the steps when a signal has ended the verb.
    let send = |step| _ = steps.send(step);
    for &load in loads {
        match experiment.measure(load) {
            Ok(point) => send(Step::Point(Box::new(point))),
            Err(error) => return send(Step::Failed(error)),
        }
    }
    if saturation {
        let mut trial = |point: &Point| send(Step::Trial(Box::new(point.clone())));
        match experiment.saturation(&mut trial) {
            Ok(found) => send(Step::Saturation(Box::new(found))),
            Err(error) => send(Step::Failed(error)),
        }
    }
}

fn line_of(point: &Point) -> String {
    let Point { load, accepted, .. } = point;
    let latency = point.latency_mean_cycles.map(|cycles| format!(", {cycles:.1} cycles"));
    let latency = latency.unwrap_or_default();
    let saturated = if point.saturated { ", saturated" } else { "" };
    let taken = match point.taken_by_faults {
        0.0 => String::new(),
        taken => format!(", {taken:.4} taken by faults"),
    };
    format!("load {load}: {accepted:.4} accepted{taken}{latency}{saturated}")
}

/// Heading, unit and value of a column.
type Column = (&'static str, &'static str, fn(&Point, &Limits) -> String);

const COLUMNS: [Column; 8] = [
    ("load", "flit/cycle", |p, _| format!("{:.4}", p.load)),
    ("accepted", "flit/cycle", |p, _| format!("{:.4}", p.accepted)),
    ("of bound", "", |p, l| format!("{:.2}", p.accepted / l.saturation_bound)),
    ("latency", "cycles", |p, _| {
        latency(p, p.latency_mean_cycles.map(|cycles| format!("{cycles:.1}")))
    }),
    ("of alone", "", |p, l| {
        let both = p.latency_mean_cycles.zip(l.zero_load_latency_cycles);
        latency(p, both.map(|(cycles, alone)| format!("{:.2}", cycles / alone)))
    }),
    ("p99", "cycles", |p, _| latency(p, p.latency_p99_cycles.map(|cycles| cycles.to_string()))),
    ("links", "mean", |p, _| format!("{:.3}", p.link_load_mean)),
    ("links", "max", |p, _| format!("{:.3}", p.link_load_max)),
];

/// A latency, marked where it says little, or a dash where there is none.
fn latency(point: &Point, value: Option<String>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if point.saturated => format!("({value})"),
        Some(value) => value,
    }
}

/// All that is known before anything is measured.
fn print_head(mut out: &mut impl Write, title: &str, limits: &Limits) -> io::Result<()> {
    writeln!(out, "{title}")?;
    print_limits(&mut out, limits)?;
    writeln!(out, "{}", row(COLUMNS.iter().map(|(heading, ..)| (*heading).to_owned())))?;
    writeln!(out, "{}", row(COLUMNS.iter().map(|(_, unit, _)| (*unit).to_owned())))
}

fn row_of(point: &Point, limits: &Limits) -> String {
    row(COLUMNS.iter().map(|(.., value)| value(point, limits)))
}

fn row(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| format!("{cell:>11}")).collect()
}

/// All that comes behind the rows of the loads.
fn print_rest(mut out: &mut impl Write, report: &LoadReport) -> io::Result<()> {
    if report.points.iter().any(|point| point.saturated) {
        writeln!(
            out,
            "in brackets: saturated, the latency grows with the length of the simulation"
        )?;
    }
    if report.points.iter().any(|point| point.accepted > 1.02 * report.limits.saturation_bound) {
        writeln!(
            out,
            "more than the bound is accepted where nodes whose packets meet nothing that is full \
             send more than the others"
        )?;
    }
    for point in report.points.iter().filter(|point| point.lost > 0 || point.taken_by_faults > 0.0)
    {
        let Point { load, taken_by_faults: taken, lost, replayed, .. } = point;
        let part = 100.0 * taken / point.offered;
        writeln!(
            out,
            "at a load of {load:.4}, faults took {taken:.4} flits per node and cycle, {part:.1} % of \
             what was offered; in all cycles {lost} packets were lost, {replayed} sent again"
        )?;
    }
    if let Some(saturation) = &report.saturation {
        print_saturation(&mut out, saturation)?;
    }
    if let Some(links) = &report.links {
        print_links(&mut out, links)?;
    }
    let Some(point) = &report.last else { return Ok(()) };
    writeln!(
        out,
        "simulated with {:.0} cycles/s, {:.3e} flit visits/s, {} bytes a node",
        point.cycles_per_s, point.flit_visits_per_s, point.bytes_per_node
    )
}

fn print_limits(out: &mut impl Write, limits: &Limits) -> io::Result<()> {
    let Limits { mean_hops, max_hops, max_channel_load, .. } = limits;
    match limits.zero_load_latency_cycles.zip(*mean_hops) {
        Some((alone, hops)) => writeln!(
            out,
            "a packet alone: {alone:.1} cycles over {hops:.2} links, at most {max_hops}"
        )?,
        None => writeln!(out, "a packet alone: -, as no packet can arrive")?,
    }
    let bound = limits.saturation_bound;
    // Channels that are taken when their link is full are no reason of their own.
    let binds = |load: Option<f64>| load.is_some_and(|load| load < 1.0 && load < 1.0001 * bound);
    let why = match () {
        () if binds(limits.channel_bound) => "the busiest link",
        () if binds(limits.ejection_bound) => "the node that receives most",
        () if binds(limits.class_bound) => "the channels of a class on a link",
        () => "the sources",
    };
    writeln!(
        out,
        "bound: {bound:.4} flits per node and cycle where all send alike, by {why}; the busiest \
         link carries {max_channel_load:.3} of the load"
    )?;
    if limits.reachable < 1.0 {
        let lost = 100.0 * (1.0 - limits.reachable);
        writeln!(
            out,
            "{lost:.2} % of the packets are refused: their source or destination is dead"
        )?;
    }
    Ok(())
}

fn print_saturation(out: &mut impl Write, found: &Saturation) -> io::Result<()> {
    let Saturation { load, bound, ratio, peak_accepted, peak_load, .. } = found;
    writeln!(out, "saturation: {load:.4}, {ratio:.2} of the bound {bound:.4}")?;
    writeln!(out, "peak: {peak_accepted:.4} accepted at a load of {peak_load:.4}")?;
    let least = found.overload_accepted_least;
    let least = least.map_or(String::new(), |least| format!(", the least of a node {least:.4}"));
    let accepted = found.overload_accepted;
    writeln!(out, "overload: {accepted:.4} accepted at a load of 1{least}")
}

fn print_links(out: &mut impl Write, links: &LinkTable) -> io::Result<()> {
    writeln!(out, "links, flits per cycle at the last load")?;
    for direction in &links.directions {
        let (name, mean, max) = (direction.direction, direction.mean, direction.max);
        writeln!(out, "  all {name}  mean {mean:.4}, max {max:.4}")?;
    }
    for link in &links.busiest {
        let [x, y, z] = link.at;
        let (node, direction, load) = (link.node, link.direction, link.load);
        writeln!(out, "  {node} ({x}, {y}, {z}) {direction}  {load:.4}")?;
    }
    Ok(())
}
