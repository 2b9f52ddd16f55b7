//! Events in registered memory: what tells the other side of a PUT.
//!
//! ```text
//! byte  0                   64            64 + 32 n         128 + 32 n
//!       | words of the      | its events, | words of this   | own events, as many as
//!       | other side        | n of them   | side            | may be under way
//!
//! words   0 taken (8)   8 barrier (8)   16 probe (8)
//! event   0 key (8)   8 offset (8)   16 bytes (4)   20 immediate (4)   24 number (8)
//! ```
//!
//! Numbers are little-endian. The other side writes an event with its number, modulo 2^32, as data of the
//! completion. In which order completions come does not matter: events are taken by number.

use std::sync::atomic::Ordering;

use gannet_memory::{RegionError, SharedRegion};

use crate::endpoint::{Failure, Key};

/// Bytes of an event.
pub(super) const EVENT_LEN: usize = 32;
/// Bytes of the words at each begin.
const WORDS_LEN: usize = 64;

/// Words that the other side writes, and where they are written from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// How many events it has taken.
    Taken,
    /// Nothing of interest: it is done when all before it is.
    Barrier,
    /// That it gets here.
    Probe,
}

impl Word {
    /// Where it is written.
    pub fn place(self) -> u64 {
        match self {
            Self::Taken => 0,
            Self::Barrier => 8,
            Self::Probe => 16,
        }
    }
}

/// A PUT that is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub key: Key,
    pub offset: u64,
    pub bytes: u32,
    pub immediate: u32,
}

/// Events to and from another endpoint.
#[derive(Debug)]
pub(super) struct Ring {
    region: SharedRegion,
    /// Events of the other side that find room here, and of this side that may be under way.
    entries: usize,
    slots: usize,
    /// Events of this side that find room there.
    far_entries: u64,
    /// Events written there.
    posted: u64,
    /// Which of the events here have come, by place; how many were taken, and how many of them it was told.
    come: Vec<bool>,
    taken: u64,
    told: u64,
}

impl Ring {
    /// A ring of `entries`, a power of two, with `slots` own events under way.
    pub fn new(entries: usize, slots: usize) -> Result<Self, RegionError> {
        let region = SharedRegion::new(2 * WORDS_LEN + (entries + slots) * EVENT_LEN)?;
        let come = vec![false; entries];
        let ring =
            Self { region, entries, slots, far_entries: 1, posted: 0, come, taken: 0, told: 0 };
        ring.region.write(ring.source(Word::Probe), &PROBE.to_le_bytes());
        Ok(ring)
    }

    pub fn region(&self) -> &SharedRegion {
        &self.region
    }

    /// Bytes that the other side writes, from the begin on.
    pub fn lent(&self) -> usize {
        WORDS_LEN + self.entries * EVENT_LEN
    }

    /// Where a word is written from.
    pub fn source(&self, word: Word) -> usize {
        self.lent() + word.place() as usize
    }

    /// Takes what the other side says of its own ring; gives whether it can be one.
    pub fn join(&mut self, far_entries: u32) -> bool {
        self.far_entries = far_entries.into();
        far_entries.is_power_of_two() && (2..=1 << 20).contains(&far_entries)
    }

    /// Entries of the ring of this side.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Whether the other side's probe has come.
    pub fn is_probed(&self) -> bool {
        self.word(Word::Probe) == PROBE
    }

    fn word(&self, word: Word) -> u64 {
        u64::from_le(self.region.words(word.place() as usize, 1)[0].load(Ordering::Acquire))
    }

    /// How many of the events written were taken; more than written when the other side lies.
    pub fn far_taken(&self) -> u64 {
        self.word(Word::Taken)
    }

    #[inline]
    pub fn has_room(&self) -> bool {
        // Who says that it has taken what was not written gets no more.
        self.posted.checked_sub(self.far_taken()).is_some_and(|waiting| waiting < self.far_entries)
    }

    /// Events written.
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// Events taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Writes the next event here; gives where it is, where it goes, and its number.
    #[inline]
    pub fn write(&mut self, event: &Event) -> (usize, u64, u64) {
        let number = self.posted;
        let place = WORDS_LEN as u64 + number % self.far_entries * EVENT_LEN as u64;
        let slot = (number % self.slots as u64) as usize;
        let from = self.lent() + WORDS_LEN + slot * EVENT_LEN;
        let mut bytes = [0; EVENT_LEN];
        bytes[..8].copy_from_slice(&event.key.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&event.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&event.bytes.to_le_bytes());
        bytes[20..24].copy_from_slice(&event.immediate.to_le_bytes());
        bytes[24..].copy_from_slice(&number.to_le_bytes());
        self.region.write(from, &bytes);
        (from, place, number)
    }

    /// Counts the event that was written, when it is under way.
    #[inline]
    pub fn advance(&mut self) {
        self.posted += 1;
    }

    /// Notes that an event has come, as the data of a completion say.
    #[inline]
    pub fn note(&mut self, data: u64) -> Result<(), Failure> {
        let ahead = (data as u32).wrapping_sub(self.taken as u32) as usize;
        let place = (self.taken as usize + ahead) % self.entries;
        if ahead >= self.entries || self.come[place] {
            return Err(Failure::Protocol);
        }
        self.come[place] = true;
        Ok(())
    }

    /// The next event, if it has come.
    #[inline]
    pub fn take(&mut self) -> Result<Option<Event>, Failure> {
        let place = self.taken as usize % self.entries;
        if !self.come[place] {
            return Ok(None);
        }
        self.come[place] = false;
        let mut bytes = [0; EVENT_LEN];
        self.region.read(WORDS_LEN + place * EVENT_LEN, &mut bytes);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        if word(24) != self.taken {
            return Err(Failure::Protocol);
        }
        self.taken += 1;
        let (key, offset, last) = (Key(word(0)), word(8), word(16));
        Ok(Some(Event { key, offset, bytes: last as u32, immediate: (last >> 32) as u32 }))
    }

    /// Whether it is time for the other side to know how many were taken.
    #[inline]
    pub fn is_to_tell(&self) -> bool {
        self.taken - self.told >= (self.entries as u64 / 4).max(1)
    }

    /// Writes the word that says how many were taken, to be sent.
    pub fn stage(&self) {
        let words = self.region.words(self.source(Word::Taken), 1);
        words[0].store(self.taken.to_le(), Ordering::Release);
    }

    /// Notes that the word was sent.
    pub fn told(&mut self) {
        self.told = self.taken;
    }
}

/// What a probe writes.
const PROBE: u64 = u64::from_le_bytes(*b"gannet\0\x01");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENTRIES: usize = 8;

    fn ring() -> Ring {
        let mut ring = Ring::new(ENTRIES, 4).unwrap();
        assert!(ring.join(ENTRIES as u32));
        ring
    }

    /// Moves a word as a provider would.
    fn carry_word(from: &Ring, to: &Ring, word: Word) {
        from.region().copy_to(from.source(word), to.region(), word.place() as usize, 8);
    }

    fn event(number: u32) -> Event {
        Event { key: Key(7), offset: u64::from(number) << 33, bytes: number, immediate: !number }
    }

    proptest! {
        /// In whatever order completions come, events come in the order of posting, and none before its completion.
        #[test]
        fn events_are_taken_by_number(orders in prop::collection::vec(Just([0, 1, 2, 3]).prop_shuffle(), 1..20)) {
            let (mut here, mut there) = (ring(), ring());
            let mut number = 0;
            for order in orders {
                let written = order.map(|_| {
                    prop_assert!(here.has_room());
                    let (from, to, data) = here.write(&event(here.posted() as u32));
                    here.advance();
                    here.region().copy_to(from, there.region(), to as usize, EVENT_LEN);
                    Ok(data)
                });
                let written = written.into_iter().collect::<Result<Vec<_>, TestCaseError>>()?;
                for place in order {
                    there.note(written[place]).unwrap();
                    while let Some(taken) = there.take().unwrap() {
                        prop_assert_eq!(taken, event(number));
                        number += 1;
                    }
                }
                prop_assert_eq!(u64::from(number), here.posted());
                if there.is_to_tell() {
                    there.stage();
                    carry_word(&there, &here, Word::Taken);
                    there.told();
                }
            }
        }
    }

    #[test]
    fn a_full_ring_has_room_when_events_were_taken() {
        let (mut here, there) = (ring(), ring());
        for _ in 0..ENTRIES {
            assert!(here.has_room());
            here.write(&event(0));
            here.advance();
        }
        assert!(!here.has_room());
        for (taken, has_room) in [(1, true), (0, false), (9, false), (u64::MAX, false)] {
            there.region().words(there.source(Word::Taken), 1)[0].store(taken, Ordering::Release);
            carry_word(&there, &here, Word::Taken);
            assert_eq!(here.has_room(), has_room, "{taken} taken");
        }
    }

    #[test]
    fn what_cannot_have_come_is_refused() {
        let mut ring = ring();
        assert_eq!(ring.note(ENTRIES as u64), Err(Failure::Protocol), "too far ahead");
        assert_eq!(ring.note(u64::MAX), Err(Failure::Protocol), "taken already");
        ring.note(1).unwrap();
        assert_eq!(ring.note(1), Err(Failure::Protocol), "it has come");
        assert_eq!(ring.take(), Ok(None));
        let mut sender = self::ring();
        for _ in 0..2 {
            sender.write(&event(5));
            sender.advance();
        }
        // What lies there has another number than its completion says.
        let (from, _, _) = sender.write(&event(5));
        sender.region().copy_to(from, ring.region(), WORDS_LEN, EVENT_LEN);
        ring.note(0).unwrap();
        assert_eq!(ring.take(), Err(Failure::Protocol));
        for entries in [0, 1, 3, 1 << 21, u32::MAX] {
            assert!(!ring.join(entries), "{entries}");
        }
    }

    #[test]
    fn a_probe_is_seen_when_it_has_come() {
        let (here, there) = (ring(), ring());
        assert!(!there.is_probed());
        carry_word(&here, &there, Word::Probe);
        assert!(there.is_probed());
    }
}
