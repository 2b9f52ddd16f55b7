//! `gannet check`: is this configuration right, and what will it need?

use std::path::PathBuf;

use anyhow::Context;
use gannet_control::config;

use crate::exit::Outcome;
use crate::output;

/// Tests a configuration and prints a forecast of what it needs.
///
/// Example: gannet check detector.toml
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration file.
    #[arg(required_unless_present = "schema")]
    file: Option<PathBuf>,
    /// Print the JSON schema of the configuration instead.
    #[arg(long)]
    schema: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if arguments.schema {
        output::json(&config::schema())?;
        return Ok(Outcome::Ok);
    }
    let file = arguments.file.as_ref().context("name a configuration file")?;
    let plan = config::load(file)?;
    output::json(&plan.forecast)?;
    Ok(Outcome::Ok)
}
