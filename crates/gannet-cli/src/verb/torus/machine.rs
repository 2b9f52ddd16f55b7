//! The options of a machine, the same for every verb that simulates one.

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use gannet_lattice::{Direction, Lattice};
use gannet_measure::quantity::Bytes;
use gannet_torus::simulator::{
    Arbitration, FlowControl, PACKET_FLITS_MAX, Pattern, Script, Setup, Trace, WarmUp,
};
use gannet_torus_study::{Error, Experiment, Machine, Timing, pattern_name};

use super::quantity::{Loads, loads, number};
use crate::background;
use crate::exit::Usage;
use crate::log;

/// Most bytes that are read of a script, and of a trace.
const SCRIPT_MAX: Bytes = Bytes::mib(4);
const TRACE_MAX: Bytes = Bytes::mib(64);
/// Part of the packets that go to a hot spot, unless asked for.
const HOT_SPOT_FRACTION: f64 = 0.1;

/// A machine, its traffic and its faults.
#[derive(Debug, clap::Args)]
pub struct MachineArguments {
    /// Sizes of the rings in x, y and z, such as 8x8x8 or 16x4.
    #[arg(long, default_value = "8x8x8", value_name = "SIZES")]
    lattice: Lattice,
    /// Traffic pattern.
    #[arg(long, default_value = "uniform")]
    pattern: PatternName,
    /// Fraction of packets that go to the hot spot with pattern `hot-spot`, 0 to 1; the others go
    /// anywhere [default: 0.1].
    #[arg(long, value_name = "PART", value_parser = part)]
    hot_spot_fraction: Option<f64>,
    /// File with the packets of pattern `trace`: lines `cycle,source,destination,flits`.
    #[arg(long, value_name = "FILE", required_if_eq("pattern", "trace"))]
    trace: Option<PathBuf>,
    /// Load: flits made per node and cycle. A number, several with commas, or a range such as
    /// 0.1..1.0:0.1 [default: 0.3].
    #[arg(long, value_name = "LOAD", value_parser = loads, allow_hyphen_values = true)]
    load: Option<Loads>,
    /// Packet length in flits, 1 to 4096 [default: 1].
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(PACKET_FLITS_MAX)))]
    packet_flits: Option<u16>,
    /// Virtual channels per link, 2 to 8, or 1 with --flow-control bubble.
    #[arg(long, default_value = "4", value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=8))]
    vcs: u8,
    /// Depth of a virtual channel in flits, 1 to 4096.
    #[arg(long, default_value = "16", value_name = "FLITS",
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    vc_depth: u16,
    /// Cycles per hop over a link of one cycle, that cycle included: 3 to 200.
    #[arg(long, default_value = "4", value_name = "CYCLES")]
    router_delay: u32,
    /// Link delay in cycles, 1 to 1000.
    #[arg(long, default_value = "1", value_name = "CYCLES")]
    link_delay: u32,
    /// When a packet may move on: when there is room for a flit, for the whole packet, or, on
    /// entering a ring, for one packet more.
    #[arg(long, default_value = "wormhole", value_name = "RULE")]
    flow_control: FlowControlName,
    /// Which of the competing packets goes first.
    #[arg(long, default_value = "turns", value_name = "RULE")]
    arbitration: ArbitrationName,
    /// Dead or missing nodes by number; several with commas.
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    dead_node: Vec<u32>,
    /// Dead cables, each named by a node and one of its links, as in 5:X+; several with commas.
    #[arg(long, value_name = "NODE:LINK", value_delimiter = ',', value_parser = link)]
    dead_link: Vec<(u32, Direction)>,
    /// File of faults during the simulation, one per line: `100,cable-down,12,X+`,
    /// `100,cable-up,12,X+`, `100,cable-flaky,12,X+,0.05`, `100,node-down,12`, `100,host-hung,12`
    /// or `100,cut,X,3`.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Cycles from each fault until new routes around it are in use; when absent, routes stay as
    /// they are.
    #[arg(long, value_name = "CYCLES", requires = "script")]
    reroute_after: Option<u32>,
    /// Cycles after which a lost packet is sent again, 1 or more; when absent, it stays lost.
    #[arg(long, value_name = "CYCLES", value_parser = clap::value_parser!(u32).range(1..))]
    replay_after: Option<u32>,
    /// Seed of all randomness: the same seed gives the same result.
    #[arg(long, default_value = "1", value_name = "N")]
    seed: u64,
    /// Number of threads, 1 to 256 and at most one per node; the result does not depend on it.
    #[arg(long, default_value = "1", value_name = "N")]
    threads: usize,
    /// Warm-up cycles before anything is measured, or `steady`: until latency and throughput are
    /// steady, for at most ten periods [default: steady].
    #[arg(long, value_name = "CYCLES", value_parser = warm_up)]
    warm_up: Option<WarmUp>,
    /// Cycles to measure [default: 5000, or more until 40 000 packets are made].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    cycles: Option<u32>,
    /// Longest wait, in cycles, for the measured packets to arrive.
    #[arg(long, default_value = "10000", value_name = "N",
          value_parser = clap::value_parser!(u32).range(0..=1 << 30))]
    drain: u32,
}

/// Traffic patterns by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PatternName {
    /// Any node, including the sender.
    Uniform,
    /// The next node in all dimensions at once.
    #[value(alias = "neighbor")]
    Neighbour,
    /// Just under half way around every ring.
    Tornado,
    /// The node at the mirrored coordinates.
    #[value(alias = "bitcomp")]
    BitComplement,
    /// A fraction of the packets goes to one node in the middle, the rest to any node.
    #[value(alias = "hotspot")]
    HotSpot,
    /// Bursts of one packet to each neighbour.
    Halo,
    /// Bursts of one packet to every other node.
    #[value(alias = "alltoall")]
    AllToAll,
    /// The packets of a file.
    Trace,
}

impl PatternName {
    /// The pattern, with this part of the packets for a hot spot; none for a trace, which is in a file.
    pub fn pattern(self, hot_spot_fraction: Option<f64>) -> Option<Pattern> {
        Some(match self {
            Self::Uniform => Pattern::Uniform,
            Self::Neighbour => Pattern::Neighbour,
            Self::Tornado => Pattern::Tornado,
            Self::BitComplement => Pattern::BitComplement,
            Self::HotSpot => {
                Pattern::HotSpot { fraction: hot_spot_fraction.unwrap_or(HOT_SPOT_FRACTION) }
            }
            Self::Halo => Pattern::Halo,
            Self::AllToAll => Pattern::AllToAll,
            Self::Trace => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FlowControlName {
    Wormhole,
    VirtualCutThrough,
    Bubble,
}

/// Which of the competing packets goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArbitrationName {
    /// Each input in its turn.
    Turns,
    /// Those from the nodes of the ring that have sent less over the link, so that each has the same share of it in overload.
    EqualShares,
}

impl ArbitrationName {
    /// What it names.
    pub fn rule(self) -> Arbitration {
        match self {
            Self::Turns => Arbitration::Turns,
            Self::EqualShares => Arbitration::EqualShares,
        }
    }
}

fn part(text: &str) -> Result<f64, String> {
    number(text, 0.0..=1.0)
}

fn warm_up(text: &str) -> Result<WarmUp, String> {
    match text {
        "steady" => Ok(WarmUp::Steady),
        _ => match text.parse() {
            Ok(cycles) if cycles <= 1 << 30 => Ok(WarmUp::Cycles(cycles)),
            _ => Err(format!("`{text}` is neither a number of cycles nor steady")),
        },
    }
}

fn link(text: &str) -> Result<(u32, Direction), String> {
    let parts = text
        .split_once(':')
        .and_then(|(node, name)| Some((node.trim().parse().ok()?, name.parse().ok()?)));
    parts.ok_or_else(|| format!("`{text}` is no link: write a node and X+ to Z-, as 5:X+"))
}

impl MachineArguments {
    /// Loads to measure, in flits per node and cycle.
    pub fn loads(&self) -> Vec<f64> {
        self.load.as_ref().map_or_else(|| vec![0.3], |loads| loads.0.clone())
    }

    /// Whether the loads were asked for.
    pub fn has_loads(&self) -> bool {
        self.load.is_some()
    }

    /// The machine with its routes and its limits, or the signal that came before they were found.
    ///
    /// # Errors
    /// When a value is out of range or would be passed over, a file cannot be read, or no routes
    /// lead round the faults.
    pub fn experiment(&self) -> anyhow::Result<ControlFlow<i32, Experiment>> {
        self.check_traffic()?;
        let mut machine = self.machine()?;
        if let Some(file) = &self.script {
            let script = Script::parse(&read(file, SCRIPT_MAX)?, self.lattice);
            machine.script = script.with_context(|| file.display().to_string())?;
            machine.reroute_after = self.reroute_after;
        }
        let timing = Timing { warm_up: self.warm_up, window: self.cycles, drain: self.drain };
        Ok(match background::result(move || Experiment::new(machine, timing))? {
            ControlFlow::Continue(experiment) => ControlFlow::Continue(experiment?),
            ControlFlow::Break(signal) => ControlFlow::Break(signal),
        })
    }

    /// Refuses options that the pattern would pass over.
    fn check_traffic(&self) -> anyhow::Result<()> {
        let refused = |message: &str| Err(Usage(message.to_owned()).into());
        if self.pattern != PatternName::Trace && self.trace.is_some() {
            return refused("--trace is for --pattern trace alone: add that, or leave it out");
        }
        if self.pattern != PatternName::HotSpot && self.hot_spot_fraction.is_some() {
            return refused(
                "--hot-spot-fraction is for --pattern hot-spot alone: add that, or leave it out",
            );
        }
        if self.pattern != PatternName::Trace {
            return Ok(());
        }
        if self.packet_flits.is_some() {
            return refused("the packets of a trace have their flits: leave out --packet-flits");
        }
        if self.warm_up == Some(WarmUp::Steady) {
            return refused("a trace is never steady: give --warm-up in cycles, or leave it out");
        }
        if self.has_loads() { Err(Error::TraceLoad.into()) } else { Ok(()) }
    }

    fn machine(&self) -> anyhow::Result<Machine> {
        let mut machine = Machine::new(self.setup(), self.pattern()?);
        for &node in &self.dead_node {
            machine.kill_node(node)?;
        }
        for &(node, direction) in &self.dead_link {
            machine.kill_link(node, direction)?;
        }
        Ok(machine)
    }

    fn setup(&self) -> Setup {
        let setup = Setup::new(self.lattice);
        Setup {
            packet_flits: self.packet_flits.unwrap_or(1),
            vcs: self.vcs,
            vc_depth: self.vc_depth,
            router_delay: self.router_delay,
            link_delay: self.link_delay,
            flow_control: match self.flow_control {
                FlowControlName::Wormhole => FlowControl::Wormhole,
                FlowControlName::VirtualCutThrough => FlowControl::VirtualCutThrough,
                FlowControlName::Bubble => FlowControl::Bubble,
            },
            replay_after: self.replay_after,
            arbitration: self.arbitration.rule(),
            seed: self.seed,
            threads: self.threads,
            ..setup
        }
    }

    fn pattern(&self) -> anyhow::Result<Pattern> {
        if let Some(pattern) = self.pattern.pattern(self.hot_spot_fraction) {
            return Ok(pattern);
        }
        let file = self.trace.as_ref().context("the pattern trace needs --trace FILE")?;
        let trace = Trace::parse(&read(file, TRACE_MAX)?, self.lattice)
            .with_context(|| file.display().to_string())?;
        ensure!(
            !trace.is_empty(),
            "{}: there are no packets: write lines cycle,source,destination,flits",
            file.display()
        );
        Ok(Pattern::Trace(Arc::new(trace)))
    }
}

fn read(file: &Path, most: Bytes) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(most.0 + 1).read_to_string(&mut text));
    read.with_context(|| format!("cannot read {}", file.display()))?;
    let name = file.display();
    ensure!(text.len() as u64 <= most.0, "{name}: longer than {most}: leave lines out");
    Ok(text)
}

/// Says on standard error what of script and trace was left out, since `what` ended before cycle
/// `end`; `option` would make it longer.
pub fn tell_left_out(machine: &Machine, what: &str, end: u32, option: &str) {
    let packets = match &machine.pattern {
        Pattern::Trace(trace) => trace.after(end),
        _ => 0,
    };
    let events = machine.script.after(end);
    for (count, of) in [(events, "events of the script"), (packets, "packets of the trace")] {
        if count > 0 {
            log::say(format_args!(
                "{what} ended at cycle {end}, so these {of} were left out: {count}; raise {option}, \
                 or let them come sooner"
            ));
        }
    }
}

/// A line that tells machine, traffic and faults.
pub fn title(machine: &Machine) -> String {
    let Setup { lattice, vcs, vc_depth, router_delay, link_delay, .. } = machine.setup;
    let flits = match machine.packet_flits().into_inner() {
        (1, 1) => "1 flit".to_owned(),
        (shortest, longest) if shortest == longest => format!("{longest} flits"),
        (shortest, longest) => format!("{shortest} to {longest} flits"),
    };
    let pattern = pattern_name(&machine.pattern);
    let rule = match machine.setup.flow_control {
        FlowControl::Wormhole => "wormhole",
        FlowControl::VirtualCutThrough => "virtual cut-through",
        FlowControl::Bubble => "bubble",
    };
    let mut title = format!(
        "{lattice}, {pattern}, {flits} a packet, {vcs} x {vc_depth} flits, {rule}, {} cycles a hop",
        router_delay + link_delay - 1
    );
    let (nodes, cables) = (machine.faults.dead_node_count(), machine.faults.dead_cable_count());
    if nodes + cables > 0 {
        let s = |count: usize| if count == 1 { "" } else { "s" };
        title += &format!(", {nodes} dead node{} and {cables} dead cable{}", s(nodes), s(cables));
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_and_wrong_ones_refused() {
        assert_eq!(link("5:X+"), Ok((5, Direction::XPlus)));
        assert_eq!(link(" 63 : z-"), Ok((63, Direction::ZMinus)));
        for bad in ["5", "X+", "5:W+", "-1:X+", "5:X"] {
            assert!(link(bad).unwrap_err().contains("5:X+"), "{bad}");
        }
    }

    #[test]
    fn words_stand_for_numbers_where_they_may() {
        assert_eq!(warm_up("steady"), Ok(WarmUp::Steady));
        assert_eq!(warm_up("0"), Ok(WarmUp::Cycles(0)));
        assert!(warm_up("-1").is_err() && part("1.5").is_err());
    }
}
