//! A directory that files are made in.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

/// Rights of a new file, less what the umask takes: others than owner and group do not read it.
pub const MODE: u32 = 0o640;

/// An open directory, in which files are made, opened and named without following links.
///
/// The path that leads to the directory may have links: it is the user's. What it leads to is looked up
/// once, when it is opened.
#[derive(Debug)]
pub struct OutputDirectory {
    directory: File,
}

impl OutputDirectory {
    /// Opens the directory `path`.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        Ok(Self { directory: directory.into() })
    }

    /// Opens the directory that `path` is in; also returns the name of `path` in it.
    ///
    /// # Errors
    /// `InvalidInput` when `path` names no file; else what the system says.
    pub fn of(path: &Path) -> io::Result<(Self, &OsStr)> {
        let no_name = || io::Error::new(ErrorKind::InvalidInput, "it is not the name of a file");
        let name = path.file_name().ok_or_else(no_name)?;
        Ok((Self::open(directory_of(path))?, name))
    }

    /// Makes the new, empty file `name`, for reading and writing.
    ///
    /// # Errors
    /// `AlreadyExists`, saying what has the name; else what the system says.
    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        let access = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.directory, name, flags, Mode::from_raw_mode(MODE)) {
            Err(Errno::EXIST) => Err(self.taken(name)),
            other => Ok(other?.into()),
        }
    }

    /// Opens the existing file `name` for reading and writing, if it is one that this user made: a
    /// regular file, ours, and of no other name.
    ///
    /// # Errors
    /// `PermissionDenied`, saying what it is, when it is not such a file; else what the system says.
    pub fn open_own(&self, name: &OsStr) -> io::Result<File> {
        // Opening a device may do something to it, so it is looked at first; between the two looks it
        // may be replaced, so it is looked at again.
        check_own(&self.stat(name)?)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file: File = rustix::fs::openat(&self.directory, name, flags, Mode::empty())?.into();
        check_own(&rustix::fs::fstat(&file)?)?;
        Ok(file)
    }

    /// Whether `name` is there, as anything.
    ///
    /// # Errors
    /// What the system says.
    pub fn has(&self, name: &OsStr) -> io::Result<bool> {
        match self.stat(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Tests that nothing has the name `name`.
    ///
    /// # Errors
    /// `AlreadyExists`, saying what has the name; else what the system says.
    pub fn check_free(&self, name: &OsStr) -> io::Result<()> {
        if self.has(name)? { Err(self.taken(name)) } else { Ok(()) }
    }

    /// Whether `name` is a name of `file`.
    ///
    /// # Errors
    /// What the system says, except that there is no such name.
    pub fn is_named(&self, name: &OsStr, file: &File) -> io::Result<bool> {
        let named = match self.stat(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        let own = file.metadata()?;
        Ok((own.dev(), own.ino()) == (named.st_dev, named.st_ino))
    }

    /// Gives the file `from` the name `to`, which nothing may have yet.
    ///
    /// # Errors
    /// `AlreadyExists`, saying what has the name; else what the system says.
    pub fn publish(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (directory, keep) = (&self.directory, RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(directory, from, directory, to, keep) {
            Err(Errno::EXIST) => Err(self.taken(to)),
            // Some network file systems cannot do it in one step.
            Err(Errno::INVAL | Errno::NOSYS) => {
                self.check_free(to)?;
                Ok(rustix::fs::renameat(directory, from, directory, to)?)
            }
            other => Ok(other?),
        }
    }

    /// Gives the file `from` the name `to`, in the place of a file that this user made, if there is one.
    ///
    /// # Errors
    /// `PermissionDenied`, saying what has the name, if it is anything else; else what the system says.
    pub fn replace(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.check_replaceable(to)?;
        Ok(rustix::fs::renameat(&self.directory, from, &self.directory, to)?)
    }

    /// Tests whether [`replace`](Self::replace) would take the place of `name`.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn check_replaceable(&self, name: &OsStr) -> io::Result<()> {
        match self.stat(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => check_own(&other?),
        }
    }

    /// Removes the file `name`, if there is one and this user made it.
    ///
    /// # Errors
    /// `PermissionDenied`, saying what has the name, if it is anything else; else what the system says.
    pub fn remove_own(&self, name: &OsStr) -> io::Result<()> {
        self.check_replaceable(name)?;
        match self.remove(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Removes the name `name`; a link is removed itself.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())?)
    }

    /// Puts names made, changed or removed on the disk.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// The error for a name that is taken.
    fn taken(&self, name: &OsStr) -> io::Error {
        let what = self.stat(name).map_or("something", |stat| word(&stat));
        let text = format!("{what} of this name is there already; move it away");
        io::Error::new(ErrorKind::AlreadyExists, text)
    }
}

/// The directory that `path` is in.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Refuses what this user did not make, or what can be reached by another name.
fn check_own(stat: &Stat) -> io::Result<()> {
    let refuse = |what: String| {
        let text = format!("{what}, and is left as it is; move it away");
        Err(io::Error::new(ErrorKind::PermissionDenied, text))
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return refuse(format!("it is {}, not a file of ours", word(stat)));
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return refuse(format!("it belongs to another user, {}", stat.st_uid));
    }
    if stat.st_nlink > 1 {
        return refuse("it has a second name (a hard link)".to_owned());
    }
    Ok(())
}

/// What something is, in words.
fn word(stat: &Stat) -> &'static str {
    word_of_mode(stat.st_mode)
}

/// What something of the mode `st_mode` is, in words.
pub(super) fn word_of_mode(st_mode: u32) -> &'static str {
    match FileType::from_raw_mode(st_mode) {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something unknown",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A directory with a file outside of it, and a name for each thing that may stand in the way.
    fn traps() -> (tempfile::TempDir, Vec<(&'static str, &'static str)>) {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join("d").join(name);
        fs::create_dir(root.path().join("d")).unwrap();
        fs::write(root.path().join("private"), "secret").unwrap();
        fs::create_dir(at("directory")).unwrap();
        symlink("../private", at("link")).unwrap();
        symlink("../absent", at("dangling")).unwrap();
        let fifo = FileType::Fifo;
        rustix::fs::mknodat(CWD, at("pipe"), fifo, Mode::from_raw_mode(MODE), 0).unwrap();
        std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        fs::hard_link(root.path().join("private"), at("hard")).unwrap();
        let words = vec![
            ("directory", "a directory"),
            ("link", "a symbolic link"),
            ("dangling", "a symbolic link"),
            ("pipe", "a named pipe"),
            ("socket", "a socket"),
            ("hard", "a file"),
        ];
        (root, words)
    }

    #[test]
    fn nothing_in_the_way_is_touched_and_each_is_named() {
        let (root, traps) = traps();
        let directory = OutputDirectory::open(&root.path().join("d")).unwrap();
        let ours = OsStr::new("ours");
        drop(directory.create(ours).unwrap());
        for (name, word) in traps {
            let name = OsStr::new(name);
            let created = directory.create(name).unwrap_err();
            assert_eq!(created.kind(), ErrorKind::AlreadyExists, "{name:?}");
            assert!(created.to_string().starts_with(word), "{created}");
            let published = directory.publish(ours, name).unwrap_err();
            assert!(published.to_string().starts_with(word), "{published}");
            for refused in [directory.open_own(name).map(drop), directory.replace(ours, name)] {
                let refused = refused.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{name:?}: {refused}");
            }
        }
        assert_eq!(fs::read_to_string(root.path().join("private")).unwrap(), "secret");
        assert!(!root.path().join("absent").exists());
    }

    #[test]
    fn a_file_of_another_user_is_not_ours() {
        let root = tempfile::tempdir().unwrap();
        let directory = OutputDirectory::open(root.path()).unwrap();
        fs::write(root.path().join("a"), "").unwrap();
        if std::os::unix::fs::chown(root.path().join("a"), Some(12_345), None).is_err() {
            return gannet_measure::testing::skipped(
                "files of other users",
                "only root makes them",
            );
        }
        let error = directory.open_own(OsStr::new("a")).unwrap_err();
        assert!(error.to_string().contains("another user, 12345"), "{error}");
    }

    #[test]
    fn files_are_new_private_and_get_their_name_once() {
        let root = tempfile::tempdir().unwrap();
        let directory = OutputDirectory::open(root.path()).unwrap();
        let (a, b) = (OsStr::new("a"), OsStr::new("b"));
        let file = directory.create(a).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o137, 0);
        directory.publish(a, b).unwrap();
        assert!(directory.is_named(b, &file).unwrap() && !directory.has(a).unwrap());
        drop(directory.create(a).unwrap());
        assert!(directory.publish(a, b).is_err());
        directory.replace(a, b).unwrap();
        assert!(!directory.is_named(b, &file).unwrap() && directory.open_own(b).is_ok());
        directory.sync().unwrap();
    }
}
