//! A ring of events in shared memory, with one writer and one reader.
//!
//! ```text
//! word  0            how many events the reader has taken      (a cache line of its own)
//!       8 + 4 i      stamp of entry i: how many events were written with it
//!       9 + 4 i      key       10 + 4 i  offset      11 + 4 i  bytes (high half), immediate (low half)
//! ```
//!
//! An entry is there when its stamp is the one the reader waits for, so a reader that waits looks at
//! one cache line only, and takes the event from it. The reader tells what it took now and then, not for
//! each event. Nothing that the other side writes is used as an index or a length.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
use std::hint::spin_loop;
use std::mem;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use crate::endpoint::Key;

/// Words before the first entry.
const HEAD_WORDS: usize = 8;
/// Words of an entry.
const ENTRY_WORDS: usize = 4;

/// Pauses before a reader that took all there was looks again, about 100 ns. A look takes the cache line of the
/// next entry away from a writer that is about to write it, which costs it more than an event does.
/// An answer to the event just taken cannot come sooner.
const LAG: u32 = 4;

/// Words of a ring of `entries` entries.
pub(crate) const fn words(entries: usize) -> usize {
    HEAD_WORDS + ENTRY_WORDS * entries
}

/// Memory in which a ring lies, zero at first.
pub(crate) trait Words {
    /// All of its words.
    fn words(&self) -> &[AtomicU64];
}

/// That bytes were placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub key: Key,
    pub offset: u64,
    pub bytes: u32,
    pub immediate: u32,
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    memory: W,
    entries: u64,
    written: u64,
    /// What the reader has told to have taken.
    taken: u64,
}

impl<W: Words> Writer<W> {
    /// The writer of a ring that nobody has written.
    ///
    /// # Panics
    /// When the memory has not the words of `entries` entries, or `entries` is no power of two.
    pub fn new(memory: W, entries: usize) -> Self {
        assert!(entries.is_power_of_two() && memory.words().len() == words(entries));
        Self { memory, entries: entries as u64, written: 0, taken: 0 }
    }

    /// Whether an event finds room.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        if self.written - self.taken < self.entries {
            return true;
        }
        let taken = self.memory.words()[0].load(Ordering::Acquire);
        // A reader that claims nonsense has taken nothing.
        if (self.taken..=self.written).contains(&taken) {
            self.taken = taken;
        }
        self.written - self.taken < self.entries
    }

    /// Events written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Events that the reader has told to have taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Writes an event; all that was written to shared memory before is seen by who takes it.
    ///
    /// # Panics
    /// When there is no room.
    #[inline]
    pub fn push(&mut self, event: Event) {
        assert!(self.has_room(), "the ring of events is full");
        let place = (self.written & (self.entries - 1)) as usize;
        let [stamp, key, offset, rest] = entry(self.memory.words(), place);
        key.store(event.key.0, Ordering::Relaxed);
        offset.store(event.offset, Ordering::Relaxed);
        let bytes = u64::from(event.bytes) << 32;
        rest.store(bytes | u64::from(event.immediate), Ordering::Relaxed);
        self.written += 1;
        stamp.store(self.written, Ordering::Release);
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Reader<W> {
    memory: W,
    entries: u64,
    taken: u64,
    /// What was told to the writer.
    told: u64,
    /// What was taken when last there was no event.
    drained: u64,
    /// Whether to let the writer get ahead before the next look.
    lags: bool,
}

impl<W: Words> Reader<W> {
    /// The reader of a ring of which nothing was taken.
    ///
    /// # Panics
    /// As [`Writer::new`].
    pub fn new(memory: W, entries: usize) -> Self {
        assert!(entries.is_power_of_two() && memory.words().len() == words(entries));
        Self { memory, entries: entries as u64, taken: 0, told: 0, drained: 0, lags: false }
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        if mem::take(&mut self.lags) {
            (0..LAG).for_each(|_| spin_loop());
        }
        let place = (self.taken & (self.entries - 1)) as usize;
        let [stamp, key, offset, rest] = entry(self.memory.words(), place);
        if stamp.load(Ordering::Acquire) != self.taken + 1 {
            self.lags = self.drained != self.taken;
            self.drained = self.taken;
            self.tell();
            return None;
        }
        let rest = rest.load(Ordering::Relaxed);
        let event = Event {
            key: Key(key.load(Ordering::Relaxed)),
            offset: offset.load(Ordering::Relaxed),
            bytes: (rest >> 32) as u32,
            immediate: rest as u32,
        };
        self.taken += 1;
        if self.taken - self.told >= self.entries / 4 {
            self.tell();
        }
        Some(event)
    }

    /// Events taken.
    pub fn taken(&self) -> u64 {
        self.taken
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

/// The words of an entry.
#[inline]
fn entry(words: &[AtomicU64], place: usize) -> &[AtomicU64; ENTRY_WORDS] {
    let (entries, _) = words[HEAD_WORDS..].as_chunks::<ENTRY_WORDS>();
    &entries[place]
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
        let words = (0..words(entries)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let words = Arc::new(words);
        (Arc::clone(&words), words)
    }
}

#[cfg(test)]
fn event(number: u32) -> Event {
    Event { key: Key(number.into()), offset: 8, bytes: number, immediate: !number }
}

/// Every interleaving of both ends, as far as the memory model allows it: `cargo xtask test` runs it
/// with `--cfg loom`.
#[cfg(all(test, loom))]
mod model {
    use super::*;

    #[test]
    fn events_come_whole_in_order_and_after_the_data() {
        loom::model(|| {
            let (here, there) = memory::ring(2);
            let data = loom::sync::Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let placed = loom::sync::Arc::clone(&data);
            let writer = loom::thread::spawn(move || {
                let mut writer = Writer::new(here, 2);
                for number in 1..=3u32 {
                    while !writer.has_room() {
                        loom::thread::yield_now();
                    }
                    placed[number as usize % 2].store(number.into(), Ordering::Relaxed);
                    writer.push(event(number));
                }
            });
            let mut reader = Reader::new(there, 2);
            let mut expected = 1;
            while expected <= 3 {
                match reader.pop() {
                    Some(got) => {
                        assert_eq!(got, event(expected));
                        let data = data[expected as usize % 2].load(Ordering::Relaxed);
                        assert!(data >= expected.into(), "the event came before its data");
                        expected += 1;
                    }
                    None => loom::thread::yield_now(),
                }
            }
            writer.join().unwrap();
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
        let (mut writer, mut reader) = (Writer::new(here, 4), Reader::new(there, 4));
        (0..4).for_each(|number| writer.push(event(number)));
        assert!(!writer.has_room());
        assert_eq!(reader.pop(), Some(event(0)));
        assert!(writer.has_room(), "a quarter was taken");
        writer.push(event(4));
        assert!((1..=4).all(|number| reader.pop() == Some(event(number))));
        assert_eq!(reader.pop(), None);
    }

    #[test]
    fn a_reader_that_claims_nonsense_has_taken_nothing() {
        let (here, there) = memory::ring(2);
        let mut writer = Writer::new(here, 2);
        (0..2).for_each(|number| writer.push(event(number)));
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
        fn a_reader_takes_any_words(words in prop::collection::vec(any::<u64>(), words(4))) {
            let (here, there) = memory::ring(4);
            here.iter().zip(words).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
            let mut reader = Reader::new(there, 4);
            for _ in 0..20 {
                reader.pop();
            }
        }

        #[test]
        fn what_is_pushed_is_popped(steps in prop::collection::vec(any::<bool>(), 1..200)) {
            let (here, there) = memory::ring(8);
            let (mut writer, mut reader) = (Writer::new(here, 8), Reader::new(there, 8));
            let (mut pushed, mut popped) = (0, 0);
            for push in steps {
                if push && writer.has_room() {
                    writer.push(event(pushed));
                    pushed += 1;
                } else if let Some(got) = reader.pop() {
                    prop_assert_eq!(got, event(popped));
                    popped += 1;
                } else {
                    prop_assert_eq!(pushed, popped);
                }
                prop_assert!(pushed - popped <= 8);
            }
        }
    }
}
