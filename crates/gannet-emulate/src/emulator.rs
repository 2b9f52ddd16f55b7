//! The emulator: front ends, with faults, as bursts of datagrams, and the truth about them.

use gannet_wire::adc14::{BLOCK_LEN, Block};
use gannet_wire::tpc_frame::FRAME_LEN;
use gannet_wire::{ChannelMap, GeoId, daq_ethernet};

use crate::config::{Config, ConfigError};
use crate::content::event::{Event, EventKind, Hit};
use crate::datagram::{BURST_DATAGRAMS_MAX, BURST_FRAMES_MAX, Burst, Datagram};
use crate::faults::{Fault, Injector};
use crate::front_end::{BlockAt, FrontEnd, HEADERS_LEN, Headers, set_time};
use crate::held::HeldBack;
use crate::truth::{FaultCounts, StreamTruth, Truth};

/// One datagram of the burst that is being made.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// The first bytes of the frame made in this place.
    Made { place: usize, len: usize },
    /// The held-back frame in this place.
    Held { place: usize },
}

/// What changes from frame to frame of one stream.
#[derive(Clone, Debug)]
struct Stream {
    geo: GeoId,
    next: u64,
    sent: u64,
    faults: FaultCounts,
    sequence_jump: u16,
    timestamp_jump: u64,
    held: HeldBack,
}

/// Frames of the front ends as datagrams, with the configured faults.
///
/// The emulator does not send and reads no clock: a [`Pacer`](crate::pacer::Pacer) says when how
/// many frames of which stream are due, and the caller sends what [`Emulator::next_burst`] gives.
/// Allocates nothing after it is made, but for room for signals in the first milliseconds.
#[derive(Debug)]
pub struct Emulator {
    front_end: FrontEnd,
    injector: Injector,
    seed: u64,
    sequence_jump_size: u16,
    timestamp_jump_ticks: u64,
    reorder_distance: u64,
    streams: Vec<Stream>,
    headers: [Headers; BURST_FRAMES_MAX],
    blocks: [BlockAt; BURST_FRAMES_MAX],
    scratch: Box<[Block]>,
    pieces: Vec<Piece>,
    frames_reported: u64,
    tracks: u64,
    deposits: u64,
}

impl Emulator {
    /// Emulator of `config`, whose streams read the wires that `map` tells.
    ///
    /// `now` is the timestamp of the first frame in ticks of 16 ns, unless the configuration
    /// names one.
    ///
    /// # Errors
    /// As [`FrontEnd::new`].
    pub fn new(config: &Config, map: &ChannelMap, now: u64) -> Result<Self, ConfigError> {
        let front_end = FrontEnd::new(config, map, now)?;
        let faults = &config.faults;
        let distance = if faults.reorder > 0.0 { faults.reorder_distance } else { 0 };
        let stream = |&geo: &GeoId| Stream {
            geo,
            next: 0,
            sent: 0,
            faults: FaultCounts::default(),
            sequence_jump: 0,
            timestamp_jump: 0,
            held: HeldBack::new(distance),
        };
        Ok(Self {
            injector: Injector::new(config, front_end.geo_ids()),
            seed: config.seed,
            sequence_jump_size: faults.sequence_jump_size,
            timestamp_jump_ticks: faults.timestamp_jump_ticks,
            reorder_distance: distance as u64,
            streams: front_end.geo_ids().iter().map(stream).collect(),
            headers: [[0; HEADERS_LEN]; BURST_FRAMES_MAX],
            blocks: [BlockAt::default(); BURST_FRAMES_MAX],
            scratch: vec![[0; BLOCK_LEN]; BURST_FRAMES_MAX].into(),
            pieces: Vec::with_capacity(BURST_DATAGRAMS_MAX),
            frames_reported: 0,
            tracks: 0,
            deposits: 0,
            front_end,
        })
    }

    /// The front ends, which can make any frame again.
    pub fn front_end(&mut self) -> &mut FrontEnd {
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
        for place in 0..count.min(BURST_FRAMES_MAX) {
            self.make(stream, place);
        }
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

    /// Passes the tracks and deposits that began in frames which all streams have made, and that
    /// were not passed before, to `event`, in order of time.
    ///
    /// An event may end after the last frame made: compare its `time_end`. Call it now and then,
    /// for example ten times a second; the events are drawn again for it.
    pub fn report(&mut self, mut event: impl FnMut(&Event, &[Hit])) {
        let made = self.streams.iter().map(|stream| stream.next).min().unwrap_or(0);
        let (tracks, deposits) = (&mut self.tracks, &mut self.deposits);
        self.front_end.report(self.frames_reported..made, |what, hits| {
            match what.kind {
                EventKind::Track => *tracks += 1,
                EventKind::Deposit => *deposits += 1,
            }
            event(what, hits);
        });
        self.frames_reported = made;
    }

    /// The truth up to now.
    pub fn truth(&self) -> Truth {
        Truth {
            seed: self.seed,
            ticks_per_frame: self.front_end.format().ticks_per_frame(),
            tracks: self.tracks,
            deposits: self.deposits,
            streams: self.streams.iter().map(|stream| stream.truth(&self.front_end)).collect(),
        }
    }

    /// Makes the next frame of `stream` in `place` and notes what is to be sent for it.
    fn make(&mut self, stream: usize, place: usize) {
        let state = &mut self.streams[stream];
        let index = state.next;
        state.next += 1;
        if self.injector.stopped(stream, index) {
            state.faults.stopped += 1;
        } else {
            match self.injector.draw(stream, state.geo, index) {
                Some(Fault::Loss) => state.faults.lost += 1,
                fault => {
                    self.headers[place] = self.front_end.headers(stream, index);
                    self.blocks[place] =
                        self.front_end.fill(stream, index, &mut self.scratch[place]);
                    self.apply(stream, place, index, fault);
                }
            }
        }
        if let Some(place) = self.streams[stream].held.release(index) {
            self.pieces.push(Piece::Held { place });
        }
    }

    /// Does to the frame in `place` what `fault` says, and notes what is to be sent.
    fn apply(&mut self, stream: usize, place: usize, index: u64, fault: Option<Fault>) {
        let state = &mut self.streams[stream];
        match fault {
            Some(Fault::SequenceJump) => {
                state.faults.sequence_jumped += 1;
                state.sequence_jump = state.sequence_jump.wrapping_add(self.sequence_jump_size);
            }
            Some(Fault::TimestampJump) => {
                state.faults.timestamp_jumped += 1;
                state.timestamp_jump = state.timestamp_jump.wrapping_add(self.timestamp_jump_ticks);
            }
            _ => {}
        }
        let clock_off = self.injector.clock_off(stream, index);
        state.faults.wrong_clock += u64::from(clock_off != 0);
        let ticks = state.timestamp_jump.wrapping_add(clock_off);
        if state.sequence_jump != 0 || ticks != 0 {
            let timestamp = self.front_end.timestamp(index).wrapping_add(ticks);
            let sequence = (index as u16).wrapping_add(state.sequence_jump);
            set_time(self.front_end.format(), &mut self.headers[place], timestamp, sequence);
        }
        let mut len = FRAME_LEN;
        match fault {
            Some(Fault::Reorder) => return self.hold_back(stream, place, index),
            Some(Fault::BitFlip(bit)) => self.flip(stream, place, bit),
            Some(Fault::Truncation(left)) => {
                state.faults.truncated += 1;
                len = left;
            }
            Some(Fault::WrongId(geo)) => {
                state.faults.wrong_id += 1;
                let headers = &mut self.headers[place][..];
                daq_ethernet::Header::new_unchecked(headers).set_geo_id(geo);
            }
            Some(Fault::Duplicate) => {
                state.faults.duplicated += 1;
                self.pieces.push(Piece::Made { place, len });
            }
            _ => {}
        }
        self.pieces.push(Piece::Made { place, len });
    }

    fn hold_back(&mut self, stream: usize, place: usize, index: u64) {
        let state = &mut self.streams[stream];
        state.faults.reordered += 1;
        let block = match self.blocks[place] {
            BlockAt::Pool(number) => self.front_end.pool_block(number),
            BlockAt::Scratch => &self.scratch[place],
        };
        state.held.hold(&self.headers[place], block, index + self.reorder_distance);
    }

    fn flip(&mut self, stream: usize, place: usize, bit: usize) {
        let (byte, mask) = (bit / 8, 1 << (bit % 8));
        let faults = &mut self.streams[stream].faults;
        if byte < HEADERS_LEN {
            faults.flipped_header += 1;
            self.headers[place][byte] ^= mask;
            return;
        }
        faults.flipped_block += 1;
        // Blocks of the pool belong to many frames: change a copy.
        if let BlockAt::Pool(number) = self.blocks[place] {
            self.scratch[place].copy_from_slice(self.front_end.pool_block(number));
            self.blocks[place] = BlockAt::Scratch;
        }
        self.scratch[place][byte - HEADERS_LEN] ^= mask;
    }

    /// The datagrams of the pieces that were noted.
    fn burst(&mut self, stream: usize) -> Burst<'_> {
        self.streams[stream].sent += self.pieces.len() as u64;
        let mut burst = Burst::new();
        for &piece in &self.pieces {
            burst.push(match piece {
                Piece::Made { place, len } => Datagram {
                    head: &self.headers[place][..len.min(HEADERS_LEN)],
                    body: &self.block(place)[..len.saturating_sub(HEADERS_LEN)],
                },
                Piece::Held { place } => {
                    Datagram { head: self.streams[stream].held.frame(place), body: &[] }
                }
            });
        }
        burst
    }

    fn block(&self, place: usize) -> &Block {
        match self.blocks[place] {
            BlockAt::Pool(number) => self.front_end.pool_block(number),
            BlockAt::Scratch => &self.scratch[place],
        }
    }
}

impl Stream {
    fn truth(&self, front_end: &FrontEnd) -> StreamTruth {
        let made = self.next > 0;
        StreamTruth {
            detector: self.geo.detector,
            crate_id: self.geo.crate_id,
            slot: self.geo.slot,
            stream: self.geo.stream,
            frames_made: self.next,
            datagrams_sent: self.sent,
            held_back: self.held.len(),
            faults: self.faults,
            first_timestamp: made.then(|| front_end.timestamp(0)),
            last_timestamp: made.then(|| front_end.timestamp(self.next - 1)),
            ticks_jumped: self.timestamp_jump,
        }
    }
}
