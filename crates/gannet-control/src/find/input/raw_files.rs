//! DUNE raw files: trigger records in the order of time.

use std::path::PathBuf;

use gannet_readout::log::{FileHeader, RunInfo};
use gannet_readout::raw_file::{RawFileReader, RecordKind, RecordNumber, RecordReader, Role};
use gannet_wire::{Fragment, FragmentType, TriggerRecordHeader, wibeth};

use super::one_run::{Identity, OneRun};
use super::{Part, Parts, Skipped, Survey};
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
    let (mut files, mut parts) = (Vec::new(), Vec::new());
    let (mut run, mut one_run, mut skipped) = (0, OneRun::default(), Skipped::default());
    for (file, path) in paths.iter().enumerate() {
        let reader = RawFileReader::open(path)?;
        if reader.kind() != RecordKind::TriggerRecord {
            let holds = "time slices of trigger primitives only; name the file of trigger \
                         records, or the log";
            return Err(FindError::NoFrames { path: path.clone(), holds: holds.into() });
        }
        run = reader.number("run_number")? as u32;
        let mut identity = Identity::of_raw_file(run, &reader);
        for (place, record) in reader.records().iter().enumerate() {
            let Some((trigger, first, len)) = look_at(record) else {
                skipped.damaged += 1;
                continue;
            };
            let RecordNumber { number, sequence } = record.number();
            identity.once(format!("trigger record {number}.{sequence}"), trigger);
            parts.push(Part { file, place: place as u64, first, len });
        }
        one_run.admit(path, identity)?;
        files.push(reader);
    }
    if parts.is_empty() {
        let holds = "no trigger record that can be read".into();
        return Err(FindError::NoFrames { path: paths[0].clone(), holds });
    }
    parts.sort_by_key(|part| part.first);
    let info = RunInfo { run, ..RunInfo::default() };
    let created = files.iter().filter_map(|file| file.number("creation_timestamp").ok()).min();
    let created_unix_ns = created.unwrap_or(0).saturating_mul(1_000_000);
    Ok(Survey {
        input: Box::new(RawFiles { files, skipped }),
        parts,
        source: FrameSource::Records,
        header: FileHeader::new(&info, 0, created_unix_ns),
        chunks_missing: 0,
        frames_missing: 0,
        start: None,
        from_start: false,
        unfinished: Vec::new(),
        breaks: Vec::new(),
    })
}

/// Tick of the trigger, first tick and bytes of a record, if its header can be read.
fn look_at(record: &RecordReader) -> Option<(u64, u64, u64)> {
    let bytes = record.header().ok()?;
    let header = TriggerRecordHeader::new_checked(&bytes).ok()?;
    let begin = header.component_requests().map(|request| request.window_begin).min();
    let trigger = header.header().trigger_timestamp;
    let first = begin.unwrap_or(trigger.saturating_sub(BEFORE_TRIGGER_MAX));
    let entries = record.entries().ok()?;
    let len = entries.iter().filter_map(|entry| entry.len_bytes().ok()).sum();
    // The first frame of a window begins before it.
    Some((trigger, first.saturating_sub(2 * wibeth::TICKS_PER_FRAME), len))
}

impl Parts for RawFiles {
    fn read(
        &mut self,
        part: &Part,
        batch: &mut Batch,
        streams: &mut Streams<'_>,
    ) -> Result<bool, FindError> {
        let record = &self.files[part.file].records()[part.place as usize];
        let Ok(entries) = record.entries() else {
            self.skipped.damaged += 1;
            return Ok(false);
        };
        for entry in entries {
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
