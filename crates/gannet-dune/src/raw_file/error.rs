//! What can go wrong with a raw file.

use gannet_wire::SourceId;

/// Result of reading or writing a raw file.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a raw file could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The HDF5 file itself.
    #[error(transparent)]
    Hdf5(#[from] gannet_hdf5::Error),
    /// The file cannot be made or get its name.
    #[error(transparent)]
    File(#[from] gannet_log::files::Error),
    /// A header in the file, or given for it, is not what it should be.
    #[error("{place}: {source}")]
    Header {
        /// Record or data set.
        place: String,
        /// What is wrong.
        source: gannet_wire::Error,
    },
    /// Two parts of a record come from one source, so that its maps could not tell them apart.
    #[error("{record}: source {source_id} appears twice; each part needs a source of its own")]
    DuplicateSource {
        /// Name of the record.
        record: String,
        /// The source.
        source_id: SourceId,
    },
    /// An attribute that the layout demands is not there or is of another type.
    #[error("{place}: attribute {name:?} is missing or not {expected}")]
    Attribute {
        /// File or record.
        place: String,
        /// Name of the attribute.
        name: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// The JSON text of an attribute cannot be read.
    #[error("{place}: attribute {name:?}: {source}")]
    Json {
        /// File or record.
        place: String,
        /// Name of the attribute.
        name: &'static str,
        /// What is wrong, with line and column of the text.
        source: serde_json::Error,
    },
    /// A data set that should be there is not.
    #[error("{record}: no data set {what}")]
    NoDataSet {
        /// Name of the record.
        record: String,
        /// What was looked for.
        what: String,
    },
    /// Two places of a file contradict each other.
    #[error("{place}: {what}")]
    Contradiction {
        /// Record or data set.
        place: String,
        /// What does not fit.
        what: String,
    },
}

impl Error {
    /// Whether something is packed by a filter or laid out in a way that is not known here. It may be
    /// sound.
    pub fn is_unsupported(&self) -> bool {
        use gannet_hdf5::Error::{Filter, Layout};
        matches!(self, Self::Hdf5(Filter { .. } | Layout { .. }))
    }

    /// Whether the operating system refused, and the content of the file is not to blame.
    pub fn is_of_system(&self) -> bool {
        matches!(self, Self::File(_) | Self::Hdf5(gannet_hdf5::Error::Io { .. }))
    }
}
