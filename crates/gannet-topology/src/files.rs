//! Files by which the kernel tells about a machine, read with a bound on everything.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest text and longest configuration space that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4096;
/// Most entries of a directory that are looked at.
const ENTRIES_MAX: usize = 8192;

/// Those files, below a root directory.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
}

impl Files {
    /// Files below `root`.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where `path` lies.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The first bytes of a file. Pipes and devices, which might never answer, are no files.
    pub fn bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let path = self.at(path);
        fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The text of a file, without the space around it.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = String::from_utf8(self.bytes(path)?).ok()?;
        Some(text.trim().to_owned())
    }

    /// The number that a file is.
    pub fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The hexadecimal number that a file is, with `0x` before it.
    pub fn hexadecimal(&self, path: impl AsRef<Path>) -> Option<u32> {
        u32::from_str_radix(self.text(path)?.strip_prefix("0x")?, 16).ok()
    }

    /// Names of the entries of a directory, sorted.
    pub fn names(&self, path: impl AsRef<Path>) -> Option<Vec<String>> {
        let entries = fs::read_dir(self.at(path)).ok()?;
        let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
        let mut names: Vec<_> = entries.take(ENTRIES_MAX).flatten().filter_map(name).collect();
        names.sort();
        Some(names)
    }

    /// The path behind all links; absent where they run in a ring or lead nowhere.
    pub fn behind_links(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        fs::canonicalize(self.at(path)).ok()
    }

    /// Whether there is something.
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.at(path).exists()
    }
}
