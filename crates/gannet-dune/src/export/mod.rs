//! Exports of a finished log that other people's tools read: DUNE raw files in HDF5, and Parquet.
//!
//! | export | file, of log `NAME.glog` | holds |
//! | --- | --- | --- |
//! | [`ExportFormat::Hdf5`] | `NAME.hdf5` | trigger records in DUNE's layout, see [`raw_file`](crate::raw_file) |
//! | [`ExportFormat::Hdf5`] | `NAME_tps.hdf5` | time slices of trigger primitives in DUNE's layout |
//! | [`ExportFormat::Raw`] | `NAME_raw.hdf5` | streams recorded as they came, as time slices in DUNE's layout |
//! | [`ExportFormat::Parquet`] | `NAME_tps.parquet` | a row per trigger primitive of all time slices, see [`COLUMNS`] |
//!
//! The log is read twice. First every byte of it is verified, and it is found out what is in it and
//! where on the detector each source is: front-end frames carry their place in their own header.
//! Then the exports are written, under a name ending in `.part` until they are whole and on the
//! disk. A log that does not verify is not exported. No file is made for an export with nothing in it.
//! Memory is that for one chunk of the log and one row group of the table.
//!
//! ```no_run
//! use std::path::Path;
//! use gannet_dune::export::{ExportConfig, export};
//!
//! let log = Path::new("gannet_run000001_20261121T021000Z_f0000.glog");
//! let exported = export(log, &ExportConfig::default(), &mut |_, _| ())?;
//! println!("{} primitives in {:?}", exported.primitives, exported.files);
//! # Ok::<(), gannet_dune::export::Error>(())
//! ```

mod error;
mod log_contents;
mod places;
mod primitive_table;
mod raw_slices;
mod run_facts;
mod trigger_table;
mod writing;

use std::path::{Path, PathBuf};

use gannet_control::export as control;

pub use error::Error;
pub use gannet_control::export::ExportFormat;
pub use places::ChannelPlaces;
pub use primitive_table::{COLUMNS, PrimitiveTable, ROWS_PER_GROUP_MAX, Row, TableReader};
pub use trigger_table::{TriggerRow, trigger_table};

use crate::raw_file::Catalogue;
use gannet_log::Reader;
use log_contents::LogContents;
use writing::Writing;

/// What to make of a log, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfig {
    /// Directory of the exports; absent: that of the log.
    pub directory: Option<PathBuf>,
    /// Formats to export.
    pub formats: Vec<ExportFormat>,
    /// Whether exports that are there already are replaced.
    pub overwrite: bool,
    /// What raw files tell offline catalogues; absent: what the log says at the start of its run.
    pub catalogue: Option<Catalogue>,
}

impl Default for ExportConfig {
    fn default() -> Self {
        Self {
            directory: None,
            formats: ExportFormat::ALL.to_vec(),
            overwrite: false,
            catalogue: None,
        }
    }
}

impl From<control::ExportConfig> for ExportConfig {
    fn from(config: control::ExportConfig) -> Self {
        let control::ExportConfig { directory, formats, overwrite } = config;
        Self { directory, formats, overwrite, catalogue: None }
    }
}

impl From<Exported> for control::Exported {
    fn from(exported: Exported) -> Self {
        let counts = [
            ("records", exported.records),
            ("slices", exported.slices),
            ("primitives", exported.primitives),
            ("raw_frames", exported.raw_frames),
        ];
        Self {
            files: exported.files,
            counts: counts.into(),
            raw_frames_kept: exported.raw_frames_kept,
            chunks_missing: exported.chunks_missing,
        }
    }
}

impl From<Error> for control::ExportError {
    fn from(error: Error) -> Self {
        match error.is_of_verification() {
            true => Self::NotVerified(error.to_string()),
            false => Self::failed(error),
        }
    }
}

/// What [`export`] made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The files.
    pub files: Vec<PathBuf>,
    /// Trigger records in the raw file.
    pub records: u64,
    /// Time slices in the raw file.
    pub slices: u64,
    /// Trigger primitives in the table.
    pub primitives: u64,
    /// Frames of streams that were recorded as they came, in their raw file.
    pub raw_frames: u64,
    /// Such frames that are in the log only, because [`ExportFormat::Raw`] was not asked for.
    pub raw_frames_kept: u64,
    /// Chunks known to have been lost from the log before `recover` brought it to its end.
    pub chunks_missing: u64,
}

/// Writes the exports of the finished log `log`.
///
/// `progress` is called now and then with the bytes read so far, and those to be read in total.
///
/// # Errors
/// When the log is not finished or does not verify ([`Error::is_of_verification`]), an export exists
/// already, or a file cannot be read or written. Exports that were not whole are removed again.
pub fn export(
    log: &Path,
    config: &ExportConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Exported, Error> {
    let contents = LogContents::of(log, progress)?;
    let mut writing = Writing::begin(log, config, &contents)?;
    let mut reader = Reader::open(log)?;
    let len = reader.file_len();
    while let Some(chunk) = reader.next_chunk()? {
        writing.take(log, &chunk)?;
        progress(len + chunk.offset + chunk.header.chunk_len(), 2 * len);
    }
    writing.finish()
}
