//! Logs: raw frames in the order of recording, or trigger records in the order of time.

use std::fs::File;
use std::path::{Path, PathBuf};

use gannet_dune::run_start::RunStart;
use gannet_log::format::HEADER_BYTES;
use gannet_log::{Error, Kind, Reader};
use gannet_record::StoredRecord;
use gannet_wire::record::Record;
use gannet_wire::{FragmentRepr, FragmentType};

use super::{InputContents, Part, Parts, Skipped};
use crate::find::config::{FrameSource, Progress};
use crate::find::error::FindError;
use crate::find::report::Break;
use crate::find::streams::{FrameBatch, Streams};
use crate::log_index::{self, LogIndex, chunks_once};
use crate::one_run::{Identity, OneRun, start_beside};

/// Logs that were looked through.
struct Logs {
    files: Vec<Reader<File>>,
    source: FrameSource,
    skipped: Skipped,
}

/// Looks all chunks through; of each only the header is read.
pub(super) fn survey(
    paths: &[PathBuf],
    asked: Option<FrameSource>,
    progress: &mut Progress<'_>,
) -> Result<InputContents, FindError> {
    let (mut logs, mut one_run) = (Vec::new(), OneRun::default());
    for path in paths {
        let log = LogIndex::of(path, || progress(0, 0).is_continue())?;
        let log = log.ok_or(FindError::Interrupted)?;
        one_run.admit(path, Identity::of_log(&log.header))?;
        logs.push(log);
    }
    log_index::sort(&mut logs);
    let has = |kind| logs.iter().any(|log| log.count(kind) > 0);
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
    let is_unfinished = |log: &&LogIndex| log.reader.end().is_none() && !log.is_live;
    let unfinished = logs.iter().filter(is_unfinished).map(|log| log.path.clone()).collect();
    let breaks = breaks(&logs);
    let damaged = logs.iter().map(|log| log.damaged).sum();
    let files = logs.into_iter().map(|log| log.reader).collect();
    let skipped = Skipped { damaged, other: 0 };
    let input = Box::new(Logs { files, source, skipped });
    Ok(InputContents {
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
fn breaks(logs: &[LogIndex]) -> Vec<Break> {
    let mut breaks = Vec::new();
    let mut reached: Option<(u64, &LogIndex)> = None;
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

/// The chunks of a kind, and the items that are missing in them.
fn parts(logs: &[LogIndex], kind: Kind) -> (Vec<Part>, u64) {
    let (mut parts, mut missing) = (Vec::new(), 0);
    let chunks = chunks_once(logs).into_iter();
    for (file, place, header) in chunks.filter(|(_, _, header)| header.label.kind == kind) {
        missing += u64::from(header.label.items_missing);
        let (first, len) = (header.label.first_ticks, header.chunk_len());
        // The first frame of a window begins before it.
        let first = first.saturating_sub(2 * gannet_wire::wibeth::TICKS_PER_FRAME);
        parts.push(Part { file, place, first, len });
    }
    (parts, missing)
}

/// The start of the run, from the files named or another one of the run beside them.
fn start(logs: &mut [LogIndex]) -> Option<(PathBuf, RunStart)> {
    if let Some(log) = logs.iter_mut().find(|log| log.start.is_some()) {
        return log.start.take().map(|start| (log.path.clone(), start));
    }
    start_beside(&logs[0].path, &logs[0].header)
}

fn no_frames(path: &Path, logs: &[LogIndex], source: FrameSource) -> FindError {
    let count = |kind| -> usize { logs.iter().map(|log| log.count(kind)).sum() };
    let (raw, records) = (count(Kind::RAW_FRAMES), count(Kind::TRIGGER_RECORD));
    let slices = count(Kind::TP_SLICE);
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

impl Parts for Logs {
    fn read(
        &mut self,
        part: &Part,
        batch: &mut FrameBatch,
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
    fn record(&mut self, buffer: usize, batch: &mut FrameBatch, streams: &mut Streams<'_>) {
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
