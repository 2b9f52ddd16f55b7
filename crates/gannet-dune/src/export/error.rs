//! Why a log could not be exported.

use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

use gannet_log::Kind;
use gannet_log::files;

use crate::raw_file;

/// Why a log could not be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] gannet_log::Error),
    /// The log lacks its end.
    #[error(
        "{} is not finished; stop the run that writes it, or run `gannet recover` on it if there \
         is none, then export the finished file",
        .0.display()
    )]
    Unfinished(PathBuf),
    /// The bytes of the log are not as written.
    #[error("{} does not verify and is not exported: {problem}", file.display())]
    NotVerified {
        /// The log.
        file: PathBuf,
        /// The first problem found; `verify` lists all.
        problem: String,
    },
    /// A sound chunk does not hold what its kind says.
    #[error("{}: the {kind} in chunk {sequence} of the run: {source}", file.display())]
    Content {
        /// The log.
        file: PathBuf,
        /// Number of the data chunk in the run.
        sequence: u64,
        /// What it should hold.
        kind: Kind,
        /// What is wrong.
        source: gannet_wire::Error,
    },
    /// An export, or the unfinished file of one, is there already.
    #[error("{} exists; move it away or export with --overwrite", .0.display())]
    Exists(PathBuf),
    /// A raw file cannot be written.
    #[error(transparent)]
    RawFile(#[from] raw_file::Error),
    /// The table cannot be written.
    #[error(transparent)]
    Table(#[from] gannet_table::Error),
    /// A table cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the Parquet library says.
        source: ParquetError,
    },
    /// A file cannot be made or get its name.
    #[error(transparent)]
    File(#[from] files::Error),
}

impl Error {
    /// Whether the log is to blame: its bytes are not as they were written.
    pub fn is_of_verification(&self) -> bool {
        matches!(self, Self::NotVerified { .. } | Self::Log(gannet_log::Error::Damaged { .. }))
    }

    /// Names the table that could not be read, for `map_err`.
    pub(super) fn read(path: &Path) -> impl Fn(ParquetError) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }
}
