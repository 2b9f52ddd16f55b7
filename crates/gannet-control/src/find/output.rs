//! Files of the primitives found.

use std::fs;
use std::path::{Path, PathBuf};

use gannet_readout::export::PrimitiveTable;
use gannet_readout::log::FileHeader;
use gannet_readout::log::name::part_path;
use gannet_readout::raw_file::{FileInfo, RawFileWriter, RecordKind};
use gannet_readout::time_slice::SliceBuilder;
use gannet_wire::TriggerPrimitive;

use super::config::FindConfig;
use super::error::FindError;
use crate::paths::is_same_file;

/// Primitives that a slice holds at most, as in a run.
const SLICE_PRIMITIVES_MAX: usize = 1 << 20;

/// A file in progress, under a name ending in `.part`. Dropped before its end it is removed.
pub(super) struct Output {
    form: Option<Form>,
    part: PathBuf,
}

enum Form {
    Parquet(PrimitiveTable),
    Hdf5(Slices),
}

/// Time slices of primitives in DUNE's raw-file layout.
struct Slices {
    file: RawFileWriter,
    builder: SliceBuilder,
}

/// What the ending of a file's name asks for.
#[derive(Clone, Copy)]
enum Ending {
    Parquet,
    Hdf5,
}

fn ending(path: &Path) -> Result<Ending, FindError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("parquet") => Ok(Ending::Parquet),
        Some("hdf5" | "h5") => Ok(Ending::Hdf5),
        _ => Err(FindError::Output(path.to_owned())),
    }
}

/// Tests that all files can be begun, before anything is read.
pub(super) fn check(config: &FindConfig) -> Result<(), FindError> {
    let inputs = || config.files.iter().chain(&config.config).chain(&config.channel_map);
    for (place, path) in config.outputs.iter().enumerate() {
        ending(path)?;
        if path.is_dir() {
            return Err(FindError::Directory(path.clone()));
        }
        if config.outputs[..place].iter().any(|other| is_same_file(path, other)) {
            return Err(FindError::Twice(path.clone()));
        }
        let part = part_path(path);
        let is_read = |path: &Path| inputs().any(|input| is_same_file(path, input));
        if is_read(path) || is_read(&part) {
            return Err(FindError::OwnInput(path.clone()));
        }
        match [path, &part].into_iter().find(|path| path.exists()) {
            Some(there) if !config.overwrite => return Err(FindError::Exists(there.clone())),
            _ => {}
        }
    }
    Ok(())
}

impl Output {
    /// Begins a file of the run that `header` names, with slices of `slice_ticks` ticks where it
    /// has slices. A `.part` file that is in the way is removed.
    pub fn begin(
        path: &Path,
        header: &FileHeader,
        chunks_missing: u64,
        slice_ticks: u64,
    ) -> Result<Self, FindError> {
        let part = part_path(path);
        if part.exists() {
            fs::remove_file(&part).map_err(FindError::io("remove", &part))?;
        }
        let form = match ending(path)? {
            Ending::Parquet => {
                Form::Parquet(PrimitiveTable::replace(path, header, chunks_missing)?)
            }
            Ending::Hdf5 => Form::Hdf5(Slices::begin(path, header, slice_ticks)?),
        };
        Ok(Self { form: Some(form), part })
    }

    /// Appends a primitive.
    pub fn push(&mut self, tp: TriggerPrimitive) -> Result<(), FindError> {
        match &mut self.form {
            Some(Form::Parquet(table)) => Ok(table.push(tp)?),
            Some(Form::Hdf5(slices)) => slices.push(tp),
            None => Ok(()),
        }
    }

    /// Ends the file and gives it its name.
    pub fn finish(mut self) -> Result<(), FindError> {
        match self.form.take() {
            Some(Form::Parquet(table)) => drop(table.close()?),
            Some(Form::Hdf5(slices)) => slices.finish()?,
            None => {}
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // What has its name is not found, and what cannot be removed does no harm.
        let _ = fs::remove_file(&self.part);
    }
}

impl Slices {
    fn begin(path: &Path, header: &FileHeader, slice_ticks: u64) -> Result<Self, FindError> {
        let info = FileInfo {
            kind: RecordKind::TimeSlice,
            run_number: header.run,
            file_index: header.file_index.into(),
            application_name: header.application.clone(),
            geo_ids: Default::default(),
            operational_environment: String::new(),
            offline_data_stream: String::new(),
            run_was_for_test_purposes: false,
        };
        let file = RawFileWriter::replace(path, &info)?;
        let builder = SliceBuilder::new(header.run, slice_ticks.max(1), SLICE_PRIMITIVES_MAX);
        Ok(Self { file, builder })
    }

    fn push(&mut self, tp: TriggerPrimitive) -> Result<(), FindError> {
        if let Some(slice) = self.builder.push(tp) {
            self.file.write_time_slice(&slice)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), FindError> {
        if let Some(slice) = self.builder.finish() {
            self.file.write_time_slice(&slice)?;
        }
        self.file.close()?;
        Ok(())
    }
}
