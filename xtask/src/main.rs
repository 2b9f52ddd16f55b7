//! The whole check of the project, and the rules of its house.
//!
//! `cargo xtask test` runs everything that a change has to pass, `cargo xtask tidy` only the rules
//! of the house. Neither needs more than the Rust tool chain: what a machine lacks is skipped
//! loudly, by name. `cargo xtask docs` writes the reference pages that are made from the program.

mod check;
mod reference;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Checks the project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the whole check: format, lints, rules of the house, documents, tests.
    Test {
        /// Also run the long versions of tests (passes GANNET_LONG=1).
        #[arg(long)]
        long: bool,
    },
    /// Check the rules of the house.
    Tidy,
    /// Write the pages of docs/reference that are made from the program.
    Docs,
}

fn main() -> Result<ExitCode> {
    let root = root()?;
    let success = match Arguments::parse().task {
        Task::Test { long } => check::run(&root, long)?,
        Task::Tidy => tidy::run(&root)?,
        Task::Docs => reference::run(&root)?,
    };
    Ok(if success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The root of the workspace: the directory above this crate, as the cargo that runs it says.
fn root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
    let manifest = manifest.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Ok(Path::new(&manifest).parent().context("xtask has no parent directory")?.to_path_buf())
}
