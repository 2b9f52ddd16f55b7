//! How the files of a run come to their names.
//!
//! Others may be able to write into the directory of a run. So every file that Gannet names itself is
//! made below an open [`OutputDirectory`], as a new regular file and never through a link; what is
//! there already and is not ours is left as it is, and the error says what it is. A [`NewFile`] gets its
//! name only when it is whole and on the disk.
//!
//! Files that a user names on the command line without a format of ours behind them (`--svg`, `--truth`)
//! follow the usual rules of the shell: they may be links, pipes or `/dev/stdout`.

mod directory;
mod error;
mod manifest;
mod new_file;
mod run_counter;
mod same_file;

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub use directory::{MODE, OutputDirectory, directory_of};
pub use error::Error;
pub use manifest::{
    CHANNELS_ENDING, Listed, MANIFEST_ENDING, compare, files_of, list, manifest_of,
};
pub use new_file::{Existing, NewFile};
pub use run_counter::{RUN_COUNTER, RunId, number_of, run_of, take_run};
pub use same_file::is_same_file;

/// Whether something has the name `path`, be it a link that leads nowhere.
pub fn is_taken(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Opens a file that a user names, to read it. Links are followed.
///
/// # Errors
/// What the system says, and when it is not a regular file: a pipe that nobody writes to would hold
/// the reader up, and a device may have no end.
pub fn open_input(path: &Path) -> io::Result<File> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        let what = directory::word_of_mode(metadata.mode());
        return Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {what}, not a file")));
    }
    File::open(path)
}

/// Opens the file `path` as [`OutputDirectory::open_own`] does.
///
/// # Errors
/// As [`OutputDirectory::open_own`].
pub fn open_own(path: &Path) -> Result<File, Error> {
    let (directory, name) = OutputDirectory::of(path).map_err(Error::of("open", path))?;
    directory.open_own(name).map_err(Error::of("open", path))
}

/// Removes the file `path` as [`OutputDirectory::remove_own`] does.
///
/// # Errors
/// As [`OutputDirectory::remove_own`].
pub fn remove_own(path: &Path) -> Result<(), Error> {
    let (directory, name) = OutputDirectory::of(path).map_err(Error::of("remove", path))?;
    directory.remove_own(name).map_err(Error::of("remove", path))
}
