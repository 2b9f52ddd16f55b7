//! Why it could not be triggered again.

use std::io;
use std::path::{Path, PathBuf};

use gannet_control::config::Problem;
use gannet_dune::{export, raw_file};

use crate::one_run::NotOneRun;

/// Why it could not be triggered again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetriggerError {
    /// No file was named.
    #[error("no file is named")]
    NoFiles,
    /// A file is named twice.
    #[error("{} is named twice, perhaps by another name; name each file once", .0.display())]
    NamedTwice(PathBuf),
    /// The system refused an operation on a file.
    #[error("cannot {doing} {}: {cause}", path.display())]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] gannet_log::Error),
    /// A raw file cannot be read.
    #[error(transparent)]
    RawFile(#[from] raw_file::Error),
    /// A table cannot be read or written.
    #[error(transparent)]
    Table(#[from] export::Error),
    /// The file is of no kind that holds primitives.
    #[error(
        "{} is neither a Gannet log nor a Parquet table of primitives nor a DUNE raw file (HDF5) of \
         time slices",
        .0.display()
    )]
    Unknown(PathBuf),
    /// The files are of several kinds.
    #[error(
        "{} is of another kind than {}; name logs only, tables only, or HDF5 files only",
        other.display(),
        first.display()
    )]
    Kinds {
        /// The first file.
        first: PathBuf,
        /// The file that is of another kind.
        other: PathBuf,
    },
    /// The files are not of one run.
    #[error(transparent)]
    NotOneRun(#[from] NotOneRun),
    /// There is nothing to trigger on.
    #[error(
        "{} holds no time slices of primitives, and those in trigger records are of their windows \
         only; name a log that has slices, the tables or slices exported from it, or what \
         `gannet find FILE --out tps.parquet` finds in its frames",
        .0.display()
    )]
    NoPrimitives(PathBuf),
    /// The files do not say how the run triggered.
    #[error(
        "{} does not tell the trigger of its run: name the first log of the run (…_f0000.glog), or \
         give a configuration with a [pipeline.trigger] section with --config",
        .0.display()
    )]
    NoTrigger(PathBuf),
    /// The configuration given cannot be used.
    #[error(transparent)]
    Config(#[from] Problem),
    /// The trigger cannot be set up.
    #[error("trigger.{0}")]
    Trigger(#[from] gannet_trigger::Error),
    /// It is not known how to write such a file.
    #[error("{}: name a file that ends in .parquet", .0.display())]
    Output(PathBuf),
    /// The file, or the unfinished form of it, is there already.
    #[error("{} exists; move it away or give --overwrite", .0.display())]
    Exists(PathBuf),
    /// The output would replace what is read.
    #[error("{} is read and cannot be written; name another file", .0.display())]
    OwnInput(PathBuf),
    /// Whoever watches asked for the end.
    #[error("interrupted; nothing was written")]
    Interrupted,
}

impl RetriggerError {
    /// Names what was tried on which path, for `map_err`.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io { doing, path: path.to_owned(), cause }
    }
}
