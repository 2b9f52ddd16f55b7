//! DUNE raw files: trigger records in the order of time, or time slices of raw frames in that of their
//! recording.

use std::path::{Path, PathBuf};

use gannet_dune::raw_file::{
    self, Entry, RawFileReader, RecordKind, RecordNumber, RecordReader, Role,
};
use gannet_log::{FileHeader, RunInfo};
use gannet_wire::{Fragment, FragmentType, TriggerRecordHeader, wibeth};

use super::{InputContents, Part, Parts, Skipped};
use crate::find::config::FrameSource;
use crate::find::error::FindError;
use crate::find::streams::{FrameBatch, Streams};
use crate::one_run::{Identity, OneRun, start_of_raw_file};

/// Longest time that a window may begin before the time of its trigger, when the record does not
/// tell; in ticks, 1 s.
const BEFORE_TRIGGER_MAX: u64 = 62_500_000;

/// Raw files that were looked through.
struct RawFiles {
    files: Vec<RawFileReader>,
    source: FrameSource,
    skipped: Skipped,
}

/// Looks the records through; of each only the first headers are read.
pub(super) fn survey(paths: &[PathBuf]) -> Result<InputContents, FindError> {
    let (mut files, mut parts) = (Vec::new(), Vec::new());
    let (mut one_run, mut skipped) = (OneRun::default(), Skipped::default());
    for (file, path) in paths.iter().enumerate() {
        let reader = RawFileReader::open(path)?;
        check_frames(path, &reader)?;
        if files.first().is_some_and(|first: &RawFileReader| first.kind() != reader.kind()) {
            let (first, other) = (paths[0].clone(), path.clone());
            return Err(FindError::Kinds { first, other });
        }
        let mut identity = Identity::of_raw_file(reader.number("run_number")? as u32, &reader);
        for (place, record) in reader.records().iter().enumerate() {
            let looked = match reader.kind() {
                RecordKind::TriggerRecord => look_at_record(record),
                RecordKind::TimeSlice => look_at_slice(record),
            };
            let Some(Look { time, first, len }) = unless_damaged(looked, &mut skipped)? else {
                continue;
            };
            let RecordNumber { number, sequence } = record.number();
            let kind = match reader.kind() {
                RecordKind::TriggerRecord => "trigger record",
                RecordKind::TimeSlice => "time slice",
            };
            identity.once(format!("{kind} {number}.{sequence}"), time);
            parts.push((record.number(), Part { file, place: place as u64, first, len }));
        }
        one_run.admit(path, identity)?;
        files.push(reader);
    }
    if parts.is_empty() {
        let holds = "no record that can be read".into();
        return Err(FindError::NoFrames { path: paths[0].clone(), holds });
    }
    let source = match files[0].kind() {
        RecordKind::TriggerRecord => FrameSource::Records,
        RecordKind::TimeSlice => FrameSource::Raw,
    };
    match source {
        FrameSource::Records => parts.sort_by_key(|(_, part)| part.first),
        // Slices have the numbers of the chunks of the log, in the order of recording.
        FrameSource::Raw | FrameSource::Capture => parts.sort_by_key(|(number, _)| *number),
    }
    let start = paths
        .iter()
        .zip(&files)
        .find_map(|(path, file)| Some((path.clone(), start_of_raw_file(file)?)));
    let is_first = |file: &RawFileReader| file.number("file_index").is_ok_and(|index| index == 0);
    let has_first = start.is_some() && files.iter().any(is_first);
    Ok(InputContents {
        header: header(&files)?,
        input: Box::new(RawFiles { files, source, skipped }),
        parts: parts.into_iter().map(|(_, part)| part).collect(),
        source,
        chunks_missing: 0,
        frames_missing: 0,
        start,
        from_start: source == FrameSource::Raw && has_first,
        unfinished: Vec::new(),
        breaks: Vec::new(),
    })
}

/// Tests that a file has frames to search in.
fn check_frames(path: &Path, file: &RawFileReader) -> Result<(), FindError> {
    if file.kind() == RecordKind::TriggerRecord || file.records().iter().any(has_frames) {
        return Ok(());
    }
    let holds =
        "time slices of trigger primitives only; name the file of trigger records, or the log";
    Err(FindError::NoFrames { path: path.to_owned(), holds: holds.into() })
}

/// Whether a slice has a fragment of frames, by its name.
fn has_frames(slice: &RecordReader) -> bool {
    let frames = [FragmentType::WibEth, FragmentType::TdeEth].map(FragmentType::name);
    let is_frames = |entry: &Entry| matches!(&entry.role, Role::Fragment(_, kind) if frames.contains(&&kind[..]));
    slice.entries().is_ok_and(|entries| entries.iter().any(is_frames))
}

/// The run as a log names it.
fn header(files: &[RawFileReader]) -> Result<FileHeader, FindError> {
    let run = files[0].number("run_number")? as u32;
    let application = files[0].text("application_name").unwrap_or_default().to_owned();
    let created = files.iter().filter_map(|file| file.number("creation_timestamp").ok()).min();
    let created_unix_ns = created.unwrap_or(0).saturating_mul(1_000_000);
    let index = files.iter().filter_map(|file| file.number("file_index").ok()).min();
    let info = RunInfo { run, application, ..RunInfo::default() };
    Ok(FileHeader::new(&info, index.unwrap_or(0) as u32, created_unix_ns))
}

/// What the headers of a record tell.
struct Look {
    /// Time by which it is told from another of its number, ticks.
    time: u64,
    /// Time that none of its frames is before, ticks.
    first: u64,
    /// Bytes.
    len: u64,
}

impl Look {
    /// A record that was taken at `time` with frames from `begin` on, if its data sets can be read.
    fn new(record: &RecordReader, time: u64, begin: u64) -> raw_file::Result<Self> {
        let entries = record.entries()?;
        let len = entries.iter().filter_map(|entry| entry.len_bytes().ok()).sum();
        // The first frame of a window begins before it.
        Ok(Self { time, first: begin.saturating_sub(2 * wibeth::TICKS_PER_FRAME), len })
    }
}

/// Looks at the header of a trigger record.
fn look_at_record(record: &RecordReader) -> raw_file::Result<Look> {
    let bytes = record.header()?;
    let header = TriggerRecordHeader::new_checked(&bytes).map_err(|e| damaged(record, e))?;
    let begin = header.component_requests().map(|request| request.window_begin).min();
    let trigger = header.header().trigger_timestamp;
    Look::new(record, trigger, begin.unwrap_or(trigger.saturating_sub(BEFORE_TRIGGER_MAX)))
}

/// Looks at the headers of the fragments of a slice.
fn look_at_slice(record: &RecordReader) -> raw_file::Result<Look> {
    let mut begin = u64::MAX;
    for entry in record.entries()? {
        if matches!(entry.role, Role::Fragment(..)) {
            let head = entry.head(Fragment::HEADER_LEN)?;
            let fragment = Fragment::new_checked(&head).map_err(|e| damaged(record, e))?;
            begin = begin.min(fragment.header().window_begin);
        }
    }
    Look::new(record, begin, begin)
}

fn damaged(record: &RecordReader, source: gannet_wire::Error) -> raw_file::Error {
    raw_file::Error::Header { place: record.name().to_owned(), source }
}

/// Counts what is damaged. What is not supported is not: it is the user who can do something.
fn unless_damaged<T>(
    read: raw_file::Result<T>,
    skipped: &mut Skipped,
) -> raw_file::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.is_unsupported() => Err(error),
        Err(_) => {
            skipped.damaged += 1;
            Ok(None)
        }
    }
}

impl Parts for RawFiles {
    fn read(
        &mut self,
        part: &Part,
        batch: &mut FrameBatch,
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
            let bytes = unless_damaged(entry.bytes(), &mut self.skipped)?;
            let Some(bytes) = bytes else { continue };
            let Ok(header) = Fragment::new_checked(&bytes).map(|fragment| fragment.header()) else {
                self.skipped.damaged += 1;
                continue;
            };
            if !matches!(header.fragment_type, FragmentType::WibEth | FragmentType::TdeEth) {
                self.skipped.other += 1;
                continue;
            }
            // Frames of a record lie in its window; what a stream sends is as it came.
            let is_window = self.source == FrameSource::Records;
            let window = is_window.then_some(header.window_begin..header.window_end);
            let range = Fragment::HEADER_LEN..bytes.len();
            let (buffer, memory) = batch.buffer();
            *memory = bytes;
            batch.add_rows(buffer, range, window, streams);
        }
        Ok(false)
    }

    fn skipped(&self) -> Skipped {
        self.skipped
    }
}
