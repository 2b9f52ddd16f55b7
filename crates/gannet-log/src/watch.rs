//! Since when a thread waits for the disk: a disk that hangs gives no error, so others look.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::status::DISK_SILENT_MAX;

/// Since when one thread waits for the disk; any thread may ask.
#[derive(Debug)]
pub(super) struct DiskWatch {
    origin: Instant,
    /// Milliseconds since the origin, and one; 0 while it does not wait.
    since: AtomicU64,
    /// Waits that were as long as [`DISK_SILENT_MAX`], and are over.
    silences: AtomicU64,
}

impl Default for DiskWatch {
    fn default() -> Self {
        Self { origin: Instant::now(), since: AtomicU64::new(0), silences: AtomicU64::new(0) }
    }
}

/// Ends the wait, also after a panic.
struct Wait<'a>(&'a DiskWatch);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let silences = u64::from(self.0.waited() >= DISK_SILENT_MAX);
        self.0.silences.fetch_add(silences, Ordering::Relaxed);
        self.0.since.store(0, Ordering::Release);
    }
}

impl DiskWatch {
    /// Does `work`, which waits for the disk.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.touch();
        let _wait = Wait(self);
        work()
    }

    /// Notes within `work` that the disk has answered.
    pub fn touch(&self) {
        let now = self.origin.elapsed().as_millis() as u64 + 1;
        self.since.store(now, Ordering::Release);
    }

    /// How often it has waited for [`DISK_SILENT_MAX`] or longer.
    pub fn silences(&self) -> u64 {
        self.silences.load(Ordering::Relaxed)
    }

    /// How long the disk has not answered; zero when nobody waits for it.
    pub fn waited(&self) -> Duration {
        match self.since.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            since => self.origin.elapsed().saturating_sub(Duration::from_millis(since - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_seen_from_outside_and_ends() {
        let watch = DiskWatch::default();
        assert_eq!(watch.waited(), Duration::ZERO);
        let waited = watch.during(|| {
            std::thread::sleep(Duration::from_millis(5));
            watch.waited()
        });
        assert!(waited >= Duration::from_millis(4), "{waited:?}");
        assert_eq!((watch.waited(), watch.silences()), (Duration::ZERO, 0));
        watch.during(|| std::thread::sleep(DISK_SILENT_MAX));
        assert_eq!(watch.silences(), 1);
    }
}
