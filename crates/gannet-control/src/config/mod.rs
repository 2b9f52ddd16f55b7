//! One TOML file describes a process: sources, chain, trigger, recorder, and the emulator.
//!
//! [`Config`] is the file as it is written; [`Plan`] is what a run is built from, with every
//! reference resolved and every value tested. Between the two stands [`load`], whose errors say
//! file, line, column, cause and what to write instead.

mod document;
mod forecast;
mod model;
mod plan;

use std::fs;
use std::path::Path;

pub use document::{Document, Problem};
pub use forecast::Forecast;
pub use model::{
    Config, MetricsConfig, RecordConfig, RunConfig, SourceConfig, SourceInput, ViewsConfig,
};
pub use plan::{Plan, PlannedSource, PlannedStream};

/// Reads and resolves the configuration file at `path`.
///
/// # Errors
/// The first problem in the file, or that it cannot be read.
pub fn load(path: &Path) -> Result<Plan, Problem> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| Problem {
        file: file.clone(),
        line: 1,
        column: 1,
        cause: format!("cannot be read: {error}"),
        suggestion: "check the path; `gannet check --schema` describes what the file holds".into(),
    })?;
    let directory = path.parent().unwrap_or(Path::new("."));
    parse(&file, &text, directory)
}

/// Resolves the configuration `text` of `file`; relative paths in it start at `directory`.
///
/// # Errors
/// The first problem in the text.
pub fn parse(file: &str, text: &str, directory: &Path) -> Result<Plan, Problem> {
    let document = Document::new(file, text);
    Plan::resolve(document.read()?, &document, directory)
}

/// The JSON schema of the configuration file.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Config)
}
