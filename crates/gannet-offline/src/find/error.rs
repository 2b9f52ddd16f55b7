//! Why no primitives could be searched for.

use std::io;
use std::path::{Path, PathBuf};

use gannet_control::config::Problem;
use gannet_dune::{export, raw_file};
use gannet_wire::GeoId;
use gannet_wire::channel_map::ChannelMapError;

use crate::one_run::NotOneRun;
use crate::recording::RecordingError;

/// Why no primitives could be searched for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// No file was named.
    #[error("no file is named")]
    NoFiles,
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
    /// A raw file cannot be read or written.
    #[error(transparent)]
    RawFile(#[from] raw_file::Error),
    /// A file is of no known kind, or a capture cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The table cannot be written.
    #[error(transparent)]
    Table(#[from] export::Error),
    /// A file is named twice.
    #[error("{} is named twice, perhaps by another name; name each file once", .0.display())]
    NamedTwice(PathBuf),
    /// The files are of several kinds.
    #[error(
        "{} is of another kind than {}; name logs only, raw files of trigger records only, raw files \
         of raw frames only, or captures only",
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
    /// There is nothing to search in.
    #[error("{} holds no raw frames to search in: {holds}", path.display())]
    NoFrames {
        /// The first file.
        path: PathBuf,
        /// What is there, and what to do.
        holds: String,
    },
    /// The files do not say how the run found primitives and which channels it read.
    #[error(
        "{} does not tell the start of its run, and so not its channels: name the first file of \
         the run (…_f0000.glog) too, or the run's configuration with --config",
        .0.display()
    )]
    NoStart(PathBuf),
    /// The file does not say which channels its streams read.
    #[error(
        "{} does not tell which channels its streams read: give the run's configuration with \
         --config, or a channel map with --channel-map",
        .0.display()
    )]
    NoChannels(PathBuf),
    /// The run searched its frames in another way.
    #[error(
        "{} is of the detector {:?}; only frames of DUNE's time projection chambers can be searched",
        .0.display(),
        .1
    )]
    OtherDetector(PathBuf, String),
    /// The configuration given cannot be used.
    #[error(transparent)]
    Config(#[from] Problem),
    /// The channel map given cannot be read.
    #[error("cannot read the channel map {}: {cause}", path.display())]
    NoChannelMap {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The channel map given cannot be used.
    #[error("{}: {cause}", path.display())]
    ChannelMap {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        cause: ChannelMapError,
    },
    /// No frame is of a stream whose channels are known.
    #[error(
        "the channels of stream {stream} are not known, nor those of any other stream in the \
         files: give a channel map that has them with --channel-map, or the run's configuration \
         with --config"
    )]
    Unmapped {
        /// The first stream met.
        stream: GeoId,
    },
    /// The chain cannot be set up.
    #[error("tpg.{0}")]
    Tpg(#[from] gannet_trigger::Error),
    /// More thresholds are to be tried than at once is possible.
    #[error("{got} thresholds are too many at once; try at most {max}")]
    Thresholds {
        /// Thresholds asked for.
        got: usize,
        /// Most that are tried in one pass.
        max: usize,
    },
    /// An option gives the chain a value that it cannot have.
    #[error("--{option}: {problem}")]
    Option {
        /// The option, without dashes.
        option: String,
        /// What its value must be.
        problem: String,
    },
    /// It is not known how to write such a file.
    #[error("{}: name a file that ends in .parquet or .hdf5", .0.display())]
    Output(PathBuf),
    /// A file, or the unfinished form of one, is there already.
    #[error("{} exists; move it away or give --overwrite", .0.display())]
    Exists(PathBuf),
    /// A directory stands where a file is to be written.
    #[error("{} is a directory; name a file that ends in .parquet or .hdf5", .0.display())]
    Directory(PathBuf),
    /// Two outputs are one file.
    #[error("{} is to be written twice; name it once", .0.display())]
    Twice(PathBuf),
    /// An output would replace what is read.
    #[error("{} is read by this search and cannot be written by it; name another file", .0.display())]
    OwnInput(PathBuf),
    /// Whoever watches asked for the end.
    #[error("the search was interrupted; nothing was written")]
    Interrupted,
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

impl FindError {
    /// The option whose name is `prefix` and the field of the chain that is wrong.
    pub(super) fn option(prefix: &str, error: gannet_trigger::Error) -> Self {
        let option = format!("{prefix}{}", error.path.replace('_', "-"));
        Self::Option { option, problem: error.problem }
    }

    /// Names what was tried on which path, for `map_err`.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io { doing, path: path.to_owned(), cause }
    }
}
