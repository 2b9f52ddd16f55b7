//! The exports in progress.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::log_contents::{LogContents, content_error, primitives};
use super::primitive_table::PrimitiveTable;
use super::raw_slices::{self, RawSlices, stream_of};
use super::{ExportConfig, Exported};
use crate::raw_file::{FileInfo, GeoIdMap, RawFileWriter, RecordKind};
use crate::record::holds_tpc_frames;
use gannet_control::export::{ExportFormat, path_of};
use gannet_log::files::{self, is_taken};
use gannet_log::name::part_path;
use gannet_log::{ChunkView, Kind};
use gannet_record::StoredRecord;

/// The exports in progress, each of them only if it will hold something.
///
/// Whatever is not whole when this is dropped is removed.
#[derive(Debug)]
pub(super) struct Writing {
    records: Option<RawFileWriter>,
    slices: Option<RawFileWriter>,
    raw: Option<RawSlices>,
    table: Option<PrimitiveTable>,
    exported: Exported,
}

/// Where the exports are to be.
#[derive(Debug, Default)]
struct Targets {
    records: Option<PathBuf>,
    slices: Option<PathBuf>,
    raw: Option<PathBuf>,
    table: Option<PathBuf>,
}

impl Targets {
    fn of(log: &Path, config: &ExportConfig, contents: &LogContents) -> Self {
        let content = &contents.content;
        let target = |format, items: u64, ending| {
            let wanted = items > 0 && config.formats.contains(&format);
            wanted.then(|| path_of(log, config.directory.as_deref(), ending))
        };
        Self {
            records: target(ExportFormat::Hdf5, content.records, ".hdf5"),
            slices: target(ExportFormat::Hdf5, content.slices, "_tps.hdf5"),
            raw: target(ExportFormat::Raw, content.raw_frames, "_raw.hdf5"),
            table: target(ExportFormat::Parquet, content.primitives, "_tps.parquet"),
        }
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.records, &self.slices, &self.raw, &self.table].into_iter().flatten()
    }

    /// Makes sure that nothing stands where the exports are to be, and that nothing else than files of
    /// this user is overwritten.
    fn clear(&self, overwrite: bool) -> Result<(), Error> {
        for target in self.all() {
            let part = part_path(target);
            if overwrite {
                files::remove_own(&part)?;
            } else if let Some(taken) = [target, &part].into_iter().find(|path| is_taken(path)) {
                return Err(Error::Exists(taken.clone()));
            }
        }
        Ok(())
    }
}

impl Writing {
    /// Begins the exports that `config` asks for and `contents` has something for.
    pub fn begin(log: &Path, config: &ExportConfig, contents: &LogContents) -> Result<Self, Error> {
        let targets = Targets::of(log, config, contents);
        targets.clear(config.overwrite)?;
        let raw_file = |path: &PathBuf, kind, geo_ids| {
            RawFileWriter::replace(path, &file_info(config, contents, kind, geo_ids))
        };
        let records = |path: &PathBuf| {
            raw_file(path, RecordKind::TriggerRecord, contents.content.geo_ids.clone())
        };
        // The primitives of a slice come from one source, which has no place on the detector.
        let slices = |path: &PathBuf| raw_file(path, RecordKind::TimeSlice, GeoIdMap::new());
        let raw = |path: &PathBuf| {
            let sources = raw_slices::sources(contents);
            let geo_ids = sources.iter().map(|(stream, (source, _))| (*source, vec![*stream]));
            let info = file_info(config, contents, RecordKind::TimeSlice, geo_ids.collect());
            RawSlices::begin(path, &info, sources)
        };
        let table = |path: &PathBuf| {
            let places = contents.run.places();
            PrimitiveTable::replace(path, &contents.header, contents.chunks_missing, places)
        };
        let exported = Exported {
            files: Vec::new(),
            records: 0,
            slices: 0,
            primitives: 0,
            raw_frames: 0,
            raw_frames_kept: if targets.raw.is_some() { 0 } else { contents.content.raw_frames },
            chunks_missing: contents.chunks_missing,
        };
        Ok(Self {
            records: targets.records.as_ref().map(records).transpose()?,
            slices: targets.slices.as_ref().map(slices).transpose()?,
            raw: targets.raw.as_ref().map(raw).transpose()?,
            table: targets.table.as_ref().map(table).transpose()?,
            exported,
        })
    }

    /// Writes what a chunk holds to the exports that show it.
    pub fn take(&mut self, log: &Path, chunk: &ChunkView<'_>) -> Result<(), Error> {
        match chunk.header.label.kind {
            Kind::TRIGGER_RECORD => {
                if let Some(records) = &mut self.records {
                    records.write_stored(chunk.payload)?;
                    self.exported.records += 1;
                }
            }
            Kind::TP_SLICE => {
                if let Some(slices) = &mut self.slices {
                    slices.write_stored(chunk.payload)?;
                    self.exported.slices += 1;
                }
                self.tabulate(log, chunk)?;
            }
            Kind::RAW_FRAMES if holds_tpc_frames(&chunk.header.label, chunk.payload.len()) => {
                if let Some(raw) = &mut self.raw {
                    let wrong = |source| content_error(log, chunk, source);
                    raw.write(stream_of(chunk.payload).map_err(wrong)?, chunk)?;
                    self.exported.raw_frames += u64::from(chunk.header.label.items);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the primitives of a slice to the table.
    fn tabulate(&mut self, log: &Path, chunk: &ChunkView<'_>) -> Result<(), Error> {
        let Some(table) = &mut self.table else { return Ok(()) };
        let wrong = |source| content_error(log, chunk, source);
        for fragment in StoredRecord::time_slice(chunk.payload).map_err(wrong)?.fragments() {
            for primitive in primitives(&fragment.map_err(wrong)?).map_err(wrong)? {
                table.push(primitive)?;
                self.exported.primitives += 1;
            }
        }
        Ok(())
    }

    /// Finishes the exports and gives them their names.
    pub fn finish(mut self) -> Result<Exported, Error> {
        for file in [self.records.take(), self.slices.take()].into_iter().flatten() {
            self.exported.files.push(file.close()?);
        }
        if let Some(raw) = self.raw.take() {
            self.exported.files.push(raw.close()?);
        }
        if let Some(table) = self.table.take() {
            self.exported.files.push(table.close()?);
        }
        Ok(self.exported)
    }
}

/// Attributes of a raw file of the log.
fn file_info(
    config: &ExportConfig,
    contents: &LogContents,
    kind: RecordKind,
    geo_ids: GeoIdMap,
) -> FileInfo {
    let told = contents.run.catalogue.as_ref();
    FileInfo {
        kind,
        run_number: contents.header.run,
        file_index: contents.header.file_index.into(),
        application_name: contents.header.application.clone(),
        geo_ids,
        catalogue: config.catalogue.as_ref().or(told).cloned().unwrap_or_default(),
        taken_at: contents.taken_at,
        run_start: contents.run.text.clone(),
    }
}
