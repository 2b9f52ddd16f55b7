//! `gannet completions`: what lets a shell complete verbs and options.

use std::io::Write;

use clap::Command;
use clap_complete::Shell;

use crate::exit::Outcome;
use crate::output;

/// Prints the script that lets a shell complete verbs, options and their values.
///
/// Example: gannet completions bash > ~/.local/share/bash-completion/completions/gannet
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The shell.
    shell: Shell,
}

/// Prints the script for `command`, which is all of `gannet`.
pub fn run(arguments: &Arguments, mut command: Command) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "gannet", &mut script);
    output::print(|out| out.write_all(&script))?;
    Ok(Outcome::Ok)
}
