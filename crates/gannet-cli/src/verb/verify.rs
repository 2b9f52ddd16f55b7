//! `gannet verify`: is this file as it was written?

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use gannet_control::channels::{self, file::FileError};
use gannet_dune::inspect::FileKind;
use gannet_dune::raw_file;
use gannet_log::files::{self, CHANNELS_ENDING, Listed, MANIFEST_ENDING};
use serde::Serialize;

use crate::exit::Outcome;
use crate::output;

/// Reads files back and checks all of them: every byte of a log, a DUNE raw file (HDF5) or a Parquet
/// table that Gannet wrote, the headers, fragments and maps of raw files, which must agree with each
/// other, and the rows of a table of channels.
///
/// Each is also compared with the manifest of its run beside it (*.sha256); a manifest by itself stands
/// for all files that it lists. Raw files of other programs have no digest, and tables of channels
/// only that in the manifest. Exit code 6 when anything is wrong. What the run lost before it came to the
/// file, as the end of a log tells, is shown, and does not change the exit code.
///
/// Example: gannet verify gannet_run000001_20261121T021000Z_f0000.glog
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Logs, raw files, Parquet tables, tables of channels, and manifests.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

/// What was found in one file.
#[derive(Serialize)]
struct Verdict {
    file: PathBuf,
    /// Whether the file is whole and right.
    verified: bool,
    /// How it compares with the manifest of its run.
    manifest: Listed,
    #[serde(flatten)]
    found: Found,
}

/// What was found, by the kind of the file.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Found {
    Log(Box<gannet_log::Report>),
    RawFile(raw_file::Summary),
    Table(gannet_table::Summary),
    Channels {
        channels: usize,
    },
    /// A file that is wrong: the first thing found.
    Problem(String),
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut verdicts = Vec::new();
    for file in &arguments.files {
        for target in targets_of(file)? {
            let verdict = match target {
                Target::File(file) => verify(file)?,
                Target::Wrong(file, problem) => Verdict {
                    file,
                    verified: false,
                    manifest: Listed::Differs,
                    found: Found::Problem(problem),
                },
            };
            if !arguments.json {
                output::print(|out| verdict.print(out))?;
            }
            verdicts.push(verdict);
        }
    }
    if arguments.json {
        output::json(&verdicts)?;
    }
    let all = verdicts.iter().all(|verdict| verdict.verified);
    Ok(if all { Outcome::Ok } else { Outcome::NotVerified })
}

/// Whether a file is as it was written, and what was found in it, as [`run`] prints it.
pub fn verdict(file: &Path) -> (bool, String) {
    match verify(file.to_owned()) {
        Ok(verdict) => {
            let mut told = Vec::new();
            // Nothing is lost on the way to memory.
            let _written = verdict.print(&mut told);
            (verdict.verified, String::from_utf8_lossy(&told).into_owned())
        }
        Err(error) => (false, format!("{error:#}")),
    }
}

/// What an argument asks to verify.
enum Target {
    File(PathBuf),
    /// What is wrong before any content is looked at.
    Wrong(PathBuf, String),
}

/// The file itself, or those that it lists if it is a manifest.
fn targets_of(file: &Path) -> anyhow::Result<Vec<Target>> {
    if !has_ending(file, MANIFEST_ENDING) {
        return Ok(vec![Target::File(file.to_owned())]);
    }
    let target = |listed: PathBuf| match listed.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Target::Wrong(listed, "it is listed in the manifest and does not exist".into())
        }
        _ => Target::File(listed),
    };
    match files::files_of(file) {
        Ok(listed) => Ok(listed.into_iter().map(target).collect()),
        Err(error) if error.source.kind() == io::ErrorKind::InvalidData => {
            Ok(vec![Target::Wrong(file.to_owned(), error.to_string())])
        }
        Err(error) => Err(error.into()),
    }
}

fn has_ending(file: &Path, ending: &str) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ending))
}

/// Verifies a file by what is in it, and by the manifest beside it.
fn verify(file: PathBuf) -> anyhow::Result<Verdict> {
    let is_channels = has_ending(&file, CHANNELS_ENDING);
    let (sound, found) = if is_channels { channels(&file)? } else { content(&file)? };
    let (manifest, found) = match files::compare(&file) {
        Ok(listed) => (listed, found),
        Err(error) if error.source.kind() == io::ErrorKind::InvalidData => {
            (Listed::Differs, Found::Problem(error.to_string()))
        }
        Err(error) => return Err(error.into()),
    };
    let verified = match manifest {
        Listed::Agrees => sound,
        Listed::Differs => false,
        // Nothing in a table of channels tells whether it was damaged.
        Listed::NotListed | Listed::NoManifest => sound && !is_channels,
    };
    Ok(Verdict { file, verified, manifest, found })
}

/// Whether the content of a file is right, and what it is.
fn content(file: &Path) -> anyhow::Result<(bool, Found)> {
    Ok(match FileKind::of(file)? {
        Some(FileKind::RawFile) => match raw_file::verify(file) {
            Ok(summary) => (true, Found::RawFile(summary)),
            Err(error) if error.is_of_system() || error.is_unsupported() => {
                return Err(error.into());
            }
            Err(error) => (false, Found::Problem(error.to_string())),
        },
        Some(FileKind::Log) => {
            let report = gannet_log::verify(file)?;
            (report.is_complete(), Found::Log(Box::new(report)))
        }
        Some(FileKind::Table) => match gannet_table::verify(file) {
            Ok(summary) => (true, Found::Table(summary)),
            Err(error) if error.is_of_system() => return Err(error.into()),
            Err(error) => (false, Found::Problem(error.to_string())),
        },
        None => bail!(
            "{} is not a log (*.glog), HDF5, Parquet, a table of channels (*{CHANNELS_ENDING}) or a \
             manifest (*{MANIFEST_ENDING})",
            file.display()
        ),
    })
}

fn channels(file: &Path) -> anyhow::Result<(bool, Found)> {
    match channels::file::read(file) {
        Ok(channels) => Ok((true, Found::Channels { channels: channels.len() })),
        Err(error @ FileError::Read { .. }) => Err(error.into()),
        Err(error) => Ok((false, Found::Problem(error.to_string()))),
    }
}

impl Verdict {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let file = self.file.display();
        let verdict = if self.verified { "verified" } else { "NOT VERIFIED" };
        match &self.found {
            Found::Log(report) => write!(out, "{report}")?,
            Found::Problem(problem) => writeln!(out, "{file}: WRONG: {problem}")?,
            Found::Table(gannet_table::Summary { rows, columns, bytes }) => {
                writeln!(
                    out,
                    "{file}: {verdict}: {bytes} bytes in {rows} rows of {columns} columns"
                )?;
            }
            Found::Channels { channels } => {
                writeln!(out, "{file}: {verdict}: {channels} channels")?;
            }
            Found::RawFile(raw_file::Summary {
                records,
                fragments,
                bytes,
                wrong_sizes,
                digest,
            }) => {
                writeln!(
                    out,
                    "{file}: {verdict}: {bytes} bytes in {records} records, {fragments} fragments"
                )?;
                if *wrong_sizes > 0 {
                    writeln!(out, "  {wrong_sizes} fragment headers tell another size")?;
                }
                if !digest {
                    writeln!(out, "  it has no digest: damage to its data is not found")?;
                }
            }
        }
        let manifest = files::manifest_of(&self.file);
        let manifest = manifest.as_deref().and_then(Path::file_name).unwrap_or_default().display();
        match self.manifest {
            Listed::Agrees => writeln!(out, "  as listed in {manifest}"),
            Listed::Differs => writeln!(out, "  NOT as listed in {manifest}"),
            Listed::NotListed => writeln!(out, "  not listed in {manifest}"),
            Listed::NoManifest => writeln!(out, "  no manifest (*{MANIFEST_ENDING}) is beside it"),
        }
    }
}
