//! Several rings an event: circles through triplets of hits, fitted to the hits near them.
//!
//! 16 triplets of hits are taken at a time, or some groups of 16 of which the best of each lane stays. The
//! circles through them are fitted to the hits near them; the one with the most hits near it is a ring, if
//! these are enough. Its hits are closed, and the other circles are asked again what open hits they have;
//! when none has enough, new triplets are taken of the open hits.

mod candidates;
mod circles;
mod hits;
mod pending;
mod triplets;

use super::found::{Event, Found, RINGS_MAX, Ring};
use super::lanes::Lanes;
use super::packet::Packets;
use super::positions::Positions;
use super::{Work, run};
use crate::isa::{Isa, IsaError, Kernel};
use candidates::Candidates;
use circles::Circles;
use hits::{Hits, Table};
use pending::Pending;
use triplets::Triplets;

/// Hits of a ring; more if it is large.
const HITS_MIN: f32 = 5.0;
/// Hits of a ring that is taken without trying as many triplets as allowed.
const HITS_SURE: f32 = 7.0;
/// Hits of a further ring from the same circles.
const HITS_FURTHER: f32 = 7.0;
/// Up to so many open hits, 16 triplets are all that is tried.
const FEW: usize = 8;
/// Up to so many open hits there may be just one ring: 16 triplets are tried first.
const PERHAPS_ONE: usize = 30;
/// Its part of the open hits.
const OF_ONE: f32 = 0.6;

/// Finds up to [`RINGS_MAX`] rings of each event.
///
/// Every instruction set gives the same bits, whatever the other events of the buffer.
#[derive(Clone, Debug)]
pub struct MultiRing {
    table: Box<Table>,
    triplets: Triplets,
    kernel: Kernel,
    hits: Box<Hits>,
    candidates: Box<Candidates>,
}

impl MultiRing {
    /// Sets up the finder.
    ///
    /// # Errors
    ///
    /// When this machine lacks the instruction set.
    pub fn new(positions: &Positions, isa: Isa) -> Result<Self, IsaError> {
        let kernel = Kernel::of(isa)?;
        Ok(Self {
            table: hits::table(positions),
            triplets: Triplets::new(),
            kernel,
            hits: Box::default(),
            candidates: Box::default(),
        })
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.kernel.isa()
    }

    /// Appends the events of `m2egp`, which lie back to back, and their rings. An event that does not fit
    /// the buffer ends it, and is counted.
    ///
    /// With room in `found` nothing is allocated.
    pub fn find(&mut self, m2egp: &[u8], found: &mut Found) {
        self.find_in(m2egp, None, found);
    }

    /// As [`MultiRing::find`], but hits that are more than 1.2 ns apart are not of one ring.
    ///
    /// `times` has a byte for each hit of the buffer, in its order: the time from any moment of its event
    /// on, in units of the fine time. Where it ends, the times are 0.
    pub fn find_with_times(&mut self, m2egp: &[u8], times: &[u8], found: &mut Found) {
        self.find_in(m2egp, Some(times), found);
    }

    fn find_in(&mut self, m2egp: &[u8], times: Option<&[u8]>, found: &mut Found) {
        let Self { table, triplets, kernel, hits, candidates } = self;
        run(*kernel, Find { table, triplets, hits, candidates, m2egp, times, found });
    }
}

struct Find<'a> {
    table: &'a Table,
    triplets: &'a Triplets,
    hits: &'a mut Hits,
    candidates: &'a mut Candidates,
    m2egp: &'a [u8],
    times: Option<&'a [u8]>,
    found: &'a mut Found,
}

impl Work for Find<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { table, triplets, hits, candidates, m2egp, mut times, found } = self;
        let mut packets = Packets::new(m2egp);
        let words = packets.words();
        let mut pending = Pending::default();
        while let Some(packet) = packets.next(&mut found.counts) {
            let first = found.rings.len();
            let of_event = times.map(|times| times.split_at(times.len().min(packet.hits.into())));
            let live = hits.take(table, words, packet, of_event.map(|of| of.0), &mut found.counts);
            // The hits of a time after those of another; without times, all at once.
            let mut done = 0;
            while done < live {
                done = if times.is_some() { hits.open_cluster(done, live) } else { live };
                let rings_max = first + RINGS_MAX;
                search(
                    lanes,
                    triplets,
                    candidates,
                    hits,
                    &mut pending,
                    rings_max,
                    &mut found.rings,
                );
            }
            times = of_event.map(|of| of.1);
            found.events.push(Event {
                time: packet.time,
                first: first as u32,
                rings: (found.rings.len() - first) as u8,
                hits: packet.hits,
            });
        }
        pending.fit(lanes, &mut found.rings);
    }
}

/// Finds rings of the open hits, until there are `rings_max` of all events.
#[inline(always)]
fn search<L: Lanes>(
    lanes: L,
    triplets: &Triplets,
    candidates: &mut Candidates,
    hits: &mut Hits,
    pending: &mut Pending,
    rings_max: usize,
    found: &mut Vec<Ring>,
) {
    let mut thorough = false;
    loop {
        let open = hits.open().len();
        if (open as f32) < HITS_MIN || found.len() >= rings_max {
            break;
        }
        thorough |= open <= FEW;
        let one_group = open <= if thorough { FEW } else { PERHAPS_ONE };
        let groups = if one_group {
            1
        } else if thorough {
            triplets::GROUPS
        } else {
            4
        };
        let circles = Circles::of(lanes, triplets, groups, candidates, hits);
        let mut needed = match (thorough, one_group) {
            (true, _) => HITS_MIN,
            (false, true) => HITS_MIN.max(OF_ONE * open as f32),
            (false, false) => HITS_SURE,
        };
        let before = found.len();
        // What is left of most events is too few hits for another ring.
        while found.len() < rings_max && hits.open().len() as f32 >= needed {
            let (lane, count) = circles.best(lanes, hits);
            if count < needed {
                break;
            }
            let [x, y, radius] = circles.lane(lane);
            let (sum, hits) = hits.close(lane);
            pending.add(lanes, sum, Ring { x, y, radius, hits: hits as u16 }, found);
            needed = HITS_FURTHER;
        }
        if found.len() == before {
            if thorough {
                break;
            }
            thorough = true;
        }
    }
}
