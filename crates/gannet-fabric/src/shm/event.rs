//! Events in a ring of shared memory.

use crate::endpoint::Key;

/// Words of an event in the ring.
pub(super) const WORDS: usize = 3;

/// That bytes were placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub key: Key,
    pub offset: u64,
    pub bytes: u32,
    pub immediate: u32,
}

impl From<Event> for [u64; WORDS] {
    #[inline]
    fn from(Event { key, offset, bytes, immediate }: Event) -> Self {
        [key.0, offset, u64::from(bytes) << 32 | u64::from(immediate)]
    }
}

impl From<[u64; WORDS]> for Event {
    #[inline]
    fn from([key, offset, rest]: [u64; WORDS]) -> Self {
        Self { key: Key(key), offset, bytes: (rest >> 32) as u32, immediate: rest as u32 }
    }
}
