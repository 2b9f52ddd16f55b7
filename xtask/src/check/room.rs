//! Whether the disks have room for what a check writes. Without it tests fail one by one, each in its own words, and some
//! wait for what never comes.

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Builds of everything that is checked, in a target directory that has none yet.
const BUILDS: u64 = 4 << 30;
/// What changes in one that has them.
const REBUILDS: u64 = 1 << 30;
/// Files of tests that run at the same time, and the reserve that a recorder keeps free.
const FILES: u64 = 1 << 30;

/// Asks for room in the target directory and in that for temporary files.
///
/// # Errors
/// When one has too little, or cannot be asked.
pub fn require(target: &Path, is_built: bool) -> Result<()> {
    let builds = if is_built { REBUILDS } else { BUILDS };
    require_in(target, builds + FILES, "CARGO_TARGET_DIR")?;
    require_in(&std::env::temp_dir(), FILES, "TMPDIR")
}

fn require_in(directory: &Path, needed: u64, variable: &str) -> Result<()> {
    let place = directory.display();
    let disk = rustix::fs::statvfs(directory)
        .with_context(|| format!("cannot ask the disk of {place}"))?;
    let left = disk.f_bavail * disk.f_frsize;
    ensure!(
        left >= needed,
        "the disk of {place} has {} left, and a check needs {}: free some space, or let {variable} name a directory with more",
        gib(left),
        gib(needed),
    );
    Ok(())
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_named_with_what_helps() {
        let directory = tempfile::tempdir().unwrap();
        require_in(directory.path(), 0, "TMPDIR").unwrap();
        let error = require_in(directory.path(), u64::MAX, "TMPDIR").unwrap_err().to_string();
        assert!(error.contains(&directory.path().display().to_string()), "{error}");
        assert!(error.contains("a check needs 17179869184.0 GiB"), "{error}");
        assert!(error.contains("TMPDIR"), "{error}");
    }
}
