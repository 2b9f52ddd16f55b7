//! Random data requests against a latency buffer under random arrival, loss, disorder and
//! overwriting, compared with a plain model that keeps every frame ever landed.

use gannet_measure::random::Random;
use gannet_memory::{Geometry, Producer, clop};
use gannet_readout::latency::{Extent, IndexWriter, Placement, StreamBuffer, Window, index};
use gannet_readout::request::{Answer, DataRequest, Finding};
use gannet_wire::Step;

const FRAME_BYTES: usize = 48;
const STEP: u64 = 2048;
const WINDOW_TICKS_MAX: u64 = 60 * STEP;

/// A frame as the model remembers it.
#[derive(Clone, Copy)]
struct Landed {
    stream: usize,
    timestamp: u64,
    cell: u64,
    /// Whether the index took it.
    placed: bool,
}

/// The plain model: a list of all frames and the rule of the ring.
struct Model {
    frames: Vec<Landed>,
    capacity: u64,
    index_frames: u64,
    newest: Vec<Option<u64>>,
    /// Time has leapt ahead by more than the index is long; frames before it may still be there.
    leapt: Vec<bool>,
}

impl Model {
    /// Frames of `stream` that the buffer still holds, in the order of time.
    fn held(&self, stream: usize) -> Vec<u64> {
        let landed = self.frames.len() as u64;
        let least = self.least(stream);
        let mut held: Vec<u64> = self
            .frames
            .iter()
            .rev()
            .take(self.capacity as usize)
            .filter(|frame| frame.stream == stream && landed <= frame.cell + self.capacity)
            .filter(|frame| self.is_indexed(frame))
            .map(|frame| frame.timestamp)
            .filter(|timestamp| timestamp / STEP >= least)
            .collect();
        held.sort_unstable();
        held
    }

    /// Number of the oldest frame that the index tells of.
    fn least(&self, stream: usize) -> u64 {
        let newest = self.newest[stream].unwrap_or(0) / STEP;
        if self.leapt[stream] { 0 } else { newest.saturating_sub(self.index_frames - 1) }
    }

    /// Whether the index has taken a frame, and no later one in its place.
    fn is_indexed(&self, frame: &Landed) -> bool {
        let slot = |frame: &Landed| frame.timestamp / STEP % self.index_frames;
        let later = self.frames.iter().rev().take_while(|later| later.cell > frame.cell);
        let mut later = later.filter(|later| later.placed && later.stream == frame.stream);
        frame.placed && !later.any(|later| slot(later) == slot(frame))
    }

    /// Notes whether frames from before a leap are left.
    fn look_before_leap(&mut self, stream: usize) {
        let newest = self.newest[stream].unwrap_or(0) / STEP;
        let oldest = self.held(stream).first().map_or(newest, |oldest| oldest / STEP);
        self.leapt[stream] &= newest - oldest >= self.index_frames;
    }

    /// Whether frames of the window were landed but have been overwritten since.
    fn overwritten(&self, stream: usize, window: Window) -> bool {
        let landed = self.frames.len() as u64;
        let newest = self.newest[stream].unwrap_or(0) / STEP;
        let least = self.least(stream);
        self.frames.iter().any(|frame| {
            frame.stream == stream
                && landed > frame.cell + self.capacity
                && (least..=newest).contains(&(frame.timestamp / STEP))
                && frame.timestamp < window.end
                && frame.timestamp + STEP > window.begin
                && self.is_indexed(frame)
        })
    }

    fn answer(
        &self,
        stream: usize,
        window: Window,
        timed_out: bool,
    ) -> Option<(Finding, u32, Vec<u64>)> {
        let Window { begin, end } = window;
        if begin >= end || end - begin > WINDOW_TICKS_MAX {
            return Some((Finding::Invalid, 4, Vec::new()));
        }
        let held = self.held(stream);
        // The newest frame tells how far time has come, even when it has been overwritten.
        let (Some(oldest), Some(newest)) = (held.first(), &self.newest[stream]) else {
            return timed_out.then_some((Finding::NotFound, 1, Vec::new()));
        };
        let inside: Vec<u64> =
            held.iter().copied().filter(|ts| *ts < end && ts + STEP > begin).collect();
        let (finding, bits) = if begin > *newest {
            (Finding::NotYet, 1)
        } else if end < *oldest {
            (Finding::TooOld, 1)
        } else if end > *newest {
            (Finding::Partial, if begin < *oldest { 3 } else { 2 })
        } else if begin < *oldest {
            (Finding::PartiallyOld, 3)
        } else {
            (Finding::Found, 0)
        };
        if matches!(finding, Finding::NotYet | Finding::Partial) && !timed_out {
            return None;
        }
        // A late frame may outlive its neighbours: a window can have lost frames to overwriting
        // even though it begins after the oldest frame held.
        let overwritten = self.overwritten(stream, window);
        let bits = if overwritten { bits | 3 } else { bits };
        let finding =
            if overwritten && finding == Finding::Found { Finding::PartiallyOld } else { finding };
        match finding {
            Finding::TooOld => Some((finding, 1, Vec::new())),
            Finding::NotYet if inside.is_empty() => Some((finding, 1, Vec::new())),
            // The newest frame reaches into the window.
            Finding::NotYet => Some((Finding::Partial, if overwritten { 3 } else { 2 }, inside)),
            _ if inside.is_empty() => Some((Finding::NotFound, 1, Vec::new())),
            _ => Some((finding, bits, inside)),
        }
    }
}

/// The system under test beside the model.
struct Bench {
    producer: Producer,
    writers: Vec<IndexWriter>,
    buffers: Vec<StreamBuffer>,
    next: Vec<u64>,
    skipped: Vec<Vec<u64>>,
    model: Model,
}

impl Bench {
    fn new(random: &mut Random) -> Self {
        let capacity = 8 + random.below(200);
        let index_frames = 4 + random.below(60) as usize;
        let streams = 1 + random.below(3) as usize;
        let geometry = Geometry { cell_bytes: FRAME_BYTES, cells: capacity as usize };
        let (producer, reader) = clop(geometry).unwrap();
        let (writers, buffers) = (0..streams)
            .map(|_| {
                let (mut writer, [buffer]) = index(index_frames, Step::Fixed(STEP));
                writer.attach(reader.clone());
                (writer, buffer)
            })
            .unzip();
        let model = Model {
            frames: Vec::new(),
            capacity,
            index_frames: index_frames.next_power_of_two() as u64,
            newest: vec![None; streams],
            leapt: vec![false; streams],
        };
        let next = (0..streams).map(|_| 1_000_000 * STEP + random.below(STEP)).collect();
        Self { producer, writers, buffers, next, skipped: vec![Vec::new(); streams], model }
    }

    /// Lands one frame, or loses it, or lands one that was held back before.
    fn arrive(&mut self, random: &mut Random) {
        let stream = random.below(self.writers.len() as u64) as usize;
        if random.chance(0.05) && !self.skipped[stream].is_empty() {
            let at = random.below(self.skipped[stream].len() as u64) as usize;
            let timestamp = self.skipped[stream].swap_remove(at);
            return self.land(stream, timestamp);
        }
        if random.chance(0.002) {
            self.next[stream] += random.below(5000) * STEP;
        }
        let timestamp = self.next[stream];
        self.next[stream] += STEP;
        if random.chance(0.1) {
            self.skipped[stream].push(timestamp);
        } else {
            self.land(stream, timestamp);
        }
    }

    fn land(&mut self, stream: usize, timestamp: u64) {
        let mut frame = [stream as u8; FRAME_BYTES];
        frame[..8].copy_from_slice(&timestamp.to_le_bytes());
        let cell = self.producer.land(&frame);
        let placement = self.writers[stream].insert(timestamp, cell, FRAME_BYTES, false);
        let newest = self.model.newest[stream].map_or(timestamp, |newest| newest.max(timestamp));
        let before = self.model.newest[stream].unwrap_or(timestamp) / STEP;
        self.model.leapt[stream] |= newest / STEP - before >= self.model.index_frames;
        self.model.newest[stream] = Some(newest);
        let too_old = newest / STEP - timestamp / STEP >= self.model.index_frames;
        assert_eq!(placement == Placement::TooOld, too_old);
        let placed = !too_old;
        self.model.frames.push(Landed { stream, timestamp, cell: cell.0, placed });
    }

    fn request(&mut self, random: &mut Random) {
        let stream = random.below(self.writers.len() as u64) as usize;
        let span = (self.model.capacity.min(self.model.index_frames) + 8) * STEP;
        let begin = (self.next[stream] + 4 * STEP).saturating_sub(random.below(span));
        let length_max = if random.chance(0.5) { 3 * STEP } else { 70 * STEP };
        let end = begin + random.below(length_max);
        let window = Window { begin, end };
        let timed_out = random.chance(0.5);
        let request = DataRequest::new(window, u64::from(!timed_out));
        let answer = request.attempt(&mut self.buffers[stream], 0, WINDOW_TICKS_MAX);
        self.model.look_before_leap(stream);
        let expected = self.model.answer(stream, window, timed_out);
        assert_eq!(answer.as_ref().map(|answer| summary(answer, stream)), expected, "{window:?}");
        let held = self.model.held(stream);
        let extent = held.first().zip(self.model.newest[stream].as_ref());
        assert_eq!(
            self.buffers[stream].extent(),
            extent.map(|(oldest, newest)| Extent { oldest: *oldest, newest: *newest })
        );
    }
}

/// Finding, bits and the time stamps of the frames, whose bytes are checked on the way.
fn summary(answer: &Answer, stream: usize) -> (Finding, u32, Vec<u64>) {
    let timestamps = answer.frames.chunks(FRAME_BYTES).map(|frame| {
        assert_eq!(frame.len(), FRAME_BYTES, "only whole frames");
        assert!(frame[8..].iter().all(|byte| *byte == stream as u8), "a frame of this stream");
        u64::from_le_bytes(frame[..8].try_into().unwrap())
    });
    (answer.finding, answer.error_bits, timestamps.collect())
}

#[test]
fn a_hundred_thousand_requests_are_answered_as_the_model_answers() {
    let mut requests = 0;
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let mut bench = Bench::new(&mut random);
        for _ in 0..1000 {
            (0..random.below(8)).for_each(|_| bench.arrive(&mut random));
            bench.request(&mut random);
            requests += 1;
        }
    }
    assert!(requests >= 100_000);
}
