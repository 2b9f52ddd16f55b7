//! `gannet verify`: is this file as it was written?

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use gannet_readout::inspect::FileKind;
use gannet_readout::{log, raw_file};
use serde::Serialize;

use crate::exit::Outcome;
use crate::output;

/// Reads files back and checks all of them: every byte of a log, and in a DUNE raw file (HDF5)
/// every header, fragment and map, which must agree with each other. Exit code 6 when anything is
/// wrong.
///
/// Example: gannet verify gannet_run000001_20261121T021000Z_f0000.glog
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The log files and raw files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

/// What was found in one file.
#[derive(Serialize)]
struct Verdict<'a> {
    file: &'a Path,
    /// Whether the file is whole and right.
    verified: bool,
    #[serde(flatten)]
    found: Found,
}

/// What was found, by the kind of the file.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Found {
    Log(Box<log::Report>),
    RawFile(raw_file::Summary),
    /// A raw file that is wrong: the first thing found.
    Problem(String),
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut verdicts = Vec::new();
    for file in &arguments.files {
        let verdict = verify(file)?;
        if !arguments.json {
            output::print(|out| verdict.print(out))?;
        }
        verdicts.push(verdict);
    }
    if arguments.json {
        output::json(&verdicts)?;
    }
    let all = verdicts.iter().all(|verdict| verdict.verified);
    Ok(if all { Outcome::Ok } else { Outcome::NotVerified })
}

/// Verifies a file.
fn verify(file: &Path) -> anyhow::Result<Verdict<'_>> {
    let (verified, found) = match FileKind::of(file)? {
        Some(FileKind::RawFile) => match raw_file::verify(file) {
            Ok(summary) => (true, Found::RawFile(summary)),
            Err(error) if error.is_of_system() => return Err(error.into()),
            Err(error) => (false, Found::Problem(error.to_string())),
        },
        Some(FileKind::Log) => {
            let report = log::verify(file)?;
            (report.is_complete(), Found::Log(Box::new(report)))
        }
        None => bail!("{} is neither a log (*.glog) nor HDF5", file.display()),
    };
    Ok(Verdict { file, verified, found })
}

impl Verdict<'_> {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let file = self.file.display();
        match &self.found {
            Found::Log(report) => write!(out, "{report}"),
            Found::Problem(problem) => writeln!(out, "{file}: WRONG: {problem}"),
            Found::RawFile(raw_file::Summary { records, fragments, bytes, wrong_sizes }) => {
                writeln!(
                    out,
                    "{file}: verified: {bytes} bytes in {records} records, {fragments} fragments"
                )?;
                match wrong_sizes {
                    0 => Ok(()),
                    wrong => writeln!(out, "  {wrong} fragment headers tell another size"),
                }
            }
        }
    }
}
