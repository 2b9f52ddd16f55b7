//! What is in the files of a run: logs, finished or not, DUNE raw files, and Parquet tables.
//!
//! [`list`] goes through a file entry by entry, [`describe_chunk`] and [`describe_record`] print one
//! part in full, [`chunk_detail`] and [`record_details`] return it as values. However large a file is, no more than one chunk or fragment of it is in memory.
//! What is damaged is listed as such, and what is behind it is listed too.
//! All other bytes are told and printed by [`gannet_wire::inspect`].

mod detail;
mod entry;
mod error;
mod log_file;
mod raw_file;
mod table;

use std::io::Read;
use std::path::Path;

pub use detail::{
    ChunkDetail, FragmentEntry, Payload, RecordContent, RecordDetail, RecordHeader, RequestEntry,
};
pub use entry::{
    ChunkEntry, ColumnEntry, DamageEntry, DataSetEntry, Entry, FileEntry, RecordEntry, RowEntry,
    TableEntry,
};
pub use error::Error;
pub use log_file::{chunk_detail, describe_chunk};
pub use raw_file::{describe_record, record_details};

use gannet_log::files::open_input;
use gannet_log::format::MAGIC;
use gannet_log::name::{EXTENSION, finished_path};

/// First bytes of every HDF5 file. Source: HDF5 File Format Specification 3.0, section II.A.
const HDF5_SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// The kinds of files that a run leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A log, finished or not.
    Log,
    /// A DUNE raw file, or another HDF5 file.
    RawFile,
    /// A Parquet table.
    Table,
}

impl FileKind {
    /// The kind of a file: by its first bytes, or by its name, whatever is in it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn of(path: &Path) -> Result<Option<Self>, Error> {
        let mut start = Vec::with_capacity(HDF5_SIGNATURE.len());
        let file = open_input(path).map_err(Error::io("open", path))?;
        let mut head = file.take(HDF5_SIGNATURE.len() as u64);
        head.read_to_end(&mut start).map_err(Error::io("read", path))?;
        let name = finished_path(path);
        let name = name.as_deref().unwrap_or(path);
        let extension = name.extension().unwrap_or_default();
        Ok(if start == HDF5_SIGNATURE {
            Some(Self::RawFile)
        } else if start.starts_with(&MAGIC) {
            Some(Self::Log)
        } else if start.starts_with(&gannet_table::MAGIC) {
            Some(Self::Table)
        } else if extension == EXTENSION {
            Some(Self::Log)
        } else if extension == "hdf5" || extension == "h5" {
            Some(Self::RawFile)
        } else {
            (extension == "parquet").then_some(Self::Table)
        })
    }
}

/// The entries of a file, in their order.
pub type Listing = Box<dyn Iterator<Item = Result<Entry, Error>>>;

/// Goes through a file: a log chunk by chunk, a raw file record by record, the first rows of a table.
///
/// # Errors
/// When the file cannot be read, or is HDF5 but no raw file.
pub fn list(path: &Path, kind: FileKind) -> Result<Listing, Error> {
    Ok(match kind {
        FileKind::Log => Box::new(log_file::LogListing::open(path)?),
        FileKind::RawFile => Box::new(raw_file::list(path)?),
        FileKind::Table => Box::new(table::list(path)?),
    })
}
