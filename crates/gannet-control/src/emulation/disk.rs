//! A disk that gets into trouble when it is told to. It stands before the disk of the machine where the front end is
//! emulated, and nowhere else.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use gannet_emulate::{FaultSwitch, LiveFault};
use gannet_log::{DISK_SILENT_MAX, Disk, Storage, SystemDisk};

/// The disk of the machine, with the trouble that a switch makes.
#[derive(Debug)]
pub(crate) struct TroubledDisk {
    disk: SystemDisk,
    trouble: Arc<Trouble>,
}

#[derive(Debug)]
struct Trouble {
    switch: Arc<FaultSwitch>,
    /// When the trouble of now is over. While the disk does not answer, whoever asked it first holds the lock, and the
    /// others wait for that.
    until: Mutex<Option<Instant>>,
}

impl TroubledDisk {
    pub(crate) fn new(switch: Arc<FaultSwitch>) -> Self {
        Self { disk: SystemDisk, trouble: Arc::new(Trouble { switch, until: Mutex::default() }) }
    }

    fn storage(&self, file: Box<dyn Storage>) -> Box<dyn Storage> {
        Box::new(TroubledStorage { file, trouble: Arc::clone(&self.trouble) })
    }
}

impl Trouble {
    /// Whether there is no space; where the disk does not answer, this waits until it does.
    fn is_full(&self) -> bool {
        if self.order().is_none() {
            return false;
        }
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((fault, time)) = self.order() else { return false };
        let end = *until.get_or_insert_with(|| {
            // A shorter silence is nothing that the recorder speaks of.
            if fault == LiveFault::FullDisk || time >= DISK_SILENT_MAX {
                self.switch.count(fault);
            }
            Instant::now() + time
        });
        let left = end.saturating_duration_since(Instant::now());
        if fault == LiveFault::FullDisk && !left.is_zero() {
            return true;
        }
        thread::sleep(left);
        *until = None;
        self.switch.end();
        false
    }

    fn order(&self) -> Option<(LiveFault, std::time::Duration)> {
        let order = self.switch.order()?;
        let is_mine = matches!(order.fault, LiveFault::StalledDisk | LiveFault::FullDisk);
        is_mine.then_some((order.fault, order.time))
    }

    /// Waits while the disk does not answer.
    fn wait(&self) {
        let _full = self.is_full();
    }

    /// The same, and refuses while there is no space.
    fn take_space(&self) -> io::Result<()> {
        if self.is_full() { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Disk for TroubledDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Storage>> {
        self.trouble.take_space()?;
        Ok(self.storage(self.disk.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Storage>> {
        self.trouble.wait();
        Ok(self.storage(self.disk.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.trouble.wait();
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.trouble.wait();
        self.disk.remove(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.trouble.wait();
        self.disk.sync_directory(directory)
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        if self.trouble.is_full() { Ok(0) } else { self.disk.free_bytes(directory) }
    }

    fn file_size_limit(&self) -> u64 {
        self.disk.file_size_limit()
    }
}

/// A file on such a disk. Space that was kept for it before stays, as it does on a real one.
struct TroubledStorage {
    file: Box<dyn Storage>,
    trouble: Arc<Trouble>,
}

impl Storage for TroubledStorage {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.trouble.wait();
        self.file.write_at(bytes, offset)
    }

    fn reserve(&mut self, range: Range<u64>) -> io::Result<()> {
        self.trouble.take_space()?;
        self.file.reserve(range)
    }

    fn sync_range(&mut self, range: Range<u64>) -> io::Result<()> {
        self.trouble.wait();
        self.file.sync_range(range)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.trouble.wait();
        self.file.sync()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.trouble.wait();
        self.file.truncate(len)
    }

    fn named_len(&self, path: &Path) -> io::Result<Option<u64>> {
        self.trouble.wait();
        self.file.named_len(path)
    }

    fn first_hole(&self) -> io::Result<u64> {
        self.trouble.wait();
        self.file.first_hole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_full_disk_gives_no_space_but_what_it_gave_before_and_then_recovers() {
        let directory = tempfile::tempdir().unwrap();
        let (switch, path) = (Arc::new(FaultSwitch::default()), directory.path().join("a"));
        let disk = TroubledDisk::new(Arc::clone(&switch));
        let mut file = disk.create(&path).unwrap();
        let time = Duration::from_millis(300);
        assert!(switch.switch_on(LiveFault::FullDisk, 0, time));
        assert_eq!(disk.free_bytes(directory.path()).unwrap(), 0);
        assert_eq!(file.reserve(0..10).unwrap_err().kind(), ErrorKind::StorageFull);
        let other = disk.create(&directory.path().join("b"));
        assert_eq!(other.err().unwrap().kind(), ErrorKind::StorageFull);
        assert_eq!(file.write_at(b"abc", 0).unwrap(), 3);
        thread::sleep(time);
        assert!(disk.free_bytes(directory.path()).unwrap() > 0);
        assert_eq!((switch.order(), switch.suffered(LiveFault::FullDisk)), (None, 1));
    }

    #[test]
    fn a_disk_that_does_not_answer_keeps_everybody_waiting_and_then_does_as_it_was_told() {
        let directory = tempfile::tempdir().unwrap();
        let switch = Arc::new(FaultSwitch::default());
        let disk = TroubledDisk::new(Arc::clone(&switch));
        let mut file = disk.create(&directory.path().join("a")).unwrap();
        assert!(switch.switch_on(LiveFault::StalledDisk, 0, DISK_SILENT_MAX));
        let begin = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| assert!(disk.free_bytes(directory.path()).unwrap() > 0));
            assert_eq!(file.write_at(b"abc", 0).unwrap(), 3);
        });
        assert!(begin.elapsed() >= DISK_SILENT_MAX);
        assert_eq!((switch.order(), switch.suffered(LiveFault::StalledDisk)), (None, 1));
    }

    #[test]
    fn faults_of_the_front_end_are_no_trouble_of_the_disk() {
        let switch = Arc::new(FaultSwitch::default());
        let disk = TroubledDisk::new(Arc::clone(&switch));
        assert!(switch.switch_on(LiveFault::Loss, 0, Duration::from_secs(60)));
        assert!(disk.free_bytes(Path::new("/")).unwrap() > 0);
        assert!(switch.order().is_some(), "it is the front end's to end it");
    }
}
