//! Since when a thread waits for the disk: a disk that hangs gives no error, so others look.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::status::DISK_SILENT_MAX;

/// Bits of a time in milliseconds: 34 years.
const TIME_BITS: u32 = 40;
const TIME: u64 = (1 << TIME_BITS) - 1;

/// Since when one thread waits for the disk; any thread may ask.
#[derive(Debug)]
pub(super) struct DiskWatch {
    origin: Instant,
    /// Waits that were as long as [`DISK_SILENT_MAX`] and are over, above [`TIME_BITS`] of the time since which it
    /// waits: milliseconds since the origin, and one; 0 while it does not wait. In one word, so that who looks never
    /// sees a wait twice or not at all.
    word: AtomicU64,
}

impl Default for DiskWatch {
    fn default() -> Self {
        Self { origin: Instant::now(), word: AtomicU64::new(0) }
    }
}

/// Ends the wait, also after a panic.
struct Wait<'a>(&'a DiskWatch);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.waits_since(0);
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
        self.waits_since(self.origin.elapsed().as_millis() as u64 + 1);
    }

    /// The disk has answered, and the thread, the only one that writes here, waits from then on or not at all.
    fn waits_since(&self, since: u64) {
        let before = self.word.load(Ordering::Relaxed);
        self.word.store(self.silences_in(before) << TIME_BITS | since & TIME, Ordering::Release);
    }

    /// How often the disk has not answered for [`DISK_SILENT_MAX`] or longer; counted as soon as it has not.
    pub fn silences(&self) -> u64 {
        self.silences_in(self.word.load(Ordering::Acquire))
    }

    fn silences_in(&self, word: u64) -> u64 {
        (word >> TIME_BITS) + u64::from(self.waited_in(word) >= DISK_SILENT_MAX)
    }

    /// How long the disk has not answered; zero when nobody waits for it.
    pub fn waited(&self) -> Duration {
        self.waited_in(self.word.load(Ordering::Acquire))
    }

    fn waited_in(&self, word: u64) -> Duration {
        match word & TIME {
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
    }

    #[test]
    fn a_silence_counts_once_from_when_it_is_one() {
        let watch = DiskWatch::default();
        watch.during(|| {
            std::thread::sleep(DISK_SILENT_MAX);
            assert_eq!(watch.silences(), 1);
            watch.touch();
            assert_eq!(watch.silences(), 1);
            std::thread::sleep(DISK_SILENT_MAX);
            assert_eq!(watch.silences(), 2);
        });
        assert_eq!(watch.silences(), 2);
        watch.during(|| ());
        assert_eq!((watch.waited(), watch.silences()), (Duration::ZERO, 2));
    }
}
