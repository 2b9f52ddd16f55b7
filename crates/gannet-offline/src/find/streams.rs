//! A part of the recording in memory: bytes, where in them frames lie, and which stream each is of. Chains
//! are made for streams as they are met.

use std::collections::HashMap;
use std::ops::Range;

use gannet_wire::tpc_frame::FRAME_LEN;
use gannet_wire::{GeoId, channel_map, wibeth};

use super::chain::{ChainSettings, StreamChain};
use super::error::FindError;
use super::origin::Origin;

/// Bytes from which on a batch is full. It may be larger by one chunk or record. Small enough that
/// frames are still in the cache when they are searched.
pub(super) const BATCH_BYTES: u64 = 4 << 20;
/// Frames outside the window that a fragment tells by more than this have a damaged time stamp;
/// in ticks, 32 frames.
const WINDOW_SLACK: u64 = 1 << 16;

/// Frames that are searched together.
#[derive(Debug, Default)]
pub(super) struct FrameBatch {
    buffers: Vec<Vec<u8>>,
    used: usize,
    streams: Vec<Vec<Place>>,
    len: u64,
    /// Earliest time stamp of its frames, in ticks.
    pub first: u64,
    /// No frame of a later batch was taken before this tick.
    pub complete_to: u64,
    /// Frames with a damaged time stamp, and remains of frames that were cut.
    pub damaged: u64,
}

/// Where a frame lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    timestamp: u64,
    buffer: usize,
    at: usize,
}

impl FrameBatch {
    /// Forgets the frames; the memory is kept.
    pub fn clear(&mut self) {
        self.used = 0;
        self.streams.iter_mut().for_each(Vec::clear);
        (self.len, self.first, self.complete_to, self.damaged) = (0, u64::MAX, 0, 0);
    }

    /// Whether it should be searched before more is read.
    pub fn is_full(&self) -> bool {
        self.len >= BATCH_BYTES
    }

    /// Whether it holds no frame.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number and memory of a buffer that is not in use; what it holds is of no meaning.
    pub fn buffer(&mut self) -> (usize, &mut Vec<u8>) {
        if self.used == self.buffers.len() {
            self.buffers.push(Vec::new());
        }
        self.used += 1;
        (self.used - 1, &mut self.buffers[self.used - 1])
    }

    /// The bytes of a buffer.
    pub fn bytes(&self, buffer: usize) -> &[u8] {
        &self.buffers[buffer]
    }

    /// Takes the frames that lie back to back in `range` of a buffer, in their order; of a
    /// fragment those of its window, in ticks.
    pub fn add_rows(
        &mut self,
        buffer: usize,
        range: Range<usize>,
        window: Option<Range<u64>>,
        streams: &mut Streams<'_>,
    ) {
        let begin = range.start;
        let rows = self.buffers[buffer][range].chunks_exact(FRAME_LEN);
        self.damaged += u64::from(!rows.remainder().is_empty());
        let window = window.map_or(0..=u64::MAX, |window| {
            window.start.saturating_sub(WINDOW_SLACK)..=window.end.saturating_add(WINDOW_SLACK)
        });
        for (index, row) in rows.enumerate() {
            let frame = wibeth::Frame::new_unchecked(row);
            let timestamp = frame.timestamp();
            let Some(stream) = streams.number(frame.geo_id()) else { continue };
            if !window.contains(&timestamp) {
                self.damaged += 1;
                continue;
            }
            if stream >= self.streams.len() {
                self.streams.resize_with(stream + 1, Vec::new);
            }
            self.streams[stream].push(Place { timestamp, buffer, at: begin + index * FRAME_LEN });
            self.first = self.first.min(timestamp);
            self.len += FRAME_LEN as u64;
        }
    }

    /// Brings the frames of each stream in the order of their time stamps.
    pub fn sort(&mut self) {
        self.streams.iter_mut().for_each(|places| places.sort_by_key(|place| place.timestamp));
    }

    /// The frames of a stream in their order.
    pub fn frames(&self, stream: usize) -> impl Iterator<Item = wibeth::Frame<&[u8]>> {
        let places = self.streams.get(stream).map_or(&[][..], |places| places);
        places.iter().map(|place| {
            let bytes = &self.buffers[place.buffer][place.at..place.at + FRAME_LEN];
            wibeth::Frame::new_unchecked(bytes)
        })
    }
}

/// Numbers the streams of a recording in the order in which they are met.
pub(super) struct Streams<'a> {
    origin: &'a Origin,
    settings: &'a ChainSettings,
    numbers: HashMap<GeoId, Option<usize>>,
    count: usize,
    /// The stream of the last frame, which is mostly that of the next.
    last: Option<(GeoId, Option<usize>)>,
    fresh: Vec<StreamChain>,
    unmapped: Unmapped,
    failure: Option<FindError>,
}

/// Frames of streams whose channels are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unmapped {
    /// Frames.
    pub frames: u64,
    /// The first such stream met.
    pub first: Option<GeoId>,
}

impl<'a> Streams<'a> {
    /// No stream yet.
    pub fn new(origin: &'a Origin, settings: &'a ChainSettings) -> Self {
        Self {
            origin,
            settings,
            numbers: HashMap::new(),
            count: 0,
            last: None,
            fresh: Vec::new(),
            unmapped: Unmapped::default(),
            failure: None,
        }
    }

    /// Number of a stream, of which a frame was met; absent when its channels are not known.
    #[inline]
    pub fn number(&mut self, geo_id: GeoId) -> Option<usize> {
        let number = match self.last {
            Some((last, number)) if last == geo_id => number,
            _ => self.look_up(geo_id),
        };
        if number.is_none() {
            self.unmapped.first.get_or_insert(geo_id);
            self.unmapped.frames += 1;
        }
        number
    }

    /// The chains of the streams that were met since the last call, in the order of their numbers.
    ///
    /// # Errors
    /// A chain cannot be set up.
    pub fn take_fresh(&mut self) -> Result<Vec<StreamChain>, FindError> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(std::mem::take(&mut self.fresh)),
        }
    }

    /// Frames that no chain was there for.
    pub fn unmapped(&self) -> Unmapped {
        self.unmapped
    }

    fn look_up(&mut self, geo_id: GeoId) -> Option<usize> {
        let number = match self.numbers.get(&geo_id) {
            Some(number) => *number,
            None => {
                let number = self.meet(geo_id);
                // Damaged headers may name any stream; no more are remembered than can be.
                if self.numbers.len() < 2 * channel_map::STREAMS_MAX {
                    self.numbers.insert(geo_id, number);
                }
                number
            }
        };
        self.last = Some((geo_id, number));
        number
    }

    fn meet(&mut self, geo_id: GeoId) -> Option<usize> {
        let (format, channels) = self.origin.stream(geo_id)?;
        match StreamChain::new(geo_id, format, &channels, self.settings) {
            Ok(chain) => self.fresh.push(chain),
            Err(error) => self.failure = self.failure.take().or(Some(error)),
        }
        self.count += 1;
        Some(self.count - 1)
    }
}
