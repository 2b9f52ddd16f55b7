//! Records of a log or raw file, one after the other, as a row of packets.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use gannet_dune::raw_file::{RawFileReader, Role};
use gannet_dune::record::holds_tpc_frames;
use gannet_emulate::replay::Packet;
use gannet_log::{Error, Kind, Reader};
use gannet_record::StoredRecord;
use gannet_wire::{GeoId, daq_ethernet};

use super::frames::Frames;
use super::{Packets, RecordingError, Skipped};

/// Records of a file in their order.
pub(super) trait RecordSource: Send {
    /// Puts what the next record holds into `frames`; false after the last record.
    fn next(&mut self, frames: &mut Frames) -> Result<bool, RecordingError>;

    /// Goes back to the first record.
    fn rewind(&mut self) -> Result<(), RecordingError>;
}

/// The frames of all records; it holds one record in memory.
pub(super) struct Records<S> {
    source: S,
    frames: Frames,
}

impl<S> Records<S> {
    pub fn new(source: S) -> Self {
        Self { source, frames: Frames::default() }
    }
}

impl<S: RecordSource> Packets for Records<S> {
    fn advance(&mut self) -> Result<bool, RecordingError> {
        self.frames.advance();
        while self.frames.is_empty() {
            if !self.source.next(&mut self.frames)? {
                return Ok(false);
            }
            self.frames.sort();
        }
        Ok(true)
    }

    fn packet(&self) -> Packet<'_> {
        self.frames.packet()
    }

    fn rewind(&mut self) -> Result<(), RecordingError> {
        self.frames.clear();
        self.source.rewind()
    }

    fn skipped(&self) -> Skipped {
        self.frames.skipped()
    }
}

/// Bytes of raw frames that are brought in the order of time together.
const ROUND_BYTES_MAX: usize = 64 << 20;

/// Trigger records and raw frames of a log; damaged chunks are stepped over.
///
/// Where the log has a stream as it came, its frames are taken from there and not from records,
/// which may stand before them in the log. Raw frames come a chunk of each stream at a time, so
/// chunks of different streams that follow one another are taken together.
pub(super) struct LogRecords {
    path: PathBuf,
    reader: Reader<File>,
    raw: RawExtents,
    /// A chunk of raw frames that is to be taken with those behind it.
    next_raw: Option<Vec<u8>>,
    /// Nothing sound is left.
    ended: bool,
}

/// First and last time stamp of the raw frames of each stream.
#[derive(Default)]
struct RawExtents(HashMap<GeoId, (u64, u64)>);

impl LogRecords {
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let mut reader = Reader::open(path)?;
        let mut raw = RawExtents::default();
        reader.glance(|header, payload| {
            if holds_tpc_frames(&header.label, header.payload_len as usize)
                && let Some(stream) = stream_of(payload)
            {
                raw.extend(stream, header.label.first_ticks, header.label.last_ticks);
            }
        })?;
        Ok(Self { path: path.to_owned(), reader, raw, next_raw: None, ended: false })
    }

    /// Takes what comes up to the next chunk of a stream that was taken already, or to a record;
    /// false at the end of the file.
    fn take_round(&mut self, frames: &mut Frames) -> Result<bool, Error> {
        let (mut streams, mut bytes) = (Vec::new(), 0);
        if let Some(first) = self.next_raw.take() {
            (streams, bytes) = (vec![stream_of(&first)], first.len());
            frames.add_rows(first, 0);
        }
        while let Some(chunk) = self.reader.next_chunk()? {
            match chunk.header.label.kind {
                Kind::TRIGGER_RECORD => {
                    add_record(chunk.payload, frames, &self.raw);
                    return Ok(true);
                }
                Kind::RAW_FRAMES if holds_tpc_frames(&chunk.header.label, chunk.payload.len()) => {
                    let (stream, raw) = (stream_of(chunk.payload), chunk.payload.to_vec());
                    bytes += raw.len();
                    if streams.contains(&stream) || bytes > ROUND_BYTES_MAX {
                        self.next_raw = Some(raw);
                        return Ok(true);
                    }
                    streams.push(stream);
                    frames.add_rows(raw, 0);
                }
                _ => {}
            }
        }
        Ok(!streams.is_empty())
    }
}

impl RecordSource for LogRecords {
    fn next(&mut self, frames: &mut Frames) -> Result<bool, RecordingError> {
        if self.ended {
            return Ok(false);
        }
        let damage = match self.take_round(frames) {
            Err(damage @ Error::Damaged { .. }) => damage,
            taken => return Ok(taken?),
        };
        tracing::warn!("{damage}; going on behind it");
        frames.add_damage();
        self.ended = self.reader.resync()?.is_none();
        Ok(!self.ended || !frames.is_empty())
    }

    fn rewind(&mut self) -> Result<(), RecordingError> {
        self.reader = Reader::open(&self.path)?;
        (self.next_raw, self.ended) = (None, false);
        Ok(())
    }
}

impl RawExtents {
    fn extend(&mut self, stream: GeoId, first: u64, last: u64) {
        let extent = self.0.entry(stream).or_insert((first, last));
        *extent = (extent.0.min(first), extent.1.max(last));
    }

    fn contain(&self, stream: GeoId, timestamp: u64) -> bool {
        self.0.get(&stream).is_some_and(|(first, last)| (first..=last).contains(&&timestamp))
    }
}

/// The stream of the first frame in a chunk of raw frames.
fn stream_of(payload: &[u8]) -> Option<GeoId> {
    daq_ethernet::Header::new_checked(payload).ok().map(|header| header.geo_id())
}

/// Takes the fragments of a record in its stored form, but for frames that are there as they came.
fn add_record(record: &[u8], frames: &mut Frames, raw: &RawExtents) {
    let Ok(record) = StoredRecord::trigger_record(record) else { return frames.add_damage() };
    for fragment in record.fragments() {
        match fragment.map(|fragment| (fragment.header().fragment_type, fragment.payload())) {
            Ok((kind, payload)) => {
                frames.add_payload(kind, payload.to_vec(), 0, |geo_id, timestamp| {
                    raw.contain(geo_id, timestamp)
                });
            }
            Err(_) => frames.add_damage(),
        }
    }
}

/// Records of a DUNE raw file by rising number.
pub(super) struct RawFileRecords {
    file: RawFileReader,
    next: usize,
}

impl RawFileRecords {
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Ok(Self { file: RawFileReader::open(path)?, next: 0 })
    }
}

impl RecordSource for RawFileRecords {
    fn next(&mut self, frames: &mut Frames) -> Result<bool, RecordingError> {
        let Some(record) = self.file.records().get(self.next) else { return Ok(false) };
        self.next += 1;
        for entry in record.entries()? {
            // The header of a fragment says what it is, whatever the data set is called.
            if !matches!(entry.role, Role::Header(_)) {
                frames.add_fragment(entry.bytes()?);
            }
        }
        Ok(true)
    }

    fn rewind(&mut self) -> Result<(), RecordingError> {
        self.next = 0;
        Ok(())
    }
}
