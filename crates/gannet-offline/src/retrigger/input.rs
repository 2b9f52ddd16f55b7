//! Primitives in files, in the order in which the run delivered them.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gannet_dune::TriggerConfig;
use gannet_dune::export::TableReader;
use gannet_dune::raw_file::{RawFileReader, RecordKind};
use gannet_dune::run_start::RunStart;
use gannet_log::files::{is_same_file, open_input};
use gannet_log::format::{HEADER_BYTES, Header, MAGIC};
use gannet_log::{Error, Kind};
use gannet_record::StoredRecord;
use gannet_wire::{Fragment, FragmentType, TriggerPrimitive, trigger_primitive};
use serde_json::Value;

use super::Progress;
use super::compare::RecordedDecision;
use super::error::RetriggerError;
use crate::log_index::{self, LogIndex, chunks_once};
use crate::one_run::{Identity, OneRun, start_beside, start_of_raw_file};

/// How an HDF5 file begins.
const HDF5_MAGIC: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
/// How a Parquet file begins.
const PARQUET_MAGIC: [u8; 4] = *b"PAR1";

/// What a piece of a file holds.
pub(super) enum Found {
    /// Primitives in the order of time, and the ticks of their slice.
    Slice { window: Range<u64>, primitives: Vec<TriggerPrimitive> },
    /// A trigger record.
    Record(RecordedDecision),
    /// Times without decisions that did not follow from the data.
    Busy(u64),
}

/// The files of a run, looked through.
pub(super) struct Recorded {
    first_file: PathBuf,
    run: u32,
    files: Files,
    start: Option<RunStart>,
    end: Option<Value>,
    /// The files go back to the start of the run.
    is_from_start: bool,
    damaged: u64,
    chunks_missing: u64,
}

/// The files, all of one kind.
enum Files {
    Logs(Vec<LogIndex>),
    Tables(Vec<(TableReader, Vec<TriggerPrimitive>)>),
    Slices(Vec<RawFileReader>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Magic {
    Log,
    Table,
    RawFile,
}

impl Recorded {
    /// Looks the files through.
    pub fn open(paths: &[PathBuf], progress: &mut Progress<'_>) -> Result<Self, RetriggerError> {
        let first_file = paths.first().ok_or(RetriggerError::NoFiles)?.clone();
        let magic = magic_of(&first_file)?;
        for (place, path) in paths.iter().enumerate() {
            if paths[..place].iter().any(|other| is_same_file(path, other)) {
                return Err(RetriggerError::NamedTwice(path.clone()));
            }
            if magic_of(path)? != magic {
                let (first, other) = (first_file, path.clone());
                return Err(RetriggerError::Kinds { first, other });
            }
        }
        let files = match magic {
            Magic::Log => Files::Logs(Vec::new()),
            Magic::Table => Files::Tables(Vec::new()),
            Magic::RawFile => Files::Slices(Vec::new()),
        };
        let mut recorded = Self {
            first_file,
            run: 0,
            files,
            start: None,
            end: None,
            is_from_start: false,
            damaged: 0,
            chunks_missing: 0,
        };
        let mut one_run = OneRun::default();
        for path in paths {
            let identity = match magic {
                Magic::Log => recorded.add_log(path, progress)?,
                Magic::Table => recorded.add_table(path)?,
                Magic::RawFile => recorded.add_slices(path)?,
            };
            recorded.run = identity.run();
            one_run.admit(path, identity)?;
        }
        match &mut recorded.files {
            Files::Logs(logs) => {
                log_index::sort(logs);
                recorded.is_from_start = logs[0].begin == Some(0);
                if recorded.start.is_none() {
                    let beside = start_beside(&logs[0].path, &logs[0].header);
                    recorded.start = beside.map(|(_, start)| start);
                }
            }
            Files::Tables(tables) => {
                tables.sort_by_key(|(_, group)| group.first().map(TriggerPrimitive::time_start));
            }
            Files::Slices(files) => {
                files.sort_by_key(|file| file.number("file_index").unwrap_or(u64::MAX));
            }
        }
        Ok(recorded)
    }

    pub fn run(&self) -> u32 {
        self.run
    }

    pub fn first_file(&self) -> &Path {
        &self.first_file
    }

    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    pub fn chunks_missing(&self) -> u64 {
        self.chunks_missing
    }

    /// The trigger of the run.
    pub fn trigger(&self) -> Result<TriggerConfig, RetriggerError> {
        let start = self.start.as_ref();
        let unknown = || RetriggerError::NoTrigger(self.first_file.clone());
        start.map(|start| start.trigger.clone()).ok_or_else(unknown)
    }

    /// Tick at which the data time of the run began, if the files tell.
    pub fn first_tick(&self) -> Option<u64> {
        let tick = self.end.as_ref()?["trigger"]["first_tick"].as_u64();
        tick.filter(|tick| *tick > 0 && self.is_from_start)
    }

    /// Tick to which the data time of the run came, if the files tell.
    pub fn last_tick(&self) -> Option<u64> {
        self.end.as_ref()?["trigger"]["last_tick"].as_u64().filter(|tick| *tick > 0)
    }

    /// Primitives that were late in the run, if the files tell.
    pub fn late_in_run(&self) -> Option<u64> {
        let merge = self.end.as_ref()?["ledger"].as_array()?;
        let merge = merge.iter().find(|statement| statement["stage"] == "merge")?;
        let dropped = merge["dropped"].as_array()?;
        Some(dropped.iter().filter_map(|drop| drop["count"].as_u64()).sum())
    }

    /// Reads all of the files.
    pub fn read(
        &mut self,
        progress: &mut Progress<'_>,
        take: &mut impl FnMut(Found) -> Result<(), RetriggerError>,
    ) -> Result<(), RetriggerError> {
        let mut go_on = |done: usize, total: usize| match progress(done as u64, total as u64) {
            flow if flow.is_break() => Err(RetriggerError::Interrupted),
            _ => Ok(()),
        };
        match &mut self.files {
            Files::Logs(logs) => {
                let holds = |(_, _, header): &(usize, u64, Header)| {
                    matches!(header.label.kind, Kind::TP_SLICE | Kind::TRIGGER_RECORD | Kind::BUSY)
                };
                let mut chunks = chunks_once(logs);
                chunks.retain(holds);
                let (total, mut chunk) = (chunks.len(), Vec::new());
                for (done, (log, place, header)) in (1..).zip(chunks) {
                    match logs[log].reader.read_chunk(place, &mut chunk) {
                        Ok(_) => {}
                        Err(Error::Damaged { .. }) => {
                            self.damaged += 1;
                            continue;
                        }
                        Err(error) => return Err(error.into()),
                    }
                    match chunk_content(&header, &chunk[HEADER_BYTES..]) {
                        Ok(found) => take(found)?,
                        Err(_) => self.damaged += 1,
                    }
                    go_on(done, total)?;
                }
            }
            Files::Tables(tables) => {
                let total = tables.len();
                for (done, (table, group)) in tables.iter_mut().enumerate() {
                    let mut primitives = std::mem::take(group);
                    while !primitives.is_empty() {
                        take(Found::Slice { window: 0..u64::MAX, primitives })?;
                        primitives = table.next_group()?.unwrap_or_default();
                        go_on(done, total)?;
                    }
                }
            }
            Files::Slices(files) => {
                let total = files.iter().map(|file| file.records().len()).sum();
                let mut done = 0;
                for record in files.iter().flat_map(RawFileReader::records) {
                    done += 1;
                    for entry in record.entries()? {
                        let bytes = entry.bytes()?;
                        match Fragment::new_checked(&bytes).map(|f| fragment_content(&f)) {
                            Ok(Some(Ok(found))) => take(found)?,
                            Ok(Some(Err(_))) => self.damaged += 1,
                            // The header of a slice is no fragment.
                            Ok(None) | Err(_) => {}
                        }
                    }
                    go_on(done, total)?;
                }
            }
        }
        Ok(())
    }

    fn add_log(
        &mut self,
        path: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<Identity, RetriggerError> {
        let log = LogIndex::of(path, || progress(0, 0).is_continue())?;
        let mut log = log.ok_or(RetriggerError::Interrupted)?;
        self.start = self.start.take().or(log.start.take());
        self.end = log.end.take().or(self.end.take());
        self.damaged += log.damaged;
        self.chunks_missing += log.reader.end().map_or(0, |end| end.chunks_missing);
        let identity = Identity::of_log(&log.header);
        if let Files::Logs(logs) = &mut self.files {
            logs.push(log);
        }
        Ok(identity)
    }

    fn add_table(&mut self, path: &Path) -> Result<Identity, RetriggerError> {
        let mut table = TableReader::open(path)?;
        let identity = Identity::of_log(&table.header(self.run));
        let first = table.next_group()?.unwrap_or_default();
        if let Files::Tables(tables) = &mut self.files {
            tables.push((table, first));
        }
        Ok(identity)
    }

    fn add_slices(&mut self, path: &Path) -> Result<Identity, RetriggerError> {
        let file = RawFileReader::open(path)?;
        if file.kind() != RecordKind::TimeSlice {
            return Err(RetriggerError::NoPrimitives(path.to_owned()));
        }
        let identity = Identity::of_raw_file(file.number("run_number")? as u32, &file);
        self.start = self.start.take().or_else(|| start_of_raw_file(&file));
        if let Files::Slices(files) = &mut self.files {
            files.push(file);
        }
        Ok(identity)
    }
}

fn magic_of(path: &Path) -> Result<Magic, RetriggerError> {
    let mut magic = Vec::new();
    let file = open_input(path).map_err(RetriggerError::io("open", path))?;
    file.take(8).read_to_end(&mut magic).map_err(RetriggerError::io("read", path))?;
    match magic {
        magic if magic.starts_with(&MAGIC) => Ok(Magic::Log),
        magic if magic.starts_with(&HDF5_MAGIC) => Ok(Magic::RawFile),
        magic if magic.starts_with(&PARQUET_MAGIC) => Ok(Magic::Table),
        _ => Err(RetriggerError::Unknown(path.to_owned())),
    }
}

/// What a chunk of a log holds.
fn chunk_content(header: &Header, payload: &[u8]) -> gannet_wire::Result<Found> {
    match header.label.kind {
        Kind::TRIGGER_RECORD => RecordedDecision::read(payload).map(Found::Record),
        Kind::BUSY => Ok(Found::Busy(busy(payload))),
        _ => {
            let slice = StoredRecord::time_slice(payload)?;
            let (mut window, mut primitives) = (0..0, Vec::new());
            for fragment in slice.fragments() {
                if let Some(found) = fragment_content(&fragment?)
                    && let Found::Slice { window: ticks, primitives: found } = found?
                {
                    window = ticks;
                    primitives.extend(found);
                }
            }
            Ok(Found::Slice { window, primitives })
        }
    }
}

/// The primitives of a fragment, if it is one of primitives.
fn fragment_content(fragment: &Fragment<'_>) -> Option<gannet_wire::Result<Found>> {
    let header = fragment.header();
    (header.fragment_type == FragmentType::TriggerPrimitive).then(|| {
        let primitives = trigger_primitive::primitives(fragment.payload())?.collect();
        Ok(Found::Slice { window: header.window_begin..header.window_end, primitives })
    })
}

/// Number of times in a list of busy times, a JSON object a line, that did not follow from the data.
fn busy(payload: &[u8]) -> u64 {
    let lines = payload.split(|byte| *byte == b'\n');
    let intervals = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    intervals.filter(|interval| interval["cause"] != "dead_time").count() as u64
}
