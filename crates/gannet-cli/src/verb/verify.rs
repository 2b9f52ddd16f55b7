//! `gannet verify`: is every byte of this log as it was written?

use std::path::PathBuf;

use gannet_readout::log;

use crate::exit::Outcome;

/// Reads a log file back and checks every byte of it. Exit code 6 when anything is wrong.
///
/// Example: gannet verify gannet_run000001_20261121T021000Z_f0000.glog
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The log file.
    file: PathBuf,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let report = log::verify(&arguments.file)?;
    println!("{report}");
    Ok(if report.is_complete() { Outcome::Ok } else { Outcome::NotVerified })
}
