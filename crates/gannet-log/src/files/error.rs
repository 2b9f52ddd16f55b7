//! What can go wrong with the name of a file.

use std::io;
use std::path::{Path, PathBuf};

/// An operation on a file failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}: {source}", path.display())]
pub struct Error {
    /// What was tried, as a verb.
    pub doing: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// What the system said, or what is in the way.
    pub source: io::Error,
}

impl Error {
    /// Names what was tried on which path, for `map_err`.
    pub(crate) fn of(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { doing, path: path.to_owned(), source }
    }
}
