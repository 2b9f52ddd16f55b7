//! `gannet man`: manual pages.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;

use crate::exit::Outcome;
use crate::{VERSION, log};

/// Writes the manual pages of the program and of each verb, in the place of those that are there.
///
/// Example: gannet man ~/.local/share/man/man1 && man gannet-run
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Directory to write them to; it is made if it is missing.
    directory: PathBuf,
}

/// Writes the pages of `command`, which is all of `gannet`.
pub fn run(arguments: &Arguments, command: Command) -> anyhow::Result<Outcome> {
    let directory = &arguments.directory;
    let cannot_write = || format!("cannot write manual pages in {}", directory.display());
    fs::create_dir_all(directory).with_context(cannot_write)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write(command, directory).with_context(cannot_write)?;
    log::say(format_args!("{}: manual pages written", directory.display()));
    Ok(Outcome::Ok)
}

/// Writes the page of a verb and those of the verbs below it.
fn write(verb: Command, directory: &Path) -> io::Result<()> {
    verb.get_subcommands().try_for_each(|below| write(below.clone(), directory))?;
    Man::new(verb).source(format!("gannet {VERSION}")).generate_to(directory).map(drop)
}
