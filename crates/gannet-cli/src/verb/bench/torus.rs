//! `gannet bench torus`: does the machine that runs do what the one that is simulated does?

use std::io::{self, Write};
use std::sync::mpsc::Sender;
use std::time::Duration;

use gannet_evaluate::torus::{
    BUSY_MOST, FRAME_BYTES_MAX, FRAME_BYTES_MIN, NODES_MAX, Torus, TorusPlan, TorusPoint,
    TorusReport,
};
use gannet_lattice::Lattice;

use crate::background;
use crate::exit::{Outcome, Usage};
use crate::log;
use crate::output;
use crate::progress::Progress;
use crate::verb::torus::machine::{ArbitrationName, PatternName};
use crate::verb::torus::quantity::{Loads, loads, rate};

/// Runs a torus of nodes on this machine, and simulates the same one under the same traffic.
///
/// The nodes are threads that UDP over loopback joins. Each cable has a rate, with which the processors should not have much to
/// do; a node takes and gives as much. A cycle is the time in which a cable carries a flit, a sixteenth of the longest
/// packet. What a hop takes is measured first, and the simulated routers take as long. Throughput (`accepted`) is in flits per
/// node and cycle, latency in cycles.
///
/// Example: gannet bench torus --lattice 2x2x2 --load 0.2..1.0:0.2
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Sizes of the rings in x, y and z, of 2 to 64 nodes.
    #[arg(long, default_value = "2x2x2", value_name = "SIZES")]
    lattice: Lattice,
    /// Traffic pattern.
    #[arg(long, default_value = "uniform")]
    pattern: PatternName,
    /// Which of the competing packets goes first.
    #[arg(long, value_enum, default_value = "turns", value_name = "RULE")]
    arbitration: ArbitrationName,
    /// Load: flits made per node and cycle. A number, several with commas, or a range.
    #[arg(long, value_name = "LOAD", default_value = "0.1..1.0:0.1", value_parser = loads,
          allow_hyphen_values = true)]
    load: Loads,
    /// What a cable carries each way: so much that the processors have time to spare.
    #[arg(long, value_name = "RATE", default_value = "20Mbit/s", value_parser = rate)]
    rate: f64,
    /// Longest frame, bytes.
    #[arg(long, value_name = "N", default_value = "8972",
          value_parser = clap::value_parser!(u64).range(FRAME_BYTES_MIN as u64..=FRAME_BYTES_MAX as u64))]
    frame_bytes: u64,
    /// For how long each load is measured.
    #[arg(long, default_value = "2", value_name = "S", value_parser = output::seconds)]
    seconds: Duration,
    /// Seed of the traffic.
    #[arg(long, default_value = "1", value_name = "N")]
    seed: u64,
    /// Print the measurements as JSON.
    #[arg(long)]
    json: bool,
}

/// What the measurement has come to.
enum Step {
    Begun(TorusReport),
    Point(TorusReport),
    Failed(gannet_evaluate::torus::Error),
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let nodes = arguments.lattice.nodes();
    if !(2..=NODES_MAX).contains(&nodes) {
        let lattice = arguments.lattice;
        return Err(Usage(format!("{lattice} has {nodes} nodes: choose 2 to {NODES_MAX}")).into());
    }
    let Some(pattern) = arguments.pattern.pattern(None) else {
        return Err(Usage(
            "the packets of a trace have their own times: choose another pattern".to_owned(),
        )
        .into());
    };
    let plan = TorusPlan {
        lattice: arguments.lattice,
        pattern,
        arbitration: arguments.arbitration.rule(),
        bit_per_s: arguments.rate,
        frame_bytes: arguments.frame_bytes as usize,
        time: arguments.seconds,
        seed: arguments.seed,
    };
    let (loads, json) = (arguments.load.0.clone(), arguments.json);
    let count = loads.len() as u64;
    let mut progress = Progress::new("measuring");
    progress.show(0, count);
    let (mut report, mut failed) = (None, None);
    let signal = background::until_signal(
        move |steps| measure(plan, &loads, steps),
        |step| match step {
            Step::Begun(begun) => {
                if !json {
                    failed = output::print(|out| print_head(out, &begun)).err();
                }
                report = Some(begun);
            }
            Step::Point(grown) => {
                progress.show(grown.points.len() as u64, count);
                if !json && let Some(point) = grown.points.last() {
                    failed = output::print(|out| print_point(out, point)).err();
                }
                report = Some(grown);
            }
            Step::Failed(error) => failed = Some(error.into()),
        },
    )?;
    drop(progress);
    if let Some(error) = failed {
        return Err(error);
    }
    if let Some(report) = report {
        match json {
            true => output::json(&report)?,
            false => output::print(|out| print_peaks(out, &report))?,
        }
        warn(&report);
    }
    Ok(signal.map_or(Outcome::Ok, Outcome::Interrupted))
}

fn measure(plan: TorusPlan, loads: &[f64], steps: &Sender<Step>) {
    // Nobody hears the steps when a signal has ended the verb.
    let send = |step| _ = steps.send(step);
    let mut torus = match Torus::new(plan) {
        Ok(torus) => torus,
        Err(error) => return send(Step::Failed(error)),
    };
    send(Step::Begun(torus.report().clone()));
    for &load in loads {
        if let Err(error) = torus.measure(load) {
            return send(Step::Failed(error));
        }
        send(Step::Point(torus.report().clone()));
    }
}

fn print_head(out: &mut impl Write, report: &TorusReport) -> io::Result<()> {
    let TorusReport { lattice, pattern, packet_flits, virtual_channels, channel_flits, .. } =
        report;
    writeln!(
        out,
        "{lattice}, {pattern}, {packet_flits} flits a packet, {virtual_channels} x {channel_flits} flits; a cycle takes \
         {:.1} us, a hop {:.1} cycles",
        report.cycle_ns / 1e3,
        report.hop_cycles
    )?;
    writeln!(
        out,
        "{:>6} {:>9} {:>10} {:>6} {:>9} {:>10} {:>6}",
        "load", "accepted", "simulated", "ratio", "latency", "simulated", "busy"
    )
}

fn print_point(out: &mut impl Write, point: &TorusPoint) -> io::Result<()> {
    let text = |value: Option<f64>, digits| {
        value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let ratio = (point.simulated > 0.0).then(|| point.accepted / point.simulated);
    writeln!(
        out,
        "{:>6} {:>9.4} {:>10.4} {:>6} {:>9} {:>10} {:>6.2}",
        point.load,
        point.accepted,
        point.simulated,
        text(ratio, 2),
        text(point.latency_cycles, 1),
        text(point.simulated_latency_cycles, 1),
        point.busy
    )
}

fn print_peaks(out: &mut impl Write, report: &TorusReport) -> io::Result<()> {
    if let Some([running, simulated]) = report.peaks() {
        let ratio = running / simulated;
        writeln!(out, "\npeak: {running:.4} accepted, {simulated:.4} simulated, ratio {ratio:.2}")?;
    }
    writeln!(out, "processors: {}", report.processors)
}

/// Says where figures are of processors instead of cables.
fn warn(report: &TorusReport) {
    let busy = report.points.iter().map(|point| point.busy).fold(0.0, f64::max);
    if busy > BUSY_MOST {
        log::say(format_args!(
            "the nodes took up to {:.0} % of the processors, so they waited for these, too: choose a lower --rate",
            100.0 * busy
        ));
    }
    let resent: u64 = report.points.iter().map(|point| point.resent).sum();
    if resent > 0 {
        log::say(format_args!("{resent} packets were sent again, and count once"));
    }
}
