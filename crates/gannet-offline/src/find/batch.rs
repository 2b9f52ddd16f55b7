//! A part of the recording in memory: bytes, and where in them the frames of each stream lie.

use std::ops::Range;

use gannet_wire::tpc_frame::FRAME_LEN;
use gannet_wire::wibeth;

use super::streams::Streams;

/// Bytes from which on a batch is full. It may be larger by one chunk or record. Small enough that
/// frames are still in the cache when they are searched.
pub(super) const BATCH_BYTES: u64 = 4 << 20;
/// Frames outside the window that a fragment tells by more than this have a damaged time stamp;
/// in ticks, 32 frames.
const WINDOW_SLACK: u64 = 1 << 16;

/// Frames that are searched together.
#[derive(Debug, Default)]
pub(super) struct Batch {
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

impl Batch {
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
