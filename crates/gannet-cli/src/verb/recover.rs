//! `gannet recover`: bring logs to their end that a killed program left behind.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use gannet_log::{Outcome as Ending, Recovered, RecoveredFile};

use crate::exit::Outcome;
use crate::log;
use crate::output::{self, grouped};

/// Finalises log files after a crash. Everything that was acknowledged is kept; bytes that do not
/// form a whole chunk are moved aside, never deleted. A file that is already finished is only verified.
///
/// Example: gannet recover gannet_run000001_20261121T021000Z_f0000.glog.part
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Unfinished log files, or directories of them.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let (mut done, mut failed, mut damaged) = (Vec::new(), 0, false);
    for path in &arguments.files {
        for (file, result) in recover(path)? {
            match result {
                Ok(recovered) => done.push(recovered),
                Err(error) => {
                    failed += 1;
                    damaged |= matches!(error, gannet_log::Error::FinishedDamaged { .. });
                    log::say(format_args!("{}: {error}", file.display()));
                }
            }
        }
    }
    match arguments.json {
        true => output::json(&done)?,
        false => output::print(|out| done.iter().try_for_each(|one| print(out, one)))?,
    }
    if damaged {
        return Ok(Outcome::NotVerified);
    }
    anyhow::ensure!(failed == 0, "{failed} files were not recovered");
    Ok(Outcome::Ok)
}

/// Recovers a file, or all of a directory.
fn recover(path: &Path) -> anyhow::Result<Vec<RecoveredFile>> {
    if path.is_dir() {
        let cannot = || format!("cannot read {}", path.display());
        return gannet_log::recover_directory(path).with_context(cannot);
    }
    Ok(vec![(path.to_owned(), gannet_log::recover(path))])
}

fn print(out: &mut impl Write, recovered: &Recovered) -> io::Result<()> {
    let Recovered { file, outcome, data_chunks, chunks_missing, set_aside, bytes_set_aside } =
        recovered;
    let what = match outcome {
        Ending::AlreadyFinished => "was finished, and is as it was written",
        Ending::Finished => "finished",
        Ending::NothingInside => "held nothing that was acknowledged",
    };
    writeln!(out, "{}: {what}, {} chunks", file.display(), grouped(*data_chunks))?;
    if *chunks_missing > 0 {
        writeln!(out, "  {} chunks were damaged and are lost", grouped(*chunks_missing))?;
    }
    for aside in set_aside {
        writeln!(
            out,
            "  {} bytes without a whole chunk are in {}",
            bytes_set_aside,
            aside.display()
        )?;
    }
    Ok(())
}
