//! The emulator: front ends, with faults, as bursts of datagrams, and the truth about them.

use std::array;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use gannet_wire::{FrameFormat, Heading};

use crate::config::{ConfigError, Settings};
use crate::datagram::{BURST_DATAGRAMS_MAX, BURST_FRAMES_MAX, Burst, Datagram};
use crate::faults::{Fault, Injector};
use crate::front_end::{Body, FrontEnd, InjectedEvent};
use crate::held::HeldBack;
use crate::live::{FaultSwitch, Live};
use crate::truth::{FaultCounts, StreamTruth, Truth};

/// One datagram of the burst that is being made.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// The first bytes of the frame made in this place.
    Made { place: usize, len: usize },
    /// The held-back frame in this place.
    Held { place: usize },
}

/// A frame of the burst that is being made.
#[derive(Clone, Debug, Default)]
struct Frame {
    written: Vec<u8>,
    body: Body,
}

/// What changes from frame to frame of one stream.
#[derive(Clone, Debug)]
struct Stream {
    next: u64,
    sent: u64,
    faults: FaultCounts,
    sequence_jump: u32,
    timestamp_jump: u64,
    held: HeldBack,
}

/// Frames of the front ends as datagrams, with the configured faults.
///
/// The emulator does not send and reads no clock: a [`Pacer`](crate::pacer::Pacer) says when how
/// many frames of which stream are due, and the caller sends what [`Emulator::next_burst`] gives.
/// Allocates nothing after it is made, but for room for signals in the first milliseconds.
#[derive(Debug)]
pub struct Emulator<F> {
    front_end: F,
    injector: Injector,
    live: Live,
    seed: u64,
    sequence_jump_size: u32,
    timestamp_jump_ticks: u64,
    reorder_distance: u64,
    streams: Vec<Stream>,
    frames: [Frame; BURST_FRAMES_MAX],
    pieces: Vec<Piece>,
    frames_reported: u64,
    events: BTreeMap<String, u64>,
}

impl<F: FrontEnd> Emulator<F> {
    /// Emulator of `front_end`, whose frames suffer the faults of `settings`.
    ///
    /// # Errors
    /// A [`ConfigError`] if the settings cannot be emulated by this front end.
    pub fn new(front_end: F, settings: &Settings) -> Result<Self, ConfigError> {
        let (streams, rhythm) = (front_end.streams().len(), front_end.format().rhythm());
        settings.check(streams, &rhythm)?;
        let faults = &settings.faults;
        let distance = if faults.reorder > 0.0 { faults.reorder_distance } else { 0 };
        let len_max = *front_end.format().lengths().end();
        let stream = || Stream {
            next: 0,
            sent: 0,
            faults: FaultCounts::default(),
            sequence_jump: 0,
            timestamp_jump: 0,
            held: HeldBack::new(distance, len_max),
        };
        let frame = || Frame { written: Vec::with_capacity(len_max), body: Body::default() };
        Ok(Self {
            injector: Injector::new(settings, streams, rhythm.clock, front_end.frames_per_s()),
            live: Live::new(settings, front_end.frames_per_s()),
            seed: settings.seed,
            sequence_jump_size: faults.sequence_jump_size.into(),
            timestamp_jump_ticks: faults.timestamp_jump_ticks,
            reorder_distance: faults.reorder_distance as u64,
            streams: (0..streams).map(|_| stream()).collect(),
            frames: array::from_fn(|_| frame()),
            pieces: Vec::with_capacity(BURST_DATAGRAMS_MAX),
            frames_reported: 0,
            events: BTreeMap::new(),
            front_end,
        })
    }

    /// Lets `switch` put faults in while frames are made. What the configuration does to a frame comes first.
    pub fn obey(&mut self, switch: Arc<FaultSwitch>) {
        let len_max = *self.front_end.format().lengths().end();
        let distance = self.reorder_distance as usize;
        self.streams.iter_mut().for_each(|stream| stream.held = HeldBack::new(distance, len_max));
        let noisy =
            (0..self.streams.len()).map_while(|stream| self.front_end.noisy_channel(stream));
        switch.tell_noisy(noisy.collect());
        self.live.obey(switch);
    }

    /// The front ends, which can make any frame again.
    pub fn front_end(&mut self) -> &mut F {
        &mut self.front_end
    }

    /// Number of streams.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Makes the next `count` frames of `stream`, at most [`BURST_FRAMES_MAX`], and returns the
    /// datagrams to be sent for them: none if all are lost.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn next_burst(&mut self, stream: usize, count: usize) -> Burst<'_> {
        self.pieces.clear();
        self.live.look(self.streams.iter().map(|stream| stream.next));
        let first = self.streams[stream].next;
        for place in 0..count.min(BURST_FRAMES_MAX) {
            self.make(stream, place);
        }
        self.live.note(first..self.streams[stream].next);
        self.burst(stream)
    }

    /// Returns the frames of `stream` that are still held back, to be sent after its last burst.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn flush(&mut self, stream: usize) -> Burst<'_> {
        self.pieces.clear();
        while let Some(place) = self.streams[stream].held.release(u64::MAX) {
            self.pieces.push(Piece::Held { place });
        }
        self.burst(stream)
    }

    /// Passes the events that began in frames which all streams have made, and that were not
    /// passed or counted before, to `event`, in order of time, and counts them.
    ///
    /// An event may end after the last frame made. Call it now and then, for example ten times a
    /// second; the events are drawn again for it.
    pub fn report(&mut self, mut event: impl FnMut(&dyn InjectedEvent)) {
        let frames = self.unreported();
        let events = &mut self.events;
        self.front_end.report(frames, &mut |what| {
            add(events, what.kind(), 1);
            event(what);
        });
    }

    /// Counts the events that [`report`](Self::report) would pass.
    pub fn count(&mut self) {
        let frames = self.unreported();
        let events = &mut self.events;
        self.front_end.count(frames, &mut |kind, more| add(events, kind, more));
    }

    /// The frames that all streams have made, and whose events were not reported before.
    fn unreported(&mut self) -> Range<u64> {
        let made = self.streams.iter().map(|stream| stream.next).min().unwrap_or(0);
        std::mem::replace(&mut self.frames_reported, made)..made
    }

    /// The truth up to now.
    pub fn truth(&self) -> Truth {
        Truth {
            seed: self.seed,
            ticks_per_frame: self.front_end.format().rhythm().step.longest(),
            events: self.events.clone(),
            streams: (0..self.streams.len()).map(|stream| self.stream_truth(stream)).collect(),
        }
    }

    fn stream_truth(&self, stream: usize) -> StreamTruth {
        let (state, front_end) = (&self.streams[stream], &self.front_end);
        let made = state.next > 0;
        StreamTruth {
            stream: front_end.format().stream_name(front_end.streams()[stream]),
            frames_made: state.next,
            datagrams_sent: state.sent,
            held_back: state.held.len(),
            faults: state.faults,
            first_timestamp: made.then(|| front_end.begin(0)),
            last_timestamp: made.then(|| front_end.begin(state.next - 1)),
            ticks_jumped: state.timestamp_jump,
        }
    }

    /// Makes the next frame of `stream` in `place` and notes what is to be sent for it.
    fn make(&mut self, stream: usize, place: usize) {
        let state = &mut self.streams[stream];
        let index = state.next;
        state.next += 1;
        let fault = match self.injector.stopped(stream, index) {
            true => Some(Fault::Stopped),
            false => {
                let drawn = self.injector.draw(stream, index);
                drawn.or_else(|| self.live.draw(stream, index))
            }
        };
        match fault {
            Some(Fault::Stopped) => state.faults.stopped += 1,
            Some(Fault::Loss) => state.faults.lost += 1,
            fault => {
                let frame = &mut self.frames[place];
                frame.written.clear();
                frame.body = self.front_end.make(stream, index, &mut frame.written);
                self.apply(stream, place, index, fault);
            }
        }
        if let Some(place) = self.streams[stream].held.release(index) {
            self.pieces.push(Piece::Held { place });
        }
    }

    /// Does to the frame in `place` what `fault` says, and notes what is to be sent.
    fn apply(&mut self, stream: usize, place: usize, index: u64, fault: Option<Fault>) {
        self.set_heading(stream, place, index, fault.as_ref());
        let mut len = self.parts(place).map(<[u8]>::len).into_iter().sum();
        let faults = &mut self.streams[stream].faults;
        match fault {
            Some(Fault::Reorder) => return self.hold_back(stream, place, index),
            Some(Fault::BitFlip(mut random)) => {
                let bit = random.below(8 * len as u64) as usize;
                self.flip(stream, place, bit);
            }
            Some(Fault::Noise) => {
                faults.noisy += 1;
                self.own_body(place);
                self.front_end.add_noise(stream, &mut self.frames[place].written);
            }
            Some(Fault::Truncation(mut random)) => {
                faults.truncated += 1;
                len = 1 + random.below((len as u64).saturating_sub(1).max(1)) as usize;
            }
            Some(Fault::Duplicate) => {
                faults.duplicated += 1;
                self.pieces.push(Piece::Made { place, len });
            }
            _ => {}
        }
        self.pieces.push(Piece::Made { place, len });
    }

    /// Writes what the frame in `place` tells, where a fault of now or before changed it.
    fn set_heading(&mut self, stream: usize, place: usize, index: u64, fault: Option<&Fault>) {
        let (front_end, state) = (&self.front_end, &mut self.streams[stream]);
        let mut stranger = None;
        match fault {
            Some(Fault::SequenceJump) => {
                state.faults.sequence_jumped += 1;
                state.sequence_jump = state.sequence_jump.wrapping_add(self.sequence_jump_size);
            }
            Some(Fault::TimestampJump) => {
                state.faults.timestamp_jumped += 1;
                state.timestamp_jump = state.timestamp_jump.wrapping_add(self.timestamp_jump_ticks);
            }
            Some(Fault::WrongId(random)) => {
                state.faults.wrong_id += 1;
                stranger = Some(front_end.stranger(stream, &mut random.clone()));
            }
            _ => {}
        }
        let clock_off = self.injector.clock_off(stream, index);
        state.faults.wrong_clock += u64::from(clock_off != 0);
        let ticks = state.timestamp_jump.wrapping_add(clock_off);
        if stranger.is_none() && state.sequence_jump == 0 && ticks == 0 {
            return;
        }
        let right = front_end.heading(stream, index);
        let sequence_max = front_end.format().rhythm().sequence_modulus - 1;
        let told = Heading {
            stream: stranger.unwrap_or(right.stream),
            begin: right.begin.wrapping_add(ticks),
            sequence: right.sequence.wrapping_add(state.sequence_jump) & sequence_max,
        };
        front_end.format().set_heading(&mut self.frames[place].written, &told);
    }

    fn hold_back(&mut self, stream: usize, place: usize, index: u64) {
        let [head, body] = parts(&self.front_end, &self.frames[place]);
        let state = &mut self.streams[stream];
        state.faults.reordered += 1;
        state.held.hold(head, body, index + self.reorder_distance);
    }

    fn flip(&mut self, stream: usize, place: usize, bit: usize) {
        let (byte, mask) = (bit / 8, 1 << (bit % 8));
        let faults = &mut self.streams[stream].faults;
        let frame = &self.frames[place];
        let header_len = match frame.body {
            Body::Own(from) => from,
            Body::Shared(_) => frame.written.len(),
        };
        if byte < header_len {
            faults.flipped_header += 1;
        } else {
            faults.flipped_body += 1;
        }
        if byte >= header_len {
            self.own_body(place);
        }
        self.frames[place].written[byte] ^= mask;
    }

    /// Gives the frame in `place` a body that may be changed: shared ones belong to many frames.
    fn own_body(&mut self, place: usize) {
        let frame = &mut self.frames[place];
        if let Body::Shared(number) = frame.body {
            let header_len = frame.written.len();
            frame.written.extend_from_slice(self.front_end.body(number));
            frame.body = Body::Own(header_len);
        }
    }

    /// The datagrams of the pieces that were noted.
    fn burst(&mut self, stream: usize) -> Burst<'_> {
        self.streams[stream].sent += self.pieces.len() as u64;
        let mut burst = Burst::new();
        for &piece in &self.pieces {
            burst.push(match piece {
                Piece::Made { place, len } => {
                    let [head, body] = self.parts(place);
                    Datagram {
                        head: &head[..len.min(head.len())],
                        body: &body[..len.saturating_sub(head.len())],
                    }
                }
                Piece::Held { place } => {
                    Datagram { head: self.streams[stream].held.frame(place), body: &[] }
                }
            });
        }
        burst
    }

    /// The frame in `place`: what was written, and its shared body.
    fn parts(&self, place: usize) -> [&[u8]; 2] {
        parts(&self.front_end, &self.frames[place])
    }
}

fn add(events: &mut BTreeMap<String, u64>, kind: &str, more: u64) {
    match events.get_mut(kind) {
        Some(count) => *count += more,
        None => drop(events.insert(kind.to_owned(), more)),
    }
}

fn parts<'a>(front_end: &'a impl FrontEnd, frame: &'a Frame) -> [&'a [u8]; 2] {
    let body = match frame.body {
        Body::Own(_) => &[],
        Body::Shared(number) => front_end.body(number),
    };
    [&frame.written, body]
}
