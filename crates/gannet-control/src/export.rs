//! Files for other people's tools, made of finished logs: what to make, and what was made.
//!
//! What a log holds, its detector knows: see [`Detector::export`](crate::detector::Detector::export).

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use gannet_log::files::{self, is_taken};
use gannet_log::name::{EXTENSION, finished_path, part_path};
use gannet_log::{ChunkView, FileHeader, Reader, verify_seeing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A form in which a log is offered to other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExportFormat {
    /// DUNE raw files: trigger records, and time slices of primitives.
    Hdf5,
    /// A Parquet table of all trigger primitives.
    Parquet,
    /// A DUNE raw file of the streams that were recorded as they came. It is as large as they are.
    Raw,
}

impl ExportFormat {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Hdf5, Self::Parquet, Self::Raw];

    /// The name, as configurations and command lines have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hdf5 => "hdf5",
            Self::Parquet => "parquet",
            Self::Raw => "raw",
        }
    }
}

/// Prints the name.
impl fmt::Display for ExportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is that of no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no format of an export; choose hdf5, parquet or raw")]
pub struct UnknownFormat(pub String);

/// Reads a name as [`ExportFormat::name`] gives it.
impl FromStr for ExportFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let format = Self::ALL.into_iter().find(|format| format.name() == name);
        format.ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// Path of an export of `log`: the log's name with `ending` in the place of its extension.
pub fn path_of(log: &Path, directory: Option<&Path>, ending: &str) -> PathBuf {
    let is_log = log.extension().is_some_and(|extension| extension == EXTENSION);
    let stem = if is_log { log.file_stem() } else { log.file_name() };
    let mut name = stem.unwrap_or_default().to_owned();
    name.push(ending);
    match directory {
        Some(directory) => directory.join(name),
        None => log.with_file_name(name),
    }
}

/// What to make of a log, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfig {
    /// Directory of the exports; absent: that of the log.
    pub directory: Option<PathBuf>,
    /// Formats to export, as far as there is something of the detector for them.
    pub formats: Vec<ExportFormat>,
    /// Whether exports that are there already are replaced.
    pub overwrite: bool,
}

impl Default for ExportConfig {
    fn default() -> Self {
        Self { directory: None, formats: ExportFormat::ALL.to_vec(), overwrite: false }
    }
}

/// What was made of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// The files.
    pub files: Vec<PathBuf>,
    /// How many of what is in them, by its name.
    #[serde(flatten)]
    pub counts: BTreeMap<&'static str, u64>,
    /// Frames of streams that were recorded as they came, and that a format would export that was not asked for.
    pub raw_frames_kept: u64,
    /// Chunks known to have been lost from the log before `recover` brought it to its end.
    pub chunks_missing: u64,
}

/// Why a log could not be exported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The log is to blame: its bytes are not as they were written.
    #[error("{0}")]
    NotVerified(String),
    /// It cannot be read, or an export not be written.
    #[error("{0}")]
    Failed(String),
}

impl ExportError {
    /// What went wrong beside the log, for `map_err`.
    pub fn failed(error: impl fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Reads all of `log`, which has to be finished and as it was written, and gives its header and how many chunks were
/// lost from it.
///
/// # Errors
/// When it is not, or cannot be read.
pub fn verified(
    log: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(FileHeader, u64), ExportError> {
    let file = log.display();
    if finished_path(log).is_some() {
        return Err(ExportError::Failed(format!(
            "{file} is not finished; stop the run that writes it, or run `gannet recover` on it if there is none"
        )));
    }
    let reader = Reader::open(log).map_err(ExportError::failed)?;
    let total = 2 * reader.file_len();
    let seen = |chunk: &ChunkView<'_>| progress(chunk.offset + chunk.header.chunk_len(), total);
    let report = verify_seeing(reader, log, seen).map_err(ExportError::failed)?;
    report.check_is_log().map_err(ExportError::failed)?;
    let wrong = |problem: &str| {
        ExportError::NotVerified(format!("{file} does not verify and is not exported: {problem}"))
    };
    if let Some(problem) = report.problems.first() {
        return Err(wrong(problem));
    }
    let header = report.header.ok_or_else(|| wrong("it has no header"))?;
    Ok((header, report.chunks_missing))
}

/// Where the export of `log` whose name ends in `ending` is to be, with nothing in its place that would be in the way.
///
/// # Errors
/// When one is there already and is not to be replaced.
pub fn target(log: &Path, config: &ExportConfig, ending: &str) -> Result<PathBuf, ExportError> {
    let target = path_of(log, config.directory.as_deref(), ending);
    let part = part_path(&target);
    if config.overwrite {
        files::remove_own(&part).map_err(ExportError::failed)?;
    } else if let Some(taken) = [&target, &part].into_iter().find(|path| is_taken(path)) {
        let taken = taken.display();
        let message = format!("{taken} exists; move it away or export with --overwrite");
        return Err(ExportError::Failed(message));
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_configuration() {
        for format in ExportFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
            assert_eq!(serde_json::to_value(format).unwrap(), format.name());
        }
        let error = "hdf".parse::<ExportFormat>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"hdf\" is no format of an export; choose hdf5, parquet or raw"
        );
    }

    #[test]
    fn files_are_named_after_their_log() {
        let log = Path::new("/data/a_run000001_f0000.glog");
        assert_eq!(path_of(log, None, ".hdf5"), Path::new("/data/a_run000001_f0000.hdf5"));
        let elsewhere = path_of(log, Some(Path::new("x")), "_tps.parquet");
        assert_eq!(elsewhere, Path::new("x/a_run000001_f0000_tps.parquet"));
        assert_eq!(path_of(Path::new("run.1"), None, ".hdf5"), Path::new("run.1.hdf5"));
    }
}
