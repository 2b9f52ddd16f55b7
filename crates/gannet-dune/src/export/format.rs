//! The formats of exports, and their names.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gannet_log::name::EXTENSION;

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
pub(super) fn path_of(log: &Path, directory: Option<&Path>, ending: &str) -> PathBuf {
    let is_log = log.extension().is_some_and(|extension| extension == EXTENSION);
    let stem = if is_log { log.file_stem() } else { log.file_name() };
    let mut name = stem.unwrap_or_default().to_owned();
    name.push(ending);
    match directory {
        Some(directory) => directory.join(name),
        None => log.with_file_name(name),
    }
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
