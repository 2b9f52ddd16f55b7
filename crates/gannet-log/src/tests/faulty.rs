//! A file system that fails on demand, and a power switch.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use gannet_measure::random::Random;

use super::super::disk::{Disk, Storage};

const BLOCK: u64 = 4096;
pub const ENOSPC: i32 = 28;
pub const EIO: i32 = 5;

/// How often operations fail, as probabilities, and when they fail for good.
pub struct Faults {
    /// A write fails after some of its bytes.
    pub write: f64,
    /// A write takes some of its bytes, without an error.
    pub short_write: f64,
    /// A flush fails, and pages are lost.
    pub sync: f64,
    /// Any other operation fails.
    pub other: f64,
    /// Writes fail with `bytes_left_error` once so many bytes were written.
    pub bytes_left: Option<u64>,
    /// What they fail with: "no space left", unless told otherwise.
    pub bytes_left_error: i32,
    /// All operations fail once so many were done, as if the process had been killed.
    pub operations_left: Option<u64>,
    random: Random,
    written: Vec<Arc<Mutex<Tracked>>>,
}

/// A file, and what a power cut may take from it.
struct Tracked {
    file: File,
    dirty: BTreeSet<u64>,
    len_synced: u64,
}

impl Tracked {
    /// Loses each block that is not on the disk with probability one half.
    fn lose(&mut self, random: &mut Random) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        for block in std::mem::take(&mut self.dirty) {
            let size = len.saturating_sub(block * BLOCK).min(BLOCK) as usize;
            if random.chance(0.5) {
                self.file.write_all_at(&vec![0; size], block * BLOCK)?;
            }
        }
        Ok(())
    }
}

/// The disk, to be shared with who changes its faults.
#[derive(Clone)]
pub struct FaultyDisk(Arc<Mutex<Faults>>);

impl FaultyDisk {
    /// A disk without faults; `seed` decides where later ones strike.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Faults {
            write: 0.0,
            short_write: 0.0,
            sync: 0.0,
            other: 0.0,
            bytes_left: None,
            bytes_left_error: ENOSPC,
            operations_left: None,
            random: Random::new(seed),
            written: Vec::new(),
        })))
    }

    pub fn faults(&self) -> MutexGuard<'_, Faults> {
        self.0.lock().unwrap()
    }

    /// Forgets the files, as the end of a process does.
    pub fn process_ends(&self) {
        self.faults().written.clear();
    }

    /// Cuts the power: what was not flushed is partly lost.
    pub fn power_cut(&self) {
        let mut faults = self.faults();
        for tracked in std::mem::take(&mut faults.written) {
            let mut tracked = tracked.lock().unwrap();
            let len = tracked.file.metadata().unwrap().len();
            let unsynced = len.saturating_sub(tracked.len_synced);
            let kept = len - faults.random.below(unsynced + 1);
            tracked.lose(&mut faults.random).unwrap();
            tracked.file.set_len(kept).unwrap();
        }
    }

    fn other(&self) -> io::Result<()> {
        let mut faults = self.faults();
        faults.count_operation()?;
        let rate = faults.other;
        if faults.random.chance(rate) { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }

    fn track(&self, file: File) -> io::Result<Box<dyn Storage>> {
        file.try_lock().map_err(io::Error::from)?;
        let len_synced = file.metadata()?.len();
        let tracked = Tracked { file: file.try_clone()?, dirty: BTreeSet::new(), len_synced };
        let tracked = Arc::new(Mutex::new(tracked));
        self.faults().written.push(tracked.clone());
        Ok(Box::new(FaultyStorage { disk: self.clone(), file, tracked }))
    }
}

impl Faults {
    fn count_operation(&mut self) -> io::Result<()> {
        match &mut self.operations_left {
            Some(0) => Err(io::Error::from_raw_os_error(EIO)),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Storage>> {
        self.other()?;
        self.track(OpenOptions::new().read(true).write(true).create_new(true).open(path)?)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn Storage>> {
        self.other()?;
        self.track(OpenOptions::new().read(true).write(true).open(path)?)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.other()?;
        fs::rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.other()?;
        fs::remove_file(path)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.other()?;
        File::open(directory).map(drop)
    }
    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        fs::metadata(directory)?;
        Ok(1 << 40)
    }
    fn file_size_limit(&self) -> u64 {
        u64::MAX
    }
}

struct FaultyStorage {
    disk: FaultyDisk,
    file: File,
    tracked: Arc<Mutex<Tracked>>,
}

impl Storage for FaultyStorage {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut faults = self.disk.faults();
        let len = bytes.len() as u64;
        let (write, short) = (faults.write, faults.short_write);
        let mut taken = len;
        let (mut error, none_left) = (None, faults.bytes_left_error);
        if faults.count_operation().is_err() || faults.random.chance(write) {
            error = Some(EIO);
            taken = faults.random.below(len + 1);
        } else if len > 1 && faults.random.chance(short) {
            taken = 1 + faults.random.below(len - 1);
        }
        if let Some(left) = &mut faults.bytes_left {
            if taken > *left {
                // The system takes what fits and reports the error at the next write.
                error = (*left == 0).then_some(none_left);
                taken = *left;
            }
            *left -= taken;
        }
        self.file.write_all_at(&bytes[..taken as usize], offset)?;
        if taken > 0 {
            let blocks = offset / BLOCK..=(offset + taken - 1) / BLOCK;
            self.tracked.lock().unwrap().dirty.extend(blocks);
        }
        match error {
            Some(code) => Err(io::Error::from_raw_os_error(code)),
            None => Ok(taken as usize),
        }
    }

    /// As a file system that cannot do it.
    fn reserve(&mut self, _: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_range(&mut self, _: Range<u64>) -> io::Result<()> {
        self.disk.other()
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut faults = self.disk.faults();
        let mut tracked = self.tracked.lock().unwrap();
        faults.count_operation()?;
        let rate = faults.sync;
        if faults.random.chance(rate) {
            // As Linux does it: the pages are dropped, and the next flush will succeed.
            tracked.lose(&mut faults.random)?;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        tracked.dirty.clear();
        tracked.len_synced = self.file.metadata()?.len();
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.disk.other()?;
        let mut tracked = self.tracked.lock().unwrap();
        tracked.dirty.split_off(&len.div_ceil(BLOCK));
        tracked.len_synced = tracked.len_synced.min(len);
        self.file.set_len(len)
    }

    fn named_len(&self, path: &Path) -> io::Result<Option<u64>> {
        self.disk.other()?;
        self.file.named_len(path)
    }

    fn first_hole(&self) -> io::Result<u64> {
        self.disk.other()?;
        self.file.first_hole()
    }
}
