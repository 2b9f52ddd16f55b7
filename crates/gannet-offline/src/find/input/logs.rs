//! Logs: raw frames in the order of recording, or trigger records in the order of time.

use std::fs::File;
use std::path::{Path, PathBuf};

use gannet_control::run_start::RunStart;
use gannet_log::format::{HEADER_BYTES, Header};
use gannet_log::{Error, FileHeader, Kind, Reader, RunInfo, is_being_written};
use gannet_readout::record::StoredRecord;
use gannet_wire::record::Record;
use gannet_wire::{FragmentRepr, FragmentType};

use super::{Part, Parts, Skipped, Survey};
use crate::find::config::{FrameSource, Progress};
use crate::find::error::FindError;
use crate::find::report::Break;
use crate::find::streams::{Batch, Streams};
use crate::one_run::{Identity, OneRun, start_beside};

/// Logs that were looked through.
struct Logs {
    files: Vec<Reader<File>>,
    source: FrameSource,
    skipped: Skipped,
}

/// One log that was looked through.
struct Log {
    path: PathBuf,
    reader: Reader<File>,
    header: FileHeader,
    /// Chunks of frames and records.
    chunks: Vec<(u64, Header)>,
    /// Number of the first data chunk.
    begin: Option<u64>,
    slices: u64,
    start: Option<RunStart>,
    damaged: u64,
    /// A running program writes it: it has no end, and its last chunk may not be whole.
    is_live: bool,
}

/// Looks all chunks through; of each only the header is read.
pub(super) fn survey(
    paths: &[PathBuf],
    asked: Option<FrameSource>,
    progress: &mut Progress<'_>,
) -> Result<Survey, FindError> {
    let (mut logs, mut one_run) = (Vec::new(), OneRun::default());
    for path in paths {
        let log = Log::look_through(path, progress)?;
        one_run.admit(path, Identity::of_log(&log.header))?;
        logs.push(log);
    }
    logs.sort_by_key(|log| (log.begin, log.header.file_index));
    let has = |kind| logs.iter().any(|log| log.chunks.iter().any(|(_, h)| h.label.kind == kind));
    let source = match asked {
        Some(asked) => asked,
        None if has(Kind::RAW_FRAMES) => FrameSource::Raw,
        None => FrameSource::Records,
    };
    let kind = match source {
        FrameSource::Records => Kind::TRIGGER_RECORD,
        FrameSource::Raw | FrameSource::Capture => Kind::RAW_FRAMES,
    };
    if !has(kind) {
        return Err(no_frames(&paths[0], &logs, source));
    }
    let (mut parts, missing) = parts(&logs, kind);
    if source == FrameSource::Records {
        parts.sort_by_key(|part| part.first);
    }
    let header = logs[0].header.clone();
    let from_start = source == FrameSource::Raw && logs[0].begin == Some(0);
    let start = start(&mut logs);
    let ends = logs.iter().filter_map(|log| log.reader.end());
    let chunks_missing = ends.map(|end| end.chunks_missing).sum();
    let is_unfinished = |log: &&Log| log.reader.end().is_none() && !log.is_live;
    let unfinished = logs.iter().filter(is_unfinished).map(|log| log.path.clone()).collect();
    let breaks = breaks(&logs);
    let damaged = logs.iter().map(|log| log.damaged).sum();
    let files = logs.into_iter().map(|log| log.reader).collect();
    let skipped = Skipped { damaged, other: 0 };
    let input = Box::new(Logs { files, source, skipped });
    Ok(Survey {
        input,
        parts,
        source,
        header,
        chunks_missing,
        frames_missing: if source == FrameSource::Raw { missing } else { 0 },
        start,
        from_start,
        unfinished,
        breaks,
    })
}

/// Where chunks are missing between the end of a file and the begin of the next one.
fn breaks(logs: &[Log]) -> Vec<Break> {
    let mut breaks = Vec::new();
    let mut reached: Option<(u64, &Log)> = None;
    for log in logs {
        if let (Some((end, last)), Some(begin)) = (reached, log.begin)
            && begin > end
        {
            let (after, before) = (last.path.clone(), log.path.clone());
            breaks.push(Break { after, before, chunks: begin - end });
        }
        let end = log.reader.sequence().unwrap_or(0);
        if reached.is_none_or(|(farthest, _)| end >= farthest) {
            reached = Some((end, log));
        }
    }
    breaks
}

/// The chunks of a kind, each once, as after a failure of the disk some stand in two files; and the
/// items that are missing in them.
fn parts(logs: &[Log], kind: Kind) -> (Vec<Part>, u64) {
    let (mut parts, mut next, mut missing) = (Vec::new(), 0, 0);
    for (file, log) in logs.iter().enumerate() {
        for (place, header) in &log.chunks {
            if header.sequence < next {
                continue;
            }
            next = header.sequence + 1;
            if header.label.kind == kind {
                missing += u64::from(header.label.items_missing);
                let (first, len) = (header.label.first_ticks, header.chunk_len());
                // The first frame of a window begins before it.
                let first = first.saturating_sub(2 * gannet_wire::wibeth::TICKS_PER_FRAME);
                parts.push(Part { file, place: *place, first, len });
            }
        }
    }
    (parts, missing)
}

/// The start of the run, from the files named or another one of the run beside them.
fn start(logs: &mut [Log]) -> Option<(PathBuf, RunStart)> {
    if let Some(log) = logs.iter_mut().find(|log| log.start.is_some()) {
        return log.start.take().map(|start| (log.path.clone(), start));
    }
    start_beside(&logs[0].path, &logs[0].header)
}

fn no_frames(path: &Path, logs: &[Log], source: FrameSource) -> FindError {
    let count = |kind| -> usize {
        let of_kind = |log: &Log| log.chunks.iter().filter(|(_, h)| h.label.kind == kind).count();
        logs.iter().map(of_kind).sum()
    };
    let (raw, records) = (count(Kind::RAW_FRAMES), count(Kind::TRIGGER_RECORD));
    let slices: u64 = logs.iter().map(|log| log.slices).sum();
    let holds = match source {
        FrameSource::Records if raw > 0 => "no trigger records; search with --frames raw".into(),
        FrameSource::Raw if records > 0 => {
            format!("{records} trigger records; search those with --frames records")
        }
        _ if slices > 0 => format!(
            "trigger primitives only ({slices} time slices), which `gannet export` makes tables \
             of; name a log with trigger records or raw frames"
        ),
        _ => "neither trigger records nor raw frames".into(),
    };
    FindError::NoFrames { path: path.to_owned(), holds }
}

impl Log {
    fn open(path: &Path) -> Result<Self, FindError> {
        let header = FileHeader::new(&RunInfo::default(), 0, 0);
        // Asked first: a file that is finished meanwhile has its end.
        let is_live = is_being_written(path);
        let (reader, path) = (Reader::open(path)?, path.to_owned());
        let (chunks, begin, slices, start, damaged) = (Vec::new(), None, 0, None, 0);
        Ok(Self { path, reader, header, chunks, begin, slices, start, damaged, is_live })
    }

    fn look_through(path: &Path, progress: &mut Progress<'_>) -> Result<Self, FindError> {
        let mut log = Self::open(path)?;
        while log.step()? {
            if progress(0, 0).is_break() {
                return Err(FindError::Interrupted);
            }
        }
        Ok(log.with_header())
    }

    fn with_header(mut self) -> Self {
        match self.reader.file_header() {
            Some(header) => self.header = header.clone(),
            None => self.header.run = self.reader.run().unwrap_or(0),
        }
        self
    }

    /// Looks at the next chunk; false at the end. Damage is stepped over.
    fn step(&mut self) -> Result<bool, FindError> {
        let damage = match self.reader.next_header() {
            Ok(None) => return Ok(false),
            Ok(Some((offset, header))) => {
                self.note(offset, header);
                return Ok(true);
            }
            Err(damage @ Error::Damaged { .. }) => damage,
            Err(error) => return Err(error.into()),
        };
        let is_passed = self.reader.resync()?.is_some();
        if is_passed || !self.is_live {
            let rest = if is_passed { "going on behind it" } else { "nothing is behind it" };
            tracing::warn!("{damage}; {rest}");
            self.damaged += 1;
        }
        Ok(is_passed)
    }

    fn note(&mut self, offset: u64, header: Header) {
        self.begin.get_or_insert(header.sequence);
        match header.label.kind {
            Kind::RAW_FRAMES | Kind::TRIGGER_RECORD => self.chunks.push((offset, header)),
            Kind::TP_SLICE => self.slices += 1,
            Kind::RUN_START => {
                let mut chunk = Vec::new();
                let read = self.reader.read_chunk(offset, &mut chunk);
                let start = read.ok().and_then(|_| RunStart::decode(&chunk[HEADER_BYTES..]).ok());
                self.damaged += u64::from(start.is_none());
                self.start = self.start.take().or(start);
            }
            _ => {}
        }
    }
}

impl Parts for Logs {
    fn read(
        &mut self,
        part: &Part,
        batch: &mut Batch,
        streams: &mut Streams<'_>,
    ) -> Result<bool, FindError> {
        let (buffer, chunk) = batch.buffer();
        match self.files[part.file].read_chunk(part.place, chunk) {
            Err(damage @ Error::Damaged { .. }) => {
                tracing::warn!("{damage}; going on behind it");
                self.skipped.damaged += 1;
            }
            Err(error) => return Err(error.into()),
            Ok(header) if self.source == FrameSource::Records => {
                debug_assert_eq!(header.label.kind, Kind::TRIGGER_RECORD);
                self.record(buffer, batch, streams);
            }
            Ok(_) => {
                let end = chunk.len();
                batch.add_rows(buffer, HEADER_BYTES..end, None, streams);
            }
        }
        Ok(false)
    }

    fn skipped(&self) -> Skipped {
        self.skipped
    }
}

impl Logs {
    /// Takes the frames of the record that fills a chunk.
    fn record(&mut self, buffer: usize, batch: &mut Batch, streams: &mut Streams<'_>) {
        let chunk = &batch.bytes(buffer)[HEADER_BYTES..];
        let Ok(record) = StoredRecord::trigger_record(chunk) else {
            self.skipped.damaged += 1;
            return;
        };
        let mut begin = HEADER_BYTES + record.header().len();
        let mut rows = Vec::new();
        for fragment in record.fragments() {
            let Ok(fragment) = fragment else {
                self.skipped.damaged += 1;
                break;
            };
            let (header, len) = (fragment.header(), fragment.as_bytes().len());
            match header.fragment_type {
                FragmentType::WibEth | FragmentType::TdeEth => {
                    let window = header.window_begin..header.window_end;
                    rows.push((begin + FragmentRepr::LEN..begin + len, window));
                }
                _ => self.skipped.other += 1,
            }
            begin += len;
        }
        for (range, window) in rows {
            batch.add_rows(buffer, range, Some(window), streams);
        }
    }
}
