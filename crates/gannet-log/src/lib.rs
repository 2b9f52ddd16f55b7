//! The log of a run: an append-only file of checked chunks, which is the truth of the run.
//!
//! * [`format`](mod@format) is the chunk format, pure code over byte slices;
//! * [`Recorder`] is the thread that takes chunks from the data path and never holds it up;
//! * [`Writer`] turns chunks into files, group by group, and survives errors of the disk;
//! * [`Reader`] goes through a file from front to back;
//! * [`verify()`] reads a whole file back and reports what is wrong with it;
//! * [`recover()`] brings a file to its end that a killed program left behind.
//!
//! What holds at all times:
//!
//! * An acknowledged chunk is with the kernel, or on the disk if the configuration asks for that.
//!   No later write touches the sectors that hold it.
//! * A file without `.part` behind its name is whole, ends in an end chunk, and is on the disk.
//! * Chunks are numbered through the run. A chunk may stand in two files of a run only if
//!   writing the first of them failed; both copies have the same number.
//!
//! ```
//! use gannet_log::{Chunk, Kind, Label, Offer, Recorder, RecorderConfig, RunInfo, verify};
//!
//! let directory = tempfile::tempdir()?;
//! let config = RecorderConfig { directory: directory.path().into(), ..Default::default() };
//! let recorder = Recorder::start(config, RunInfo { run: 123, ..Default::default() })?;
//! let label = Label::new(Kind::TP_SLICE).times(1000, 2000).counts(3, 0);
//! assert_eq!(recorder.handle().offer(Chunk::new(label, vec![1, 2, 3])), Offer::Accepted(0));
//! assert_eq!(recorder.stop().acknowledged, 1);
//!
//! for entry in std::fs::read_dir(directory.path())? {
//!     assert!(verify(&entry?.path())?.is_complete());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod config;
mod defect;
mod disk;
mod error;
mod file;
pub mod files;
pub mod format;
pub mod frames;
mod handle;
mod metadata;
pub mod name;
mod queue;
mod raw_streams;
mod reader;
mod recorder;
mod recover;
mod run_start;
mod scan;
mod sealer;
mod status;
mod sys;
mod verify;
mod watch;
mod writer;

#[cfg(test)]
mod tests;

pub use account::{Item, Tally};
pub use config::{Durability, RecorderConfig};
pub use defect::Defect;
pub use disk::{Disk, Storage, SystemDisk, is_being_written};
pub use error::Error;
pub use file::{
    END_RESERVE_BYTES, FILE_SIZE_LIMIT_MIN, Seal, check_file_size_limit, payload_bytes_max,
};
pub use format::{Kind, Label};
pub use handle::RecorderHandle;
pub use metadata::{EndCause, EndOfFile, FileHeader, ItemAccount, RunInfo, digest};
pub use queue::{Chunk, ChunkDrop, Offer, QUEUE_CHUNKS_MAX};
pub use raw_streams::RawStreams;
pub use reader::{ChunkView, Reader};
pub use recorder::{LastWords, Recorder};
pub use recover::{
    Outcome, Recovered, RecoveredFile, recover, recover_directory, recover_on, unfinished_in,
};
pub use run_start::run_start;
pub use status::{DISK_SILENT_MAX, FINISHED_MAX, State, Status, UNFINISHED_MAX};
pub use sys::{file_size_limit, free_bytes};
pub use verify::{KindTotal, PROBLEMS_MAX, Report, verify, verify_seeing, verify_source};
pub use writer::{COMMIT_BYTES_MAX, SEALS_MAX, Writer};
