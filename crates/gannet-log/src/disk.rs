//! The seam to the file system, small enough that a test can stand in for it and fail on demand.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::sys;
use crate::files::OutputDirectory;

/// What the log asks of a file system.
pub trait Disk: Send + Sync {
    /// Makes the new file `path` and locks it for this process.
    ///
    /// # Errors
    /// The file exists, or the system refuses.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Storage>>;

    /// Opens the existing file `path` for writing and locks it for this process. What is no regular
    /// file of this user is not opened.
    ///
    /// # Errors
    /// `WouldBlock` when another process holds the lock; else what the system says.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Storage>>;

    /// Gives the file `from` the name `to`, in the same directory, which nothing may have yet.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the file `path`.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Puts names made, changed or removed in `directory` on the disk.
    ///
    /// # Errors
    /// What the system says.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Bytes that may still be written below `directory`.
    ///
    /// # Errors
    /// What the system says.
    fn free_bytes(&self, directory: &Path) -> io::Result<u64>;

    /// Most bytes that a file may have, as far as that is known beforehand.
    fn file_size_limit(&self) -> u64;
}

/// A file that bytes go to.
pub trait Storage: Send {
    /// Writes some of `bytes` at `offset` and returns how many, as [`FileExt::write_at`] does.
    ///
    /// # Errors
    /// What the system says.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Keeps space on the disk for bytes `range` of the file, whose length stays as it is: writing
    /// there does not fail for want of space.
    ///
    /// # Errors
    /// What the system says: there is no such space, or, as `Unsupported`, this file system cannot
    /// do it.
    fn reserve(&mut self, range: Range<u64>) -> io::Result<()>;

    /// Waits until bytes `range` are on the disk, so that a long flush is seen to go on. Only
    /// [`sync`](Self::sync) after it makes sure of them.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    fn sync_range(&mut self, range: Range<u64>) -> io::Result<()>;

    /// Waits until all that was written is on the disk.
    ///
    /// # Errors
    /// What the system says. After an error nothing is known of the bytes written since the
    /// last success, even if a further call succeeds: the kernel reports a lost page only once.
    fn sync(&mut self) -> io::Result<()>;

    /// Makes the file `len` bytes long.
    ///
    /// # Errors
    /// What the system says.
    fn truncate(&mut self, len: u64) -> io::Result<()>;

    /// Length of the file in bytes; `None` when `path` does not name it any more.
    ///
    /// # Errors
    /// What the system says, except that the path does not exist.
    fn named_len(&self, path: &Path) -> io::Result<Option<u64>>;

    /// Byte at which the first hole begins, or the length of a file without. Some file systems keep
    /// zeros that were written as a hole.
    ///
    /// # Errors
    /// What the system says; some file systems do not tell.
    fn first_hole(&self) -> io::Result<u64>;
}

/// Writes all of `bytes` at `offset`.
///
/// # Errors
/// The first error of the storage; `WriteZero` when it takes no more bytes.
pub fn write_all_at(
    storage: &mut dyn Storage,
    mut bytes: &[u8],
    mut offset: u64,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match storage.write_at(bytes, offset) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Storage>> {
        let (directory, name) = OutputDirectory::of(path)?;
        lock(directory.create(name)?)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Storage>> {
        let (directory, name) = OutputDirectory::of(path)?;
        lock(directory.open_own(name)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (directory, to) = OutputDirectory::of(to)?;
        directory.publish(from.file_name().unwrap_or_default(), to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (directory, name) = OutputDirectory::of(path)?;
        directory.remove_own(name)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        sys::free_bytes(directory)
    }

    fn file_size_limit(&self) -> u64 {
        sys::file_size_limit()
    }
}

/// Locks `file`; the kernel takes the lock away when the process ends, however it ends.
fn lock(file: File) -> io::Result<Box<dyn Storage>> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ErrorKind::WouldBlock.into()),
        // Some network file systems know no locks; there the user must not recover a live file.
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    Ok(Box::new(file))
}

/// Whether a running program holds `path` open as the file that it writes.
pub fn is_being_written(path: &Path) -> bool {
    File::open(path)
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

impl Storage for File {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn reserve(&mut self, range: Range<u64>) -> io::Result<()> {
        sys::reserve(self, range)
    }

    fn sync_range(&mut self, range: Range<u64>) -> io::Result<()> {
        sys::sync_range(self, range)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn named_len(&self, path: &Path) -> io::Result<Option<u64>> {
        let named = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let mine = self.metadata()?;
        let is_mine = (mine.dev(), mine.ino()) == (named.dev(), named.ino());
        Ok(is_mine.then_some(mine.len()))
    }

    fn first_hole(&self) -> io::Result<u64> {
        Ok(rustix::fs::seek(self, rustix::fs::SeekFrom::Hole(0))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_locked_while_it_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let mut storage = SystemDisk.create(&path).unwrap();
        write_all_at(&mut *storage, b"abc", 1).unwrap();
        assert_eq!(SystemDisk.open(&path).err().unwrap().kind(), ErrorKind::WouldBlock);
        assert!(is_being_written(&path));
        drop(storage);
        assert!(!is_being_written(&path) && !is_being_written(&directory.path().join("b")));
        assert!(SystemDisk.open(&path).is_ok());
        assert!(SystemDisk.create(&path).is_err(), "an existing file is never overwritten");
        assert_eq!(fs::read(&path).unwrap(), b"\0abc");
    }

    #[test]
    fn a_file_knows_whether_it_was_truncated_removed_or_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let mut storage = SystemDisk.create(&path).unwrap();
        write_all_at(&mut *storage, &[1; 9000], 0).unwrap();
        assert_eq!(storage.named_len(&path).unwrap(), Some(9000));
        fs::File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert_eq!(storage.named_len(&path).unwrap(), Some(10));
        fs::remove_file(&path).unwrap();
        assert_eq!(storage.named_len(&path).unwrap(), None);
        fs::write(&path, b"another").unwrap();
        assert_eq!(storage.named_len(&path).unwrap(), None);
    }

    #[test]
    fn space_is_kept_behind_the_end_of_a_file_and_given_back() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let mut storage = SystemDisk.create(&path).unwrap();
        write_all_at(&mut *storage, &[1; 4096], 0).unwrap();
        match storage.reserve(4096..1 << 20) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
            Ok(()) => {
                let kept = fs::metadata(&path).unwrap();
                assert_eq!(kept.len(), 4096);
                assert!(kept.blocks() * 512 >= 1 << 20, "{} blocks", kept.blocks());
            }
        }
        write_all_at(&mut *storage, &[2; 4096], 4096).unwrap();
        storage.sync_range(0..8192).unwrap();
        storage.truncate(8192).unwrap();
        storage.sync().unwrap();
        let left = fs::metadata(&path).unwrap();
        assert_eq!(left.len(), 8192);
        assert!(left.blocks() * 512 < 1 << 20, "{} blocks", left.blocks());
    }

    /// Takes one byte a call, is interrupted every other call, and is full after five.
    struct Stutter(Vec<u8>, bool);

    impl Storage for Stutter {
        fn write_at(&mut self, bytes: &[u8], _: u64) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::Interrupted.into());
            }
            let taken = usize::from(self.0.len() < 5);
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }
        fn reserve(&mut self, _: Range<u64>) -> io::Result<()> {
            Ok(())
        }
        fn sync_range(&mut self, _: Range<u64>) -> io::Result<()> {
            Ok(())
        }
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn truncate(&mut self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn named_len(&self, _: &Path) -> io::Result<Option<u64>> {
            Ok(Some(self.0.len() as u64))
        }
        fn first_hole(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }
    }

    #[test]
    fn short_and_interrupted_writes_are_continued() {
        let mut storage = Stutter(Vec::new(), false);
        write_all_at(&mut storage, b"abcde", 0).unwrap();
        assert_eq!(storage.0, b"abcde");
        let error = write_all_at(&mut storage, b"f", 5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WriteZero);
    }
}
