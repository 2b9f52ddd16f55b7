//! What can go wrong with an HDF5 file.

use std::path::PathBuf;

/// Result of reading or writing a file.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// What was tried: create, write, open and so on.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A name that HDF5 does not allow, or that is too long.
    #[error("{name:?} is not a name: expected 1 to {max} bytes without '/' and NUL, and not '.'")]
    Name {
        /// The name.
        name: String,
        /// Longest name in bytes.
        max: usize,
    },
    /// Two members of a group, or two attributes of an object, have one name.
    #[error("{name:?} is there already; names in a group must differ")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A text holds a NUL byte, at which other libraries would cut it, or is too long.
    #[error("the text of attribute {name:?} holds a NUL byte or is not shorter than 4 GiB")]
    Text {
        /// Name of the attribute.
        name: String,
    },
    /// More text attributes in one group than a heap can number.
    #[error("{got} text attributes in one group; at most {max}")]
    TooManyTexts {
        /// Most texts in one group.
        max: usize,
        /// Texts given.
        got: usize,
    },
    /// The file, or a part of it, is not HDF5 or is damaged.
    #[error("{path}: {reason}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, in the words of the reading library.
        reason: String,
    },
    /// A data set is packed by a filter that is not known here.
    #[error(
        "{path}: a data set is compressed with filter {number} ({name}), which Gannet does not support; make an \
         uncompressed copy where it is installed: h5repack -f NONE {path} OUT"
    )]
    Filter {
        /// The file.
        path: PathBuf,
        /// Registered number of the filter.
        number: u16,
        /// Its name.
        name: String,
    },
    /// A data set is laid out in a way that is not known here. It may be sound.
    #[error(
        "{path}: a data set has a layout that Gannet does not read ({layout}); make a copy with the \
         usual one where the file was written: h5repack -f NONE -l CONTI {path} OUT"
    )]
    Layout {
        /// The file.
        path: PathBuf,
        /// What is special.
        layout: &'static str,
    },
    /// A data set says that it is larger than the file that holds it can be.
    #[error("{path}: a data set of {got} bytes, where the file has room for {max} at most")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Most bytes of a data set that the file has room for.
        max: u64,
        /// Size that the data set claims, in bytes; the largest number if it has no size.
        got: u64,
    },
}
