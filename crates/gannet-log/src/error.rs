//! What can go wrong with a log.

use std::io;
use std::path::{Path, PathBuf};

use super::account::Tally;
use super::defect::Defect;
use super::queue::ChunkDrop;

/// Why an operation on a log failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file or directory.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be opened or removed.
    #[error(transparent)]
    File(#[from] crate::files::Error),
    /// A file is no log by its content.
    #[error(
        "{} is no log: it does not begin as one and no part of it is one; it is left as it is",
        .0.display()
    )]
    NotALog(PathBuf),
    /// There is nothing in a file with the name of a finished log.
    #[error("{} is empty; it is left as it is", .0.display())]
    Empty(PathBuf),
    /// The directory of the log is not there.
    #[error("the directory {} does not exist; create it or mount its disk", .0.display())]
    NoDirectory(PathBuf),
    /// Less space is left than the reserve.
    #[error(
        "{} has {free} B left, and {needed} B are needed to keep the reserve; \
         free some space or lower disk_reserve",
        directory.display()
    )]
    DiskReserve {
        /// Directory of the log.
        directory: PathBuf,
        /// Bytes left.
        free: u64,
        /// Reserve and the bytes waiting to be written.
        needed: u64,
    },
    /// A file may not become as large as it would have to.
    #[error(
        "{} would need {needed} B, and no file may be as large ({}); {RAISE_LIMIT}",
        path.display(), limit_text(*.limit)
    )]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes that it would have, with the space for the end of the run.
        needed: u64,
        /// The limit of this process, bytes.
        limit: u64,
    },
    /// A chunk does not fit into any file.
    #[error(
        "chunks of {bytes} B do not fit into a file ({}) and are left out; {RAISE_LIMIT}",
        limit_text(*.limit)
    )]
    ChunkTooLarge {
        /// Size of the payload in bytes.
        bytes: usize,
        /// The limit of this process, bytes.
        limit: u64,
    },
    /// The file that was being written has lost its name.
    #[error("{} was removed or replaced while it was written; it held {chunks} chunks", path.display())]
    Vanished {
        /// The file.
        path: PathBuf,
        /// Acknowledged data chunks that went with it.
        chunks: u64,
        /// What was in them.
        items: Box<Tally>,
    },
    /// The file that was being written has become shorter.
    #[error(
        "{} was truncated from {expected} B to {len} B while it was written; \
         {chunks} chunks that it held are gone",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes that are left of what was written.
        len: u64,
        /// Bytes that had been written.
        expected: u64,
        /// Acknowledged data chunks that are gone.
        chunks: u64,
        /// What was in them.
        items: Box<Tally>,
    },
    /// Recording does not begin.
    #[error("nothing can be recorded: {0}")]
    NothingRecorded(String),
    /// The commit buffer has no room for the chunk; commit first.
    #[error("the commit buffer is full; commit first")]
    BufferFull,
    /// The log does not take such a chunk.
    #[error("a chunk was refused: {0}")]
    Refused(&'static str),
    /// The bytes of a file are not as written.
    #[error("{}: chunk {chunk} at byte {offset}: {defect}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Byte at which the chunk begins.
        offset: u64,
        /// Number of the chunk in the file, the file header being 0.
        chunk: u64,
        /// What is wrong.
        defect: Defect,
    },
    /// Another process is writing the file.
    #[error("{} is being written by a running program; stop it first", .0.display())]
    InUse(PathBuf),
    /// Both the unfinished and the finished file exist.
    #[error("{} exists already; move one of the two files away", .0.display())]
    Exists(PathBuf),
    /// A finished file does not verify. It was whole once, so this is damage of the disk.
    #[error(
        "{} is finished and damaged, and is left as it is; its sound chunks can still be read: \
         {problem}",
        file.display()
    )]
    FinishedDamaged {
        /// The file.
        file: PathBuf,
        /// The first problem found.
        problem: String,
    },
    /// The configuration holds a value that makes no sense.
    #[error("recorder.{key}: {what}")]
    Config {
        /// Key in the configuration table.
        key: &'static str,
        /// What is wrong and what is allowed.
        what: String,
    },
    /// A thread could not be started.
    #[error("cannot start the recorder thread: {0}")]
    Thread(io::Error),
}

/// What to do about a limit of file sizes.
pub(super) const RAISE_LIMIT: &str =
    "raise the limit: `ulimit -f unlimited`, in a unit file LimitFSIZE=infinity";

/// What limits the size of files.
fn limit_text(limit: u64) -> String {
    match limit {
        u64::MAX => "the file system has a limit".into(),
        limit => format!("`ulimit -f` is {limit} B"),
    }
}

impl Error {
    /// Whether what is written already is sound, and can be followed by what fits.
    pub(super) fn spoils_nothing(&self) -> bool {
        self.is_for_want_of_space() || self.is_for_file_size()
    }

    /// Whether a file would become larger than it may.
    pub(super) fn is_for_file_size(&self) -> bool {
        matches!(self, Self::FileTooLarge { .. })
    }

    /// Whether there is no space left for what was to be written; what is written already is sound.
    pub(super) fn is_for_want_of_space(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        match self {
            Self::DiskReserve { .. } => true,
            Self::Io { source, .. } => full.contains(&source.kind()),
            _ => false,
        }
    }

    /// What had been acknowledged and is gone, and the reason for which it is counted as lost.
    pub(super) fn gone(&self) -> Option<(&Tally, ChunkDrop)> {
        match self {
            Self::Vanished { items, .. } => Some((items, ChunkDrop::FileRemoved)),
            Self::Truncated { items, .. } => Some((items, ChunkDrop::FileTruncated)),
            _ => None,
        }
    }

    /// Names what was tried on which path, for `map_err`.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}
