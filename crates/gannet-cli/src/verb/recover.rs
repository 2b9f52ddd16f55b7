//! `gannet recover`: bring a log to its end that a killed program left behind.

use std::path::PathBuf;

use gannet_readout::log;

use crate::exit::Outcome;
use crate::output;

/// Brings a log file to its end after a crash; what was acknowledged is kept.
///
/// Example: gannet recover gannet_run000001_20261121T021000Z_f0000.glog.part
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The unfinished log file.
    file: PathBuf,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    output::json(&log::recover(&arguments.file)?)?;
    Ok(Outcome::Ok)
}
