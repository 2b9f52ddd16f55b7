//! The numbers of runs: each is given once in a directory, whatever becomes of its files.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::directory::OutputDirectory;
use super::error::Error;

/// Name of the file that remembers the numbers. It begins with a dot, so that it stays when the files of
/// runs are moved away.
pub const RUN_COUNTER: &str = ".gannet_runs";

/// Bytes of the file: one page at most, so that a kill leaves the old content or the new.
const BYTES: usize = 128;
/// How often a counter that another program holds is tried.
const TRIES: u32 = 200;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);
/// How far in the future, in seconds, the last run may have been named before its time is not believed.
const AHEAD_MAX_S: u64 = 3600;

/// What tells a run from all others of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunId {
    /// Its number.
    pub number: u32,
    /// When it began, in nanoseconds since 1970-01-01 UTC. No other run of the number has the same
    /// second, as names of files tell it.
    pub started_unix_ns: u64,
}

/// What the file says.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Counter {
    /// The highest number that a run had.
    highest_run: u32,
    /// The number that was given last.
    last_run: u32,
    /// The second in the names of that run.
    last_unix_s: u64,
}

/// Takes the number of a run that begins at `now_unix_ns` and records into `directory`: `wanted`, or the
/// one after the highest so far.
///
/// Where no run was counted before, the names of files tell the highest number.
///
/// # Errors
/// When the counter cannot be read or written, is held by another program, or counts no further.
pub fn take_run(directory: &Path, wanted: Option<u32>, now_unix_ns: u64) -> Result<RunId, Error> {
    let path = directory.join(RUN_COUNTER);
    let take = || {
        let open = OutputDirectory::open(directory)?;
        let file = lock(&open)?;
        let before = match read(&file)? {
            Some(counter) => counter,
            None => Counter { highest_run: highest_named(directory)?, ..Counter::default() },
        };
        let (id, after) = before.next(wanted, now_unix_ns)?;
        write(&file, &after)?;
        Ok(id)
    };
    take().map_err(Error::of("take a run number from", &path))
}

impl Counter {
    fn next(self, wanted: Option<u32>, now_unix_ns: u64) -> io::Result<(RunId, Self)> {
        let all_given = || io::Error::other("all numbers were given; use another directory");
        let next = || self.highest_run.checked_add(1).ok_or_else(all_given);
        let number = wanted.map_or_else(next, Ok)?;
        let now_s = now_unix_ns / 1_000_000_000;
        let is_taken =
            number == self.last_run && (now_s..now_s + AHEAD_MAX_S).contains(&self.last_unix_s);
        let second = if is_taken { self.last_unix_s + 1 } else { now_s };
        let started_unix_ns = now_unix_ns + (second - now_s) * 1_000_000_000;
        let highest_run = self.highest_run.max(number);
        let after = Self { highest_run, last_run: number, last_unix_s: second };
        Ok((RunId { number, started_unix_ns }, after))
    }
}

/// Opens the counter, made if there is none, and locks it for this process.
fn lock(directory: &OutputDirectory) -> io::Result<File> {
    let name = OsStr::new(RUN_COUNTER);
    for _ in 0..TRIES {
        let file = match directory.create(name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => directory.open_own(name)?,
            other => other?,
        };
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            // Some network file systems know no locks.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                return Ok(file);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(ErrorKind::WouldBlock, "another program holds it"))
}

/// The counter in the file; nothing if it is empty.
fn read(file: &File) -> io::Result<Option<Counter>> {
    let mut text = Vec::new();
    file.take(BYTES as u64 + 1).read_to_end(&mut text)?;
    let text = text.trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    let foreign = |_| {
        let what = "it does not hold what Gannet writes there, and is left as it is; move it away";
        io::Error::new(ErrorKind::InvalidData, what)
    };
    serde_json::from_slice(text).map(Some).map_err(foreign)
}

fn write(file: &File, counter: &Counter) -> io::Result<()> {
    let text = serde_json::to_string(counter)?;
    file.write_all_at(format!("{text:<width$}\n", width = BYTES - 1).as_bytes(), 0)
}

/// The highest number in the names of files; 0 when there is none.
fn highest_named(directory: &Path) -> io::Result<u32> {
    let mut highest = 0;
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        highest = highest.max(name.to_str().and_then(number_of).unwrap_or(0));
    }
    Ok(highest)
}

/// The number of the run in the name of one of its files, `<prefix>_run000123_<time>_...`.
pub fn number_of(name: &str) -> Option<u32> {
    run_of(name)?.rsplit_once("_run")?.1.parse().ok()
}

/// What the names of all files of a run begin with: `<prefix>_run000123` of
/// `<prefix>_run000123_<time>_...`.
pub fn run_of(name: &str) -> Option<&str> {
    let (prefix, rest) = name.rsplit_once("_run")?;
    let (digits, rest) = rest.split_once('_')?;
    let is_number = digits.len() >= 6 && digits.bytes().all(|digit| digit.is_ascii_digit());
    (is_number && !prefix.is_empty()).then(|| &name[..name.len() - rest.len() - 1])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const NOW: u64 = 1_795_227_000_500_000_000;

    #[test]
    fn numbers_rise_whatever_becomes_of_the_files() {
        let directory = tempfile::tempdir().unwrap();
        let take = |wanted| take_run(directory.path(), wanted, NOW).unwrap().number;
        for name in ["a_run000041_20261121T021000Z_f0000.glog", "b_run12_x", "c_run0000x9_y"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!((take(None), take(None)), (42, 43));
        fs::remove_file(directory.path().join("a_run000041_20261121T021000Z_f0000.glog")).unwrap();
        assert_eq!(take(None), 44);
        assert_eq!((take(Some(7)), take(None)), (7, 45), "a number by hand takes none away");
        assert_eq!((take(Some(1000)), take(None)), (1000, 1001));
        assert_eq!(take(Some(u32::MAX)), u32::MAX);
        let error = take_run(directory.path(), None, NOW).unwrap_err().to_string();
        assert!(error.contains("all numbers were given"), "{error}");
    }

    #[test]
    fn two_runs_of_one_number_have_names_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let take = |now| take_run(directory.path(), Some(5), now).unwrap().started_unix_ns;
        let starts: Vec<_> = [NOW, NOW, NOW + 1].map(take).into();
        assert_eq!(starts, [NOW, NOW + 1_000_000_000, NOW + 2_000_000_001]);
        assert_eq!(take(NOW + 10_000_000_000), NOW + 10_000_000_000);
        // The clock went back by a year: what it said then is not believed.
        let year_before = NOW - 365 * 86_400_000_000_000;
        assert_eq!(take(year_before), year_before);
    }

    #[test]
    fn programs_that_start_together_take_different_numbers() {
        let directory = tempfile::tempdir().unwrap();
        let numbers: BTreeSet<u32> = thread::scope(|scope| {
            let take = || take_run(directory.path(), None, NOW).unwrap().number;
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(numbers, (1..=8).collect());
    }

    #[test]
    fn a_counter_that_is_not_ours_is_named_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(RUN_COUNTER);
        fs::write(&path, "shopping list").unwrap();
        let error = take_run(directory.path(), None, NOW).unwrap_err().to_string();
        assert!(error.contains(RUN_COUNTER) && error.contains("move it away"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "shopping list");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = take_run(directory.path(), None, NOW).unwrap_err().to_string();
        assert!(error.contains("a symbolic link"), "{error}");
        let error = take_run(Path::new("/no/such"), None, NOW).unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::NotFound);
    }
}
