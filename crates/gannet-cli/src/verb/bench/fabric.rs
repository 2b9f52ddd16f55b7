//! `gannet bench fabric`: what does a path between two processes give?

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use gannet_evaluate::fabric::{
    self, Backend, Change, EarlierRow, FabricPlan, FabricReport, FabricRow, Operation, Partner,
    Serving, Trust,
};

use super::{names, simulated};
use crate::destination::Destination;
use crate::exit::{Outcome, Usage};
use crate::{log, output};

/// Bytes of an operation that are measured, if not asked otherwise.
const SIZES: &str = "8,64,512,4096,65536,1048576,16777216,67108864";

/// Least length of a measurement, and of one in virtual time, which takes a processor longer than it lasts.
const TIME: Duration = Duration::from_millis(100);
const VIRTUAL_TIME: Duration = Duration::from_millis(1);

/// Measures PUT and GET between two processes: how many a second, how many bytes, and how long a round trip
/// takes.
///
/// The other process is started, or found with --to where it was started with --listen and the same sizes. Beside
/// each value stands what the machine allows, measured in the same run between the same processors. Over shared memory
/// that is copying as many bytes, and cache lines that pass from one processor to the other; over UDP and a torus, datagrams
/// over loopback without more, also where the other process is on another host; over libfabric, a bare loop over the same
/// provider between two threads. What was moved is compared with what was sent.
///
/// With --backend torus each process uses the node of its host (`gannet torus node`): the only one there, or the one whose socket for
/// processes GANNET_TORUS_NODE names. A process that is started uses the same node.
///
/// With --backend sim the path is one that is not there: of --topology FILE, as for gannet predict, where a hop has a latency, too, or
/// of one --hop after the other. The engine that UDP uses runs over it in virtual time, with all that it sends again;
/// what processors take is not counted. Beside each value stands what the path allows: its slowest hop, or 32 packets for each
/// round trip.
///
/// Operations: one-way, PUTs with notifications until the other process has been told of all, less half a round
/// trip; flush, the same until all are done here; round-trip, a PUT and one of as many bytes back; get. Rates
/// are medians of the repeats; latencies are half of a round trip, medians of the repeats, too.
///
/// JSON output is a list. Its `limit` is in operations a second, and for round-trip in ns of half a round trip;
/// `ratio` is the rate by its limit, and for round-trip the time by its limit.
///
/// Over UDP, libfabric and a torus two hosts need a secret: the same bytes in a file of each, which others cannot read. Nothing is encrypted.
///
/// Example: gannet bench fabric --operation round-trip --bytes 8,4096
///
/// Example: gannet bench fabric --backend sim --hop 'kind="wire",gbit_per_s=100,latency="5 us"'
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What carries the operations.
    #[arg(long, default_value = "shm", value_parser = names::parser::<Backend>())]
    backend: Backend,
    /// Provider of libfabric that carries them, for the backend ofi; the best one that can be used without it.
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// What is measured.
    #[arg(long, default_value = "all", value_parser = names::one_or_all::<Operation>())]
    operation: names::Values<Operation>,
    /// Bytes of an operation, separated by commas.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = SIZES,
          value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    bytes: Vec<u64>,
    /// Use other bytes for each operation, so that no cache holds them.
    #[arg(long)]
    streaming: bool,
    /// Let this file be the memory of the other process: memory of a PCI device (`/sys/bus/pci/devices/.../resource2_wc`), or for udp
    /// and ofi any file. What is in it is overwritten.
    #[arg(long, value_name = "FILE")]
    memory: Option<PathBuf>,
    #[command(flatten)]
    simulated: simulated::Simulated,
    /// How often all is measured; with sim each time with the next seed.
    #[arg(long, default_value = "5", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeats: u64,
    /// Least length of each measurement: 0.1 if absent, and 0.001 of virtual time with sim.
    #[arg(long, value_name = "S", value_parser = output::seconds)]
    seconds: Option<Duration>,
    /// Be the other process, and listen at this socket, or for udp, ofi and torus at this host and port; ends with the one that measures.
    #[arg(long, value_name = "SOCKET", conflicts_with = "to")]
    listen: Option<String>,
    /// Find the other process at this socket, or host and port, in place of starting one; it answers once, so all is measured
    /// once.
    #[arg(long, value_name = "SOCKET")]
    to: Option<String>,
    /// File with the secret that both processes know, in place of being of one user.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Print the measurements as JSON.
    #[arg(long)]
    json: bool,
    /// Compare with the measurements of this file, printed with --json before; the exit code is 6 if one is slower by
    /// more than the threshold.
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    against: Option<PathBuf>,
    /// Part of its speed that a measurement may lose.
    #[arg(long, value_name = "FRACTION", default_value = "0.1", requires = "against", value_parser = fraction)]
    threshold: f64,
    /// Write a page with tables and pictures, which opens without network.
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    html: Option<PathBuf>,
    /// Replace the page if it is there.
    #[arg(long, requires = "html")]
    overwrite: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if arguments.provider.is_some() && arguments.backend != Backend::Ofi {
        let message = "--provider is for --backend ofi; other backends have none to choose";
        return Err(Usage(message.to_owned()).into());
    }
    let is_simulated = arguments.backend == Backend::Sim;
    if arguments.memory.is_some() && (is_simulated || arguments.to.is_some()) {
        let message = "--memory is for the process that has the memory: give it with --listen, or leave --to out";
        return Err(Usage(message.to_owned()).into());
    }
    if is_simulated && (arguments.listen.is_some() || arguments.to.is_some()) {
        let message = "--backend sim has no other process: leave --listen and --to out";
        return Err(Usage(message.to_owned()).into());
    }
    let simulation = arguments.simulated.simulation(is_simulated)?;
    let longest = arguments.bytes.iter().copied().max().unwrap_or(1);
    let trust = trust(arguments)?;
    if let Some(place) = &arguments.listen {
        let serving = Serving {
            backend: arguments.backend,
            provider: arguments.provider.clone(),
            place: place.clone(),
            longest,
            streaming: arguments.streaming,
            memory: arguments.memory.clone(),
            trust,
        };
        serving.run()?;
        return Ok(Outcome::Ok);
    }
    let page = arguments.html.as_deref();
    let page = page.map(|file| Destination::begin(file, arguments.overwrite)).transpose()?;
    let earlier = arguments.against.as_deref().map(earlier).transpose()?;
    let start = |place: &str| start_partner(arguments, place, longest, &trust);
    let repeats = arguments.repeats as usize;
    let (partner, repeats) = match (&simulation, &arguments.to) {
        // Without chance all are the same.
        (Some(simulation), _) if simulation.loss == 0.0 => (Partner::Simulated(simulation), 1),
        (Some(simulation), _) => (Partner::Simulated(simulation), repeats),
        (None, Some(place)) => (Partner::At(place.clone()), 1),
        (None, None) => (Partner::Started(&start), repeats),
    };
    let plan = FabricPlan {
        backend: arguments.backend,
        provider: arguments.provider.clone(),
        operations: arguments.operation.0.clone(),
        sizes: arguments.bytes.clone(),
        streaming: arguments.streaming,
        memory: arguments.memory.clone(),
        repeats,
        time: arguments.seconds.unwrap_or(if is_simulated { VIRTUAL_TIME } else { TIME }),
        partner,
        trust: trust.clone(),
    };
    let report =
        fabric::measure(&plan, |repeat| tracing::info!("repeat {} of {repeats}", repeat + 1));
    let report = report.context("the bench of the fabric ended early")?;
    match arguments.json {
        true => output::json(&report.rows)?,
        false => output::print(|out| print(out, &report))?,
    }
    if let Some(page) = page {
        page.write(&report.page()?)?;
    }
    match earlier {
        Some(earlier) => compare(&report, &earlier, arguments.threshold),
        None => Ok(Outcome::Ok),
    }
}

/// A part of a whole.
pub fn fraction(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().map_err(|error| error.to_string())?;
    (0.0..=1.0).contains(&value).then_some(value).ok_or_else(|| "not between 0 and 1".to_owned())
}

/// The measurements of an earlier bench.
fn earlier(file: &Path) -> anyhow::Result<Vec<EarlierRow>> {
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| {
        format!("{} is not what gannet bench fabric --json prints", file.display())
    })
}

/// Says what has changed, for people to read.
fn compare(
    report: &FabricReport,
    earlier: &[EarlierRow],
    threshold: f64,
) -> anyhow::Result<Outcome> {
    let changes = fabric::changes(&report.rows, earlier);
    if changes.is_empty() {
        let message = "none of these measurements is in the earlier file; measure the same operations and sizes";
        return Err(Usage(message.to_owned()).into());
    }
    let is_slower = |change: &Change<'_>| change.is_slower(threshold);
    for change in &changes {
        log::say(format_args!(
            "{} of {} bytes: {:.2} times as fast as before (its limit {:.2}){}",
            names::name(&change.row.operation),
            change.row.bytes,
            change.speed,
            change.limit,
            if is_slower(change) { ": slower" } else { "" }
        ));
    }
    let slower = changes.iter().filter(|&change| is_slower(change)).count();
    if slower == 0 {
        return Ok(Outcome::Ok);
    }
    log::say(format_args!(
        "{slower} of {} are slower by more than {:.0} %",
        changes.len(),
        100.0 * threshold
    ));
    Ok(Outcome::NotVerified)
}

/// How the two processes know each other: by the secret of a file, or one that is told to a process that is started.
fn trust(arguments: &Arguments) -> anyhow::Result<Trust> {
    match &arguments.secret_file {
        Some(path) => Ok(Trust::from_file(path)?),
        None if !arguments.backend.needs_secret() => Ok(Trust::SameUser),
        None if arguments.listen.is_none() && arguments.to.is_none() => Ok(fabric::drawn_secret()?),
        None => {
            let message =
                "over a network both processes need a secret: name the same --secret-file";
            Err(Usage(message.to_owned()).into())
        }
    }
}

/// Starts this program as the other process, and tells it the secret, if there is one.
fn start_partner(
    arguments: &Arguments,
    place: &str,
    longest: u64,
    trust: &Trust,
) -> io::Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    let backend = names::name(&arguments.backend);
    command.args(["bench", "fabric", "--backend", &backend, "--bytes", &longest.to_string()]);
    command.arg("--listen").arg(place);
    if let Some(provider) = &arguments.provider {
        command.args(["--provider", provider]);
    }
    if arguments.streaming {
        command.arg("--streaming");
    }
    if let Some(memory) = &arguments.memory {
        command.arg("--memory").arg(memory);
    }
    command.stdout(Stdio::null());
    let Trust::Secret(secret) = trust else { return command.stdin(Stdio::null()).spawn() };
    let mut child = command.args(["--secret-file", "/dev/stdin"]).stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(secret)?;
    }
    Ok(child)
}

fn print(out: &mut impl Write, report: &FabricReport) -> io::Result<()> {
    report.place.lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
    if let Some(bytes) = report.rows.first().and_then(|row| row.packet_bytes) {
        writeln!(out, "packets of {bytes} bytes of data")?;
    }
    if let Some(provider) = report.rows.first().and_then(|row| row.provider.as_ref()) {
        writeln!(out, "provider {provider} of libfabric")?;
    }
    let streaming = report.rows.iter().any(|row| row.streaming);
    writeln!(
        out,
        "{}",
        if streaming { "other bytes each time" } else { "the same bytes each time" }
    )?;
    writeln!(
        out,
        "{:<10} {:>10} {:>12} {:>9} {:>10} {:>10} {:>7}  limit",
        "operation", "bytes", "per s", "GB/s", "p50 ns", "p99 ns", "ratio"
    )?;
    report.rows.iter().try_for_each(|row| print_row(out, row))
}

fn print_row(out: &mut impl Write, row: &FabricRow) -> io::Result<()> {
    let ns = |value: Option<f64>| value.map_or_else(String::new, |ns| format!("{ns:.0}"));
    let per_s = match row.per_s {
        rate if rate >= 1e6 => format!("{:.2} M", rate * 1e-6),
        rate if rate >= 1e3 => format!("{:.2} k", rate * 1e-3),
        rate => format!("{rate:.2}  "),
    };
    writeln!(
        out,
        "{:<10} {:>10} {:>12} {:>9.3} {:>10} {:>10} {:>7.2}  {}",
        names::name(&row.operation),
        row.bytes,
        per_s,
        row.gbyte_per_s,
        ns(row.latency_ns_p50),
        ns(row.latency_ns_p99),
        row.ratio,
        row.limit_is
    )
}
