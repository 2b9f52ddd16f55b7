//! Hits of several boards that belong together, as events.

use std::sync::Arc;

use gannet_measure::counter::Counter;
use gannet_wire::na62::Time;
use gannet_wire::na62::m2egp::{self, HITS_MAX};
use gannet_wire::na62::pm_map::BOARDS;

use crate::item::{self, Hits};

/// An event: hits of all boards within a window of time.
#[derive(Clone, Debug)]
pub struct Event {
    /// Time of its first hit, in fine units.
    pub time: u64,
    /// A bit for each board whose data are missing, board 0 the lowest.
    pub missing: u8,
    counts: [usize; BOARDS],
    /// The hits of each board, as bytes in their order, and room for what is copied with the last of them.
    hits: [[u8; HIT_LEN * (HITS_MAX + item::HITS_MAX)]; BOARDS],
}

/// Bytes of a hit.
const HIT_LEN: usize = 2;

impl Event {
    fn new() -> Self {
        Self { time: 0, missing: 0, counts: [0; BOARDS], hits: [[0; _]; BOARDS] }
    }

    /// Hits of all boards.
    pub fn len(&self) -> usize {
        self.counts.iter().sum()
    }

    /// The channels of the hits of each board, as bytes.
    pub fn boards(&self) -> [&[u8]; BOARDS] {
        std::array::from_fn(|board| &self.hits[board][..HIT_LEN * self.counts[board]])
    }

    /// Lays it out as M2EGP, and gives the bytes that it takes.
    pub fn lay_out(&self, bytes: &mut [u8; m2egp::EVENT_LEN_MAX]) -> usize {
        let counts = self.counts.map(|count| count as u8);
        let mut header = m2egp::HeaderRepr::new(Time::from_fine_units(self.time), counts);
        header.missing = self.missing;
        m2egp::emit_bytes(&header, self.boards(), bytes)
    }

    fn begin(&mut self, time: u64) {
        (self.time, self.missing, self.counts) = (time, 0, [0; BOARDS]);
    }

    /// Adds hits, and says how many did not fit.
    fn add(&mut self, hits: Hits<'_>) -> usize {
        let board = usize::from(hits.board) % BOARDS;
        let count = hits.channels().len();
        let taken = count.min(HITS_MAX - self.len());
        let at = HIT_LEN * self.counts[board];
        let places = self.hits[board][at..].first_chunk_mut::<{ HIT_LEN * item::HITS_MAX }>();
        let places = places.expect("room for an item behind the most hits");
        for (place, channel) in places.as_chunks_mut().0.iter_mut().zip(hits.padded()) {
            *place = channel.to_le_bytes();
        }
        self.counts[board] += taken;
        count - taken
    }
}

/// Which boards have no data of a time.
#[derive(Debug, Default)]
pub struct Missing {
    /// Since when and up to when data of each board are missing.
    pub gaps: [(u64, u64); BOARDS],
    /// Up to where each board was searched.
    pub searched_to: [u64; BOARDS],
}

impl Missing {
    /// A bit for each board without data of `time`, board 0 the lowest.
    #[inline]
    pub fn at(&self, time: u64) -> u8 {
        let is_missing = |board: &usize| {
            let (since, until) = self.gaps[*board];
            self.searched_to[*board] <= time || (since..until).contains(&time)
        };
        (0..BOARDS).filter(is_missing).fold(0, |mask, board| mask | 1 << board)
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
    pub fn take(&mut self, time: u64, hits: Hits<'_>) {
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
    use crate::item::{RichItem, What};

    fn take(builder: &mut EventBuilder, time: u64, board: u8, own: &[u16]) {
        let mut channels = [0xffff; item::HITS_MAX];
        channels[..own.len()].copy_from_slice(own);
        let item = RichItem::hits(time, board, 0, own.len() as u8, channels);
        let What::Hits(hits) = item.what() else { panic!("{item:?}") };
        builder.take(time, hits);
    }

    fn closed(builder: &mut EventBuilder) -> (u64, [Vec<u16>; BOARDS]) {
        let event = builder.close(|_| 0).unwrap();
        let channels = |bytes: &[u8]| {
            bytes.chunks(2).map(|hit| u16::from_le_bytes([hit[0], hit[1]])).collect()
        };
        (event.time, event.boards().map(channels))
    }

    #[test]
    fn hits_within_the_window_after_the_first_are_one_event() {
        let mut builder = EventBuilder::new(128);
        take(&mut builder, 1000, 2, &[7, 8]);
        take(&mut builder, 1100, 0, &[1]);
        assert!(!builder.is_over(1128), "hits of its last time may still come");
        take(&mut builder, 1128, 2, &[9]);
        assert_eq!(builder.open_since(), Some(1000));
        assert!(builder.is_over(1129));
        assert_eq!(closed(&mut builder), (1000, [vec![1], vec![], vec![7, 8, 9], vec![]]));
        assert!(builder.close(|_| 0).is_none() && !builder.is_over(u64::MAX));
        take(&mut builder, 1129, 1, &[3]);
        assert_eq!(closed(&mut builder), (1129, [vec![], vec![3], vec![], vec![]]));
        assert_eq!(builder.open_since(), None);
    }

    #[test]
    fn hits_beyond_the_largest_event_are_counted() {
        let mut builder = EventBuilder::new(128);
        for _ in 0..30 {
            take(&mut builder, 0, 3, &[5; 10]);
        }
        let len = builder.close(|time| 1 + time as u8).unwrap().len();
        let counters = builder.counters();
        assert_eq!((len, counters.hits_cut.get()), (255, 30 * 10 - 255));
        assert_eq!((counters.events.get(), counters.incomplete.get()), (1, 1));
    }
}
