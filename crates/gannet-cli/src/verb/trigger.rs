//! `gannet trigger`: trigger again on recorded primitives.

use std::ops::ControlFlow;
use std::path::PathBuf;

use gannet_offline::retrigger::{RetriggerConfig, RetriggerError, RetriggerReport, retrigger};

use crate::exit::Outcome;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::{Detectors, log, output};

/// Runs the trigger again on recorded primitives, and counts or lists what it decides.
///
/// Primitives come from a log, a Parquet table, or time slices in HDF5. The trigger is that of the
/// run, as its log and exported time slices tell, or with --config the section `[pipeline.trigger]` of another
/// configuration. With the trigger of the run, the decisions are compared with the trigger records
/// in the log: time, type, window, every candidate with its activities, and all activities of the
/// window. Records whose trigger has another number here count as the same, and are counted.
///
/// What depended on timing is not repeated: primitives that were late during the run, and times
/// when it could not decide because too many records were in flight or it was paused; both are
/// counted. Exit code 3 when something in the files is damaged or missing.
///
/// Example: gannet trigger gannet_run000001_20261121T021000Z_f0000.glog --config tighter.toml --out triggers.parquet
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Files of one run: logs, or tables of primitives (.parquet), or time slices (.hdf5).
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Configuration whose section `[pipeline.trigger]` takes the place of the run's.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write a table of the triggers to this file (.parquet): number, time, window, type, algorithm,
    /// channels, charge.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite existing files.
    #[arg(long)]
    overwrite: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments, detectors: Detectors) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let mut progress = Progress::new("trigger");
    let config = RetriggerConfig {
        files: arguments.files.clone(),
        config: arguments.config.clone(),
        output: arguments.out.clone(),
        overwrite: arguments.overwrite,
    };
    let report = retrigger(&config, detectors, &mut |done, total| {
        progress.show(done, total);
        match signals.received() {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break(()),
        }
    });
    drop(progress);
    if let (Err(RetriggerError::Interrupted), Some(signal)) = (&report, signals.received()) {
        log::say(RetriggerError::Interrupted);
        return Ok(Outcome::Interrupted(signal));
    }
    let report = report?;
    warn(&report);
    match arguments.json {
        true => output::json(&report)?,
        false => output::text(&text(&report))?,
    }
    Ok(if report.is_lossy() { Outcome::Degraded } else { Outcome::Ok })
}

/// Says what the figures alone do not.
fn warn(report: &RetriggerReport) {
    let warn = |text: String| log::say(format_args!("warning: {text}"));
    let late = report.late_in_run.unwrap_or(0);
    if late > report.late {
        let used = late - report.late;
        warn(format!(
            "{late} primitives were late for the trigger of the run; {used} of them cannot be told \
             from others and are used here"
        ));
    }
    if report.late > late {
        warn(format!(
            "{} primitives are out of the order of time and are left out, {late} were in the run",
            report.late
        ));
    }
    if report.busy_in_run > 0 {
        let times = report.busy_in_run;
        warn(format!(
            "{times} times the run could not decide, because of records in flight or a pause; here \
             it could, and numbers are shifted from there on"
        ));
    }
    if report.damaged > 0 {
        warn(format!("{} parts are damaged and left out", report.damaged));
    }
    if report.chunks_missing > 0 {
        warn(format!(
            "{} chunks had been lost before the logs were recovered",
            report.chunks_missing
        ));
    }
}

/// The report for people.
fn text(report: &RetriggerReport) -> String {
    let grouped = output::grouped;
    let rate = |count: u64| count as f64 / report.span_s.max(f64::MIN_POSITIVE);
    let line = |name: &str, count: u64| {
        format!("{name:<12}{:>14} {:>14.2} Hz\n", grouped(count), rate(count))
    };
    let mut text = format!("run         {:>14} {:>14.6} s\n", report.run, report.span_s);
    text += &line("primitives", report.primitives);
    text += &line("activities", report.activities);
    text += &line("candidates", report.candidates);
    text += &line("triggers", report.triggers);
    for (name, count) in &report.by_type {
        text += &format!("  {name:<24}{:>14}\n", grouped(*count));
    }
    if let Some(compared) = &report.compared {
        text += &format!(
            "compared    {} records in the log: {} the same ({} under another number), {} differ; {} \
             triggers without a record\n",
            grouped(compared.records),
            grouped(compared.same),
            grouped(compared.renumbered),
            grouped(compared.differ),
            grouped(compared.unrecorded)
        );
        if !compared.first_that_differ.is_empty() {
            text += &format!("  differ first: {:?}\n", compared.first_that_differ);
        }
    }
    report.file.iter().for_each(|file| text += &format!("{}\n", file.display()));
    text
}
