//! Frames of a made-up format, whose step and length vary, on their way from a source to answers and
//! chunks, against plain lists of them.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use gannet_ingest::{Landing, MemorySource};
use gannet_log::{Kind, frames::frames};
use gannet_measure::clock::VirtualClock;
use gannet_measure::ledger::Account;
use gannet_measure::random::Random;
use gannet_measure::ticks::TickRate;
use gannet_memory::{Geometry, Producer, clop};
use gannet_readout::items;
use gannet_readout::latency::{
    Extent, IndexWriter, Placement, StreamBuffer, Window, index, intake,
};
use gannet_readout::raw_stream::{RawDrop, RawStream};
use gannet_readout::receiver::{FrameDrop, Receiver, StreamPool, StreamSetup, StreamStatus};
use gannet_readout::record::{BuildConfig, RecordBuilder, RecordRequest};
use gannet_readout::request::DataRequest;
use gannet_readout::windows::BufferWindows;
use gannet_trigger::{Finder, Item};
use gannet_wire::{Error, FrameFormat, Heading, Result, Rhythm, Step, StreamKey};

const LONGEST: u64 = 1000;
const LENGTHS: RangeInclusive<usize> = 24..=200;
const STEP: Step = Step::Varying { longest: LONGEST };

/// Stream, sequence number and begin, 8 bytes each, then bytes that differ from frame to frame.
#[derive(Clone, Debug)]
struct Hits;

impl FrameFormat for Hits {
    fn lengths(&self) -> RangeInclusive<usize> {
        LENGTHS
    }

    fn rhythm(&self) -> Rhythm {
        Rhythm { clock: TickRate::hz(1_000_000), step: STEP, sequence_modulus: 256 }
    }

    fn heading(&self, frame: &[u8]) -> Result<Heading> {
        let (words, _) = frame.as_chunks();
        let [stream, sequence, begin, ..] = *words else {
            return Err(Error::Truncated { format: "hits", expected: 24, got: frame.len() });
        };
        Ok(Heading {
            stream: StreamKey(u64::from_le_bytes(stream)),
            begin: u64::from_le_bytes(begin),
            sequence: u64::from_le_bytes(sequence) as u32,
        })
    }

    fn set_heading(&self, frame: &mut [u8], heading: &Heading) {
        let Heading { stream, sequence, begin } = *heading;
        let heading = [stream.0, sequence.into(), begin].map(u64::to_le_bytes);
        frame[..24].copy_from_slice(heading.as_flattened());
    }

    fn stream_name(&self, stream: StreamKey) -> String {
        stream.0.to_string()
    }
}

/// A frame as it is sent; its length and bytes follow from its number and begin.
fn hits(stream: u64, number: u64, begin: u64) -> Vec<u8> {
    let mut random = Random::new(number ^ begin.rotate_left(32));
    let len = LENGTHS.start() + random.below((LENGTHS.end() - LENGTHS.start() + 1) as u64) as usize;
    let mut frame: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
    let heading = Heading { stream: StreamKey(stream), begin, sequence: number as u32 % 256 };
    Hits.set_heading(&mut frame, &heading);
    frame
}

/// The frames of `order`, which is that of time, that overlap a window.
fn overlapping<F>(order: &[F], begin: impl Fn(&F) -> u64, window: Window) -> Vec<&F> {
    let (mut next, mut later, mut found) = (u64::MAX, u64::MAX, Vec::new());
    for frame in order.iter().rev() {
        let start = begin(frame);
        if start < next {
            (next, later) = (start, next);
        }
        if start < window.end && later.min(start + LONGEST) > window.begin {
            found.push(frame);
        }
    }
    found.reverse();
    found
}

/// A frame as the model of an index remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Landed {
    begin: u64,
    cell: u64,
    number: u64,
}

/// An index beside a sorted list of the frames that it holds.
struct Bench {
    producer: Producer,
    writer: IndexWriter,
    buffer: StreamBuffer,
    cells: u64,
    held: Vec<Landed>,
    held_max: usize,
    landed: u64,
}

impl Bench {
    fn new(random: &mut Random) -> Self {
        let (cells, frames) = (8 + random.below(100), 2 + random.below(60) as usize);
        let geometry = Geometry { cell_bytes: *LENGTHS.end(), cells: cells as usize };
        let (producer, reader) = clop(geometry).unwrap();
        let (mut writer, [buffer]) = index(frames, STEP);
        writer.attach(reader);
        let held_max = (frames + 1).next_power_of_two() - 1;
        Self { producer, writer, buffer, cells, held: Vec::new(), held_max, landed: 0 }
    }

    fn land(&mut self, begin: u64, restart: bool) {
        let number = self.landed;
        let frame = hits(0, number, begin);
        let cell = self.producer.land(&frame);
        self.landed += 1;
        let landed = Landed { begin, cell: cell.0, number };
        let placement = self.writer.insert(begin, cell, frame.len(), restart);
        let place = self.held.partition_point(|held| *held < landed);
        let is_too_old = !restart && place == 0 && self.held.len() == self.held_max;
        assert_eq!(placement, if is_too_old { Placement::TooOld } else { Placement::Stored });
        if restart {
            self.held.truncate(place);
        }
        if !is_too_old {
            self.held.insert(place, landed);
            self.held.drain(..self.held.len().saturating_sub(self.held_max));
        }
    }

    fn is_intact(&self, frame: &Landed) -> bool {
        self.landed <= frame.cell + self.cells
    }

    fn check(&mut self, window: Window) {
        let oldest = self.held.iter().find(|frame| self.is_intact(frame)).map(|held| held.begin);
        let newest = self.held.last().map(|held| held.begin);
        let extent = oldest.zip(newest).map(|(oldest, newest)| Extent { oldest, newest });
        assert_eq!(self.buffer.extent(), extent);
        let inside = overlapping(&self.held, |held| held.begin, window);
        let (whole, overwritten): (Vec<&Landed>, Vec<&Landed>) =
            inside.into_iter().partition(|frame| self.is_intact(frame));
        let whole: Vec<u8> =
            whole.iter().flat_map(|frame| hits(0, frame.number, frame.begin)).collect();
        let mut cut = Vec::new();
        assert_eq!(self.buffer.cut(window, &mut cut), overwritten.len() as u64, "{window:?}");
        assert!(cut == whole, "{window:?}");
        let answer = DataRequest::new(window, 0).attempt(&mut self.buffer, 0, u64::MAX).unwrap();
        let is_there = extent.is_some_and(|extent| window.end >= extent.oldest);
        assert!(answer.frames == if is_there { whole } else { Vec::new() });
    }
}

#[test]
fn windows_hold_the_frames_of_a_plain_list() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut bench = Bench::new(&mut random);
        let mut time = 1_000_000;
        for _ in 0..300 {
            time += if random.chance(0.2) { 0 } else { random.below(LONGEST) };
            time += if random.chance(0.01) { random.below(1_000_000) } else { 0 };
            let restart = random.chance(0.01);
            if restart {
                time = time.saturating_sub(random.below(100_000));
            }
            let late = if random.chance(0.2) { random.below(20 * LONGEST) } else { 0 };
            let begin = if restart { time } else { time.saturating_sub(late) };
            bench.land(begin, restart);
            let begin = (time + 2 * LONGEST).saturating_sub(random.below(50_000));
            bench.check(Window { begin, end: begin + 1 + random.below(30_000) });
        }
    }
}

/// A frame of the concurrent writer: its number over and over, and a length of its own.
fn filled(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(3 + number as usize % 23)
}

/// Time of a frame of the concurrent writer; some begin together.
fn time_of(number: u64) -> u64 {
    number / 3 * 2 * LONGEST / 3 + number % 3 * (number / 3 % 2)
}

#[test]
fn frames_that_differ_in_length_are_cut_with_their_lengths() {
    let (mut producer, reader) = clop(Geometry { cell_bytes: *LENGTHS.end(), cells: 8 }).unwrap();
    let (mut writer, [buffer]) = index(8, STEP);
    let buffer = buffer.with_lengths();
    writer.attach(reader);
    let frames: Vec<_> = (0..5).map(|number| hits(0, number, number * LONGEST)).collect();
    for (frame, number) in frames.iter().zip(0..) {
        let cell = producer.land(frame);
        writer.insert(number * LONGEST, cell, frame.len(), false);
    }
    let mut cut = Vec::new();
    assert_eq!(buffer.cut(Window { begin: LONGEST, end: 3 * LONGEST + 1 }, &mut cut), 0);
    let mut rest = &cut[..];
    for frame in &frames[1..4] {
        let (len, others) = rest.split_first_chunk().unwrap();
        let (bytes, others) = others.split_at(u32::from_le_bytes(*len) as usize);
        assert_eq!(bytes, frame);
        rest = others;
    }
    assert!(rest.is_empty());
}

#[test]
fn windows_are_whole_and_in_order_while_late_frames_move_others() {
    (0..10).for_each(cut_while_late_frames_come);
}

fn cut_while_late_frames_come(seed: u64) {
    const FRAMES: u64 = 200_000;
    const HELD: u64 = 1023;
    /// Every seventh frame comes so many frames late.
    const LATE: u64 = 35;
    let geometry = Geometry { cell_bytes: *LENGTHS.end(), cells: FRAMES as usize };
    let (mut producer, reader) = clop(geometry).unwrap();
    let (mut writer, [mut buffer]) = index(HELD as usize, STEP);
    writer.attach(reader);
    let settled = Arc::new(AtomicU64::new(0));
    let reading = {
        let settled = Arc::clone(&settled);
        thread::spawn(move || {
            let (mut random, mut complete, mut cut) = (Random::new(seed), 0, Vec::new());
            loop {
                let before = settled.load(Ordering::Acquire);
                let first = before.saturating_sub(40 + random.below(400));
                // Up to where frames move others.
                let last = first + random.below(before + LATE - first);
                let window = Window { begin: time_of(first), end: time_of(last) + 1 };
                cut.clear();
                buffer.extent();
                assert_eq!(buffer.cut(window, &mut cut), 0);
                let after = settled.load(Ordering::Acquire);
                let mut rest = &cut[..];
                let mut numbers = Vec::new();
                while let Some((number, _)) = rest.split_first_chunk() {
                    let number = u64::from_le_bytes(*number);
                    let (frame, others) = rest.split_at(filled(number).len());
                    assert!(frame == filled(number), "torn frame {number}");
                    numbers.push(number);
                    rest = others;
                }
                assert!(numbers.is_sorted_by_key(|number| time_of(*number)), "{numbers:?}");
                numbers.sort_unstable();
                assert!(numbers.is_sorted_by(|one, other| one < other), "twice: {numbers:?}");
                // What the writer may have pushed out meanwhile tells nothing.
                if after - first < HELD - 2 * LATE {
                    let last = last.min(before);
                    let all = (first..last).all(|number| numbers.binary_search(&number).is_ok());
                    assert!(all, "{first}..{last}: {numbers:?}");
                    complete += 1;
                }
                if before == FRAMES - LATE {
                    return complete;
                }
            }
        })
    };
    let mut land = |number: u64| {
        let frame = filled(number);
        let cell = producer.land(&frame);
        writer.insert(time_of(number), cell, frame.len(), false);
    };
    for number in 0..FRAMES {
        if number % 7 != 0 {
            land(number);
        }
        if let Some(late) = number.checked_sub(LATE)
            && late % 7 == 0
        {
            land(late);
        }
        settled.store((number + 1).saturating_sub(LATE), Ordering::Release);
    }
    assert!(reading.join().unwrap() > 0);
}

/// Finds every frame.
#[derive(Debug, Default)]
struct Begins(u64);

/// The begin of a frame.
#[derive(Clone, Copy, Debug)]
struct Begin(u64);

impl Item for Begin {
    type Place = ();

    fn time(&self) -> u64 {
        self.0
    }

    fn place(&self) {}
}

impl Finder for Begins {
    type Item = Begin;

    const ITEMS_MAX: usize = 1;

    fn frame(&mut self, heading: &Heading, _: &[u8], found: &mut Vec<Begin>) -> bool {
        found.push(Begin(heading.begin));
        self.0 = self.0.max(heading.begin);
        true
    }

    fn searched_to(&self) -> u64 {
        self.0
    }

    fn begin_anew(&mut self) {}
}

/// One stream on its way from a source, and what is to come of it.
struct Stream {
    sent: Vec<Vec<u8>>,
    /// Frames that came, in that order; begin and bytes.
    came: Vec<(u64, Vec<u8>)>,
    twins: u64,
    missing: u64,
}

/// A stream with losses, twins and disorder.
fn stream(key: u64, random: &mut Random) -> Stream {
    let (mut time, mut sent) = (50_000, Vec::new());
    for number in 0..2000 {
        time += if random.chance(0.1) { 0 } else { random.below(LONGEST + 1) };
        if random.chance(0.1) {
            continue;
        }
        let copies = if random.chance(0.05) { 2 } else { 1 };
        let frame = hits(key, number, time);
        sent.extend((0..copies).map(|_| (number + random.below(20), number, time, frame.clone())));
    }
    sent.sort_by_key(|(due, ..)| *due);
    let (mut numbers, mut came) = (BTreeSet::new(), Vec::new());
    for (_, number, time, frame) in &sent {
        if numbers.insert(*number) {
            came.push((*time, frame.clone()));
        }
    }
    let span = numbers.last().unwrap() - numbers.first().unwrap() + 1;
    Stream {
        twins: (sent.len() - came.len()) as u64,
        missing: span - came.len() as u64,
        sent: sent.into_iter().map(|(.., frame)| frame).collect(),
        came,
    }
}

#[test]
fn frames_of_any_length_and_step_come_out_as_they_went_in() {
    for seed in 0..10 {
        come_out_as_they_went_in(&mut Random::new(seed));
    }
}

fn come_out_as_they_went_in(random: &mut Random) {
    let streams = [0, 1].map(|key| stream(key, random));
    let sent = streams.iter().map(|stream| stream.sent.len()).max().unwrap();
    let sent = (0..sent).flat_map(|place| streams.each_ref().map(|it| it.sent.get(place)));
    let sent: Vec<Vec<u8>> = sent.flatten().cloned().collect();
    let clock = Arc::<VirtualClock>::default();
    let (mut buffers, mut statuses, mut raw) = (Vec::new(), Vec::new(), Vec::new());
    let dropped = Arc::<Account<RawDrop>>::default();
    let setup = |key: u64| {
        let ((index, [buffer]), (intake, order)) = (index(4000, STEP), intake(4000));
        let status = Arc::<StreamStatus>::default();
        buffers.push(buffer);
        statuses.push(Arc::clone(&status));
        raw.push(RawStream::new(Hits, order, Arc::clone(&dropped)));
        StreamSetup {
            key: StreamKey(key),
            number: key as u32,
            rhythm: Hits.rhythm(),
            frame_len_max: *LENGTHS.end(),
            index,
            intake: Some(intake),
            finder: Begins::default(),
            status,
        }
    };
    let pool = Arc::new(StreamPool::new([0, 1].map(setup).into()));
    let landing = Landing { lengths: LENGTHS, cells: 8000 };
    let source = MemorySource::of_frames(landing, clock.clone(), sent).unwrap();
    let (mut senders, _found) = items::channel(1, Begins::ITEMS_MAX, items::FLUSH_NS);
    let sender = senders.remove(0);
    let mut receiver = Receiver::new(Hits, Box::new(source), pool, true, sender, clock);
    receiver.start().unwrap();
    while !receiver.is_exhausted() {
        receiver.step(Duration::ZERO).unwrap();
    }
    let account = receiver.account();
    let _cells = receiver.finish();
    for (stream, status) in streams.iter().zip(&statuses) {
        let counts = [&status.in_step, &status.duplicate, &status.missing, &status.out_of_step];
        let counts = counts.map(|counter| counter.get());
        assert_eq!(counts, [stream.came.len() as u64, stream.twins, stream.missing, 0]);
    }
    let came: u64 = streams.iter().map(|stream| stream.came.len() as u64).sum();
    assert_eq!(account.delivered(), came);
    assert_eq!(account.dropped(FrameDrop::Duplicate), account.statement("frames").offered - came);

    let config = BuildConfig::default();
    let windows = Box::new(BufferWindows::new(config.window_ticks_max, buffers));
    let mut builder = RecordBuilder::new(config, 1, vec![0, 1], windows);
    builder.close();
    for number in 0..300 {
        let begin = 40_000 + random.below(1_000_000);
        let window = Window { begin, end: begin + 1 + random.below(40_000) };
        builder.submit(RecordRequest {
            trigger_number: number,
            run_number: 1,
            trigger_timestamp: begin,
            trigger_type: 1,
            window,
            decided_ns: 0,
        });
        let record = builder.poll(0).unwrap();
        for (stream, part) in streams.iter().zip(record.streams) {
            let mut order = stream.came.clone();
            order.sort_by_key(|(begin, _)| *begin);
            let newest = order[order.len() - 1].0;
            let inside = overlapping(&order, |(begin, _)| *begin, window);
            let expected: Vec<u8> =
                inside.into_iter().flat_map(|(_, frame)| frame.clone()).collect();
            assert!(part.payload == expected, "{window:?}");
            let is_covered = window.begin >= order[0].0 && window.end <= newest;
            let is_whole = is_covered && !expected.is_empty();
            assert_eq!(part.error_bits == 0, is_whole, "{window:?}");
        }
    }

    for (stream, raw) in streams.iter().zip(&mut raw) {
        let mut recorded = Vec::new();
        let chunks =
            std::iter::from_fn(|| raw.gather(0, RawDrop::Overwritten).or_else(|| raw.close()));
        for chunk in chunks {
            assert_eq!((chunk.label.kind, chunk.parts.len()), (Kind::SIZED_FRAMES, 1));
            let frames = frames(&chunk.label, &chunk.parts[0]).unwrap();
            let begins = frames.iter().map(|frame| Hits.heading(frame).unwrap().begin);
            let begins: Vec<u64> = begins.collect();
            assert!(begins.is_sorted(), "{begins:?}");
            let times = (chunk.label.first_ticks, chunk.label.last_ticks);
            assert_eq!(times, (begins[0], begins[begins.len() - 1]));
            recorded.extend(frames.into_iter().map(<[u8]>::to_vec));
        }
        let came: Vec<Vec<u8>> = stream.came.iter().map(|(_, frame)| frame.clone()).collect();
        assert!(recorded == came);
    }
    assert_eq!(dropped.statement("raw_frames").offered, came);
}
