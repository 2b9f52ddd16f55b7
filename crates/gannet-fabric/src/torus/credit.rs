//! How many events each side may send to the other, by words in memory that both can write.
//!
//! ```text
//! byte  0                   64
//!       | words of the      | words of this side,
//!       | other side        | from which it sends
//!
//! words   0 taken (8)   8 nothing of interest (8): what is written there shows that it gets there
//! ```

use std::sync::atomic::Ordering;
use std::time::Duration;

use gannet_memory::SharedRegion;

use crate::endpoint::Failure;

/// Bytes of the words.
pub(super) const WORDS_LEN: usize = 4096;
/// Bytes of a word.
pub(super) const WORD_LEN: u32 = 8;

/// A word: where it is written from here, and where it goes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub source: u64,
    pub target: u64,
}

/// How many events were taken.
pub(super) const TAKEN: Word = Word { source: 64, target: 0 };
/// Nothing of interest.
pub(super) const PROBE: Word = Word { source: 72, target: 8 };

/// No room for events of this side.
#[derive(Clone, Copy, Debug)]
struct Full {
    taken: u64,
    since: u64,
}

/// Events to and from another endpoint.
#[derive(Debug)]
pub(super) struct Credit {
    words: SharedRegion,
    /// Events that may wait here, and there.
    own_events: u64,
    far_events: u64,
    /// Events sent.
    pub posted: u64,
    /// Events taken, and how many of them the other side was told.
    pub taken: u64,
    told: u64,
    full: Option<Full>,
}

impl Credit {
    pub fn new(words: SharedRegion, own_events: u64, far_events: u64) -> Self {
        Self { words, own_events, far_events, posted: 0, taken: 0, told: 0, full: None }
    }

    fn far_taken(&self) -> u64 {
        u64::from_le(self.words.words(TAKEN.target as usize, 1)[0].load(Ordering::Acquire))
    }

    /// Whether the other side has room for one more event.
    #[inline]
    pub fn has_room(&self) -> bool {
        // Who says that it has taken what was not sent gets no more.
        self.posted.checked_sub(self.far_taken()).is_some_and(|waiting| waiting < self.far_events)
    }

    /// Whether it is time for the other side to know how many were taken.
    #[inline]
    pub fn is_to_tell(&self) -> bool {
        self.taken - self.told >= (self.own_events / 4).max(1)
    }

    /// Writes the word that says how many were taken, which is to be sent now.
    pub fn stage(&mut self) {
        let words = self.words.words(TAKEN.source as usize, 1);
        words[0].store(self.taken.to_le(), Ordering::Release);
        self.told = self.taken;
    }

    /// Refuses one that has taken no event for longer than the deadline while there was no room for more.
    pub fn watch(&mut self, now: u64, deadline: Duration) -> Result<(), Failure> {
        let taken = self.far_taken();
        match self.full {
            _ if self.has_room() => self.full = None,
            Some(full) if full.taken == taken => {
                if now.saturating_sub(full.since) > deadline.as_nanos() as u64 {
                    return Err(Failure::Unresponsive);
                }
            }
            _ => self.full = Some(Full { taken, since: now }),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_nothing_is_given_up_once_it_has_no_room() {
        let words = SharedRegion::new(WORDS_LEN).unwrap();
        let far = words.again().unwrap();
        let mut credit = Credit::new(words, 8, 4);
        let say = |taken: u64| far.words(0, 1)[0].store(taken.to_le(), Ordering::Release);
        let deadline = Duration::from_nanos(100);
        credit.posted = 3;
        assert!(credit.has_room() && credit.watch(1000, deadline).is_ok());
        credit.posted = 4;
        assert!(!credit.has_room() && credit.watch(2000, deadline).is_ok());
        assert!(credit.watch(2100, deadline).is_ok());
        assert_eq!(credit.watch(2101, deadline), Err(Failure::Unresponsive));
        say(1);
        assert!(credit.has_room() && credit.watch(2101, deadline).is_ok());
        credit.posted = 5;
        assert!(credit.watch(3000, deadline).is_ok() && credit.watch(3100, deadline).is_ok());
        // What was not sent cannot have been taken.
        say(6);
        assert!(!credit.has_room());
    }

    #[test]
    fn what_was_taken_is_told_by_quarters() {
        let mut credit = Credit::new(SharedRegion::new(WORDS_LEN).unwrap(), 8, 4);
        credit.taken = 1;
        assert!(!credit.is_to_tell());
        credit.taken = 2;
        assert!(credit.is_to_tell());
        credit.stage();
        assert!(!credit.is_to_tell());
        assert_eq!(credit.words.words(64, 1)[0].load(Ordering::Relaxed), 2u64.to_le());
    }
}
