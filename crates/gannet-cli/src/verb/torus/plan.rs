//! `gannet torus plan`: which machine, how it is cabled, what it does and what it survives.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use gannet_lattice::Lattice;
use gannet_measure::quantity::Span;
use gannet_torus::routes::MAX_CHECKED_NODES;
use gannet_torus_study::Error;
use gannet_torus_study::plan::{self, Demand, Plan, Prices, Stage};

use super::quantity::{rate, rate_text};
use crate::background;
use crate::destination::Destination;
use crate::exit::Outcome;
use crate::log;
use crate::output::{self, grouped};
use crate::progress::Progress;

/// Plans a switchless machine: its shape, its cabling, what it carries and what failures it
/// survives, compared with a single switch.
///
/// Shapes are ranked by the uniform traffic they carry, then by mean distance times places per node (so unused places count as
/// longer ways), then by the larger bisection, then by fewer cables. "Links full at" is the uniform load, in terms of the rate of a
/// link, at which the busiest links are full; from 1.5 on shapes count as equal. It may exceed 1, while the "bound" of a pattern does
/// not: a node sends at most the rate of one link. The bisection counts the fewest links, both ways,
/// between two halves of the nodes; with unused places it may count a few more than the fewest.
/// Bounds follow from the routes; --simulate also measures what routers of ordinary size reach.
/// Failures are drawn at random.
///
/// Ctrl-C prints what has been planned and measured so far, starting with the bounds for uniform
/// traffic.
///
/// Example: gannet torus plan --nodes 64 --ports 6 --rate 100Gbit/s --cabling cables.csv
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Number of nodes.
    #[arg(long, value_name = "N")]
    nodes: usize,
    /// Torus ports per node: 2, 4 or 6.
    #[arg(long, value_name = "P")]
    ports: usize,
    /// Link rate in one direction, such as 100Gbit/s.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: f64,
    /// Plan this lattice instead of the best one; its last places may stay unused.
    #[arg(long, value_name = "SIZES")]
    lattice: Option<Lattice>,
    /// Message size; more than 4096 bytes takes several packets.
    #[arg(long, default_value = "4096", value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    packet_bytes: u32,
    /// Time per hop, such as 500ns; when absent, no latencies are given.
    #[arg(long, value_name = "TIME")]
    hop_time: Option<Span>,
    /// Largest number of failures to examine: 1, 2, 5, 10 and so on up to this number.
    #[arg(long, default_value = "10", value_name = "K")]
    fail: usize,
    /// Random trials for each number of failures [default: 100; fewer above 40 000 nodes, and
    /// routes for as many as take a few seconds].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    trials: Option<u32>,
    /// Seed for drawing failures.
    #[arg(long, default_value = "1", value_name = "N")]
    seed: u64,
    /// Also simulate the saturation of each pattern, which takes a while.
    #[arg(long)]
    simulate: bool,
    /// Write the list of cables, port to port, as CSV to this file.
    #[arg(long, value_name = "FILE")]
    cabling: Option<PathBuf>,
    /// Overwrite the file if it exists.
    #[arg(long, requires = "cabling")]
    overwrite: bool,
    /// Ports of the switch to compare with [default: enough for all nodes].
    #[arg(long, value_name = "N")]
    switch_ports: Option<usize>,
    /// Price of the switch, in any currency.
    #[arg(long, value_name = "PRICE", value_parser = price)]
    switch_cost: Option<f64>,
    /// Price of a cable.
    #[arg(long, value_name = "PRICE", value_parser = price)]
    cable_cost: Option<f64>,
    /// Print the plan as JSON.
    #[arg(long)]
    json: bool,
}

fn price(text: &str) -> Result<f64, String> {
    let price = text.parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
    price.ok_or_else(|| format!("`{text}` is no price"))
}

/// How often a long work is told of where no line on a terminal shows it.
const TOLD: Duration = Duration::from_secs(5);

enum Step {
    Stage(Stage),
    /// Saturation is measured.
    Measuring(Stage),
    /// The plan as it is by now.
    Plan(Box<Plan>),
    Failed(Error),
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let file = arguments.cabling.as_deref();
    let file = file.map(|file| Destination::begin(file, arguments.overwrite)).transpose()?;
    let demand = arguments.demand();
    let work = move |steps: &Sender<Step>| {
        if let Err(error) = work(&demand, steps) {
            _ = steps.send(Step::Failed(error));
        }
    };
    let mut progress = Progress::new("planning");
    let (mut planned, mut failed, mut told) = (None, None, Instant::now());
    let signal = background::until_break(work, |step| {
        match step {
            Step::Stage(stage) => {
                progress.show(stage.done as u64, stage.total as u64);
                if told.elapsed() >= TOLD && !output::takes_control_codes(&io::stderr()) {
                    log::say(format_args!("{}: {} of {}", stage.name, stage.done, stage.total));
                    told = Instant::now();
                }
            }
            Step::Measuring(stage) => {
                log::say(format_args!("{} of {}: {}", stage.done + 1, stage.total, stage.name));
                progress.show(stage.done as u64, stage.total as u64);
            }
            Step::Plan(plan) => planned = Some(*plan),
            Step::Failed(error) => failed = Some(error),
        }
        ControlFlow::Continue(())
    })?;
    drop(progress);
    let outcome = signal.map_or(Outcome::Ok, Outcome::Interrupted);
    if let Some(error) = failed {
        return Err(error.into());
    }
    let Some(plan) = planned else { return Ok(outcome) };
    if let Some(file) = file {
        file.write(&plan::csv(&plan.wires))?;
    }
    if arguments.json {
        output::json(&plan)?;
    } else {
        output::print(|out| print(out, &plan))?;
    }
    Ok(outcome)
}

/// Plans, and measures if that is asked for. Nobody hears the steps when a signal has ended the
/// verb.
fn work(demand: &Demand, steps: &Sender<Step>) -> Result<(), Error> {
    let send = |step| _ = steps.send(step);
    let mut parts = 0;
    let mut plan = plan::plan(demand, &mut |stage, plan| {
        if let Some(plan) = plan {
            let now = plan.patterns.len() + plan.survival.len();
            if std::mem::replace(&mut parts, now) < now {
                send(Step::Plan(Box::new(plan.clone())));
            }
        }
        send(Step::Stage(stage));
    })?;
    if demand.simulate {
        plan::measure(&mut plan, &mut |stage, plan| {
            send(Step::Plan(Box::new(plan.clone())));
            send(Step::Measuring(stage));
        })?;
    }
    send(Step::Plan(Box::new(plan)));
    Ok(())
}

impl Arguments {
    fn demand(&self) -> Demand {
        Demand {
            packet_bytes: self.packet_bytes,
            hop_ns: self.hop_time.map(|time| time.ns() as f64),
            lattice: self.lattice,
            fail: self.fail,
            trials: self.trials.map(|trials| trials as usize),
            seed: self.seed,
            simulate: self.simulate,
            switch_ports: self.switch_ports,
            prices: Prices { cable: self.cable_cost, switch: self.switch_cost },
            ..Demand::new(self.nodes, self.ports, self.rate)
        }
    }
}

fn print(mut out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    print_shapes(&mut out, plan)?;
    print_machine(&mut out, plan)?;
    print_patterns(&mut out, plan)?;
    print_survival(&mut out, plan)?;
    print_switch(&mut out, plan)
}

fn print_shapes(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    let demand = &plan.demand;
    let (nodes, rate) = (demand.nodes, rate_text(demand.rate_bit_per_s));
    writeln!(out, "shapes for {nodes} nodes of {} ports at {rate}", demand.ports)?;
    writeln!(
        out,
        "  {:<12} {:>6} {:>8} {:>10} {:>9} {:>10} {:>14}",
        "lattice", "empty", "cables", "mean hops", "max hops", "bisection", "links full at"
    )?;
    for shape in &plan.shapes {
        writeln!(
            out,
            "  {:<12} {:>6} {:>8} {:>10.2} {:>9} {:>10} {:>14.3}",
            shape.lattice,
            shape.missing,
            shape.cables,
            shape.mean_hops,
            shape.max_hops,
            shape.bisection_links,
            shape.uniform_bound
        )?;
    }
    writeln!(out)
}

fn print_machine(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    writeln!(out, "{} planned", plan.lattice)?;
    let mut row = |name: &str, value: String| writeln!(out, "  {name:<20} {value}");
    if plan.missing > 0 {
        row("empty places", format!("{}, the last ones", plan.missing))?;
    }
    let (cables, places) = (grouped(plan.cables as u64), plan.longest_cable_places);
    let order = match places {
        2 => "; no longer than two places, with rings laid out as 0, k-1, 1, k-2, ...",
        _ => "; all of one place",
    };
    row("cables", format!("{cables}{order}"))?;
    let bisection = rate_text(plan.bisection_bit_per_s);
    row("bisection", format!("{} links, {bisection}, both ways", plan.bisection_links))?;
    row("hops", format!("{:.2} on average, {} at most", plan.mean_hops, plan.max_hops))?;
    if let (Some(mean), Some(longest)) = (plan.zero_load_latency_ns, plan.longest_latency_ns) {
        let bytes = plan.demand.packet_bytes;
        let (mean, longest) = (mean * 1e-3, longest * 1e-3);
        let value = format!("{mean:.2} us on average, {longest:.2} us at most, {bytes} bytes");
        row("latency, idle", value)?;
    }
    let (share, interval) = (plan.payload_share, plan.demand.credit_interval());
    let packets = match plan.demand.packets() {
        1 => "a packet".to_owned(),
        packets => format!("{} packets", grouped(packets as u64)),
    };
    let value = format!(
        "{share:.3} of the rate in {packets} of the APElink, with a credit every {interval} words"
    );
    row("payload", value)?;
    if let Some(cables) = plan.separating_cables {
        let less = cables.saturating_sub(1);
        row("cables that may fail", format!("any {less}; the wrong {cables} separate a part"))?;
    }
    writeln!(out)
}

fn print_patterns(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    writeln!(
        out,
        "  {:<16} {:>9} {:>13} {:>8} {:>16} {:>10} {:>16}",
        "pattern", "mean hops", "busiest link", "bound", "of a node", "measured", "of a node"
    )?;
    for pattern in &plan.patterns {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.3}"));
        let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), rate_text);
        let hops = pattern.mean_hops.map_or("-".to_owned(), |hops| format!("{hops:.2}"));
        writeln!(
            out,
            "  {:<16} {hops:>9} {:>13} {:>8} {:>16} {:>10} {:>16}",
            pattern.pattern,
            number(pattern.max_channel_load),
            number(pattern.bound),
            rate(pattern.bound_bit_per_s),
            number(pattern.measured),
            rate(pattern.measured_bit_per_s),
        )?;
    }
    writeln!(out)
}

fn print_survival(mut out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    writeln!(
        out,
        "  {:<14} {:>10} {:>13} {:>8} {:>11} {:>8}",
        "random dead", "connected", "largest part", "routed", "more hops", "trials"
    )?;
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    for row in &plan.survival {
        let routed = row.routed.map_or("-".to_owned(), percent);
        let more = row.extra_hops.map_or("-".to_owned(), |hops| format!("{hops:+.3}"));
        writeln!(
            out,
            "  {:<14} {:>10} {:>13} {routed:>8} {more:>11} {:>8}",
            match row.failed {
                1 => format!("1 {}", row.what.trim_end_matches('s')),
                failed => format!("{failed} {}", row.what),
            },
            percent(row.connected),
            percent(row.largest_part),
            match row.routed_trials {
                routed if routed == row.trials => routed.to_string(),
                routed => format!("{}/{routed}", row.trials),
            }
        )?;
    }
    print_trials(&mut out, plan)?;
    writeln!(out)
}

/// Why there are fewer random machines than one may look for.
fn print_trials(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    let Some(row) = plan.survival.first() else { return Ok(()) };
    let nodes = plan.sizes.nodes();
    if nodes > MAX_CHECKED_NODES {
        writeln!(out, "  routes round failures are planned for up to {MAX_CHECKED_NODES} nodes")
    } else if row.routed_trials == 0 {
        let why = format!("which takes long for {nodes} nodes: ask by --trials");
        writeln!(out, "  routes round failures are not planned, {why}")
    } else if row.routed_trials < row.trials {
        let why = format!("which take long for {nodes} nodes: ask for more by --trials");
        writeln!(out, "  trials: all, and those with routes, {why}")
    } else {
        Ok(())
    }
}

fn print_switch(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    let switch = &plan.switch;
    let mut row = |name: &str, torus: String, other: String| {
        writeln!(out, "  {name:<22} {torus:>16} {other:>16}")
    };
    row("compared", plan.lattice.clone(), "one switch".to_owned())?;
    let cables = |count: usize| grouped(count as u64);
    row("cables", cables(plan.cables), cables(switch.cables))?;
    row("links on the way", format!("{:.2}", plan.mean_hops), switch.hops.to_string())?;
    let uniform = plan.patterns.first().and_then(|pattern| pattern.bound_bit_per_s);
    let uniform = uniform.map_or("-".to_owned(), rate_text);
    row("a node to any, bound", uniform, rate_text(switch.node_bit_per_s))?;
    let links = plan.node_cables as f64 * plan.demand.rate_bit_per_s;
    row("a node's links", rate_text(links), rate_text(switch.node_bit_per_s))?;
    let (torus, other) = (plan.bisection_bit_per_s, switch.bisection_bit_per_s);
    row("bisection, both ways", rate_text(torus), rate_text(other))?;
    if plan.cost.is_some() || switch.cost.is_some() {
        let cost = |cost: Option<f64>| cost.map_or("not given".to_owned(), |c| format!("{c:.0}"));
        let other = if switch.fits { cost(switch.cost) } else { "too small".to_owned() };
        row("cables and switch", cost(plan.cost), other)?;
    }
    if !switch.fits {
        let ports = plan.demand.switch_ports.unwrap_or(0);
        writeln!(out, "  a switch of {ports} ports is too small for {} nodes", plan.demand.nodes)?;
    }
    Ok(())
}
