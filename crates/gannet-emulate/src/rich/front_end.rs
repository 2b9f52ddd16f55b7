//! Front ends of the RICH: datagrams by stream and number.

use std::io;
use std::ops::Range;

use gannet_measure::random::Random;
use gannet_wire::na62::mgp::{self, MgpFormat};
use gannet_wire::na62::{FINE_CLOCK, FRAME_FINE_BITS, PmMap, Source, Time};
use gannet_wire::{FrameFormat, StreamKey};
use serde::Serialize;

use super::config::{Config, Packets};
use super::event::{Event, Ring};
use super::generator::Generator;
use super::pool::Pool;
use crate::config::ConfigError;
use crate::emulator::Emulator;
use crate::front_end::{Body, FrontEnd, InjectedEvent, Traffic};
use crate::seeds::{Purpose, family};

/// Different times of the events of a block.
const PATTERNS: usize = 1024;
/// Events of a sample.
const SAMPLE_EVENTS: usize = 1024;
/// Units of the fine time in a tick.
const TICK: u64 = 256;
/// What the truth calls events by their rings, from 0 to 4.
pub const KINDS: [&str; 5] = ["no_ring", "one_ring", "two_rings", "three_rings", "four_rings"];

/// Front ends of the RICH: datagrams as a function of configuration, seed, stream and number.
///
/// Datagram `index` of a stream holds a *block*: always as many events, in a piece of time that is
/// always as long. With packets of boards it is the same block for all boards; merged events of
/// several streams are in a block of each stream. The events of a block are neighbours in a pool
/// made beforehand, and have a pattern of times of their own.
#[derive(Clone, Debug)]
pub struct RichFrontEnd {
    format: MgpFormat,
    packets: Packets,
    streams: Vec<StreamKey>,
    generator: Generator,
    pool: Pool,
    /// Events of a block.
    events: usize,
    /// Time of a block, in units of the fine time.
    length: u64,
    /// Times of the events of a block after its begin, pattern after pattern.
    times: Vec<u32>,
    /// Seed of the choice of events and of times.
    choice: u64,
    start: u64,
    /// Least bytes of a datagram.
    bytes_min: usize,
}

/// Where the content of a block is.
#[derive(Clone, Copy, Debug)]
struct Block<'a> {
    /// Its first event in the pool.
    first: usize,
    begin: u64,
    times: &'a [u32],
}

impl Block<'_> {
    /// The times of its events.
    fn times(&self) -> impl ExactSizeIterator<Item = u64> {
        self.times.iter().map(|&time| self.begin + u64::from(time))
    }
}

impl RichFrontEnd {
    /// Front ends whose channels read the photomultipliers that `map` tells.
    ///
    /// # Errors
    /// A [`ConfigError`] if the configuration cannot be emulated.
    pub fn new(config: &Config, map: &PmMap) -> Result<Self, ConfigError> {
        config.check()?;
        let generator = Generator::new(&config.events, map, config.seed);
        let (packets, block_max) = (config.packets, config.block_max());
        let pool = Pool::new(&generator, packets, config.pool, block_max);
        let events = pool.block_max(config.bytes_max - mgp::HEADER_LEN, block_max);
        if events == 0 {
            let expected = "an event of these does not fit; make it longer";
            return Err(ConfigError::new("bytes_max", config.bytes_max, expected));
        }
        let ticks = FINE_CLOCK.per_s() as f64 / TICK as f64 / config.stream_rate_hz();
        let length = (ticks * events as f64).round() as u64 * TICK;
        let gap = FINE_CLOCK.ticks(config.gap.ns()) + 1;
        let seed = family(config.seed, Purpose::Choice, 0);
        let format = match packets {
            Packets::Boards => mgp::BOARD_EVENTS,
            Packets::Merged => mgp::MERGED_EVENTS,
        };
        let key = |stream| mgp::stream_key(format, Source::Rich.number(), stream as u8);
        Ok(Self {
            format: MgpFormat { len_max: config.bytes_max, ..MgpFormat::default() },
            packets,
            streams: (0..config.streams()).map(key).collect(),
            generator,
            pool,
            events,
            length,
            times: patterns(seed, events, length, gap),
            choice: family(config.seed, Purpose::Choice, 1),
            start: config.start_timestamp.unwrap_or(0),
            bytes_min: if config.pad { config.bytes_max } else { 0 },
        })
    }

    /// Events of a block.
    pub fn block_events(&self) -> usize {
        self.events
    }

    /// Events in a second, all streams together: about what the configuration says, as blocks have
    /// whole ticks.
    pub fn events_per_s(&self) -> f64 {
        let blocks = match self.packets {
            Packets::Boards => 1,
            Packets::Merged => self.streams.len(),
        };
        self.frames_per_s() * (self.events * blocks) as f64
    }

    /// Hits of an event and traffic of a stream, as the events made beforehand are.
    pub fn means(&mut self) -> (f64, Traffic) {
        let events = self.pool.events() as u64;
        let hits: usize = (0..events).map(|event| self.generator.event(event).hits.len()).sum();
        let frames = events.div_ceil(self.events as u64);
        let streams = self.streams.len();
        let places = (0..streams).flat_map(|stream| (0..frames).map(move |index| (stream, index)));
        let bytes: usize = places.map(|(stream, index)| self.frame(stream, index).len()).sum();
        let frame_bytes = bytes as f64 / (frames * streams as u64) as f64;
        let traffic = Traffic { frames_per_s: self.frames_per_s(), frame_bytes };
        (hits as f64 / events as f64, traffic)
    }

    /// Event `number` and its time. Events are numbered block by block, and of merged events in
    /// several streams the blocks stream by stream: so that of one stream the numbers are in order
    /// of time.
    pub fn event(&self, number: u64) -> (Time, Event) {
        let (place, event) = self.place(number);
        (Time::from_fine_units(place), self.generator.event(event as u64))
    }

    /// Time of event `number`, which does not wrap, and its place in the pool.
    fn place(&self, number: u64) -> (u64, usize) {
        let block = self.block(number / self.events as u64);
        let event = (number % self.events as u64) as usize;
        let time = block.begin + u64::from(block.times[event]);
        (time, (block.first + event) % self.pool.events())
    }

    /// Number of the block in datagram `index` of `stream`.
    fn block_of(&self, stream: usize, index: u64) -> u64 {
        match self.packets {
            Packets::Boards => index,
            Packets::Merged => index * self.streams.len() as u64 + stream as u64,
        }
    }

    /// Blocks of which datagrams `indices` of all streams have the content.
    fn blocks_of(&self, indices: Range<u64>) -> Range<u64> {
        self.block_of(0, indices.start)..self.block_of(0, indices.end)
    }

    fn block(&self, number: u64) -> Block<'_> {
        let mut random = Random::stream(self.choice, number);
        let index = match self.packets {
            Packets::Boards => number,
            Packets::Merged => number / self.streams.len() as u64,
        };
        let pattern = random.below(PATTERNS as u64) as usize;
        Block {
            first: random.below(self.pool.events() as u64) as usize,
            begin: self.begin_of_block(index),
            times: &self.times[pattern * self.events..][..self.events],
        }
    }

    fn begin_of_block(&self, index: u64) -> u64 {
        self.start + index * self.length
    }
}

/// Times of `events` events in `length`, in order, each at least `gap` after the one before, and
/// the last as much before the end: [`PATTERNS`] times.
fn patterns(seed: u64, events: usize, length: u64, gap: u64) -> Vec<u32> {
    let mut all = Vec::with_capacity(PATTERNS * events);
    for pattern in 0..PATTERNS as u64 {
        let mut random = Random::stream(seed, pattern);
        let free = length.saturating_sub(gap * events as u64);
        let mut times: Vec<u64> = (0..events).map(|_| random.below(free)).collect();
        times.sort_unstable();
        all.extend(times.iter().zip(0..).map(|(time, before)| (time + before * gap) as u32));
    }
    all
}

impl FrontEnd for RichFrontEnd {
    type Format = MgpFormat;

    fn format(&self) -> &MgpFormat {
        &self.format
    }

    fn streams(&self) -> &[StreamKey] {
        &self.streams
    }

    fn start(&self) -> u64 {
        self.start
    }

    /// The begin of the frame of 6.4 us in which the block begins.
    fn begin(&self, index: u64) -> u64 {
        self.begin_of_block(index) >> FRAME_FINE_BITS << FRAME_FINE_BITS
    }

    fn frames_per_s(&self) -> f64 {
        FINE_CLOCK.per_s() as f64 / self.length as f64
    }

    fn make(&mut self, stream: usize, index: u64, frame: &mut Vec<u8>) -> Body {
        frame.resize(mgp::HEADER_LEN, 0);
        let block = self.block(self.block_of(stream, index));
        let lane = if self.packets == Packets::Boards { stream } else { 0 };
        let events = self.pool.write(lane, block.first, block.times(), frame);
        let length = frame.len() as u16;
        // The events have their times: the begin must be there before the heading is set.
        let mut header = mgp::Header::new_unchecked(&mut frame[..]);
        header.set_events(events);
        header.set_length(length);
        header.set_frame((self.begin(index) >> FRAME_FINE_BITS) as u32);
        self.format.set_heading(frame, &self.heading(stream, index));
        frame.resize(frame.len().max(self.bytes_min), 0);
        Body::Own(mgp::HEADER_LEN)
    }

    fn report(&mut self, frames: Range<u64>, event: &mut dyn FnMut(&dyn InjectedEvent)) {
        for block in self.blocks_of(frames) {
            let first = block * self.events as u64;
            for number in first..first + self.events as u64 {
                event(&Injected { front_end: self, number });
            }
        }
    }

    fn count(&mut self, frames: Range<u64>, add: &mut dyn FnMut(&'static str, u64)) {
        let mut rings = [0; KINDS.len()];
        for block in self.blocks_of(frames) {
            let of_block = self.pool.rings(self.block(block).first, self.events);
            rings.iter_mut().zip(of_block).for_each(|(sum, rings)| *sum += rings);
        }
        KINDS.into_iter().zip(rings).for_each(|(kind, events)| add(kind, events));
    }
}

/// An event as it is reported.
struct Injected<'a> {
    front_end: &'a RichFrontEnd,
    number: u64,
}

impl InjectedEvent for Injected<'_> {
    fn kind(&self) -> &'static str {
        let (_, event) = self.front_end.place(self.number);
        let rings = self.front_end.pool.rings(event, 1);
        let kind = KINDS.into_iter().zip(rings).find(|&(_, events)| events > 0);
        kind.map_or(KINDS[0], |(kind, _)| kind)
    }

    fn time(&self) -> u64 {
        self.front_end.place(self.number).0
    }

    fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Line<'a> {
            event: u64,
            time: u64,
            hits: usize,
            rings: &'a [Ring],
        }
        let (time, event) = self.front_end.event(self.number);
        let (hits, rings) = (event.hits.len(), &event.rings[..]);
        let line = Line { event: self.number, time: time.fine_units(), hits, rings };
        Ok(serde_json::to_writer(out, &line)?)
    }
}

impl Config {
    /// These front ends with few events, to see what they send: what takes long is to make events.
    ///
    /// # Errors
    /// As [`RichFrontEnd::new`].
    pub fn sample(&self, map: &PmMap) -> Result<RichFrontEnd, ConfigError> {
        RichFrontEnd::new(&Self { pool: self.pool.min(SAMPLE_EVENTS), ..self.clone() }, map)
    }

    /// The emulator of these front ends, whose channels read what `map` tells.
    ///
    /// # Errors
    /// As [`RichFrontEnd::new`].
    pub fn emulator(&self, map: &PmMap) -> Result<Emulator<RichFrontEnd>, ConfigError> {
        Emulator::new(RichFrontEnd::new(self, map)?, &self.settings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::quantity::Span;
    use gannet_wire::na62::mgp::Datagram;

    fn front_end(edit: impl FnOnce(&mut Config)) -> RichFrontEnd {
        let mut config = Config { pool: 2000, rate_hz: 1e7, ..Config::default() };
        edit(&mut config);
        RichFrontEnd::new(&config, &PmMap::numbered()).unwrap()
    }

    /// Time and channels of each event of a frame.
    fn content(frame: &[u8], board: u16) -> Vec<(Time, Vec<u16>)> {
        let datagram = Datagram::new_checked(frame).unwrap();
        let events = datagram.events().map(|event| match event.unwrap() {
            mgp::Event::Board(event) => {
                (event.time(), event.hits().map(|hit| board * 512 + hit).collect())
            }
            mgp::Event::Merged(event) => (event.time(), event.hits().collect()),
        });
        events.collect()
    }

    #[test]
    fn boards_send_the_hits_of_the_truth_at_its_times() {
        let mut front_end = front_end(|config| config.start_timestamp = Some(123_456_789));
        let events = front_end.block_events() as u64;
        assert!((40..=70).contains(&events), "{events}");
        for index in [0, 1, 77, 1 << 22] {
            let mut truth = Vec::new();
            for number in index * events..(index + 1) * events {
                let (time, event) = front_end.event(number);
                for board in 0..4 {
                    let hits = event.hits.iter().filter(|hit| hit.channel / 512 == board);
                    let Some(first) = hits.clone().next() else { continue };
                    let time = Time::from_fine_units(time.fine_units() + u64::from(first.time));
                    truth.push((board, time, hits.map(|hit| hit.channel).collect::<Vec<u16>>()));
                }
            }
            for board in 0..4 {
                let frame = front_end.frame(usize::from(board), index);
                assert!(frame.len() <= 1472);
                let expected: Vec<_> = truth.iter().filter(|it| it.0 == board).collect();
                let found = content(&frame, board);
                assert_eq!(found.len(), expected.len());
                for (found, (_, time, hits)) in found.iter().zip(expected) {
                    assert_eq!((found.0, &found.1), (*time, hits));
                }
            }
        }
    }

    #[test]
    fn merged_events_carry_hits_and_labels_of_the_truth() {
        let mut front_end = front_end(|config| {
            config.packets = Packets::Merged;
            config.lanes = 3;
        });
        let events = front_end.block_events() as u64;
        assert!((12..=25).contains(&events), "{events}");
        for (stream, index) in [(0, 0), (2, 5), (1, 1000)] {
            let frame = front_end.frame(stream, index);
            let datagram = Datagram::new_checked(&frame).unwrap();
            let first = front_end.block_of(stream, index) * events;
            for (number, event) in (first..).zip(datagram.events()) {
                let mgp::Event::Merged(event) = event.unwrap() else { panic!("{number}") };
                let (time, truth) = front_end.event(number);
                assert_eq!(event.time(), time);
                assert!(event.hits().eq(truth.hits.iter().map(|hit| hit.channel)));
                let header = event.header();
                assert_eq!([header.label_0, header.label_1], truth.labels());
            }
            assert_eq!(u64::from(datagram.header().events), events);
            let name = front_end.format().stream_name(front_end.streams()[stream]);
            assert_eq!(name, format!("RICH/{stream}/merged"));
        }
    }

    #[test]
    fn headings_are_those_of_the_frames() {
        for packets in [Packets::Boards, Packets::Merged] {
            let mut front_end = front_end(|config| config.packets = packets);
            for index in [0, 1, 2, 1 << 20] {
                let stream = front_end.streams().len() - 1;
                let frame = front_end.frame(stream, index);
                let heading = front_end.format().heading(&frame).unwrap();
                assert_eq!(heading, front_end.heading(stream, index));
                let events = content(&frame, 3);
                let first = events[0].0.fine_units();
                assert!(first >= heading.begin & 0xff_ffff_ffff || index > 0);
            }
        }
    }

    #[test]
    fn events_are_as_frequent_as_configured_and_never_closer_than_the_gap() {
        let front_end = front_end(|_| ());
        let rate = front_end.events_per_s();
        assert!((rate / 1e7 - 1.0).abs() < 0.003, "{rate}");
        let gap = FINE_CLOCK.ticks(25);
        let times: Vec<u64> = (0..100_000).map(|number| front_end.place(number).0).collect();
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] > gap));
        let seconds = FINE_CLOCK.s(times[99_999] - times[0]);
        assert!((100_000.0 / seconds / 1e7 - 1.0).abs() < 0.005);
        // Beyond the gap, times are those of a Poisson process: 1/e are later than the mean.
        let mean = (times[99_999] - times[0]) as f64 / 99_999.0 - gap as f64;
        let later = times.windows(2).filter(|pair| (pair[1] - pair[0] - gap) as f64 > mean).count();
        assert!((later as f64 / 99_999.0 - 0.368).abs() < 0.02, "{later}");
    }

    #[test]
    fn events_keep_the_shares_of_their_rings_and_are_counted() {
        let mut front_end = front_end(|config| config.pool = 20_000);
        let mut counts = Vec::new();
        front_end.count(0..500, &mut |kind, events| counts.push((kind, events)));
        let all = 500 * front_end.block_events() as u64;
        assert_eq!(counts.iter().map(|(_, events)| events).sum::<u64>(), all);
        for ((_, events), share) in counts.iter().zip([0.05, 0.5, 0.2, 0.2, 0.05]) {
            assert!((*events as f64 / all as f64 - share).abs() < 0.02, "{counts:?}");
        }
        let mut reported: Vec<_> = KINDS.into_iter().map(|kind| (kind, 0)).collect();
        let (mut last, mut lines) = (0, Vec::new());
        front_end.report(0..500, &mut |event| {
            let kind = reported.iter_mut().find(|kind| kind.0 == event.kind());
            kind.unwrap().1 += 1;
            assert!(event.time() > last || last == 0);
            last = event.time();
            if lines.len() < 2000 {
                event.write_json(&mut lines).unwrap();
            }
        });
        assert_eq!(reported, counts);
        let line = String::from_utf8(lines).unwrap();
        let (time, event) = front_end.event(0);
        let hits = event.hits.len();
        assert!(line.starts_with(&format!(
            "{{\"event\":0,\"time\":{},\"hits\":{hits},\"rings\":[",
            time.fine_units()
        )));
    }

    #[test]
    fn datagrams_are_padded_to_one_length_if_asked() {
        let mut front_end = front_end(|config| config.pad = true);
        for index in 0..20 {
            let frame = front_end.frame(1, index);
            assert_eq!(frame.len(), 1472);
            Datagram::new_checked(&frame).unwrap();
        }
    }

    #[test]
    fn slow_events_come_in_short_blocks() {
        let mut front_end = front_end(|config| config.rate_hz = 1e4);
        assert_eq!(front_end.block_events(), 1);
        assert!(front_end.frames_per_s() > 9_900.0);
        let empty = (0..200).filter(|&index| content(&front_end.frame(2, index), 2).is_empty());
        assert!(empty.count() > 10);
        let longest = front_end.format().rhythm().step.longest();
        assert!(
            (0..200).all(|index| front_end.begin(index + 1) - front_end.begin(index) <= longest)
        );
    }

    #[test]
    fn a_sample_tells_what_the_whole_sends() {
        for packets in [Packets::Boards, Packets::Merged] {
            let config = Config { packets, lanes: 2, rate_hz: 3e6, ..Config::default() };
            let mut whole = RichFrontEnd::new(&config, &PmMap::numbered()).unwrap();
            let (hits, expected) = config.sample(&PmMap::numbered()).unwrap().means();
            // 14.7 hits of 1.7 rings, and 1.5 of noise.
            assert!((24.0..29.0).contains(&hits), "{hits}");
            let streams = whole.streams().len();
            let of_all = |index| (0..streams).map(move |stream| (stream, index));
            let places: Vec<_> = (0..500).flat_map(of_all).collect();
            let bytes: usize = places.iter().map(|&(at, index)| whole.frame(at, index).len()).sum();
            let bytes_per_s = bytes as f64 / places.len() as f64 * whole.frames_per_s();
            let told = expected.frames_per_s * expected.frame_bytes;
            assert!((told / bytes_per_s - 1.0).abs() < 0.05, "{told}, {bytes_per_s} sent");
        }
    }

    #[test]
    fn any_datagram_can_be_made_again() {
        let (mut one, mut other) = (front_end(|_| ()), front_end(|_| ()));
        let frames: Vec<_> = (0..50).map(|index| one.frame(2, index)).collect();
        assert!((0..50).rev().all(|index| other.frame(2, index) == frames[index as usize]));
        let mut other = front_end(|config| config.seed = 1);
        assert!(other.frame(2, 0) != frames[0]);
        let mut other = front_end(|config| config.gap = Span(40));
        assert!(other.frame(2, 0) != frames[0]);
    }
}
