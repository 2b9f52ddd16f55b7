//! One file of a log, while it is written and while it is brought to its end.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::books::{Item, Tally};
use super::disk::{Disk, Sink, write_all_at};
use super::error::Error;
use super::format::{Kind, Label, encode_chunk};
use super::metadata::{
    ERROR_BYTES_MAX, EndCause, EndOfFile, FileHeader, ItemAccount, RunInfo, clip,
};
use super::name::part_path;
use super::reader::Reader;
use crate::files::directory_of;

/// Space that each file keeps on the disk for the end of the run: its totals and the end chunk.
pub const END_RESERVE_BYTES: u64 = 1 << 20;
/// Bytes that are flushed at a time.
const SYNC_BYTES: u64 = 64 << 20;

/// A file that takes chunks.
///
/// Its length counts acknowledged bytes only: bytes behind it are of a write that failed, and the
/// seal cuts them off.
pub(super) struct OpenFile {
    /// The file itself.
    pub sink: Box<dyn Sink>,
    /// Name of the file at its end.
    pub finished: PathBuf,
    /// Name of the file until then.
    pub part: PathBuf,
    /// What is in it.
    pub content: Content,
}

/// What an unfinished file holds, so far as it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Run number.
    pub run: u32,
    /// Number of the next data chunk in the run.
    pub next_sequence: u64,
    /// Bytes.
    pub len: u64,
    /// Data chunks.
    pub chunks: u64,
    /// Data chunks known to be lost.
    pub chunks_missing: u64,
    /// Earliest and latest time stamp, ticks.
    pub times: Option<(u64, u64)>,
    /// What was acknowledged in it; empty for a file of another process.
    pub items: Tally,
}

impl OpenFile {
    /// Makes the unfinished file of `finished` and writes its header chunk.
    ///
    /// # Errors
    /// What the system says; a file that was made is removed again, so far as that is possible.
    pub fn create(
        disk: &dyn Disk,
        finished: PathBuf,
        info: &RunInfo,
        index: u32,
        first_sequence: u64,
        created_unix_ns: u64,
    ) -> Result<Self, Error> {
        let part = part_path(&finished);
        let sink = disk.create(&part).map_err(Error::io("create", &part))?;
        let mut header = Vec::new();
        let text = FileHeader::new(info, index, created_unix_ns).encode();
        encode_chunk(
            &Label::new(Kind::FILE_HEADER),
            info.run,
            first_sequence,
            &[text],
            &mut header,
        );
        let content =
            Content { run: info.run, next_sequence: first_sequence, ..Content::default() };
        let mut file = Self { sink, finished, part, content };
        if let Err(error) = file.write(&header) {
            let _ = disk.remove(&file.part);
            return Err(error);
        }
        file.content.len = header.len() as u64;
        Ok(file)
    }

    /// Writes whole chunks behind the acknowledged ones.
    pub fn write(&mut self, chunks: &[u8]) -> Result<(), Error> {
        write_all_at(&mut *self.sink, chunks, self.content.len)
            .map_err(Error::io("write", &self.part))
    }

    /// Waits until what was written is on the disk.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.sink.sync().map_err(Error::io("flush", &self.part))
    }

    /// The same for a file of `len` bytes, which may take long.
    fn sync_all(&mut self, len: u64, answered: &dyn Fn()) -> Result<(), Error> {
        let mut at = 0;
        while at < len {
            let end = len.min(at + SYNC_BYTES);
            self.sink.sync_range(at..end).map_err(Error::io("flush", &self.part))?;
            answered();
            at = end;
        }
        self.sync()
    }

    /// Refuses a file that lost its name: chunks in it would be gone with this process.
    pub fn check_named(&self) -> Result<(), Error> {
        match self.sink.is_named(&self.part).map_err(Error::io("look up", &self.part))? {
            true => Ok(()),
            false => Err(Error::Vanished {
                path: self.part.clone(),
                chunks: self.content.chunks,
                items: Box::new(self.content.items),
            }),
        }
    }

    /// Keeps space for `bytes` more bytes and the end of the run behind them. A file system that
    /// cannot do that may be too full for the end.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), Error> {
        let len = self.content.len;
        match self.sink.reserve(len..len + bytes + END_RESERVE_BYTES) {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            other => other.map_err(Error::io("reserve space in", &self.part)),
        }
    }

    /// Counts what was written last as part of the file: `bytes` long, with data chunks that hold
    /// `items`, with times in `times`.
    pub fn acknowledge(&mut self, bytes: u64, items: &Tally, times: Option<(u64, u64)>) {
        let chunks = items.get(Item::Chunk);
        self.content.len += bytes;
        self.content.chunks += chunks;
        self.content.next_sequence += chunks;
        self.content.times = join(self.content.times, times);
        self.content.items.add(items);
    }

    /// Takes no more chunks: what is left to do is in the seal. `account` is that of the run, as far
    /// as it is known.
    pub fn end(self, cause: EndCause, error: Option<&Error>, account: Vec<ItemAccount>) -> Seal {
        let content = &self.content;
        let text = EndOfFile {
            cause,
            data_chunks: content.chunks,
            chunks_missing: content.chunks_missing,
            closed_unix_ns: if cause == EndCause::Recovered { 0 } else { unix_ns() },
            error: error.map(|error| clip(&error.to_string(), ERROR_BYTES_MAX).into()),
            account,
        };
        let (first, last) = content.times.unwrap_or((0, 0));
        let label = Label::new(Kind::END_OF_FILE).times(first, last);
        let mut chunk = Vec::new();
        encode_chunk(&label, content.run, content.next_sequence, &[text.encode()], &mut chunk);
        self.end_with(chunk)
    }

    /// Like [`end`](Self::end), with the end chunk given; nothing when the file has one already.
    pub fn end_with(self, chunk: Vec<u8>) -> Seal {
        Seal { file: self, end: chunk, renamed: false, hopeless: false }
    }
}

/// The span of two spans of time, either of which may be empty.
pub(super) fn join(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// The times of a label, for [`join`]; `None` when it has none.
pub(super) fn times(label: &Label) -> Option<(u64, u64)> {
    (label.last_ticks > 0).then_some((label.first_ticks, label.last_ticks))
}

/// Nanoseconds since 1970-01-01 UTC, 0 if the clock stands before that.
pub(super) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// A file that has all its chunks and still needs its end chunk and its finished name.
pub struct Seal {
    file: OpenFile,
    end: Vec<u8>,
    renamed: bool,
    hopeless: bool,
}

impl Seal {
    /// Writes the end chunk, cuts off what a failed write left behind it, waits for the disk and
    /// gives the file its finished name. May be called again after an error. Calls `answered` each
    /// time that the disk has taken something.
    ///
    /// # Errors
    /// What the system says; see [`Seal::is_hopeless`].
    pub fn attempt(&mut self, disk: &dyn Disk, answered: &dyn Fn()) -> Result<(), Error> {
        let file = &mut self.file;
        if !self.renamed {
            let lost = |error: &Error| matches!(error, Error::Vanished { .. });
            file.check_named().inspect_err(|error| self.hopeless |= lost(error))?;
            // The end chunk first: the cut gives back the space that was kept for it.
            file.write(&self.end)?;
            let len = file.content.len + self.end.len() as u64;
            file.sink.truncate(len).map_err(Error::io("cut", &file.part))?;
            // A second call of sync would report success for pages lost at the first.
            file.sync_all(len, answered).inspect_err(|_| self.hopeless = true)?;
            disk.rename(&file.part, &file.finished).map_err(Error::io("rename", &file.part))?;
            self.renamed = true;
        }
        let directory = directory_of(&file.finished);
        disk.sync_directory(directory).map_err(Error::io("flush", directory))
    }

    /// Whether another attempt is of no use: the file stays unfinished for `recover` to look at.
    pub fn is_hopeless(&self) -> bool {
        self.hopeless
    }

    /// Name of the file now.
    pub fn path(&self) -> &Path {
        if self.renamed { &self.file.finished } else { &self.file.part }
    }

    /// What to look for in the file when it stays as it is.
    pub(super) fn leave(&self) -> LeftFile {
        LeftFile { path: self.path().to_owned(), content: self.file.content }
    }
}

/// A file that could not be brought to its end.
pub(super) struct LeftFile {
    path: PathBuf,
    content: Content,
}

impl LeftFile {
    /// What of the acknowledged chunks cannot be read from the file, and what it has of chunks from
    /// number `lost_from` of the run on, which nobody acknowledged.
    pub fn survey(&self, lost_from: u64) -> (Tally, Tally) {
        let (mut kept, mut found) = (Tally::default(), Tally::default());
        if let Ok(mut reader) = Reader::open(&self.path) {
            loop {
                match reader.next_chunk() {
                    Ok(Some(chunk)) if chunk.header.label.kind.is_data() => {
                        let items = Tally::of(&chunk.header.label);
                        match chunk.header.sequence {
                            number if number < self.content.next_sequence => kept.add(&items),
                            number if number >= lost_from => found.add(&items),
                            _ => {}
                        }
                    }
                    Ok(Some(_)) => {}
                    Err(Error::Damaged { .. }) => {
                        if !matches!(reader.resync(), Ok(Some(_))) {
                            break;
                        }
                    }
                    Ok(None) | Err(_) => break,
                }
            }
        }
        let mut gone = self.content.items;
        gone.take(&kept.common(&gone));
        (gone, found)
    }
}
