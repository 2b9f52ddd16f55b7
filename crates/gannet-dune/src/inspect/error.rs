//! Why a file could not be inspected.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::raw_file;

/// Why a file could not be inspected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] gannet_log::Error),
    /// The raw file cannot be read.
    #[error(transparent)]
    RawFile(#[from] raw_file::Error),
    /// The Parquet file cannot be read.
    #[error("{}: {source}", file.display())]
    Parquet {
        /// The file.
        file: PathBuf,
        /// What the Parquet library says.
        source: parquet::errors::ParquetError,
    },
    /// The log has fewer chunks.
    #[error("{} has no chunk {wanted}; it has {chunks}, counted from 0", file.display())]
    NoChunk {
        /// The log.
        file: PathBuf,
        /// Number asked for.
        wanted: u64,
        /// Sound chunks in the file.
        chunks: u64,
    },
    /// No record of the raw file has the number.
    #[error("{} has no record {wanted}; inspect it without --record to see which it has", file.display())]
    NoRecord {
        /// The raw file.
        file: PathBuf,
        /// Number asked for.
        wanted: u64,
    },
    /// The system refused an operation on a file.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The writer that takes a description refused it.
    #[error("the description could not be written")]
    Output(#[from] fmt::Error),
}

impl Error {
    /// Names what was tried on which file, for `map_err`.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}
