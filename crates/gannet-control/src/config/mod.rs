//! One TOML file describes a process: sources, chain, trigger, recorder, and the emulator.
//!
//! [`Config`] is the file as it is written; [`Plan`] is what a run is built from, with every
//! reference resolved and every value tested. Between the two stands [`load`], whose errors say
//! file, line, column, cause and what to write instead.

mod alarms;
mod builder;
mod document;
mod forecast;
mod links;
mod model;
mod plan;
mod planned_source;
mod receive_cpus;
mod slow_control;
mod token;

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use crate::detector::Detector;

pub use builder::{BuilderConfig, Role};
pub use document::{Document, Problem, nearest};
pub use forecast::{Forecast, Load};
pub use model::{
    ChannelsConfig, Config, MetricsConfig, RunConfig, Settings, SourceConfig, SourceInput,
    StreamPlace, Table, Tables, TlsConfig, WebConfig,
};
pub use plan::{Plan, STREAMS_MAX, UnknownSource, WEB_TOKENS};
pub use planned_source::{PlannedSource, PlannedStream, SourceStreams};
pub use receive_cpus::ReceiveCpus;
pub use slow_control::{
    Batches, CommandsConfig, EmulatedModules, MODULES_MAX, ModulesConfig, SlowControlConfig,
    SlowControlPlan, Word, check_command,
};
pub use token::{AccessRole, Token, Tokens};

/// Longest configuration that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Key of the detector's name.
const DETECTOR: &str = "pipeline.detector";

/// Reads and resolves the configuration file at `path` for one of `detectors`.
///
/// # Errors
/// The first problem in the file, or that it cannot be read.
pub fn load(path: &Path, detectors: &[&dyn Detector]) -> Result<Plan, Problem> {
    load_with_detector(path, detectors).map(|(plan, _)| plan)
}

/// The same, with the detector that the file names.
///
/// # Errors
/// As [`load`].
pub fn load_with_detector<'a>(
    path: &Path,
    detectors: &[&'a dyn Detector],
) -> Result<(Plan, &'a dyn Detector), Problem> {
    let text = read_text(path, "name a configuration; `gannet check --schema` describes it")?;
    let file = path.display().to_string();
    let document = Document::new(&file, &text);
    let detector = named(&document, detectors)?;
    Ok((detector.plan(&document, path.parent().unwrap_or(Path::new(".")))?, detector))
}

/// The text of a file that is not implausibly large; `suggestion` is what to do where there is none.
///
/// # Errors
/// That it cannot be read.
pub fn read_text(path: &Path, suggestion: &str) -> Result<String, Problem> {
    limited_text(path).map_err(|error| Problem {
        file: path.display().to_string(),
        line: 1,
        column: 1,
        cause: format!("cannot be read: {error}"),
        suggestion: suggestion.to_owned(),
    })
}

fn limited_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Resolves the configuration `text` of `file` for the one of `detectors` that it names, or for the
/// first; relative paths in it start at `directory`.
///
/// # Errors
/// The first problem in the text, or that no detector has the name.
pub fn parse(
    file: &str,
    text: &str,
    directory: &Path,
    detectors: &[&dyn Detector],
) -> Result<Plan, Problem> {
    let document = Document::new(file, text);
    named(&document, detectors)?.plan(&document, directory)
}

/// The detector that a configuration names, or the first.
fn named<'a>(
    document: &Document<'_>,
    detectors: &[&'a dyn Detector],
) -> Result<&'a dyn Detector, Problem> {
    let named = document.text_at(DETECTOR);
    let detector = match &named {
        None => detectors.first(),
        Some(name) => detectors.iter().find(|detector| detector.name() == name),
    };
    detector.copied().ok_or_else(|| {
        let cause = format!("there is no detector {:?} in this program", named.unwrap_or_default());
        let names: Vec<_> = detectors.iter().map(|detector| detector.name()).collect();
        document.problem(DETECTOR, cause, format!("use one of: {}", names.join(", ")))
    })
}

/// The JSON schema of a configuration for a detector with the tables `T`.
pub fn schema<T: Tables>() -> schemars::Schema {
    schemars::schema_for!(Config<T>)
}
