//! Files that are written at the end of long work.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::exit::{Unwritable, Usage};
use crate::log;

/// A file that can be written, as was found out before the work began.
#[derive(Debug)]
pub struct Destination {
    file: PathBuf,
}

impl Destination {
    /// Tests whether `file` can be written; one that is there already is only replaced by
    /// `overwrite`. Nothing is left of work that does not come to its end.
    ///
    /// # Errors
    /// When it is a directory, is there already, or cannot be written.
    pub fn begin(file: &Path, overwrite: bool) -> anyhow::Result<Self> {
        let shown = file.display();
        if file.is_dir() {
            return Err(Usage(format!("{shown} is a directory; name a file")).into());
        }
        let is_there = file.exists();
        if is_there && !overwrite {
            return Err(anyhow!("{shown} exists; move it away or give --overwrite"));
        }
        let destination = Self { file: file.to_owned() };
        let opened = File::options().append(true).create(true).open(file);
        opened.map_err(|cause| destination.unwritable(cause))?;
        if !is_there {
            fs::remove_file(file).map_err(|cause| destination.unwritable(cause))?;
        }
        Ok(destination)
    }

    /// Writes the file and says so.
    ///
    /// # Errors
    /// When it cannot be written after all.
    pub fn write(&self, content: &str) -> anyhow::Result<()> {
        fs::write(&self.file, content).map_err(|cause| self.unwritable(cause))?;
        log::say(format_args!("{}: written", self.file.display()));
        Ok(())
    }

    fn unwritable(&self, cause: io::Error) -> Unwritable {
        Unwritable { file: self.file.clone(), cause }
    }
}
