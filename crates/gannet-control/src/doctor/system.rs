//! The files by which the operating system tells about itself.

use std::fs;
use std::path::PathBuf;

use gannet_topology::Machine;

/// Those files, under a root that tests may replace.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
}

impl Default for System {
    /// The system that runs this program.
    fn default() -> Self {
        Self::under("/")
    }
}

impl System {
    /// The system whose files lie under `root`.
    pub fn under(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Its PCI tree, and what it has for RDMA.
    pub fn machine(&self) -> Machine {
        Machine::read(&self.root)
    }

    /// Memory that programs may still take without swapping, in bytes, where the system tells.
    pub fn memory_available(&self) -> Option<u64> {
        let entry = self.entry("proc/meminfo", "MemAvailable")?;
        entry.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    }

    /// The text of a file, without the space around it.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok().map(|text| text.trim().to_owned())
    }

    /// The number with which a file begins.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.split_whitespace().next()?.parse().ok()
    }

    /// What follows `key` on its line in a file of such lines.
    pub(super) fn entry(&self, path: &str, key: &str) -> Option<String> {
        let text = self.text(path)?;
        let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(rest.trim_start_matches([':', ' ', '\t']).to_owned())
    }

    /// Names of the entries of a directory, sorted.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(path)) else { return Vec::new() };
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<_> = entries.flatten().map(name).collect();
        names.sort();
        names
    }
}

/// A system of made-up files.
#[cfg(test)]
pub(crate) fn fake(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let system = System::under(root.path());
    (root, system)
}
