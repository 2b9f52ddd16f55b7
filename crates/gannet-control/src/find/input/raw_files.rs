//! DUNE raw files: trigger records in the order of time.

use std::path::PathBuf;

use gannet_readout::log::{FileHeader, RunInfo};
use gannet_readout::raw_file::{RawFileReader, RecordKind, RecordReader, Role};
use gannet_wire::{Fragment, FragmentType, GeoId, Subsystem, TriggerRecordHeader, wibeth};

use super::{Part, Parts, Skipped, Survey, same_run};
use crate::find::batch::Batch;
use crate::find::config::FrameSource;
use crate::find::error::FindError;
use crate::find::streams::Streams;

/// Longest time that a window may begin before the time of its trigger, when the record does not
/// tell; in ticks, 1 s.
const BEFORE_TRIGGER_MAX: u64 = 62_500_000;

/// Raw files that were looked through.
struct RawFiles {
    files: Vec<RawFileReader>,
    skipped: Skipped,
}

/// Looks the records through; of each only the header is read.
pub(super) fn survey(paths: &[PathBuf]) -> Result<Survey, FindError> {
    let (mut files, mut parts, mut geo_ids) = (Vec::new(), Vec::new(), Vec::new());
    let (mut run, mut skipped) = (None, Skipped::default());
    for (file, path) in paths.iter().enumerate() {
        let reader = RawFileReader::open(path)?;
        if reader.kind() != RecordKind::TriggerRecord {
            let holds = "time slices of trigger primitives only; name the file of trigger \
                         records, or the log";
            return Err(FindError::NoFrames { path: path.clone(), holds: holds.into() });
        }
        same_run(&mut run, reader.number("run_number")? as u32, path)?;
        for (place, record) in reader.records().iter().enumerate() {
            match look_at(record) {
                Some((first, len)) => parts.push(Part { file, place: place as u64, first, len }),
                None => skipped.damaged += 1,
            }
        }
        geo_ids.extend(places(&reader));
        files.push(reader);
    }
    if parts.is_empty() {
        let holds = "no trigger record that can be read".into();
        return Err(FindError::NoFrames { path: paths[0].clone(), holds });
    }
    parts.sort_by_key(|part| part.first);
    let info = RunInfo { run: run.unwrap_or(0), ..RunInfo::default() };
    geo_ids.sort_by_key(|(source, _)| *source);
    let mut unique: Vec<GeoId> = Vec::new();
    for (_, geo_id) in geo_ids {
        if !unique.contains(&geo_id) {
            unique.push(geo_id);
        }
    }
    Ok(Survey {
        input: Box::new(RawFiles { files, skipped }),
        parts,
        source: FrameSource::Records,
        header: FileHeader::new(&info, 0, 0),
        chunks_missing: 0,
        frames_missing: 0,
        start: None,
        from_start: false,
        geo_ids: unique,
    })
}

/// Sources of a file that are on the detector, by number, and their places.
fn places(reader: &RawFileReader) -> Vec<(u32, GeoId)> {
    // Without them a channel map must be given; that is told later.
    let map = reader.geo_ids().unwrap_or_default();
    let readout = map.into_iter().filter(|(id, _)| id.subsystem == Subsystem::DetectorReadout);
    readout.flat_map(|(id, places)| places.into_iter().map(move |place| (id.id, place))).collect()
}

/// First tick and bytes of a record, if its header can be read.
fn look_at(record: &RecordReader) -> Option<(u64, u64)> {
    let bytes = record.header().ok()?;
    let header = TriggerRecordHeader::new_checked(&bytes).ok()?;
    let begin = header.component_requests().map(|request| request.window_begin).min();
    let trigger = header.header().trigger_timestamp;
    let first = begin.unwrap_or(trigger.saturating_sub(BEFORE_TRIGGER_MAX));
    let entries = record.entries().ok()?;
    let len = entries.iter().filter_map(|entry| entry.len_bytes().ok()).sum();
    // The first frame of a window begins before it.
    Some((first.saturating_sub(2 * wibeth::TICKS_PER_FRAME), len))
}

impl Parts for RawFiles {
    fn read(
        &mut self,
        part: &Part,
        batch: &mut Batch,
        streams: &mut Streams<'_>,
    ) -> Result<bool, FindError> {
        let record = &self.files[part.file].records()[part.place as usize];
        for entry in record.entries()? {
            // The header of a fragment says what it is, whatever the data set is called.
            if matches!(entry.role, Role::Header(_)) {
                continue;
            }
            let Ok(bytes) = entry.bytes() else {
                self.skipped.damaged += 1;
                continue;
            };
            let Ok(header) = Fragment::new_checked(&bytes).map(|fragment| fragment.header()) else {
                self.skipped.damaged += 1;
                continue;
            };
            if !matches!(header.fragment_type, FragmentType::WibEth | FragmentType::TdeEth) {
                self.skipped.other += 1;
                continue;
            }
            let (range, window) =
                (Fragment::HEADER_LEN..bytes.len(), header.window_begin..header.window_end);
            let (buffer, memory) = batch.buffer();
            *memory = bytes;
            batch.add_rows(buffer, range, Some(window), streams);
        }
        Ok(false)
    }

    fn skipped(&self) -> Skipped {
        self.skipped
    }
}
