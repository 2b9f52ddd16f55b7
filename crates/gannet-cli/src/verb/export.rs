//! `gannet export`: make files of a log that other tools read.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use gannet_control::detector::Detector;
use gannet_control::event::RunStart;
use gannet_control::export::{ExportConfig, ExportError, ExportFormat, Exported};
use gannet_log::files;
use gannet_log::files::is_same_file;
use serde::Serialize;

use crate::Detectors;
use crate::exit::{Outcome, Usage};
use crate::log;
use crate::output::{self, grouped};
use crate::progress::Progress;

/// Converts finished logs to files that other tools read, and prints their names.
///
/// hdf5: trigger records in DUNE's raw-file layout (NAME.hdf5), and time slices of trigger
/// primitives (NAME_tps.hdf5). parquet: a table of all trigger primitives (NAME_tps.parquet); of the
/// RICH of NA62 of the rings of recorded events (NAME_rings.parquet), and of KM3NeT of triggered
/// hits (NAME_hits.parquet). raw: the streams that were recorded as they came, as time slices in
/// DUNE's raw-file layout (NAME_raw.hdf5). Each file is listed in the manifest of its run (*.sha256) beside it. A log that
/// does not verify is not exported: exit code 6.
///
/// Example: gannet export gannet_run000001_20261121T021000Z_f0000.glog --format parquet --to /tmp
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The log files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// What to make: hdf5, parquet or raw; may be repeated. Everything when absent.
    #[arg(long = "format", value_name = "FORMAT")]
    formats: Vec<ExportFormat>,
    /// Directory to write to; the default is that of the log.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Overwrite existing files.
    #[arg(long)]
    overwrite: bool,
    /// Print what was made as JSON.
    #[arg(long)]
    json: bool,
}

/// How it went with one log.
#[derive(Serialize)]
struct Report<'a> {
    log: &'a Path,
    #[serde(flatten)]
    exported: Option<Exported>,
    error: Option<String>,
}

pub fn run(arguments: &Arguments, detectors: Detectors) -> anyhow::Result<Outcome> {
    if arguments.to.is_some() {
        keep_apart(&arguments.files)?;
    }
    let mut config = ExportConfig {
        directory: arguments.to.clone(),
        overwrite: arguments.overwrite,
        ..ExportConfig::default()
    };
    if !arguments.formats.is_empty() {
        config.formats = arguments.formats.clone();
    }
    let mut reports = Vec::new();
    for log in &arguments.files {
        let report = one(log, &config, detectors)?;
        if !arguments.json {
            output::print(|out| list(out, &report))?;
        }
        reports.push(report);
    }
    if arguments.json {
        output::json(&reports)?;
    }
    let all = reports.iter().all(|report| report.error.is_none());
    Ok(if all { Outcome::Ok } else { Outcome::NotVerified })
}

/// Refuses two logs of one name, whose files would replace each other in one directory.
fn keep_apart(logs: &[PathBuf]) -> Result<(), Usage> {
    for (place, log) in logs.iter().enumerate() {
        let is_twin =
            |other: &&PathBuf| other.file_name() == log.file_name() && !is_same_file(other, log);
        if let Some(twin) = logs[..place].iter().find(is_twin) {
            let (log, twin) = (log.display(), twin.display());
            return Err(Usage(format!(
                "{twin} and {log} would make files of one name; export them to two directories"
            )));
        }
    }
    Ok(())
}

/// The detector that a log is of; the first that the program knows, where it names none of them.
fn detector_of(log: &Path, detectors: Detectors) -> anyhow::Result<&'static dyn Detector> {
    // What is wrong with a log is said by who exports it.
    let start = RunStart::of_log(log).ok().flatten().unwrap_or_default();
    let named = detectors.iter().find(|detector| detector.name() == start.detector);
    named.or(detectors.first()).copied().context("this program knows no detector")
}

/// Exports one log. One that does not verify is reported and does not hold up the others.
fn one<'a>(
    log: &'a Path,
    config: &ExportConfig,
    detectors: Detectors,
) -> anyhow::Result<Report<'a>> {
    let mut progress = Progress::new(log.display());
    let detector = detector_of(log, detectors)?;
    let result = detector.export(log, config, &mut |done, total| progress.show(done, total));
    drop(progress);
    match result {
        Ok(exported) => {
            for file in &exported.files {
                files::list(file).with_context(|| format!("{} is made", file.display()))?;
            }
            if exported.chunks_missing > 0 {
                let (log, missing) = (log.display(), exported.chunks_missing);
                log::say(format_args!(
                    "warning: {log}: {missing} chunks had been lost before it was recovered"
                ));
            }
            if exported.raw_frames_kept > 0 {
                let (log, frames) = (log.display(), grouped(exported.raw_frames_kept));
                log::say(format_args!(
                    "{log}: {frames} raw frames stay in the log; `--format raw` exports them"
                ));
            }
            Ok(Report { log, exported: Some(exported), error: None })
        }
        Err(error @ ExportError::NotVerified(_)) => {
            log::say(format_args!("error: {error}"));
            Ok(Report { log, exported: None, error: Some(error.to_string()) })
        }
        Err(error) => Err(error.into()),
    }
}

/// Prints the files made of one log, one a line.
fn list(out: &mut impl Write, report: &Report<'_>) -> io::Result<()> {
    let files = report.exported.iter().flat_map(|exported| &exported.files);
    for file in files {
        writeln!(out, "{}", file.display())?;
    }
    Ok(())
}
