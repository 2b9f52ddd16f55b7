//! A ring of entries in shared memory, with one writer and one reader.
//!
//! ```text
//! word  0            how many entries the reader has taken     (a cache line of its own)
//!       1            1 while the reader sleeps
//!       8 + (N+1) i  stamp of entry i: how many were written with it
//!       9 + (N+1) i  its N words
//! ```
//!
//! An entry is there when its stamp is the one the reader waits for, so a reader that waits looks at
//! one cache line only, and takes the entry from it. The reader tells what it took now and then, not for
//! each entry. Nothing that the other side writes is used as an index or a length.

#[cfg(not(loom))]
use gannet_memory::{Access, AttachError, RegionError, SharedRegion};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use std::hint::spin_loop;
use std::mem;
#[cfg(not(loom))]
use std::os::fd::OwnedFd;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words before the first entry.
const HEAD_WORDS: usize = 8;
/// The word by which a reader says that it sleeps.
const SLEEPS: usize = 1;

/// Pauses before a reader that took all there was looks again, about 100 ns. A look takes the cache line of the
/// next entry away from a writer that is about to write it, which costs it more than an entry does.
/// An answer to the entry just taken cannot come sooner.
const LAG: u32 = 4;

/// Entries that a ring may have.
pub const ENTRIES: std::ops::RangeInclusive<usize> = 2..=1 << 20;

/// Words of a ring of `entries` entries of `N` words each.
pub const fn words<const N: usize>(entries: usize) -> usize {
    HEAD_WORDS + (N + 1) * entries
}

/// Memory in which a ring lies, zero at first.
pub trait Words {
    /// All of its words.
    fn words(&self) -> &[AtomicU64];
}

/// A ring that fills a shared region.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct RingMemory {
    region: SharedRegion,
    words: usize,
}

#[cfg(not(loom))]
impl RingMemory {
    /// Memory for a ring of `entries` entries of `N` words each.
    ///
    /// # Errors
    /// When the system has not enough memory, or too many files are open.
    pub fn new<const N: usize>(entries: usize) -> Result<Self, RegionError> {
        let words = words::<N>(entries);
        Ok(Self { region: SharedRegion::new(words * size_of::<u64>())?, words })
    }

    /// The ring of another process, of which a descriptor was received.
    ///
    /// # Errors
    /// When its length could change, or is not that of `entries` entries.
    pub fn attach<const N: usize>(file: OwnedFd, entries: usize) -> Result<Self, AttachError> {
        let words = words::<N>(entries);
        let bytes = (words * size_of::<u64>()).next_multiple_of(4096) as u64;
        Ok(Self { region: SharedRegion::attach(file, bytes, Access::Write)?, words })
    }

    /// A descriptor for the process at the other end.
    ///
    /// # Errors
    /// When too many files are open.
    pub fn descriptor(&self) -> std::io::Result<OwnedFd> {
        self.region.descriptor(Access::Write)
    }
}

#[cfg(not(loom))]
impl Words for RingMemory {
    #[inline]
    fn words(&self) -> &[AtomicU64] {
        self.region.words(0, self.words)
    }
}

/// The writing end of a ring with entries of `N` words.
#[derive(Debug)]
pub struct Writer<W, const N: usize> {
    memory: W,
    entries: u64,
    written: u64,
    /// What the reader has told to have taken.
    taken: u64,
}

impl<W: Words, const N: usize> Writer<W, N> {
    /// The writer of a ring that nobody has written.
    ///
    /// # Panics
    /// When the memory has not the words of `entries` entries, or `entries` is no power of two.
    pub fn new(memory: W, entries: usize) -> Self {
        assert!(entries.is_power_of_two() && memory.words().len() == words::<N>(entries));
        Self { memory, entries: entries as u64, written: 0, taken: 0 }
    }

    /// Whether an entry finds room.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.written - self.taken < self.entries || self.room() > 0
    }

    /// How many entries find room.
    #[inline]
    pub fn room(&mut self) -> u64 {
        let taken = self.memory.words()[0].load(Ordering::Acquire);
        // A reader that claims nonsense has taken nothing.
        if (self.taken..=self.written).contains(&taken) {
            self.taken = taken;
        }
        self.entries - (self.written - self.taken)
    }

    /// Entries written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Entries that the reader has told to have taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Writes an entry; all that was written to shared memory before is seen by who takes it.
    ///
    /// # Panics
    /// When there is no room.
    #[inline]
    pub fn push(&mut self, entry: [u64; N]) {
        assert!(self.has_room(), "the ring is full");
        let place = (self.written & (self.entries - 1)) as usize;
        let (stamp, words) = place_of::<N>(self.memory.words(), place);
        for (word, value) in words.iter().zip(entry) {
            word.store(value, Ordering::Relaxed);
        }
        self.written += 1;
        stamp.store(self.written, Ordering::Release);
    }

    /// Whether the reader sleeps and has to be woken for what was pushed; it is told once.
    #[inline]
    pub fn must_wake(&self) -> bool {
        // Either this sees that the reader sleeps, or the reader sees the entry before it does.
        fence(Ordering::SeqCst);
        let sleeps = &self.memory.words()[SLEEPS];
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }
}

/// The reading end of a ring with entries of `N` words.
#[derive(Debug)]
pub struct Reader<W, const N: usize> {
    memory: W,
    entries: u64,
    taken: u64,
    /// What was told to the writer.
    told: u64,
    /// What was taken when last there was no entry.
    drained: u64,
    /// Whether to let the writer get ahead before the next look.
    lags: bool,
    /// Whether it has asked to be woken.
    sleeps: bool,
}

impl<W: Words, const N: usize> Reader<W, N> {
    /// The reader of a ring of which nothing was taken.
    ///
    /// # Panics
    /// As [`Writer::new`].
    pub fn new(memory: W, entries: usize) -> Self {
        assert!(entries.is_power_of_two() && memory.words().len() == words::<N>(entries));
        Self {
            memory,
            entries: entries as u64,
            taken: 0,
            told: 0,
            drained: 0,
            lags: false,
            sleeps: false,
        }
    }

    /// Takes the next entry.
    #[inline]
    pub fn pop(&mut self) -> Option<[u64; N]> {
        if mem::take(&mut self.sleeps) {
            self.memory.words()[SLEEPS].store(0, Ordering::Relaxed);
        }
        if mem::take(&mut self.lags) {
            (0..LAG).for_each(|_| spin_loop());
        }
        let (stamp, words) = self.next();
        if stamp.load(Ordering::Acquire) != self.taken + 1 {
            self.lags = self.drained != self.taken;
            self.drained = self.taken;
            self.tell();
            return None;
        }
        let entry = std::array::from_fn(|at| words[at].load(Ordering::Relaxed));
        self.taken += 1;
        if self.taken - self.told >= self.entries / 4 {
            self.tell();
        }
        Some(entry)
    }

    /// Whether there is an entry that was not taken.
    pub fn has_next(&self) -> bool {
        self.next().0.load(Ordering::Acquire) == self.taken + 1
    }

    /// Entries taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Asks the writer to wake this reader for the next entry, until it looks for one; gives whether it may sleep, which
    /// it may not if there is one.
    pub fn may_sleep(&mut self) -> bool {
        self.tell();
        self.memory.words()[SLEEPS].store(1, Ordering::Relaxed);
        self.sleeps = true;
        fence(Ordering::SeqCst);
        !self.has_next()
    }

    #[inline]
    fn next(&self) -> (&AtomicU64, &[AtomicU64; N]) {
        let place = (self.taken & (self.entries - 1)) as usize;
        place_of::<N>(self.memory.words(), place)
    }

    /// Tells the writer what was taken.
    #[inline]
    fn tell(&mut self) {
        if self.told != self.taken {
            self.told = self.taken;
            self.memory.words()[0].store(self.taken, Ordering::Release);
        }
    }
}

/// The stamp and the words of an entry.
#[inline]
fn place_of<const N: usize>(words: &[AtomicU64], place: usize) -> (&AtomicU64, &[AtomicU64; N]) {
    let entry = &words[HEAD_WORDS + (N + 1) * place..];
    (&entry[0], entry[1..].first_chunk().expect("the ring has all words of its entries"))
}

#[cfg(test)]
mod memory {
    use super::{AtomicU64, Words, words};
    #[cfg(loom)]
    use loom::sync::Arc;
    #[cfg(not(loom))]
    use std::sync::Arc;

    impl Words for Arc<Vec<AtomicU64>> {
        fn words(&self) -> &[AtomicU64] {
            self
        }
    }

    pub(super) fn ring(entries: usize) -> (Arc<Vec<AtomicU64>>, Arc<Vec<AtomicU64>>) {
        let words = (0..words::<3>(entries)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let words = Arc::new(words);
        (Arc::clone(&words), words)
    }
}

#[cfg(test)]
fn entry(number: u32) -> [u64; 3] {
    [number.into(), 8, (!number).into()]
}

/// Every interleaving of both ends, as far as the memory model allows it: `cargo xtask test` runs it
/// with `--cfg loom`.
#[cfg(all(test, loom))]
mod model {
    use super::*;

    #[test]
    fn entries_come_whole_in_order_and_after_the_data() {
        loom::model(|| {
            let (here, there) = memory::ring(2);
            let data = loom::sync::Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let placed = loom::sync::Arc::clone(&data);
            let writer = loom::thread::spawn(move || {
                let mut writer = Writer::<_, 3>::new(here, 2);
                for number in 1..=3u32 {
                    while !writer.has_room() {
                        loom::thread::yield_now();
                    }
                    placed[number as usize % 2].store(number.into(), Ordering::Relaxed);
                    writer.push(entry(number));
                }
            });
            let mut reader = Reader::<_, 3>::new(there, 2);
            let mut expected = 1;
            while expected <= 3 {
                match reader.pop() {
                    Some(got) => {
                        assert_eq!(got, entry(expected));
                        let data = data[expected as usize % 2].load(Ordering::Relaxed);
                        assert!(data >= expected.into(), "the entry came before its data");
                        expected += 1;
                    }
                    None => loom::thread::yield_now(),
                }
            }
            writer.join().unwrap();
        });
    }

    /// A reader that goes to sleep is woken for each entry that it has not seen before.
    #[test]
    fn no_entry_is_slept_through() {
        loom::model(|| {
            let (here, there) = memory::ring(2);
            let woken = loom::sync::Arc::new(AtomicU64::new(0));
            let wake = loom::sync::Arc::clone(&woken);
            let writer = loom::thread::spawn(move || {
                let mut writer = Writer::<_, 3>::new(here, 2);
                writer.push(entry(1));
                if writer.must_wake() {
                    wake.store(1, Ordering::Release);
                }
            });
            let mut reader = Reader::<_, 3>::new(there, 2);
            let sleeps = reader.may_sleep();
            writer.join().unwrap();
            assert!(!sleeps || woken.load(Ordering::Acquire) == 1, "nobody wakes the reader");
            assert_eq!(reader.pop(), Some(entry(1)));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_writer_stops_where_the_reader_is() {
        let (here, there) = memory::ring(4);
        let (mut writer, mut reader) =
            (Writer::<_, 3>::new(here, 4), Reader::<_, 3>::new(there, 4));
        (0..4).for_each(|number| writer.push(entry(number)));
        assert!(!writer.has_room());
        assert_eq!(reader.pop(), Some(entry(0)));
        assert!(writer.has_room(), "a quarter was taken");
        writer.push(entry(4));
        assert!((1..=4).all(|number| reader.pop() == Some(entry(number))));
        assert_eq!(reader.pop(), None);
    }

    #[test]
    fn a_reader_that_claims_nonsense_has_taken_nothing() {
        let (here, there) = memory::ring(2);
        let mut writer = Writer::<_, 3>::new(here, 2);
        (0..2).for_each(|number| writer.push(entry(number)));
        for claim in [3, u64::MAX, 1 << 63] {
            there[0].store(claim, Ordering::Release);
            assert!(!writer.has_room());
        }
        there[0].store(1, Ordering::Release);
        assert!(writer.has_room());
    }

    proptest! {
        /// Words that a hostile writer fills with anything.
        #[test]
        fn a_reader_takes_any_words(words in prop::collection::vec(any::<u64>(), words::<3>(4))) {
            let (here, there) = memory::ring(4);
            here.iter().zip(words).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
            let mut reader = Reader::<_, 3>::new(there, 4);
            for _ in 0..20 {
                reader.pop();
            }
        }

        #[test]
        fn what_is_pushed_is_popped(steps in prop::collection::vec(any::<bool>(), 1..200)) {
            let (here, there) = memory::ring(8);
            let (mut writer, mut reader) = (Writer::<_, 3>::new(here, 8), Reader::<_, 3>::new(there, 8));
            let (mut pushed, mut popped) = (0, 0);
            for push in steps {
                if push && writer.has_room() {
                    writer.push(entry(pushed));
                    pushed += 1;
                } else if let Some(got) = reader.pop() {
                    prop_assert_eq!(got, entry(popped));
                    popped += 1;
                } else {
                    prop_assert_eq!(pushed, popped);
                }
                prop_assert!(pushed - popped <= 8);
            }
        }
    }
}
