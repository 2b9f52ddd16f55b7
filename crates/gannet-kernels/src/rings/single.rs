//! One ring an event: sums over its hits, then a fit of 16 events at a time.

use core::array;

use super::fit::{self, Circle, UNIT, moments};
use super::found::{Counts, Event, Found, Ring};
use super::lanes::{LANES, Lanes, Real, row};
use super::packet::{self, Packet, Packets, WORD, WORD_HITS};
use super::positions::{CHANNELS, Positions};
use super::{Method, Work, run};
use crate::isa::{Isa, IsaError, Kernel};

/// Bytes ahead of an event that are fetched into the first-level cache while it is listed.
const NEAR: usize = 512;
/// The same for the second-level cache.
const FAR: usize = 2048;
/// Rows of the table: any 16 bits are the place of eight numbers in it.
const ROWS: usize = (1 << 16) / ROW_LEN + 1;
/// Numbers of a row.
const ROW_LEN: usize = 8;
/// Row of numbers that are no channel's.
const UNKNOWN: u16 = CHANNELS as u16;
/// Row that adds nothing.
const ABSENT: u16 = UNKNOWN + 1;
/// Words of hits of 16 events at most, and of one more.
const WORDS_MAX: usize = (LANES + 1) * u8::MAX as usize / WORD_HITS + LANES + 1;
/// Words that are listed at a time.
const LISTED: usize = 8;
/// Hits from which on there is a ring.
const HITS_MIN: f32 = 4.0;

/// Sums of one hit on each channel, by rows.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Table([[f32; ROW_LEN]; ROWS]);

impl Table {
    /// The row that begins at this number.
    #[inline(always)]
    fn at(&self, place: u16) -> [f32; ROW_LEN] {
        let from = &self.0.as_flattened()[usize::from(place)..];
        *from.first_chunk().unwrap_or(&[f32::NAN; ROW_LEN])
    }
}

/// Finds the one ring of each event.
///
/// Every instruction set gives the same bits, whatever the other events of the buffer.
#[derive(Clone, Debug)]
pub struct SingleRing {
    /// Row of each channel. Rows of dead channels, and of numbers that are none, are no numbers: sums that
    /// are none are made again, without such hits.
    table: Box<Table>,
    method: Method,
    kernel: Kernel,
    group: Box<Group>,
}

impl SingleRing {
    /// Sets up the finder.
    ///
    /// # Errors
    ///
    /// When this machine lacks the instruction set.
    pub fn new(positions: &Positions, method: Method, isa: Isa) -> Result<Self, IsaError> {
        let mut table = Box::new(Table([[f32::NAN; ROW_LEN]; ROWS]));
        for channel in 0..CHANNELS as u16 {
            if let Some([x, y]) = positions.get(channel) {
                table.0[usize::from(channel)] = moments(x / UNIT, y / UNIT);
            }
        }
        table.0[usize::from(ABSENT)] = [0.0; ROW_LEN];
        Ok(Self { table, method, kernel: Kernel::of(isa)?, group: Box::default() })
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.kernel.isa()
    }

    /// Appends the events of `m2egp`, which lie back to back, and the ring of each that has at least four
    /// hits not on a line. An event that does not fit the buffer ends it, and is counted.
    ///
    /// With room in `found` nothing is allocated.
    pub fn find(&mut self, m2egp: &[u8], found: &mut Found) {
        let Self { table, method, kernel, group } = self;
        run(*kernel, Find { table, method: *method, group, m2egp, found });
    }
}

struct Find<'a> {
    table: &'a Table,
    method: Method,
    group: &'a mut Group,
    m2egp: &'a [u8],
    found: &'a mut Found,
}

/// 16 events, and the list of the words of their hits.
#[derive(Clone, Debug)]
struct Group {
    packets: [Packet; LANES],
    /// Index of each word.
    words: [u32; WORDS_MAX],
    /// How many of its hits there are.
    counts: [u8; WORDS_MAX],
    /// Place of its event among the sums.
    places: [u8; WORDS_MAX],
    /// The bits to keep of the sum before: none at the first word of an event.
    kept: [u32; WORDS_MAX],
    /// Where the rows of its hits begin.
    rows: [[u16; WORD_HITS]; WORDS_MAX],
}

/// Hits in each of the first eight words of so many hits.
const COUNTS: [[u8; LISTED]; LISTED * WORD_HITS + 1] = {
    let mut counts = [[0; LISTED]; LISTED * WORD_HITS + 1];
    let mut hits = 1;
    while hits < counts.len() {
        counts[hits] = counts[hits - 1];
        counts[hits][(hits - 1) / WORD_HITS] += 1;
        hits += 1;
    }
    counts
};
/// All bits for the hits of a word of which so many are there.
const THERE: [[u16; WORD_HITS]; WORD_HITS + 1] = {
    let mut there = [[0; WORD_HITS]; WORD_HITS + 1];
    let mut hits = 1;
    while hits < there.len() {
        there[hits] = there[hits - 1];
        there[hits][hits - 1] = u16::MAX;
        hits += 1;
    }
    there
};

impl Default for Group {
    fn default() -> Self {
        Self {
            packets: [Packet { time: 0, hits: 0, start: 0 }; LANES],
            words: [0; WORDS_MAX],
            counts: [0; WORDS_MAX],
            places: [0; WORDS_MAX],
            kept: [0; WORDS_MAX],
            rows: [[0; WORD_HITS]; WORDS_MAX],
        }
    }
}

impl Group {
    /// Takes up to 16 events and lists their words. Returns the numbers of both.
    #[inline(always)]
    fn fill<L: Lanes>(
        &mut self,
        lanes: L,
        packets: &mut Packets<'_>,
        seen: &mut Counts,
    ) -> (usize, usize) {
        let (words, mut listed) = (packets.words().as_ptr().cast::<u8>(), 0);
        for lane in 0..LANES {
            let Some(packet) = packets.next(seen) else { return (lane, listed) };
            self.packets[lane] = packet;
            // An event has two lines of the cache in most cases.
            let reached = words.wrapping_add(packet.start * WORD);
            for line in [0, 64] {
                lanes.prefetch(reached.wrapping_add(NEAR + line));
                lanes.prefetch_far(reached.wrapping_add(FAR + line));
            }
            let (mut hits, mut start) = (usize::from(packet.hits), packet.start as u32);
            let mut kept = [u32::MAX; LISTED];
            kept[0] = 0;
            let end = listed + packet.words();
            // Eight at a time without a look at the number; what is too much is overwritten.
            let mut at = listed;
            loop {
                let to = at..at + LISTED;
                self.words[to.clone()]
                    .copy_from_slice(&array::from_fn::<_, LISTED, _>(|i| start + i as u32));
                self.counts[to.clone()].copy_from_slice(&COUNTS[hits.min(COUNTS.len() - 1)]);
                self.places[to.clone()].copy_from_slice(&[row(lane) as u8; LISTED]);
                self.kept[to].copy_from_slice(&kept);
                at += LISTED;
                if at >= end {
                    break;
                }
                kept = [u32::MAX; LISTED];
                start += LISTED as u32;
                hits -= LISTED * WORD_HITS;
            }
            listed = end;
        }
        (LANES, listed)
    }
}

impl Work for Find<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { table, method, group, m2egp, found } = self;
        let mut packets = Packets::new(m2egp);
        let words = packets.words();
        let mut seen = found.counts;
        loop {
            let (events, listed) = group.fill(lanes, &mut packets, &mut seen);
            if events == 0 {
                break;
            }
            let mut sums = [[0.0_f32; 8]; LANES];
            let mut sum = [0.0_f32; 8];
            let Group { words: indices, counts, places, kept, rows, .. } = &mut *group;
            for ((&index, &count), rows) in
                indices[..listed].iter().zip(&*counts).zip(rows.iter_mut())
            {
                let Some(word) = words.get(index as usize) else { break };
                *rows = rows_of(word, count);
            }
            for ((rows, &place), &kept) in rows[..listed].iter().zip(&*places).zip(&*kept) {
                let added = sum_of(table, *rows);
                for (sum, added) in sum.iter_mut().zip(added) {
                    *sum = f32::from_bits(sum.to_bits() & kept) + added;
                }
                sums[usize::from(place) % LANES] = sum;
            }
            let mut n = [0.0; LANES];
            for (n, packet) in n.iter_mut().zip(&group.packets[..events]) {
                *n = f32::from(packet.hits);
            }
            let mut columns = lanes.columns(&sums);
            let whole = columns[0].abs().less(lanes.splat(f32::INFINITY));
            if L::Real::bits(whole) != u16::MAX {
                for lane in (0..events).filter(|lane| !L::Real::bits(whole) >> lane & 1 == 1) {
                    let live = without_dead(table, words, group.packets[lane], &mut seen);
                    (sums[row(lane)], n[lane]) = live;
                }
                columns = lanes.columns(&sums);
            }
            let circle = fit::fit(lanes, method, lanes.load(&n), &columns);
            put(lanes, &group.packets[..events], circle, &n, found);
        }
        found.counts = seen;
    }
}

/// Appends events and their rings.
#[inline(always)]
fn put<L: Lanes>(
    lanes: L,
    packets: &[Packet],
    circle: Circle<L::Real>,
    n: &[f32; LANES],
    found: &mut Found,
) {
    let unit = lanes.splat(UNIT);
    let radius = circle.rr.sqrt() * unit;
    let enough = lanes.splat(HITS_MIN - 0.5).less(lanes.load(n));
    let is_ring = L::Real::both(radius.less(lanes.splat(f32::INFINITY)), enough);
    let is_ring = L::Real::bits(is_ring);
    let ([mut x, mut y], mut radii) = ([[0.0; LANES]; 2], [0.0; LANES]);
    (circle.x * unit).store(&mut x);
    (circle.y * unit).store(&mut y);
    radius.store(&mut radii);
    let first = found.rings.len();
    let mut rings = [Ring::default(); LANES];
    let mut events = [Event::default(); LANES];
    let mut count = 0;
    for (lane, packet) in packets.iter().enumerate().take(LANES) {
        let here = usize::from(is_ring >> lane & 1);
        rings[count] = Ring { x: x[lane], y: y[lane], radius: radii[lane], hits: n[lane] as u16 };
        let first = (first + count) as u32;
        events[lane] = Event { time: packet.time, first, rings: here as u8, hits: packet.hits };
        count += here;
    }
    found.events.extend_from_slice(&events[..packets.len()]);
    found.rings.extend_from_slice(&rings[..count]);
}

/// Where the rows of the hits of a word begin, of which `count` are there.
#[inline(always)]
fn rows_of(word: &[u8; 16], count: u8) -> [u16; WORD_HITS] {
    let (hits, there) = (packet::hits(word), THERE[usize::from(count).min(WORD_HITS)]);
    let row = |hit: usize| hits[hit].min(UNKNOWN) & there[hit] | ABSENT & !there[hit];
    array::from_fn(|hit| row(hit) * ROW_LEN as u16)
}

/// Sum of eight rows.
#[inline(always)]
fn sum_of(table: &Table, rows: [u16; WORD_HITS]) -> [f32; ROW_LEN] {
    let add = |a: [f32; 8], b: [f32; 8]| array::from_fn(|i| a[i] + b[i]);
    let two = |hit: usize| add(table.at(rows[hit]), table.at(rows[hit + 1]));
    add(add(two(0), two(2)), add(two(4), two(6)))
}

/// The sums of an event, and the number of its hits, without those that are dead or unknown.
#[cold]
fn without_dead(
    table: &Table,
    words: &[[u8; 16]],
    packet: Packet,
    counts: &mut Counts,
) -> ([f32; 8], f32) {
    let (mut sum, mut live) = ([0.0; 8], 0.0);
    let mut left = packet.hits;
    for word in words.iter().skip(packet.start).take(packet.words()) {
        let count = left.min(WORD_HITS as u8);
        let mut rows = rows_of(word, count);
        left -= count;
        for row in &mut rows[..usize::from(count)] {
            if *row == UNKNOWN * ROW_LEN as u16 {
                counts.unknown_channels += 1;
            } else if table.at(*row)[0].is_nan() {
                counts.dead_hits += 1;
            } else {
                live += 1.0;
                continue;
            }
            *row = ABSENT * ROW_LEN as u16;
        }
        let added = sum_of(table, rows);
        for (sum, added) in sum.iter_mut().zip(added) {
            *sum += added;
        }
    }
    (sum, live)
}
