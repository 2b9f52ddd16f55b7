//! Hits of several boards that belong together, as events.

use std::sync::Arc;

use gannet_measure::counter::Counter;
use gannet_wire::na62::Time;
use gannet_wire::na62::m2egp::{self, HITS_MAX};
use gannet_wire::na62::pm_map::BOARDS;

use crate::item::Hits;

/// An event: hits of all boards within a window of time.
#[derive(Clone, Debug)]
pub struct Event {
    /// Time of its first hit, in fine units.
    pub time: u64,
    /// A bit for each board whose data are missing, board 0 the lowest.
    pub missing: u8,
    counts: [usize; BOARDS],
    hits: [[u16; HITS_MAX]; BOARDS],
}

impl Event {
    fn new() -> Self {
        Self { time: 0, missing: 0, counts: [0; BOARDS], hits: [[0; HITS_MAX]; BOARDS] }
    }

    /// Hits of all boards.
    pub fn len(&self) -> usize {
        self.counts.iter().sum()
    }

    /// The channels of the hits of each board.
    pub fn boards(&self) -> [&[u16]; BOARDS] {
        std::array::from_fn(|board| &self.hits[board][..self.counts[board]])
    }

    /// Lays it out as M2EGP, and gives the bytes that it takes.
    pub fn lay_out(&self, bytes: &mut [u8; m2egp::EVENT_LEN_MAX]) -> usize {
        let counts = self.counts.map(|count| count as u8);
        let mut header = m2egp::HeaderRepr::new(Time::from_fine_units(self.time), counts);
        header.missing = self.missing;
        m2egp::emit(&header, self.boards().into_iter().flatten().copied(), bytes)
    }

    fn begin(&mut self, time: u64) {
        (self.time, self.missing, self.counts) = (time, 0, [0; BOARDS]);
    }

    /// Adds hits, and says how many did not fit.
    fn add(&mut self, hits: &Hits) -> usize {
        let board = usize::from(hits.board) % BOARDS;
        let room = HITS_MAX - self.len();
        let taken = &hits.channels()[..hits.channels().len().min(room)];
        let at = self.counts[board];
        self.hits[board][at..at + taken.len()].copy_from_slice(taken);
        self.counts[board] += taken.len();
        hits.channels().len() - taken.len()
    }
}

/// Figures of a builder, which any thread may read.
#[derive(Debug, Default)]
pub struct EventCounters {
    /// Events made.
    pub events: Counter,
    /// Events that miss at least one board.
    pub incomplete: Counter,
    /// Hits beyond the 255 that an event holds.
    pub hits_cut: Counter,
}

/// Makes events of hits that come in the order of time. Hits no later than a window after the first of
/// an event are of this event.
#[derive(Debug)]
pub struct EventBuilder {
    window: u64,
    event: Box<Event>,
    is_open: bool,
    counters: Arc<EventCounters>,
}

impl EventBuilder {
    /// A builder of events that are at most `window` fine units long.
    pub fn new(window: u64) -> Self {
        let event = Box::new(Event::new());
        Self { window, event, is_open: false, counters: Arc::default() }
    }

    /// Its figures.
    pub fn counters(&self) -> Arc<EventCounters> {
        Arc::clone(&self.counters)
    }

    /// Takes hits of `time`, which are of the open event unless it [is over](Self::is_over).
    #[inline]
    pub fn take(&mut self, time: u64, hits: &Hits) {
        if !self.is_open {
            self.is_open = true;
            self.event.begin(time);
        }
        let cut = self.event.add(hits);
        if cut > 0 {
            self.counters.hits_cut.add(cut as u64);
        }
    }

    /// Whether there is an open event, and hits of `time`, or later ones, are not of it.
    #[inline]
    pub fn is_over(&self, time: u64) -> bool {
        self.is_open && time.saturating_sub(self.event.time) > self.window
    }

    /// Closes the open event, if there is one. `missing` tells of a time which boards have no data, a bit
    /// for each, board 0 the lowest.
    pub fn close(&mut self, missing: impl FnOnce(u64) -> u8) -> Option<&Event> {
        if !std::mem::take(&mut self.is_open) {
            return None;
        }
        self.event.missing = missing(self.event.time);
        self.counters.events.add(1);
        self.counters.incomplete.add(u64::from(self.event.missing != 0));
        Some(&self.event)
    }

    /// The time of the open event.
    pub fn open_since(&self) -> Option<u64> {
        self.is_open.then_some(self.event.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item;

    fn hits(board: u8, channels: &[u16]) -> Hits {
        let mut all = [0; item::HITS_MAX];
        all[..channels.len()].copy_from_slice(channels);
        Hits { board, part: 0, count: channels.len() as u8, channels: all }
    }

    #[test]
    fn hits_within_the_window_after_the_first_are_one_event() {
        let mut builder = EventBuilder::new(128);
        builder.take(1000, &hits(2, &[7, 8]));
        builder.take(1100, &hits(0, &[1]));
        assert!(!builder.is_over(1128), "hits of its last time may still come");
        builder.take(1128, &hits(2, &[9]));
        assert_eq!(builder.open_since(), Some(1000));
        assert!(builder.is_over(1129));
        let event = builder.close(|_| 0).unwrap();
        assert_eq!((event.time, event.boards()), (1000, [&[1][..], &[], &[7, 8, 9], &[]]));
        assert!(builder.close(|_| 0).is_none() && !builder.is_over(u64::MAX));
        builder.take(1129, &hits(1, &[3]));
        let event = builder.close(|_| 0).unwrap();
        assert_eq!((event.time, event.boards()), (1129, [&[][..], &[3], &[], &[]]));
        assert_eq!(builder.open_since(), None);
    }

    #[test]
    fn hits_beyond_the_largest_event_are_counted() {
        let mut builder = EventBuilder::new(128);
        for part in 0..12 {
            let all = Hits { board: 3, part, count: 25, channels: [5; item::HITS_MAX] };
            builder.take(0, &all);
        }
        let len = builder.close(|time| 1 + time as u8).unwrap().len();
        let counters = builder.counters();
        assert_eq!((len, counters.hits_cut.get()), (255, 12 * 25 - 255));
        assert_eq!((counters.events.get(), counters.incomplete.get()), (1, 1));
    }
}
