//! A disk that does what it is told: fail, be full, be slow, hang.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use gannet_log::{Disk, Storage, SystemDisk};

pub const EIO: i32 = 5;
pub const EFBIG: i32 = 27;
pub const ENOSPC: i32 = 28;
pub const EROFS: i32 = 30;

/// What the disk does from now on.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// This many operations are done, then `failures` fail with `error`.
    pub good: u64,
    pub failures: u64,
    pub error: i32,
    /// Bytes that there is space for; unlimited when absent.
    pub space: Option<u64>,
    /// Whether space can be kept for a file.
    pub reserves: bool,
    /// How long each operation takes.
    pub delay: Duration,
    /// Most bytes that a file may have; unlimited when absent.
    pub file_size_max: Option<u64>,
    /// Whether that is known beforehand.
    pub tells_file_size: bool,
    /// Operations do not return.
    pub hangs: bool,
    /// Somebody truncates the file to this length just before the next write to it.
    pub cut: Option<u64>,
}

#[derive(Default)]
struct Shared {
    manner: Mutex<Manner>,
    changed: Condvar,
}

/// The file system of the machine, with manners.
#[derive(Clone, Default)]
pub struct MannerDisk(Arc<Shared>);

impl MannerDisk {
    pub fn new(manner: Manner) -> Self {
        let disk = Self::default();
        disk.set(|now| *now = manner);
        disk
    }

    /// Changes the manner; operations that hang look at it again.
    pub fn set(&self, change: impl FnOnce(&mut Manner)) {
        change(&mut self.0.manner.lock().unwrap());
        self.0.changed.notify_all();
    }

    /// Whether all failures that were ordered have happened.
    pub fn is_through(&self) -> bool {
        let manner = self.0.manner.lock().unwrap();
        manner.good == 0 && manner.failures == 0
    }

    /// Bytes that there is still space for.
    pub fn space(&self) -> Option<u64> {
        self.0.manner.lock().unwrap().space
    }

    /// One operation: waits, fails, or lets it happen.
    fn operate(&self) -> io::Result<()> {
        let manner = self.0.manner.lock().unwrap();
        let delay = manner.delay;
        let mut manner = self.0.changed.wait_while(manner, |manner| manner.hangs).unwrap();
        match (manner.good, manner.failures) {
            (0, 0) => {}
            (0, _) => {
                manner.failures -= 1;
                return Err(io::Error::from_raw_os_error(manner.error));
            }
            _ => manner.good -= 1,
        }
        drop(manner);
        thread::sleep(delay);
        Ok(())
    }
}

impl Disk for MannerDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Storage>> {
        self.operate()?;
        let storage = SystemDisk.create(path)?;
        Ok(Box::new(MannerSink { disk: self.clone(), storage, kept: 0 }))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn Storage>> {
        SystemDisk.open(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate()?;
        SystemDisk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemDisk.remove(path)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.operate()?;
        SystemDisk.sync_directory(directory)
    }
    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        SystemDisk.free_bytes(directory)
    }
    fn file_size_limit(&self) -> u64 {
        let manner = self.0.manner.lock().unwrap();
        manner.file_size_max.filter(|_| manner.tells_file_size).unwrap_or(u64::MAX)
    }
}

struct MannerSink {
    disk: MannerDisk,
    storage: Box<dyn Storage>,
    /// Byte up to which there is space for this file.
    kept: u64,
}

impl MannerSink {
    fn file_size_max(&self) -> u64 {
        self.disk.0.manner.lock().unwrap().file_size_max.unwrap_or(u64::MAX)
    }

    /// Takes space for the file up to byte `end`, as far as there is any; returns up to where.
    fn take_space(&mut self, end: u64) -> u64 {
        let mut manner = self.disk.0.manner.lock().unwrap();
        let wanted = end.saturating_sub(self.kept);
        let taken = manner.space.map_or(wanted, |space| space.min(wanted));
        manner.space = manner.space.map(|space| space - taken);
        self.kept += taken;
        self.kept.min(end)
    }
}

impl Storage for MannerSink {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        // A write that fails has taken some of the bytes.
        if let Err(error) = self.disk.operate() {
            self.storage.write_at(&bytes[..bytes.len() * 9 / 10], offset)?;
            return Err(error);
        }
        if let Some(len) = self.disk.0.manner.lock().unwrap().cut.take() {
            self.storage.truncate(len)?;
        }
        let allowed = self.file_size_max().saturating_sub(offset).min(bytes.len() as u64);
        if allowed == 0 && !bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(EFBIG));
        }
        let bytes = &bytes[..allowed as usize];
        let room = self.take_space(offset + bytes.len() as u64).saturating_sub(offset) as usize;
        match room {
            0 if !bytes.is_empty() => Err(io::Error::from_raw_os_error(ENOSPC)),
            _ => self.storage.write_at(&bytes[..room.min(bytes.len())], offset),
        }
    }
    fn reserve(&mut self, range: Range<u64>) -> io::Result<()> {
        if !self.disk.0.manner.lock().unwrap().reserves {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.disk.operate()?;
        if self.file_size_max() < range.end {
            return Err(io::Error::from_raw_os_error(EFBIG));
        }
        let space = self.disk.0.manner.lock().unwrap().space;
        if space.is_some_and(|space| space < range.end.saturating_sub(self.kept)) {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        self.take_space(range.end);
        Ok(())
    }
    fn sync_range(&mut self, range: Range<u64>) -> io::Result<()> {
        self.storage.sync_range(range)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.disk.operate()?;
        self.storage.sync()
    }
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.disk.operate()?;
        self.storage.truncate(len)
    }
    fn named_len(&self, path: &Path) -> io::Result<Option<u64>> {
        self.storage.named_len(path)
    }
    fn first_hole(&self) -> io::Result<u64> {
        self.storage.first_hole()
    }
}
