//! Files of the primitives found, which are brought in the order of time before.

use std::path::Path;

use gannet_dune::export::{self, PrimitiveTable};
use gannet_dune::raw_file::{FileInfo, RawFileWriter, RecordKind, TakenAt};
use gannet_dune::time_slice::SliceBuilder;
use gannet_log::files::{self, is_same_file, is_taken};
use gannet_log::name::part_path;
use gannet_wire::TriggerPrimitive;

use super::config::FindConfig;
use super::error::FindError;
use super::input::Recording;
use super::origin::Origin;

/// Primitives that a slice holds at most, as in a run.
const SLICE_PRIMITIVES_MAX: usize = 1 << 20;

/// A file in progress, under a name ending in `.part`. Dropped before its end it is removed.
pub(super) enum Output {
    Parquet(PrimitiveTable),
    Hdf5(Slices),
}

/// Time slices of primitives in DUNE's raw-file layout.
pub(super) struct Slices {
    file: RawFileWriter,
    builder: SliceBuilder,
    /// When the recording of the frames began, in milliseconds since 1970; 0 if unknown.
    start_unix_ms: u64,
    ticks_hz: u64,
    /// Ticks of the earliest and the latest primitive.
    times: Option<(u64, u64)>,
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
        match [path, &part].into_iter().find(|path| is_taken(path)) {
            Some(there) if !config.overwrite => return Err(FindError::Exists(there.clone())),
            _ => {}
        }
    }
    Ok(())
}

impl Output {
    /// Begins a file of the primitives of `recording`, whose channels `origin` knows, with slices of
    /// `slice_ticks` ticks where it has slices. A `.part` file that is in the way is removed.
    pub fn begin(
        path: &Path,
        recording: &Recording,
        origin: &Origin,
        slice_ticks: u64,
    ) -> Result<Self, FindError> {
        files::remove_own(&part_path(path)).map_err(export::Error::File)?;
        Ok(match ending(path)? {
            Ending::Parquet => {
                let (header, missing) = (recording.header(), recording.chunks_missing());
                Self::Parquet(PrimitiveTable::replace(path, header, missing, origin.places())?)
            }
            Ending::Hdf5 => Self::Hdf5(Slices::begin(path, recording, slice_ticks)?),
        })
    }

    /// Appends a primitive.
    pub fn push(&mut self, tp: TriggerPrimitive) -> Result<(), FindError> {
        match self {
            Self::Parquet(table) => Ok(table.push(tp)?),
            Self::Hdf5(slices) => slices.push(tp),
        }
    }

    /// Ends the file and gives it its name.
    pub fn finish(self) -> Result<(), FindError> {
        match self {
            Self::Parquet(table) => drop(table.close()?),
            Self::Hdf5(slices) => slices.finish()?,
        }
        Ok(())
    }
}

impl Slices {
    fn begin(path: &Path, recording: &Recording, slice_ticks: u64) -> Result<Self, FindError> {
        let header = recording.header();
        let start_unix_ms = header.created_unix_ns / 1_000_000;
        let catalogue = recording.start().map(|(_, start)| start.catalogue.clone());
        let info = FileInfo {
            kind: RecordKind::TimeSlice,
            run_number: header.run,
            file_index: header.file_index.into(),
            application_name: header.application.clone(),
            geo_ids: Default::default(),
            catalogue: catalogue.unwrap_or_default(),
            taken_at: TakenAt { start_unix_ms, end_unix_ms: start_unix_ms },
            run_start: None,
        };
        let file = RawFileWriter::replace(path, &info)?;
        let builder = SliceBuilder::new(header.run, slice_ticks.max(1), SLICE_PRIMITIVES_MAX);
        Ok(Self { file, builder, start_unix_ms, ticks_hz: header.ticks_hz, times: None })
    }

    fn push(&mut self, tp: TriggerPrimitive) -> Result<(), FindError> {
        let start = tp.time_start();
        let (first, last) = self.times.unwrap_or((start, start));
        self.times = Some((first.min(start), last.max(start)));
        if let Some(slice) = self.builder.push(tp) {
            self.file.write_time_slice(&slice)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), FindError> {
        if let Some(slice) = self.builder.finish() {
            self.file.write_time_slice(&slice)?;
        }
        let (first, last) = self.times.unwrap_or_default();
        let span_ms = u128::from(last - first) * 1000 / u128::from(self.ticks_hz.max(1));
        let known = self.start_unix_ms > 0 && self.ticks_hz > 0;
        let span_ms = if known { span_ms as u64 } else { 0 };
        self.file.close_at(self.start_unix_ms.saturating_add(span_ms))?;
        Ok(())
    }
}

/// Longest hit: its samples are counted to 32767 at most, and its start is told from its end. With
/// 32 ticks a sample and a frame behind it.
const HIT_TICKS_MAX: u64 = 32_768 * 32 + 2048;
/// Primitives that wait at most, 400 MB; beyond it the older half goes on, and what then comes
/// before it is out of order.
const WAITING_MAX: usize = 1 << 24;

/// Holds primitives back until none that starts earlier can come.
#[derive(Debug, Default)]
pub(super) struct TimeOrder {
    waiting: Vec<TriggerPrimitive>,
    /// Start of the last primitive that was given out.
    last: u64,
    /// Primitives that were given out behind one that starts later.
    pub out_of_order: u64,
}

/// All of a primitive, so that the order is total.
pub(super) fn key(tp: &TriggerPrimitive) -> (u64, u32, u64, u64) {
    (tp.time_start(), tp.channel(), tp.words[0], tp.words[2])
}

impl TimeOrder {
    /// Takes primitives; those of one call are best sorted.
    pub fn add(&mut self, found: &[TriggerPrimitive]) {
        self.waiting.extend_from_slice(found);
    }

    /// Gives out what starts before all that can still be found in frames from tick `complete_to`
    /// on.
    pub fn release<E>(
        &mut self,
        complete_to: u64,
        give: impl FnMut(TriggerPrimitive) -> Result<(), E>,
    ) -> Result<(), E> {
        // Runs that are sorted already are merged, not sorted again.
        self.waiting.sort_by_key(key);
        let limit = match complete_to {
            u64::MAX => u64::MAX,
            ticks => ticks.saturating_sub(HIT_TICKS_MAX),
        };
        let mut ready = self.waiting.partition_point(|tp| tp.time_start() < limit);
        if limit == u64::MAX {
            ready = self.waiting.len();
        } else if self.waiting.len() - ready > WAITING_MAX {
            ready += (self.waiting.len() - ready) / 2;
        }
        let last = &mut self.last;
        for tp in &self.waiting[..ready] {
            self.out_of_order += u64::from(tp.time_start() < *last);
            *last = tp.time_start().max(*last);
        }
        self.waiting.drain(..ready).try_for_each(give)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const START: u64 = 1 << 40;

    fn tp(start: u64, channel: u64) -> TriggerPrimitive {
        TriggerPrimitive { words: [2 | channel << 24, start, 0] }
    }

    fn released(order: &mut TimeOrder, complete_to: u64) -> Vec<(u64, u32)> {
        let mut out = Vec::new();
        let give = |tp: TriggerPrimitive| {
            out.push((tp.time_start() - START, tp.channel()));
            Ok::<(), Infallible>(())
        };
        order.release(complete_to, give).unwrap();
        out
    }

    #[test]
    fn nothing_goes_before_the_longest_hit_is_over() {
        let mut order = TimeOrder::default();
        order.add(&[tp(START + 5, 1), tp(START, 2), tp(START + 5, 0)]);
        assert_eq!(released(&mut order, START + HIT_TICKS_MAX), []);
        assert_eq!(released(&mut order, START + HIT_TICKS_MAX + 1), [(0, 2)]);
        order.add(&[tp(START + 4, 3)]);
        assert_eq!(released(&mut order, u64::MAX), [(4, 3), (5, 0), (5, 1)]);
        assert_eq!(order.out_of_order, 0);
    }

    #[test]
    fn what_comes_too_late_is_counted_and_given_out() {
        let mut order = TimeOrder::default();
        order.add(&[tp(START + 9, 1)]);
        assert_eq!(released(&mut order, START + 10 + HIT_TICKS_MAX).len(), 1);
        order.add(&[tp(START + 3, 1), tp(START + 9, 1)]);
        assert_eq!(released(&mut order, u64::MAX), [(3, 1), (9, 1)]);
        assert_eq!(order.out_of_order, 1);
    }
}
