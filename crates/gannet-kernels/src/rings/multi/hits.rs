//! The hits of an event that no ring has yet.

use crate::rings::fit::UNIT;
use crate::rings::fit::moments;
use crate::rings::found::Counts;
use crate::rings::packet::{self, Packet, WORD_HITS};
use crate::rings::positions::{CHANNELS, Positions};

/// Most hits of an event.
pub(super) const HITS_MAX: usize = u8::MAX as usize;
/// Hits farther apart in time than this are of different particles: 1.2 ns, in units of the fine time.
const GAP_MAX: u8 = 12;

/// What a hit adds to sums: its position first, then the square of its distance from the origin.
pub(super) type Hit = [f32; 8];

/// What hits on each channel add; no numbers for dead channels.
pub(super) type Table = [Hit; CHANNELS];

/// The table for positions.
pub(super) fn table(positions: &Positions) -> Box<Table> {
    let mut table = Box::new([[f32::NAN; 8]; CHANNELS]);
    for (channel, hit) in table.iter_mut().enumerate() {
        if let Some([x, y]) = positions.get(channel as u16) {
            *hit = moments(x / UNIT, y / UNIT);
        }
    }
    table
}

/// Hits of an event, or of those of one time.
#[derive(Clone, Debug)]
pub(super) struct Hits {
    all: [Hit; HITS_MAX],
    open: usize,
    /// A bit for each circle that an open hit is near.
    near: [u16; HITS_MAX],
    /// Hits of the ring in hand.
    closed: [Hit; HITS_MAX],
    /// Hits of the event in order of time: of each the time, and its place in `all` below.
    by_time: [u16; HITS_MAX],
    event: [Hit; HITS_MAX],
}

impl Default for Hits {
    fn default() -> Self {
        let hits = [[0.0; 8]; HITS_MAX];
        let (near, by_time) = ([0; HITS_MAX], [0; HITS_MAX]);
        Self { all: hits, open: 0, near, closed: hits, by_time, event: hits }
    }
}

impl Hits {
    /// Takes the hits of an event on live channels. With the time of each hit, notes the order of time.
    /// Returns their number.
    #[inline(always)]
    pub fn take(
        &mut self,
        table: &Table,
        words: &[[u8; 16]],
        packet: Packet,
        times: Option<&[u8]>,
        counts: &mut Counts,
    ) -> usize {
        let (mut left, mut live) = (usize::from(packet.hits), 0);
        for (number, word) in words.iter().skip(packet.start).take(packet.words()).enumerate() {
            for (hit, &channel) in packet::hits(word).iter().take(left).enumerate() {
                let Some(&sums) = table.get(usize::from(channel)) else {
                    counts.unknown_channels += 1;
                    continue;
                };
                let place = live.min(HITS_MAX - 1);
                self.all[place] = sums;
                if let Some(times) = times {
                    let time = times.get(number * WORD_HITS + hit).copied().unwrap_or_default();
                    self.by_time[place] = u16::from_be_bytes([time, place as u8]);
                }
                let is_live = usize::from(!sums[0].is_nan());
                counts.dead_hits += 1 - is_live as u64;
                live += is_live;
            }
            left = left.saturating_sub(WORD_HITS);
        }
        self.open = live;
        if times.is_some() {
            self.event[..live].copy_from_slice(&self.all[..live]);
            self.by_time[..live].sort_unstable();
        }
        live
    }

    /// Opens the hits of the event, in order of time from `first` on, that have no gap in time between
    /// them. Returns where the next begin.
    pub fn open_cluster(&mut self, first: usize, live: usize) -> usize {
        let by_time = &self.by_time[first..live];
        let time = |hit: u16| hit.to_be_bytes()[0];
        let gap = by_time.windows(2).position(|pair| time(pair[1]) - time(pair[0]) > GAP_MAX);
        let cluster = &by_time[..gap.map_or(by_time.len(), |last| last + 1)];
        for (open, hit) in self.all.iter_mut().zip(cluster) {
            *open = self.event[usize::from(hit.to_be_bytes()[1]) % HITS_MAX];
        }
        self.open = cluster.len();
        first + cluster.len()
    }

    /// The open hits.
    #[inline(always)]
    pub fn open(&self) -> &[Hit] {
        &self.all[..self.open.min(HITS_MAX)]
    }

    /// The open hits, and a note for each of the circles that it is near.
    #[inline(always)]
    pub fn open_and_near(&mut self) -> (&[Hit], &mut [u16]) {
        let open = self.open.min(HITS_MAX);
        (&self.all[..open], &mut self.near[..open])
    }

    /// Closes the hits that are near the circle of a lane. Returns their sum and number.
    #[inline(always)]
    pub fn close(&mut self, lane: usize) -> (Hit, usize) {
        let Self { all, open, near, closed, .. } = self;
        let (mut kept, mut count) = (0, 0);
        // Each hit goes to both places: which of them counts cannot be predicted.
        for (at, near) in near.iter().enumerate().take((*open).min(HITS_MAX)) {
            let (hit, near) = (all[at], usize::from(near >> lane & 1));
            all[kept.min(at)] = hit;
            closed[count.min(at)] = hit;
            (kept, count) = (kept + 1 - near, count + near);
        }
        *open = kept;
        let mut sum = [0.0; 8];
        for hit in closed.iter().take(count) {
            for (sum, x) in sum.iter_mut().zip(hit) {
                *sum += x;
            }
        }
        (sum, count)
    }
}
