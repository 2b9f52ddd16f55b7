//! `gannet torus link`: what of a line does payload get?

use std::io::{self, Write};

use clap::ValueEnum;
use gannet_torus::link::efficiency::{LineCode, LinkModel};
use gannet_torus_study::{EfficiencyRow, PUBLISHED_EFFICIENCY, Reading, readings};
use gannet_wire::apelink::{PAYLOAD_LEN_MAX, WORD_LEN};
use serde::Serialize;

use super::line;
use super::quantity::{self, number};
use crate::exit::Outcome;
use crate::output;

/// Most words of FIFO, credit interval and round trip.
const WORDS_MAX: f64 = 1e9;

/// Shows what fraction of a link's rate is left for payload, by the model that the link is tested
/// against.
///
/// A packet takes 4 words of 16 bytes besides its payload, and a credit takes 2. If the FIFO at the
/// far end is too small for the round trip, the link is slower still. Below the table are the two
/// ways to read the published total efficiency of 0.784.
///
/// Example: gannet torus link --rate 45.2Gbit/s --payload 64,1024,4096 --credit-interval 8,128
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Raw rate of the line.
    #[arg(long, default_value = "28Gbit/s", value_parser = quantity::rate)]
    rate: f64,
    /// Line code.
    #[arg(long, default_value = "8b10b")]
    code: Code,
    /// Payload of each packet: a multiple of 16 bytes, or several with commas.
    #[arg(long, value_name = "BYTES", default_value = "64,256,1024,4096", value_delimiter = ',',
          value_parser = payload)]
    payload: Vec<u16>,
    /// Words of packets between two credits; several with commas.
    #[arg(long, value_name = "WORDS", default_value = "128", value_delimiter = ',', value_parser = words)]
    credit_interval: Vec<f64>,
    /// FIFO at the far end; no limit when absent.
    #[arg(long, value_name = "WORDS", value_parser = words)]
    fifo: Option<f64>,
    /// Round trip: from a word sent to the reply to it.
    #[arg(long, value_name = "WORDS", default_value = "64", value_parser = words)]
    round_trip: f64,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Codes of a line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Code {
    /// 8 bits sent as 10.
    #[value(name = "8b10b")]
    EightTen,
    /// 64 bits sent as 66.
    #[value(name = "64b66b")]
    SixtyFourSixtySix,
    /// No line code.
    #[value(name = "none")]
    Plain,
}

#[derive(Debug, Serialize)]
struct Report {
    rows: Vec<EfficiencyRow>,
    published_efficiency: f64,
    readings: [Reading; 2],
}

fn payload(text: &str) -> Result<u16, String> {
    let (bytes, word) = (number(text, WORD_LEN as f64..=PAYLOAD_LEN_MAX as f64)?, WORD_LEN as f64);
    if bytes % word == 0.0 {
        Ok(bytes as u16)
    } else {
        Err(format!("{text} is no multiple of {WORD_LEN}: packets are whole words"))
    }
}

fn words(text: &str) -> Result<f64, String> {
    number(text, 1.0..=WORDS_MAX)
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let intervals = arguments.credit_interval.iter();
    let rows = intervals.flat_map(|&interval| {
        let row = move |&bytes| EfficiencyRow::new(&arguments.model(bytes, interval));
        arguments.payload.iter().map(row)
    });
    let report = Report {
        rows: rows.collect(),
        published_efficiency: PUBLISHED_EFFICIENCY,
        readings: readings(),
    };
    if arguments.json {
        output::json(&report)?;
    } else {
        output::print(|out| print(out, &report))?;
    }
    Ok(Outcome::Ok)
}

impl Arguments {
    /// A busy link, credits of both directions alike.
    fn model(&self, payload_bytes: u16, credit_interval: f64) -> LinkModel {
        LinkModel {
            raw_rate: self.rate,
            code: match self.code {
                Code::EightTen => LineCode::EightTen,
                Code::SixtyFourSixtySix => LineCode::SixtyFourSixtySix,
                Code::Plain => LineCode::Plain,
            },
            payload_words: f64::from(payload_bytes) / WORD_LEN as f64,
            credit_interval,
            fifo_words: self.fifo.unwrap_or(f64::INFINITY),
            round_trip: self.round_trip,
            answer_interval: credit_interval + 2.0,
        }
    }
}

/// Heading, unit and value of a column.
type Column = (&'static str, &'static str, fn(&EfficiencyRow) -> String);

const COLUMNS: [Column; 9] = [
    ("payload", "bytes", |r| format!("{:.0}", r.payload_bytes)),
    ("credit", "words", |r| format!("{:.0}", r.credit_interval_words)),
    ("framing", "", |r| format!("{:.3}", r.framing)),
    ("credits", "", |r| format!("{:.3}", r.credits)),
    ("FIFO", "at most", |r| r.fifo_limit.map_or("-".to_owned(), |limit| format!("{limit:.3}"))),
    ("efficiency", "", |r| format!("{:.3}", r.efficiency)),
    ("total", "", |r| format!("{:.3}", r.total_efficiency)),
    ("payload", "GB/s", |r| format!("{:.3}", r.payload_bytes_per_s * 1e-9)),
    ("least FIFO", "words", |r| format!("{:.0}", r.fifo_least_words)),
];

fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    line(out, COLUMNS.iter().map(|(heading, ..)| (*heading).to_owned()))?;
    line(out, COLUMNS.iter().map(|(_, unit, _)| (*unit).to_owned()))?;
    for row in &report.rows {
        line(out, COLUMNS.iter().map(|(.., value)| value(row)))?;
    }
    writeln!(
        out,
        "the published {} of 28 Gbit/s, with packets of 4096 bytes:",
        report.published_efficiency
    )?;
    for it in &report.readings {
        let (channel, payload) = (it.channel_bytes_per_s * 1e-9, it.payload_bytes_per_s * 1e-9);
        writeln!(
            out,
            "  {}: {:.3} of {channel:.2} GB/s are {payload:.3} GB/s; a credit every {:.1} words does that",
            it.reading, it.efficiency, it.credit_interval_words
        )?;
    }
    writeln!(out, "the first gives the published 2.2 GB/s, too, and is the likelier")
}
