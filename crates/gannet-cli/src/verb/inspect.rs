//! `gannet inspect`: what is in this file?

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use gannet_wire::inspect::{Format, describe, identify};

use crate::exit::Outcome;

/// Prints what bytes are: frames, fragments, records, primitives, packet captures.
///
/// Example: gannet inspect capture.pcapng
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The file.
    file: PathBuf,
    /// Name of the format, when the file does not show it.
    #[arg(long)]
    format: Option<Format>,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let path = arguments.file.display();
    let bytes = fs::read(&arguments.file).with_context(|| format!("cannot read {path}"))?;
    let format = arguments.format.or_else(|| identify(&bytes));
    let format = format.with_context(|| format!("{path} is of no known format; try --format"))?;
    let mut text = String::new();
    describe(format, &bytes, &mut text).with_context(|| format!("{path} as {format}"))?;
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Outcome::Ok)
}
