//! A file that gets its name when it is whole.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::directory::{OutputDirectory, directory_of};
use super::error::Error;

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the new file is refused.
    Keep,
    /// It is replaced in one step, if this user made it; anything else stays.
    Replace,
}

/// A file in progress, under a temporary name beside its final one. Dropped before it is published, it
/// is removed.
#[derive(Debug)]
pub struct NewFile {
    directory: OutputDirectory,
    file: File,
    path: PathBuf,
    temporary: OsString,
    existing: Existing,
    is_published: bool,
}

impl NewFile {
    /// Begins the file `path`, whose name until then has `ending` behind it.
    ///
    /// # Errors
    /// When either name is taken by what is not to be replaced, or the file cannot be made.
    pub fn begin(path: &Path, ending: &str, existing: Existing) -> Result<Self, Error> {
        let (directory, name) = OutputDirectory::of(path).map_err(Error::of("write", path))?;
        let mut temporary = name.to_owned();
        temporary.push(ending);
        let free = match existing {
            Existing::Keep => directory.check_free(name),
            Existing::Replace => directory.check_replaceable(name),
        };
        free.map_err(Error::of("write", path))?;
        let created = directory.create(&temporary);
        let file = created.map_err(Error::of("create", &path.with_file_name(&temporary)))?;
        let path = path.to_owned();
        Ok(Self { directory, file, path, temporary, existing, is_published: false })
    }

    /// The file, for reading and writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file, for a writer that wants one of its own.
    ///
    /// # Errors
    /// When this process has too many files open.
    pub fn handle(&self) -> Result<File, Error> {
        self.file.try_clone().map_err(Error::of("open", &self.temporary_path()))
    }

    /// The path that it is to have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its path until it is published.
    pub fn temporary_path(&self) -> PathBuf {
        self.path.with_file_name(&self.temporary)
    }

    /// Puts the file on the disk and gives it its name, which is returned.
    ///
    /// # Errors
    /// When the disk does not take it, or the name was taken meanwhile; the file is removed then.
    pub fn publish(mut self) -> Result<PathBuf, Error> {
        self.file.sync_all().map_err(Error::of("flush", &self.temporary_path()))?;
        self.rename()?;
        // The name is durable when its directory is.
        let directory = directory_of(&self.path);
        self.directory.sync().map_err(Error::of("flush", directory))?;
        Ok(self.path.clone())
    }

    /// Gives the file its name without waiting for the disk: after a power cut the file may be the one
    /// before, or gone.
    ///
    /// # Errors
    /// When the name was taken meanwhile; the file is removed then.
    pub fn publish_unflushed(mut self) -> Result<(), Error> {
        self.rename()
    }

    fn rename(&mut self) -> Result<(), Error> {
        let name = self.path.file_name().unwrap_or_default();
        let named = match self.existing {
            Existing::Keep => self.directory.publish(&self.temporary, name),
            Existing::Replace => self.directory.replace(&self.temporary, name),
        };
        named.map_err(Error::of("write", &self.path))?;
        self.is_published = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // What has the name now may be somebody else's.
        if !self.is_published
            && self.directory.is_named(&self.temporary, &self.file).unwrap_or(false)
        {
            // What cannot be removed does no harm.
            let _ = self.directory.remove(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole_or_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let begin = |existing| NewFile::begin(&path, ".part", existing);
        let file = begin(Existing::Keep).unwrap();
        file.file().write_all(b"one").unwrap();
        assert!(!path.exists() && file.temporary_path().exists());
        assert!(begin(Existing::Replace).is_err(), "two writers of one file");
        assert_eq!(file.publish().unwrap(), path);
        assert!(begin(Existing::Keep).is_err());
        drop(begin(Existing::Replace).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        begin(Existing::Replace).unwrap().publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_are_neither_written_nor_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("private"), "secret").unwrap();
        symlink(at("private"), at("a")).unwrap();
        symlink(at("private"), at("b.new")).unwrap();
        for existing in [Existing::Keep, Existing::Replace] {
            let (a, b) = (at("a"), at("b"));
            let error = NewFile::begin(&a, ".new", existing).unwrap_err().to_string();
            assert!(error.contains("a symbolic link") && error.contains("/a: "), "{error}");
            let error = NewFile::begin(&b, ".new", existing).unwrap_err().to_string();
            assert!(error.contains("a symbolic link") && error.contains("/b.new: "), "{error}");
        }
        // A link that takes the name while the file is written.
        let file = NewFile::begin(&at("c"), ".new", Existing::Replace).unwrap();
        symlink(at("private"), at("c")).unwrap();
        assert!(file.publish().is_err());
        assert_eq!(fs::read_to_string(at("private")).unwrap(), "secret");
        assert!(at("b.new").is_symlink() && at("c").is_symlink() && !at("c.new").exists());
    }
}
