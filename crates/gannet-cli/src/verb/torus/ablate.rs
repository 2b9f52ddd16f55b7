//! `gannet torus ablate`: what are the parts of the RDMA engine worth?

use std::io::{self, Write};
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use gannet_measure::quantity::Bytes;
use gannet_torus_study::ablation::{
    AblationReport, Bus, DmaRow, Parameters, ReceiveRow, ReplacementRow, Sensitivity, TlbRow,
    TransferRow,
};
use gannet_torus_study::tlb_svg;

use super::{line, quantity};
use crate::destination::Destination;
use crate::exit::Outcome;
use crate::output;

/// Longest time of a step, ns: a millisecond.
const STEP_NS_MAX: u64 = 1_000_000;
/// Most entries of the TLB.
const ENTRIES_MAX: u64 = 4096;
/// Rates that the engine counts with, bit/s: 1 MB/s to 1 TB/s.
const RATES: std::ops::RangeInclusive<f64> = 8e6..=8e12;

/// Shows what the TLB, the second DMA engine and the second receive controller are worth, next to
/// the published gains.
///
/// Runs the same RDMA engine that moves real data, in virtual time and with the published costs of
/// APEnet+, and leaves its parts out one at a time. No gain is put in by hand. What is not
/// published (payload and overhead of PCIe packets, set-up of a write, the hop) can be chosen, and
/// a table of sensitivities shows how much depends on each. Figures published as "up to" are
/// compared with our largest, all others with messages of 256 KiB.
///
/// Example: gannet torus ablate --tlb-entries 64 --svg tlb.svg
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Time the card's processor takes to translate an address.
    #[arg(long, value_name = "NS", default_value = "1900", value_parser = step())]
    walk: u64,
    /// Time the TLB takes to translate an address.
    #[arg(long, value_name = "NS", default_value = "124", value_parser = step())]
    tlb: u64,
    /// Entries of the TLB.
    #[arg(long, value_name = "N", default_value = "128",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=ENTRIES_MAX))]
    tlb_entries: usize,
    /// Payload rate of the link with the largest packets.
    #[arg(long, value_name = "RATE", default_value = "2.2GB/s", value_parser = rate)]
    link_rate: f64,
    /// Time from the last byte sent to the packet received.
    #[arg(long, value_name = "NS", default_value = "400", value_parser = step())]
    hop: u64,
    /// Bus rate of the board with TLB and two DMA engines, after line coding.
    #[arg(long, value_name = "RATE", default_value = "4GB/s", value_parser = rate)]
    bus_rate: f64,
    /// Bus rate of the board with two receive controllers.
    #[arg(long, value_name = "RATE", default_value = "7.877GB/s", value_parser = rate)]
    new_bus_rate: f64,
    /// Payload of a bus packet.
    #[arg(long, value_name = "BYTES", default_value = "128",
          value_parser = clap::value_parser!(u32).range(16..=4096))]
    bus_payload: u32,
    /// Fraction of the bus rate that one DMA engine reaches.
    #[arg(long, value_name = "PART", default_value = "0.5", value_parser = share)]
    one_engine_share: f64,
    /// Time from a translated address to the first byte written.
    #[arg(long, value_name = "NS", default_value = "160", value_parser = step())]
    write_setup: u64,
    /// Plot bandwidth against message size, with and without TLB, to this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Overwrite the file if it exists.
    #[arg(long, requires = "svg")]
    overwrite: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn step() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(0..=STEP_NS_MAX)
}

/// Reads a rate, in bytes per second.
fn rate(text: &str) -> Result<f64, String> {
    let bit_per_s = quantity::rate(text)?;
    if RATES.contains(&bit_per_s) {
        Ok(bit_per_s / 8.0)
    } else {
        Err(format!("{text} is out of range; choose 1 MB/s to 1 TB/s"))
    }
}

fn share(text: &str) -> Result<f64, String> {
    quantity::number(text, 0.01..=1.0)
}

impl Arguments {
    fn parameters(&self) -> Parameters {
        let defaults = Parameters::default();
        let bus = |bytes_per_s: f64, bus: Bus| Bus {
            bytes_per_s,
            payload_bytes: self.bus_payload.into(),
            ..bus
        };
        Parameters {
            walk_ns: self.walk,
            tlb_ns: self.tlb,
            tlb_entries: self.tlb_entries,
            link_bytes_per_s: self.link_rate,
            hop_ns: self.hop,
            bus: bus(self.bus_rate, defaults.bus),
            new_bus: bus(self.new_bus_rate, defaults.new_bus),
            one_engine_share: self.one_engine_share,
            write_setup_ns: self.write_setup,
        }
    }
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let file = arguments.svg.as_deref();
    let file = file.map(|file| Destination::begin(file, arguments.overwrite)).transpose()?;
    let report = AblationReport::new(&arguments.parameters());
    if let Some(file) = file {
        file.write(&tlb_svg(&report.ablations)?)?;
    }
    if arguments.json {
        output::json(&report)?;
    } else {
        output::print(|out| print(out, &report))?;
    }
    Ok(Outcome::Ok)
}

fn print(out: &mut impl Write, report: &AblationReport) -> io::Result<()> {
    print_comparisons(out, report)?;
    let all = &report.ablations;
    table(out, "\nTLB: GB/s with and without", &TLB, &all.tlb)?;
    table(out, "\nDMA engines: time of all messages", &DMA, &all.dma)?;
    table(out, "\nreceive controllers: GB/s to memory", &RECEIVE, &all.receive)?;
    table(
        out,
        "\nTLB and two DMA engines: GB/s one way, time there and back",
        &TRANSFER,
        &all.transfers,
    )?;
    table(
        out,
        "\npages of a buffer found in a TLB of 128 entries, by what makes room",
        &REPLACEMENT,
        &all.replacement,
    )?;
    table(
        out,
        "\ngains for messages of 256 KiB if what is not published is otherwise",
        &SENSITIVITY,
        &all.sensitivity,
    )
}

fn print_comparisons(out: &mut impl Write, report: &AblationReport) -> io::Result<()> {
    writeln!(out, "{:<26}{:<26}{:>12}{:>8}{:>10}", "part", "gain in", "published", "ours", "at")?;
    for it in &report.comparisons {
        let published = percent(it.published);
        let published = if it.published_is_most {
            format!("up to {published}")
        } else {
            format!("about {published}")
        };
        let (part, what, ours, at) = (it.part, it.what, percent(it.ours), Bytes(it.bytes));
        writeln!(out, "{part:<26}{what:<26}{published:>12}{ours:>8}{:>10}", at.to_string())?;
    }
    let wait = report.ablations.read_latency_ns;
    writeln!(
        out,
        "a DMA engine waits {wait} ns before a packet, by the part of the bus that one reaches"
    )
}

/// Heading and value of a column.
type Column<Row> = (&'static str, fn(&Row) -> String);

const TLB: [Column<TlbRow>; 7] = [
    ("message", |r| Bytes(r.bytes).to_string()),
    ("host, TLB", |r| gbyte(r.host_with)),
    ("none", |r| gbyte(r.host_without)),
    ("gain", |r| percent(r.host_gain)),
    ("GPU, TLB", |r| gbyte(r.gpu_with)),
    ("none", |r| gbyte(r.gpu_without)),
    ("gain", |r| percent(r.gpu_gain)),
];
const DMA: [Column<DmaRow>; 6] = [
    ("message", |r| Bytes(r.bytes).to_string()),
    ("messages", |r| r.messages.to_string()),
    ("one, us", |r| micro(r.one_engine_ns)),
    ("two, us", |r| micro(r.two_engines_ns)),
    ("saved", |r| percent(r.saving)),
    ("with link", |r| percent(r.saving_through_link)),
];
const RECEIVE: [Column<ReceiveRow>; 4] = [
    ("message", |r| Bytes(r.bytes).to_string()),
    ("one", |r| gbyte(r.one)),
    ("two", |r| gbyte(r.two)),
    ("gain", |r| percent(r.gain)),
];
const TRANSFER: [Column<TransferRow>; 4] = [
    ("message", |r| Bytes(r.bytes).to_string()),
    ("one way", |r| gbyte(r.one_way)),
    ("flush", |r| gbyte(r.flush)),
    ("back, us", |r| micro(r.round_trip_ns)),
];
const REPLACEMENT: [Column<ReplacementRow>; 3] = [
    ("pages", |r| r.pages.to_string()),
    ("LRU", |r| percent(r.least_recent)),
    ("random", |r| percent(r.random)),
];
const SENSITIVITY: [Column<Sensitivity>; 5] = [
    ("parameter", |r| r.parameter.to_owned()),
    ("value", |r| {
        if r.value == 0.0 && r.parameter == "as given" {
            "-".to_owned()
        } else {
            r.value.to_string()
        }
    }),
    ("TLB", |r| percent(r.tlb_gain)),
    ("DMA", |r| percent(r.dma_saving)),
    ("receive", |r| percent(r.receive_gain)),
];

fn table<Row>(
    out: &mut impl Write,
    title: &str,
    columns: &[Column<Row>],
    rows: &[Row],
) -> io::Result<()> {
    writeln!(out, "{title}")?;
    line(out, columns.iter().map(|(heading, _)| (*heading).to_owned()))?;
    rows.iter().try_for_each(|row| line(out, columns.iter().map(|(_, value)| value(row))))
}

fn gbyte(bytes_per_s: f64) -> String {
    format!("{:.3}", bytes_per_s * 1e-9)
}

fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

fn micro(ns: u64) -> String {
    format!("{:.2}", ns as f64 * 1e-3)
}
