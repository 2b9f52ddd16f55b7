//! Whether a table is as it was written.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde::Serialize;

use gannet_log::files::open_input;

use crate::digest;

/// First bytes of every Parquet file.
pub const MAGIC: [u8; 4] = *b"PAR1";

/// What a file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Number of rows.
    pub rows: u64,
    /// Number of columns.
    pub columns: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Why a file could not be read or is not right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The system refused.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not what was written.
    #[error("{}: {what}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl VerifyError {
    /// Whether the operating system refused, and the content of the file is not to blame.
    pub fn is_of_system(&self) -> bool {
        matches!(self, Self::Io { .. })
    }
}

/// Compares all bytes of a file with its digest.
///
/// # Errors
/// When they differ, when there is no digest as in files of other programs, or the file cannot be read.
pub fn verify(path: &Path) -> Result<Summary, VerifyError> {
    let io = |source| VerifyError::Io { path: path.to_owned(), source };
    let wrong = |what: String| VerifyError::Wrong { path: path.to_owned(), what };
    let file = open_input(path).map_err(io)?;
    match digest::check(&file) {
        Ok(Some(true)) => {}
        Ok(Some(false)) => {
            let what = "its bytes differ from its digest: it was damaged, or changed after it was \
                        written";
            return Err(wrong(what.into()));
        }
        Ok(None) => {
            let what = "it has no digest: another program wrote it, or it is damaged";
            return Err(wrong(what.into()));
        }
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            return Err(wrong(error.to_string()));
        }
        Err(error) => return Err(io(error)),
    }
    let reader = SerializedFileReader::new(file);
    let reader = reader.map_err(|error: ParquetError| wrong(error.to_string()))?;
    let about = reader.metadata().file_metadata();
    Ok(Summary {
        rows: about.num_rows().max(0) as u64,
        columns: about.schema_descr().num_columns() as u64,
        bytes: path.metadata().map_err(io)?.len(),
    })
}
