//! One file of a log, while it is written and while it is brought to its end.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::account::{Item, Tally};
use super::disk::{Disk, Storage, write_all_at};
use super::error::{Error, RAISE_LIMIT};
use super::format::{BLOCK_BYTES, HEADER_BYTES, Kind, Label, PAYLOAD_BYTES_MAX, encode_chunk};
use super::metadata::{
    ERROR_BYTES_MAX, EndCause, EndOfFile, FileHeader, ItemAccount, RunInfo, clip,
};
use super::name::part_path;
use super::reader::Reader;
use super::sys;
use crate::files::directory_of;

/// Space that each file keeps on the disk for the end of the run: its totals and the end chunk.
pub const END_RESERVE_BYTES: u64 = 1 << 20;
/// Smallest limit of the size of files with which a run is recorded, bytes: chunks for 1 MiB, and
/// the end of the run.
pub const FILE_SIZE_LIMIT_MIN: u64 = (1 << 20) + END_RESERVE_BYTES;
/// Bytes that are flushed at a time.
const SYNC_BYTES: u64 = 64 << 20;
/// Bytes between two notes of what a file holds.
const MARK_BYTES: u64 = 8 << 20;

/// Tests that files may be as large as a log needs them.
///
/// # Errors
/// [`Error::NothingRecorded`] when `limit` bytes, from [`file_size_limit`](super::file_size_limit),
/// are less than [`FILE_SIZE_LIMIT_MIN`].
pub fn check_file_size_limit(limit: u64) -> Result<(), Error> {
    if limit >= FILE_SIZE_LIMIT_MIN {
        return Ok(());
    }
    Err(Error::NothingRecorded(format!(
        "files may not be larger than {limit} B (`ulimit -f`), and a log needs \
         {FILE_SIZE_LIMIT_MIN} B; {RAISE_LIMIT}"
    )))
}

/// Longest payload of a chunk in a file of at most `limit` bytes.
pub fn payload_bytes_max(limit: u64) -> usize {
    let most = limit.saturating_sub(END_RESERVE_BYTES + BLOCK_BYTES as u64);
    let whole = usize::try_from(most).unwrap_or(usize::MAX) / BLOCK_BYTES * BLOCK_BYTES;
    whole.saturating_sub(HEADER_BYTES).min(PAYLOAD_BYTES_MAX)
}

/// A file that takes chunks.
///
/// Its length counts acknowledged bytes only: bytes behind it are of a write that failed, and the
/// seal cuts them off.
pub(super) struct OpenFile {
    /// The file itself.
    pub storage: Box<dyn Storage>,
    /// Name of the file at its end.
    pub finished: PathBuf,
    /// Name of the file until then.
    pub part: PathBuf,
    /// What is in it.
    pub content: Content,
    /// Its first chunk.
    header: Vec<u8>,
    /// What was in it behind its header, and every [`MARK_BYTES`] or so from there on: so little is
    /// read to find out what is left of a truncated file.
    marks: Vec<Content>,
    /// Data chunks that somebody cut off behind its content.
    cut_off: u64,
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
    /// What is in those data chunks.
    pub items: Tally,
}

impl Content {
    /// Counts the next chunk, which is `bytes` long.
    pub fn add(&mut self, label: &Label, bytes: u64) {
        self.len += bytes;
        match label.kind {
            Kind::GAP => {
                self.chunks_missing += u64::from(label.items_missing);
                self.next_sequence += u64::from(label.items_missing);
            }
            kind if kind.is_data() => {
                self.chunks += 1;
                self.next_sequence += 1;
                self.times = join(self.times, times(label));
                self.items.add(&Tally::of(label));
            }
            _ => {}
        }
    }
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
        let storage = disk.create(&part).map_err(Error::io("create", &part))?;
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
        let mut file = Self::found(storage, finished, part, content);
        if let Err(error) = file.write(&header) {
            let _ = disk.remove(&file.part);
            return Err(error);
        }
        file.content.len = header.len() as u64;
        file.header = header;
        file.marks.push(file.content);
        Ok(file)
    }

    /// A file that was there before, with what was found in it.
    pub fn found(
        storage: Box<dyn Storage>,
        finished: PathBuf,
        part: PathBuf,
        content: Content,
    ) -> Self {
        Self { storage, finished, part, content, header: Vec::new(), marks: Vec::new(), cut_off: 0 }
    }

    /// Writes whole chunks behind the acknowledged ones.
    pub fn write(&mut self, chunks: &[u8]) -> Result<(), Error> {
        let end = self.content.len + chunks.len() as u64;
        write_all_at(&mut *self.storage, chunks, self.content.len)
            .map_err(|source| self.refused("write", end, source))
    }

    /// The error for `source`, which came up when `doing` something up to byte `end`.
    fn refused(&self, doing: &'static str, end: u64, source: io::Error) -> Error {
        match source.kind() {
            ErrorKind::FileTooLarge => Error::FileTooLarge {
                path: self.part.clone(),
                needed: end,
                limit: sys::file_size_limit(),
            },
            _ => Error::io(doing, &self.part)(source),
        }
    }

    /// Waits until what was written is on the disk.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.storage.sync().map_err(Error::io("flush", &self.part))
    }

    /// The same for a file of `len` bytes, which may take long.
    fn sync_all(&mut self, len: u64, answered: &dyn Fn()) -> Result<(), Error> {
        let mut at = 0;
        while at < len {
            let end = len.min(at + SYNC_BYTES);
            self.storage.sync_range(at..end).map_err(Error::io("flush", &self.part))?;
            answered();
            at = end;
        }
        self.sync()
    }

    /// Refuses a file that lost its name, as chunks in it would be gone with this process, and one
    /// that is shorter than what was acknowledged. What is left of that is its content from now on.
    pub fn check(&mut self) -> Result<(), Error> {
        match self.storage.named_len(&self.part).map_err(Error::io("look up", &self.part))? {
            None => Err(Error::Vanished {
                path: self.part.clone(),
                chunks: self.content.chunks,
                items: Box::new(self.content.items),
            }),
            Some(len) if len < self.content.len => {
                let left = self.content_within(len);
                let before = std::mem::replace(&mut self.content, left);
                self.cut_off += before.next_sequence - left.next_sequence;
                Err(self.truncated(&before, len, left.items))
            }
            Some(_) => Ok(()),
        }
    }

    /// What stands in the first `len` bytes, as far as whole chunks reach.
    fn content_within(&self, len: u64) -> Content {
        let Some(mut left) = self.marks.iter().rfind(|mark| mark.len <= len).copied() else {
            return Content { len: 0, ..self.marks.first().copied().unwrap_or_default() };
        };
        let (reader, mut chunk) = (Reader::open(&self.part), Vec::new());
        let Ok(mut reader) = reader else { return left };
        while let Ok(header) = reader.read_chunk(left.len, &mut chunk)
            && left.len + header.chunk_len() <= len
            && (header.run, header.sequence) == (left.run, left.next_sequence)
        {
            left.add(&header.label, header.chunk_len());
        }
        left
    }

    /// The error for a file that held what it held `before`, and has `kept` of it in `len` bytes.
    fn truncated(&self, before: &Content, len: u64, kept: Tally) -> Error {
        let mut items = before.items;
        items.take(&kept);
        Error::Truncated {
            path: self.part.clone(),
            len,
            expected: before.len,
            chunks: items.get(Item::Chunk),
            items: Box::new(items),
        }
    }

    /// Refuses a file with a hole in which chunks stood: it was truncated just when chunks were
    /// written behind them. Calls `answered` for each chunk that it reads.
    fn check_whole(&mut self, answered: &dyn Fn()) -> Result<(), Error> {
        let hole = self.storage.first_hole().unwrap_or(u64::MAX);
        if hole >= self.content.len {
            return Ok(());
        }
        // It may be zeros that were written.
        let before = self.content;
        let found = LeftFile { path: self.part.clone(), content: before }.find(u64::MAX, answered);
        let kept = found.0.common(&before.items);
        if kept == before.items {
            return Ok(());
        }
        self.content.items = kept;
        Err(self.truncated(&before, hole, kept))
    }

    /// Keeps space for `bytes` more bytes and the end of the run behind them. A file system that
    /// cannot do that may be too full for the end.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), Error> {
        let len = self.content.len;
        let end = len + bytes + END_RESERVE_BYTES;
        match self.storage.reserve(len..end) {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            other => other.map_err(|source| self.refused("reserve space in", end, source)),
        }
    }

    /// Whether no data chunk is in it, nor was, nor is known to be missing from it.
    pub fn is_without_data(&self) -> bool {
        self.content.chunks + self.content.chunks_missing + self.cut_off == 0
    }

    /// Counts the chunk that was written last, `bytes` long, as part of the file.
    pub fn acknowledge(&mut self, label: &Label, bytes: u64) {
        self.content.add(label, bytes);
        if self.marks.last().is_some_and(|mark| self.content.len - mark.len >= MARK_BYTES) {
            self.marks.push(self.content);
        }
    }

    /// Takes no more chunks: what is left to do is in the seal. `account` is that of the run, as far
    /// as it is known.
    pub fn end(self, cause: EndCause, error: Option<&Error>, account: Vec<ItemAccount>) -> Seal {
        let end = EndOfFile {
            cause,
            data_chunks: 0,
            chunks_missing: 0,
            closed_unix_ns: if cause == EndCause::Recovered { 0 } else { unix_ns() },
            error: None,
            account,
        };
        let mut seal = self.end_with(Some(end));
        error.into_iter().for_each(|error| seal.tell(error));
        seal
    }

    /// Like [`end`](Self::end), with the payload of the end chunk but for its counts; nothing when the
    /// file has an end chunk already.
    pub fn end_with(self, end: Option<EndOfFile>) -> Seal {
        Seal { file: self, end, renamed: false, hopeless: false }
    }

    /// What is still to be written to a file that ends with `end`: its header if that is gone, a gap
    /// for the chunks that were cut off, and the end chunk.
    fn last_chunks(&self, end: &EndOfFile) -> Vec<u8> {
        let Content { run, next_sequence, .. } = self.content;
        let mut chunks = if self.content.len == 0 { self.header.clone() } else { Vec::new() };
        if self.cut_off > 0 {
            let missing = u32::try_from(self.cut_off).unwrap_or(u32::MAX);
            let gap = Label::new(Kind::GAP).counts(0, missing);
            encode_chunk(&gap, run, next_sequence, &[[0; 0]], &mut chunks);
        }
        let (first, last) = self.content.times.unwrap_or((0, 0));
        let label = Label::new(Kind::END_OF_FILE).times(first, last);
        let text = EndOfFile {
            data_chunks: self.content.chunks,
            chunks_missing: self.content.chunks_missing + self.cut_off,
            ..end.clone()
        };
        let sequence = next_sequence + self.cut_off;
        encode_chunk(&label, run, sequence, &[text.encode()], &mut chunks);
        chunks
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
    end: Option<EndOfFile>,
    renamed: bool,
    hopeless: bool,
}

impl Seal {
    /// Writes the end chunk, cuts off what a failed write left behind it, waits for the disk and
    /// gives the file its finished name. May be called again after an error. Calls `answered` each
    /// time that the disk has taken something.
    ///
    /// # Errors
    /// What the system says; see [`Seal::is_hopeless`]. Of a file that was truncated the next attempt
    /// ends what is left.
    pub fn attempt(&mut self, disk: &dyn Disk, answered: &dyn Fn()) -> Result<(), Error> {
        if !self.renamed {
            if let Err(error) = self.file.check() {
                self.hopeless |= matches!(error, Error::Vanished { .. });
                self.tell(&error);
                return Err(error);
            }
            // What stands behind a hole is for `recover`.
            self.file.check_whole(answered).inspect_err(|_| self.hopeless = true)?;
            let file = &mut self.file;
            let last = self.end.as_ref().map(|end| file.last_chunks(end)).unwrap_or_default();
            // The end chunk first: the cut gives back the space that was kept for it.
            file.write(&last)?;
            let len = file.content.len + last.len() as u64;
            file.storage.truncate(len).map_err(Error::io("cut", &file.part))?;
            // A second call of sync would report success for pages lost at the first.
            file.sync_all(len, answered).inspect_err(|_| self.hopeless = true)?;
            disk.rename(&file.part, &file.finished).map_err(Error::io("rename", &file.part))?;
            self.renamed = true;
        }
        let directory = directory_of(&self.file.finished);
        disk.sync_directory(directory).map_err(Error::io("flush", directory))
    }

    /// Has the end chunk tell of `error`, and of what is gone by it.
    fn tell(&mut self, error: &Error) {
        let Some(end) = &mut self.end else { return };
        end.error = Some(clip(&error.to_string(), ERROR_BYTES_MAX).into());
        if let Some((items, reason)) = error.gone() {
            ItemAccount::lose(&mut end.account, items, reason);
        }
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
    pub fn scan(&self, lost_from: u64) -> (Tally, Tally) {
        let (kept, found) = self.find(lost_from, &|| ());
        let mut gone = self.content.items;
        gone.take(&kept.common(&gone));
        (gone, found)
    }

    /// What it has of acknowledged chunks, and of those from number `lost_from` of the run on. Calls
    /// `answered` for each chunk that it reads.
    fn find(&self, lost_from: u64, answered: &dyn Fn()) -> (Tally, Tally) {
        let (mut kept, mut found) = (Tally::default(), Tally::default());
        if let Ok(mut reader) = Reader::open(&self.path) {
            loop {
                answered();
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
        (kept, found)
    }
}
