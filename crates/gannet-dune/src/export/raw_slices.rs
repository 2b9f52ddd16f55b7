//! Streams recorded as they came, as time slices in DUNE's raw-file layout.
//!
//! Each chunk of frames is a slice of its own, with one fragment: the frames, byte for byte. Its
//! number is that of the chunk in the run, so that slices keep the order in which they were
//! recorded, and those of all files of a run have different names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gannet_wire::fragment::error_bits;
use gannet_wire::record::Record;
use gannet_wire::{
    FragmentRepr, FragmentType, GeoId, SourceId, Subsystem, TimeSliceHeader, daq_ethernet,
    fragment, tdeeth, tpc_frame, wibeth,
};

use super::log_contents::LogContents;
use crate::raw_file::{FileInfo, FragmentParts, GeoIdMap, RawFileWriter, Result};
use crate::time_slice::SliceBuilder;
use gannet_log::ChunkView;

/// Detector number of the top drift electronics of the vertical drift detector.
const VD_TOP_TPC: u16 = 11;
/// Least number of a source whose number the log does not tell.
const SOURCE_FIRST: u32 = 100;

/// The stream of a chunk of frames.
///
/// # Errors
/// When the chunk does not hold whole frames.
pub(super) fn stream_of(frames: &[u8]) -> gannet_wire::Result<GeoId> {
    let (format, got, unit) = ("chunk of raw frames", frames.len(), tpc_frame::FRAME_LEN);
    if got == 0 || !got.is_multiple_of(unit) {
        return Err(gannet_wire::Error::Remainder { format, unit, got });
    }
    Ok(daq_ethernet::Header::new_checked(frames)?.geo_id())
}

/// What each recorded stream is in files.
pub(super) type RawSources = BTreeMap<GeoId, (SourceId, FragmentType)>;

/// Gives each recorded stream its source: that of the run, that of the trigger records, or the next
/// free one.
pub(super) fn sources(contents: &LogContents) -> RawSources {
    let mut taken = contents.content.geo_ids.clone();
    let numbered = |id| SourceId::new(Subsystem::DetectorReadout, id);
    let mut free = SOURCE_FIRST;
    let in_records = |stream: GeoId, records: &GeoIdMap| {
        records.iter().find(|(_, places)| places.contains(&stream)).map(|(source, _)| *source)
    };
    let mut sources = RawSources::new();
    for &stream in &contents.content.raw_streams {
        let told = contents.run.source(stream);
        let known = told.map(|(source, _)| source).or_else(|| in_records(stream, &taken));
        while taken.contains_key(&numbered(free)) {
            free += 1;
        }
        let source = known.unwrap_or(numbered(free));
        taken.insert(source, vec![stream]);
        let usual =
            if stream.detector == VD_TOP_TPC { FragmentType::TdeEth } else { FragmentType::WibEth };
        sources.insert(stream, (source, told.map_or(usual, |(_, kind)| kind)));
    }
    sources
}

/// A raw file of recorded streams in progress.
#[derive(Debug)]
pub(super) struct RawSlices {
    file: RawFileWriter,
    run: u32,
    sources: RawSources,
}

impl RawSlices {
    /// Begins the file, which takes the place of `path` when it is closed.
    pub fn begin(path: &Path, info: &FileInfo, sources: RawSources) -> Result<Self> {
        Ok(Self { file: RawFileWriter::replace(path, info)?, run: info.run_number, sources })
    }

    /// Writes a chunk of frames of `stream`; the frames go to the file without a copy.
    pub fn write(&mut self, stream: GeoId, chunk: &ChunkView<'_>) -> Result<()> {
        let unknown = (SourceId::new(Subsystem::Unknown, 0), FragmentType::Unknown);
        let (source_id, fragment_type) = self.sources.get(&stream).copied().unwrap_or(unknown);
        let (number, label) = (chunk.header.sequence, &chunk.header.label);
        let frame_ticks = match fragment_type {
            FragmentType::TdeEth => tdeeth::TICKS_PER_FRAME,
            _ => wibeth::TICKS_PER_FRAME,
        };
        let header = FragmentRepr {
            version: fragment::Version::V5,
            size: (FragmentRepr::LEN + chunk.payload.len()) as u64,
            trigger_number: number,
            trigger_timestamp: label.first_ticks,
            window_begin: label.first_ticks,
            window_end: label.last_ticks.saturating_add(frame_ticks),
            run_number: self.run,
            error_bits: if label.items_missing > 0 { error_bits::INCOMPLETE } else { 0 },
            fragment_type,
            sequence_number: 0,
            detector_id: stream.detector,
            source_id,
        };
        let slice =
            TimeSliceHeader { number, run_number: self.run, source_id: SliceBuilder::BUILDER };
        let mut slice_header = [0; TimeSliceHeader::LEN];
        slice.emit(&mut slice_header);
        let payload = [chunk.payload];
        self.file.write_record(&slice_header, &[FragmentParts { header, payload: &payload }])?;
        Ok(())
    }

    /// Ends the file and gives it its name, which is returned.
    pub fn close(self) -> Result<PathBuf> {
        self.file.close()
    }
}
