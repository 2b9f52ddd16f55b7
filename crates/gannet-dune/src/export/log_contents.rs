//! The first reading of a log: is it sound, what is in it, and where is each source?

use std::collections::BTreeSet;
use std::path::Path;

use gannet_wire::{Fragment, FragmentType, GeoId, daq_ethernet, trigger_primitive};

use super::error::Error;
use super::raw_slices::stream_of;
use super::run_facts::RunFacts;
use crate::raw_file::{GeoIdMap, TakenAt};
use crate::record::holds_tpc_frames;
use gannet_log::name::{finished_path, part_path};
use gannet_log::{ChunkView, FileHeader, Kind, Reader, Report, verify_seeing};
use gannet_record::StoredRecord;

/// What a sound log holds.
#[derive(Debug)]
pub(super) struct LogContents {
    /// Header of the log.
    pub header: FileHeader,
    /// Chunks known to have been lost.
    pub chunks_missing: u64,
    /// When the log was written.
    pub taken_at: TakenAt,
    /// What is known of the run.
    pub run: RunFacts,
    /// What there is to export.
    pub content: Content,
}

/// What there is to export.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Trigger records.
    pub records: u64,
    /// Time slices.
    pub slices: u64,
    /// Trigger primitives of all time slices.
    pub primitives: u64,
    /// Frames of streams that were recorded as they came.
    pub raw_frames: u64,
    /// These streams.
    pub raw_streams: BTreeSet<GeoId>,
    /// Where on the detector the sources are that sent frames.
    pub geo_ids: GeoIdMap,
}

impl LogContents {
    /// Reads all of `log`.
    pub fn of(log: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Self, Error> {
        if finished_path(log).is_some() && log.exists() {
            return Err(Error::Unfinished(log.to_owned()));
        }
        let part = part_path(log);
        if !log.exists() && part.exists() {
            return Err(Error::Unfinished(part));
        }
        let reader = Reader::open(log)?;
        let total = 2 * reader.file_len();
        let (mut content, mut wrong, mut run) = (Content::default(), None, None);
        let report = verify_seeing(reader, log, |chunk| {
            if chunk.header.label.kind == Kind::RUN_START {
                run = RunFacts::decode(chunk.payload);
            }
            if wrong.is_none() {
                wrong = content.count(chunk).err().map(|source| content_error(log, chunk, source));
            }
            progress(chunk.offset + chunk.header.chunk_len(), total);
        })?;
        report.check_is_log()?;
        let (chunks_missing, taken_at) = (report.chunks_missing, taken_at(&report));
        if let Some(problem) = report.problems.into_iter().next() {
            return Err(Error::NotVerified { file: log.to_owned(), problem });
        }
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let no_header = || "it has no header".to_owned();
        let problem = |problem| Error::NotVerified { file: log.to_owned(), problem };
        let header = report.header.ok_or_else(no_header).map_err(problem)?;
        let run = match run {
            Some(run) => run,
            None => RunFacts::beside(log),
        };
        Ok(Self { header, chunks_missing, taken_at, run, content })
    }
}

impl Content {
    /// Looks at one chunk. All that will be read of it again is checked here.
    fn count(&mut self, chunk: &ChunkView<'_>) -> gannet_wire::Result<()> {
        match chunk.header.label.kind {
            Kind::TRIGGER_RECORD => {
                self.records += 1;
                for fragment in StoredRecord::trigger_record(chunk.payload)?.fragments() {
                    self.locate(&fragment?);
                }
            }
            Kind::TP_SLICE => {
                self.slices += 1;
                for fragment in StoredRecord::time_slice(chunk.payload)?.fragments() {
                    self.primitives += primitives(&fragment?)?.len() as u64;
                }
            }
            Kind::RAW_FRAMES if holds_tpc_frames(&chunk.header.label, chunk.payload.len()) => {
                self.raw_frames += u64::from(chunk.header.label.items);
                self.raw_streams.insert(stream_of(chunk.payload)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes where the source of a fragment is, if that is not known and the fragment tells.
    fn locate(&mut self, fragment: &Fragment<'_>) {
        let source = fragment.header().source_id;
        if !self.geo_ids.contains_key(&source)
            && let Some(geo_id) = geo_id(fragment)
        {
            self.geo_ids.insert(source, vec![geo_id]);
        }
    }
}

/// Where the first frame of a fragment comes from, if it is of a format that says so.
fn geo_id(fragment: &Fragment<'_>) -> Option<GeoId> {
    match fragment.header().fragment_type {
        FragmentType::WibEth | FragmentType::TdeEth => {
            Some(daq_ethernet::Header::new_checked(fragment.payload()).ok()?.geo_id())
        }
        _ => None,
    }
}

/// When the log was written. One that nobody closed ends as long after its start as its last time
/// stamp lies behind its first.
fn taken_at(report: &Report) -> TakenAt {
    const NS_PER_MS: u64 = 1_000_000;
    let Some(header) = &report.header else { return TakenAt::default() };
    let start_unix_ms = header.created_unix_ns / NS_PER_MS;
    let closed_unix_ms = report.end.as_ref().map_or(0, |end| end.closed_unix_ns / NS_PER_MS);
    let (first, last) = report.times.unwrap_or_default();
    let span_ms = u128::from(last - first) * 1000 / u128::from(header.ticks_hz.max(1));
    let end_unix_ms = match closed_unix_ms {
        0 if header.ticks_hz > 0 => start_unix_ms.saturating_add(span_ms as u64),
        closed_unix_ms => closed_unix_ms.max(start_unix_ms),
    };
    TakenAt { start_unix_ms, end_unix_ms }
}

/// The primitives of a fragment; none if it holds something else.
pub(super) fn primitives<'a>(
    fragment: &Fragment<'a>,
) -> gannet_wire::Result<gannet_wire::Records<'a, gannet_wire::TriggerPrimitive>> {
    let holds = fragment.header().fragment_type == FragmentType::TriggerPrimitive;
    trigger_primitive::primitives(if holds { fragment.payload() } else { &[] })
}

/// Says which chunk does not hold what its kind says.
pub(super) fn content_error(
    log: &Path,
    chunk: &ChunkView<'_>,
    source: gannet_wire::Error,
) -> Error {
    let (sequence, kind) = (chunk.header.sequence, chunk.header.label.kind);
    Error::Content { file: log.to_owned(), sequence, kind, source }
}
