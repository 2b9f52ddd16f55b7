//! Primitives in files, in the order in which the run delivered them.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gannet_control::run_start::RunStart;
use gannet_log::files::{is_same_file, open_input};
use gannet_log::format::{HEADER_BYTES, Header, MAGIC};
use gannet_log::{Error, FileHeader, Kind, Reader, RunInfo, is_being_written};
use gannet_readout::export::TableReader;
use gannet_readout::raw_file::{RawFileReader, RecordKind};
use gannet_readout::record::StoredRecord;
use gannet_trigger::TriggerConfig;
use gannet_wire::{Fragment, FragmentType, TriggerPrimitive, trigger_primitive};
use serde::Deserialize;
use serde_json::Value;

use super::Progress;
use super::compare::RecordedDecision;
use super::error::RetriggerError;
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
    Logs(Vec<Log>),
    Tables(Vec<(TableReader, Vec<TriggerPrimitive>)>),
    Slices(Vec<RawFileReader>),
}

struct Log {
    path: PathBuf,
    reader: Reader<File>,
    header: FileHeader,
    begin: Option<u64>,
    chunks: Vec<(u64, Header)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Magic {
    Log,
    Table,
    RawFile,
}

impl Recorded {
    /// Looks the files through.
    pub fn open(paths: &[PathBuf]) -> Result<Self, RetriggerError> {
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
                Magic::Log => recorded.add_log(path)?,
                Magic::Table => recorded.add_table(path)?,
                Magic::RawFile => recorded.add_slices(path)?,
            };
            recorded.run = identity.run();
            one_run.admit(path, identity)?;
        }
        match &mut recorded.files {
            Files::Logs(logs) => {
                logs.sort_by_key(|log| (log.begin, log.header.file_index));
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
        /// The part of a configuration that matters here.
        #[derive(Deserialize)]
        struct Configuration {
            #[serde(default)]
            trigger: TriggerConfig,
        }
        let unknown = || RetriggerError::NoTrigger(self.first_file.clone());
        let start = self.start.as_ref().ok_or_else(unknown)?;
        if let Some(trigger) = &start.trigger {
            return Ok(trigger.clone());
        }
        let configuration = toml::from_str::<Configuration>(&start.configuration);
        configuration.map(|configuration| configuration.trigger).map_err(|_| unknown())
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
                let total = logs.iter().map(|log| log.chunks.len()).sum();
                let (mut done, mut next, mut chunk) = (0, 0, Vec::new());
                for log in logs {
                    for (offset, header) in std::mem::take(&mut log.chunks) {
                        done += 1;
                        // After a failure of the disk some chunks stand in two files.
                        if header.sequence < next {
                            continue;
                        }
                        next = header.sequence + 1;
                        match log.reader.read_chunk(offset, &mut chunk) {
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

    fn add_log(&mut self, path: &Path) -> Result<Identity, RetriggerError> {
        let (path, reader) = (path.to_owned(), Reader::open(path)?);
        let header = FileHeader::new(&RunInfo::default(), 0, 0);
        let mut log = Log { path, reader, header, begin: None, chunks: Vec::new() };
        loop {
            let (offset, header) = match log.reader.next_header() {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(Error::Damaged { .. }) => {
                    let is_passed = log.reader.resync()?.is_some();
                    self.damaged += u64::from(is_passed || !is_being_written(&log.path));
                    if is_passed {
                        continue;
                    }
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            let mut payload = || -> Option<Vec<u8>> {
                let mut chunk = Vec::new();
                log.reader.read_chunk(offset, &mut chunk).ok()?;
                Some(chunk.split_off(HEADER_BYTES))
            };
            match header.label.kind {
                Kind::RUN_START => {
                    let start = payload().and_then(|bytes| RunStart::decode(&bytes).ok());
                    self.start = self.start.take().or(start);
                }
                Kind::RUN_END => {
                    self.end = payload().and_then(|bytes| serde_json::from_slice(&bytes).ok());
                }
                Kind::TP_SLICE | Kind::TRIGGER_RECORD | Kind::BUSY => {
                    log.chunks.push((offset, header));
                }
                _ => {}
            }
            if header.label.kind.is_data() {
                log.begin.get_or_insert(header.sequence);
            }
        }
        match log.reader.file_header() {
            Some(header) => log.header = header.clone(),
            None => log.header.run = log.reader.run().unwrap_or(0),
        }
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
