//! Logs looked through: of each chunk only the header is read.

use std::fs::File;
use std::path::{Path, PathBuf};

use gannet_dune::run_start::RunStart;
use gannet_log::format::{HEADER_BYTES, Header};
use gannet_log::{Error, FileHeader, Kind, Reader, RunInfo, is_being_written};
use serde_json::Value;

/// A log that was looked through.
pub(crate) struct LogIndex {
    pub path: PathBuf,
    pub reader: Reader<File>,
    pub header: FileHeader,
    /// The data chunks, each with its place in the file.
    pub chunks: Vec<(u64, Header)>,
    /// Number of the first data chunk in the run.
    pub begin: Option<u64>,
    /// What the log tells of the start of its run.
    pub start: Option<RunStart>,
    /// What it tells of the end.
    pub end: Option<Value>,
    /// Times that damage was stepped over.
    pub damaged: u64,
    /// A running program writes it: it has no end, and its last chunk may not be whole.
    pub is_live: bool,
}

impl LogIndex {
    /// Looks a log through, as long as it is told to `go_on`; damage is stepped over. Absent when it
    /// was not to go on.
    ///
    /// # Errors
    /// When the file cannot be read or is no log.
    pub fn of(path: &Path, mut go_on: impl FnMut() -> bool) -> Result<Option<Self>, Error> {
        // Asked first: a file that is finished meanwhile has its end.
        let is_live = is_being_written(path);
        let mut log = Self {
            path: path.to_owned(),
            reader: Reader::open(path)?,
            header: FileHeader::new(&RunInfo::default(), 0, 0),
            chunks: Vec::new(),
            begin: None,
            start: None,
            end: None,
            damaged: 0,
            is_live,
        };
        while log.step()? {
            if !go_on() {
                return Ok(None);
            }
        }
        match log.reader.file_header() {
            Some(header) => log.header = header.clone(),
            None => log.header.run = log.reader.run().unwrap_or(0),
        }
        Ok(Some(log))
    }

    /// Looks at the next chunk; false at the end.
    fn step(&mut self) -> Result<bool, Error> {
        let damage = match self.reader.next_header() {
            Ok(None) => return Ok(false),
            Ok(Some((offset, header))) => {
                self.note(offset, header);
                return Ok(true);
            }
            Err(damage @ Error::Damaged { .. }) => damage,
            Err(error) => return Err(error),
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
            Kind::RUN_START => {
                let start = self.payload(offset).and_then(|bytes| RunStart::decode(&bytes).ok());
                self.damaged += u64::from(start.is_none());
                self.start = self.start.take().or(start);
            }
            Kind::RUN_END => {
                let end = self.payload(offset);
                self.end = end.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            }
            kind if kind.is_data() => self.chunks.push((offset, header)),
            _ => {}
        }
    }

    fn payload(&mut self, offset: u64) -> Option<Vec<u8>> {
        let mut chunk = Vec::new();
        self.reader.read_chunk(offset, &mut chunk).ok()?;
        Some(chunk.split_off(HEADER_BYTES))
    }

    /// How many chunks of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        self.chunks.iter().filter(|(_, header)| header.label.kind == kind).count()
    }
}

/// The data chunks of logs in their order, each once, with the number of its log and its place there:
/// after a failure of the disk some stand in two files.
pub(crate) fn chunks_once(logs: &[LogIndex]) -> Vec<(usize, u64, Header)> {
    let (mut chunks, mut next) = (Vec::new(), 0);
    for (file, log) in logs.iter().enumerate() {
        for (place, header) in &log.chunks {
            if header.sequence >= next {
                next = header.sequence + 1;
                chunks.push((file, *place, *header));
            }
        }
    }
    chunks
}

/// Brings logs in the order in which they were written.
pub(crate) fn sort(logs: &mut [LogIndex]) {
    logs.sort_by_key(|log| (log.begin, log.header.file_index));
}
