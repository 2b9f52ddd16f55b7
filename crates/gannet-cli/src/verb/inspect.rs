//! `gannet inspect`: what is in this file?

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use gannet_dune::inspect::{
    FileKind, Listing, chunk_detail, describe_chunk, describe_record, list, record_details,
};
use gannet_offline::event;
use gannet_wire::inspect::{Format, describe, identify};

use crate::Detectors;
use crate::destination::Destination;
use crate::exit::Outcome;
use crate::output;

/// Most bytes of a file that is neither log nor HDF5 nor Parquet, as these are read at once.
const BYTES_MAX: u64 = 1 << 30;

/// Shows what is in a file: the chunks of a log, finished or not, the records of a DUNE raw file
/// (HDF5), columns and first rows of a Parquet table, or what bytes are: frames, fragments, records, primitives, packet captures.
///
/// Example: gannet inspect gannet_run000001_20261121T021000Z_f0000.glog --chunk 2
///
/// Example: gannet inspect rich_run000001_20261121T021000Z_f0000.glog --event 7 --svg event.svg
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The file.
    file: PathBuf,
    /// Format of the bytes, when it cannot be recognised.
    #[arg(long, conflicts_with_all = ["chunk", "record", "json"])]
    format: Option<Format>,
    /// Print this chunk of a log in full, by its number in the list.
    #[arg(long, value_name = "NUMBER")]
    chunk: Option<u64>,
    /// Print the record of this number of a raw file in full.
    #[arg(long, value_name = "NUMBER", conflicts_with = "chunk")]
    record: Option<u64>,
    /// Print this event, by its number in the file from 0: of the RICH of NA62 with the rings found in it, of KM3NeT with
    /// its hits. The file is a log of a run, a capture, or bytes that hold events.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["chunk", "record", "format"])]
    event: Option<u64>,
    /// Draw the event into this file.
    #[arg(long, value_name = "FILE", requires = "event", conflicts_with = "json")]
    svg: Option<PathBuf>,
    /// Overwrite that file if it exists.
    #[arg(long, requires = "svg")]
    overwrite: bool,
    /// Print JSON: the list of chunks, records or rows, or with --chunk, --record or --event the fields of that
    /// one, the headers of its fragments, and the number of their items.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments, detectors: Detectors) -> anyhow::Result<Outcome> {
    let file = &arguments.file;
    let is_empty = fs::metadata(file).is_ok_and(|it| it.is_file() && it.len() == 0);
    ensure!(!is_empty, "{} is empty", file.display());
    if let Some(number) = arguments.event {
        return event(arguments, number, detectors);
    }
    let kind = match arguments.format {
        Some(_) => None,
        None => FileKind::of(file)?,
    };
    let mut text = String::new();
    match (kind, arguments.chunk, arguments.record) {
        (Some(FileKind::Log), Some(chunk), None) if arguments.json => {
            output::json(&chunk_detail(file, chunk)?)?;
        }
        (Some(FileKind::RawFile), None, Some(record)) if arguments.json => {
            output::json(&record_details(file, record)?)?;
        }
        (Some(FileKind::Log), Some(chunk), None) => describe_chunk(file, chunk, &mut text)?,
        (Some(FileKind::RawFile), None, Some(record)) => describe_record(file, record, &mut text)?,
        (Some(FileKind::Log), None, Some(_)) => bail!("a log has chunks; use --chunk"),
        (Some(FileKind::RawFile), Some(_), _) => bail!("a raw file has records; use --record"),
        (Some(FileKind::Table), ..) if arguments.chunk.or(arguments.record).is_some() => {
            bail!("a table has rows; --chunk and --record are for logs and raw files")
        }
        (Some(kind), ..) if arguments.json => output::json_array(list(file, kind)?)?,
        (Some(kind), ..) => output::print(|out| print(out, list(file, kind)?))?,
        (None, None, None) if !arguments.json => bytes(file, arguments.format, &mut text)?,
        (None, ..) => bail!(
            "{} is neither a log nor HDF5 nor Parquet; --chunk, --record and --json are for those",
            file.display()
        ),
    }
    output::text(&text)?;
    Ok(Outcome::Ok)
}

/// Prints an event, or draws it.
fn event(arguments: &Arguments, number: u64, detectors: Detectors) -> anyhow::Result<Outcome> {
    let picture = arguments.svg.as_deref();
    let picture = picture.map(|file| Destination::begin(file, arguments.overwrite)).transpose()?;
    let event = event::event(&arguments.file, number, detectors)?;
    match picture {
        Some(file) => file.write(&event.picture.map_err(anyhow::Error::msg)?)?,
        None if arguments.json => output::json(&event.values)?,
        None => output::text(&event.text)?,
    }
    Ok(Outcome::Ok)
}

/// Prints the entries, as they are found.
fn print(out: &mut impl Write, entries: Listing) -> anyhow::Result<()> {
    for entry in entries {
        writeln!(out, "{}", entry?)?;
    }
    Ok(())
}

/// Describes a file of other bytes.
fn bytes(file: &Path, format: Option<Format>, text: &mut String) -> anyhow::Result<()> {
    let path = file.display();
    let cannot_read = || format!("cannot read {path}");
    let len = gannet_log::files::open_input(file)
        .and_then(|file| file.metadata())
        .with_context(cannot_read)?
        .len();
    ensure!(
        len <= BYTES_MAX,
        "{path} has {len} bytes and would be read at once; inspect a piece of it, for example one \
         made by head -c {BYTES_MAX}"
    );
    let bytes = fs::read(file).with_context(cannot_read)?;
    let format = format.or_else(|| identify(&bytes));
    let format =
        format.with_context(|| format!("{path}: unrecognised format; name it with --format"))?;
    describe(format, &bytes, text).with_context(|| format!("{path} as {format}"))
}
