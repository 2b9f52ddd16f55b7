//! The manifest of a run: the SHA-256 of each of its finished files, as `sha256sum -c` reads it.
//!
//! Check sums inside a file find damage; the manifest also finds a file that was replaced, cut to another
//! whole one or changed on purpose, and covers formats that have no place for a check sum. It costs one
//! reading of each file, mostly from the page cache.

use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::directory::OutputDirectory;
use super::error::Error;
use super::new_file::{Existing, NewFile};
use super::{open_input, run_counter::run_of};

/// What the name of a manifest ends with; before it stand prefix and number of the run.
pub const MANIFEST_ENDING: &str = ".sha256";

/// What the name of a table of channels ends with.
pub const CHANNELS_ENDING: &str = "_channels.csv";

/// Longest manifest that is read, in bytes.
const BYTES_MAX: u64 = 64 << 20;
/// Bytes read at a time.
const PIECE: usize = 1 << 20;
/// How often a manifest that another program extends is tried.
const TRIES: u32 = 500;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// How a file compares with the manifest of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Listed {
    /// It is as it was when it was finished.
    Agrees,
    /// It is not.
    Differs,
    /// The manifest does not name it.
    NotListed,
    /// There is no manifest beside it.
    NoManifest,
}

/// A line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    digest: String,
    name: String,
}

/// Path of the manifest of the run to which `file` belongs; nothing if its name is not that of a file of
/// a run.
pub fn manifest_of(file: &Path) -> Option<PathBuf> {
    let name = file.file_name()?.to_str()?;
    let has_index = || {
        name.rsplit_once("_f").is_some_and(|(_, rest)| {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            digits >= 4 && rest.len() > digits
        })
    };
    let is_of_run = name.ends_with(CHANNELS_ENDING) || has_index();
    let run = run_of(name).filter(|_| is_of_run)?;
    Some(file.with_file_name(format!("{run}_manifest{MANIFEST_ENDING}")))
}

/// Puts the finished file `file` into the manifest of its run; returns that, or nothing if the name is
/// not that of a file of a run.
///
/// # Errors
/// When the file cannot be read, or the manifest cannot be read, written or is not one.
pub fn list(file: &Path) -> Result<Option<PathBuf>, Error> {
    let Some(manifest) = manifest_of(file) else { return Ok(None) };
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let line = Line { digest: sha256(file).map_err(Error::of("read", file))?, name };
    extend(&manifest, line)?;
    Ok(Some(manifest))
}

/// Compares `file` with the manifest of its run.
///
/// # Errors
/// When the file or the manifest cannot be read, or the manifest is not one.
pub fn compare(file: &Path) -> Result<Listed, Error> {
    let Some(manifest) = manifest_of(file) else { return Ok(Listed::NoManifest) };
    let lines = match open_input(&manifest).and_then(|manifest| read(&manifest)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Listed::NoManifest),
        other => other.map_err(Error::of("read", &manifest))?,
    };
    let name = file.file_name().unwrap_or_default();
    let Some(line) = lines.iter().find(|line| *line.name == *name) else {
        return Ok(Listed::NotListed);
    };
    let digest = sha256(file).map_err(Error::of("read", file))?;
    Ok(if digest == line.digest { Listed::Agrees } else { Listed::Differs })
}

/// Paths of the files that `manifest` names.
///
/// # Errors
/// When it cannot be read, is none, or names no file.
pub fn files_of(manifest: &Path) -> Result<Vec<PathBuf>, Error> {
    let lines = open_input(manifest).and_then(|manifest| read(&manifest));
    let lines = lines.and_then(|lines| match lines.is_empty() {
        true => Err(io::Error::new(ErrorKind::InvalidData, "it lists no files")),
        false => Ok(lines),
    });
    let lines = lines.map_err(Error::of("read", manifest))?;
    Ok(lines.into_iter().map(|line| manifest.with_file_name(line.name)).collect())
}

/// Replaces or adds a line, in one step for whoever reads.
fn extend(manifest: &Path, line: Line) -> Result<(), Error> {
    let (directory, name) = OutputDirectory::of(manifest).map_err(Error::of("open", manifest))?;
    // Whoever holds the present manifest locked may replace it.
    let present = lock(&directory, name).map_err(Error::of("extend", manifest))?;
    let mut lines = read(&present).map_err(Error::of("read", manifest))?;
    match lines.iter_mut().find(|listed| listed.name == line.name) {
        Some(listed) => listed.digest = line.digest,
        None => lines.push(line),
    }
    let mut text = String::new();
    for Line { digest, name } in lines {
        // A text takes what is written to it.
        let _ = writeln!(text, "{digest}  {name}");
    }
    const NEW: &str = ".new";
    let mut stale = name.to_owned();
    stale.push(NEW);
    // Of a program that was killed, as this one holds the lock.
    directory.remove_own(&stale).map_err(Error::of("replace", &manifest.with_file_name(&stale)))?;
    let new = NewFile::begin(manifest, NEW, Existing::Replace)?;
    new.file().write_all(text.as_bytes()).map_err(Error::of("write", manifest))?;
    new.publish()?;
    Ok(())
}

/// Opens the manifest, made if there is none, and locks it for this process.
fn lock(directory: &OutputDirectory, name: &std::ffi::OsStr) -> io::Result<File> {
    for _ in 0..TRIES {
        let file = match directory.create(name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => directory.open_own(name),
            other => other,
        };
        match file {
            // Another program puts a new one in its place just now.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
            Ok(file) => match file.try_lock() {
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) if error.kind() != ErrorKind::Unsupported => {
                    return Err(error);
                }
                // If it was replaced before it was locked, another one counts.
                _ if directory.is_named(name, &file)? => return Ok(file),
                _ => {}
            },
        }
    }
    Err(io::Error::new(ErrorKind::WouldBlock, "another program holds it"))
}

fn read(file: &File) -> io::Result<Vec<Line>> {
    let wrong = |what: String| io::Error::new(ErrorKind::InvalidData, what);
    let mut text = String::new();
    if file.take(BYTES_MAX + 1).read_to_string(&mut text)? as u64 > BYTES_MAX {
        return Err(wrong(format!("it is longer than {BYTES_MAX} bytes")));
    }
    let line = |(number, line): (usize, &str)| {
        let parsed = parse(line);
        parsed.ok_or_else(|| wrong(format!("line {number} is not a SHA-256 and a name of a file")))
    };
    (1..).zip(text.lines()).map(line).collect()
}

/// A line `<64 hexadecimal digits>  <name>`; names do not lead out of the directory.
fn parse(line: &str) -> Option<Line> {
    let (digest, name) = line.split_at_checked(64)?;
    // A star before the name stands for "binary" and means nothing here.
    let name = name.strip_prefix("  ").or_else(|| name.strip_prefix(" *"))?;
    let is_hex = digest.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let is_name = !matches!(name, "" | "." | "..") && !name.contains('/');
    (is_hex && is_name).then(|| Line { digest: digest.to_owned(), name: name.to_owned() })
}

/// SHA-256 of a file, in hexadecimal digits.
fn sha256(path: &Path) -> io::Result<String> {
    let (mut file, mut hash) = (open_input(path)?, Sha256::new());
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(len) => hash.update(&piece[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hash.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const STEM: &str = "a_run000001_20261121T021000Z";

    #[test]
    fn files_of_a_run_share_a_manifest() {
        let manifest = "/data/a_run000001_manifest.sha256".to_owned();
        for ending in [
            "_f0000.glog",
            "_f0012.hdf5",
            "_f12345_tps.parquet",
            "_f0000_tps.hdf5",
            "_channels.csv",
            "0_f0001.glog",
        ] {
            let file = format!("/data/{STEM}{ending}");
            assert_eq!(manifest_of(Path::new(&file)), Some(manifest.clone().into()), "{ending}");
        }
        for name in [
            "a.glog",
            "a_run000001_f12.glog",
            "a_run000001_f0000",
            "a_f0000.glog",
            "_channels.csv",
            "/",
        ] {
            assert_eq!(manifest_of(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn files_are_listed_compared_and_listed_anew() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b] = ["_f0000.glog", "_channels.csv"]
            .map(|ending| directory.path().join(format!("{STEM}{ending}")));
        fs::write(&a, "abc").unwrap();
        fs::write(&b, "").unwrap();
        assert_eq!(compare(&a).unwrap(), Listed::NoManifest);
        let manifest = list(&a).unwrap().unwrap();
        assert_eq!(
            (compare(&a).unwrap(), compare(&b).unwrap()),
            (Listed::Agrees, Listed::NotListed)
        );
        list(&b).unwrap();
        let text = fs::read_to_string(&manifest).unwrap();
        // Published vectors of SHA-256.
        let expected = format!(
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  {STEM}_f0000.glog\n\
             e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  {STEM}_channels.csv\n"
        );
        assert_eq!(text, expected);
        assert_eq!(files_of(&manifest).unwrap(), [a.clone(), b.clone()]);
        fs::write(&a, "abd").unwrap();
        assert_eq!((compare(&a).unwrap(), compare(&b).unwrap()), (Listed::Differs, Listed::Agrees));
        list(&a).unwrap();
        assert_eq!(compare(&a).unwrap(), Listed::Agrees);
        assert_eq!(fs::read_to_string(&manifest).unwrap().lines().count(), 2);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3, "nothing else is left");
    }

    #[test]
    fn who_extends_it_at_the_same_time_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let files: Vec<_> =
            (0..16).map(|n| directory.path().join(format!("{STEM}_f{n:04}.glog"))).collect();
        files.iter().for_each(|file| fs::write(file, "x").unwrap());
        thread::scope(|scope| {
            for half in files.chunks(4) {
                scope.spawn(|| half.iter().for_each(|file| drop(list(file).unwrap())));
            }
        });
        assert!(files.iter().all(|file| compare(file).unwrap() == Listed::Agrees));
    }

    #[test]
    fn what_is_no_manifest_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(format!("{STEM}_f0000.glog"));
        fs::write(&file, "x").unwrap();
        let manifest = manifest_of(&file).unwrap();
        let digest = "0".repeat(64);
        for text in ["shopping list\n".to_owned(), format!("{digest}  ../x\n"), digest.clone()] {
            fs::write(&manifest, &text).unwrap();
            for error in [list(&file).map(drop), compare(&file).map(drop)] {
                assert!(error.unwrap_err().to_string().contains("line 1 is not"), "{text}");
            }
            assert_eq!(fs::read_to_string(&manifest).unwrap(), text);
        }
        fs::remove_file(&manifest).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &manifest).unwrap();
        assert!(list(&file).unwrap_err().to_string().contains("a symbolic link"));
    }
}
