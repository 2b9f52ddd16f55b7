//! Writes the log of one run: chunks into a buffer, the buffer into files, group by group.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use super::account::{Item, Tally};
use super::config::{Durability, RecorderConfig};
use super::disk::Disk;
use super::error::Error;
use super::file::{Content, END_RESERVE_BYTES, OpenFile, Seal, payload_bytes_max, unix_ns};
use super::format::{Kind, Label, PAYLOAD_BYTES_MAX, chunk_len, encode_chunk};
use super::metadata::{EndCause, ItemAccount, RunInfo};
use super::name::{EXTENSION, file_name, run_stem};
use crate::files::is_taken;

/// Size of the commit buffer in bytes; one chunk alone may be larger.
pub const COMMIT_BYTES_MAX: u64 = 8 << 20;
/// Most files that wait for their end at one time.
pub const SEALS_MAX: usize = 16;
/// Most file names tried until one is free.
const NAME_TRIES: u32 = 10_000;

/// Writer of the files of one run.
///
/// [`append`](Self::append) only fills the commit buffer; [`commit`](Self::commit) writes it.
/// After an error the buffer is kept and the spoilt file is set aside: calling `commit` again
/// writes the same chunks to a new file. So an error delays chunks but loses none, and every
/// chunk is in the files once, or twice with the same number if a failed file kept it too.
///
/// Want of space spoils nothing: before it writes, the writer has the disk keep space for the chunks
/// and for the end of the run behind them. So on a full disk the file stays open, takes the chunks
/// that fit, and the end of the run by [`commit_last`](Self::commit_last). A file that would become
/// larger than it may is ended, and a chunk that no file may hold is left out: a gap takes its place.
pub struct Writer {
    disk: Arc<dyn Disk>,
    config: RecorderConfig,
    info: RunInfo,
    index: u32,
    file: Option<OpenFile>,
    buffer: Buffer,
    acknowledged: Tally,
    payload_bytes: u64,
    pending: Vec<Seal>,
    account: AccountSource,
    /// What was in the present file before the last commit.
    before: Content,
    left_out: LeftOut,
}

/// Where the writer learns, when it ends a file, what became of the items of the run.
pub(super) type AccountSource = Box<dyn Fn() -> Vec<ItemAccount> + Send>;

/// Chunks that no file may hold; they are counted as acknowledged, too.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// What was in them.
    pub items: Tally,
    /// The last of them.
    pub error: Option<Error>,
}

/// Chunks, encoded, that are not acknowledged yet.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// What each chunk is, in their order.
    chunks: VecDeque<Buffered>,
}

/// A chunk in the buffer.
struct Buffered {
    label: Label,
    payload_len: usize,
    /// A gap stands in its place.
    left_out: bool,
}

/// What stands in the place of a chunk that is left out.
const GAP: Label = Label::new(Kind::GAP).counts(0, 1);

impl Buffered {
    /// Bytes that it takes in the buffer.
    fn len(&self) -> usize {
        chunk_len(if self.left_out { 0 } else { self.payload_len }) as usize
    }
}

impl Buffer {
    /// Bytes that the first `count` chunks take.
    fn len_of(&self, count: usize) -> usize {
        self.chunks.iter().take(count).map(Buffered::len).sum()
    }

    /// Puts gaps in the place of chunks with more than `most` bytes of payload; the first chunk in
    /// the buffer is number `sequence` of run `run`. Returns the longest payload of them.
    fn leave_out(&mut self, most: usize, run: u32, sequence: u64) -> Option<usize> {
        let (mut at, mut longest) = (0, None);
        for (sequence, chunk) in (sequence..).zip(&mut self.chunks) {
            let len = chunk.len();
            if chunk.payload_len > most && !chunk.left_out {
                let mut gap = Vec::new();
                encode_chunk(&GAP, run, sequence, &[[0; 0]], &mut gap);
                self.bytes.splice(at..at + len, gap);
                chunk.left_out = true;
                longest = longest.max(Some(chunk.payload_len));
            }
            at += chunk.len();
        }
        longest
    }

    /// Takes out the first `bytes`; what one giant chunk took beyond `capacity` is given back.
    fn forget(&mut self, bytes: usize, capacity: usize) {
        self.bytes.drain(..bytes);
        self.bytes.shrink_to(capacity);
    }
}

impl Writer {
    /// A writer for the run `info`; makes no file yet.
    ///
    /// # Errors
    /// The configuration is not allowed.
    pub fn new(
        disk: Arc<dyn Disk>,
        config: RecorderConfig,
        mut info: RunInfo,
    ) -> Result<Self, Error> {
        config.check()?;
        if info.started_unix_ns == 0 {
            info.started_unix_ns = unix_ns();
        }
        let mut writer = Self {
            disk,
            config,
            info,
            index: 0,
            file: None,
            buffer: Buffer::default(),
            acknowledged: Tally::default(),
            payload_bytes: 0,
            pending: Vec::new(),
            account: Box::new(Vec::new),
            before: Content::default(),
            left_out: LeftOut::default(),
        };
        writer.buffer.bytes.reserve(writer.commit_bytes_max() as usize);
        Ok(writer)
    }

    /// The same writer, whose files end with what `account` says.
    pub(super) fn with_account(mut self, account: AccountSource) -> Self {
        self.account = account;
        self
    }

    /// Size of the commit buffer in bytes.
    fn commit_bytes_max(&self) -> u64 {
        COMMIT_BYTES_MAX.min(self.file_size_max())
    }

    /// Size at which a new file is begun: behind it there is room for the end of the run.
    fn file_size_max(&self) -> u64 {
        let most = self.disk.file_size_limit().saturating_sub(END_RESERVE_BYTES);
        self.config.file_size_max.bytes().min(most)
    }

    /// Whether a chunk of `payload_len` bytes may be appended before the next commit.
    pub fn has_room(&self, payload_len: usize) -> bool {
        let len = self.buffer.bytes.len() as u64;
        len == 0 || len.saturating_add(chunk_len(payload_len)) <= self.commit_bytes_max()
    }

    /// Adds a chunk to the commit buffer and returns its number in the run. The payload is `parts`
    /// one after the other.
    ///
    /// # Errors
    /// [`Error::Refused`] for what the log never takes; [`Error::BufferFull`] until a commit.
    pub fn append<P: AsRef<[u8]>>(&mut self, label: &Label, parts: &[P]) -> Result<u64, Error> {
        let payload_len = parts.iter().map(|part| part.as_ref().len()).sum();
        check_chunk(label, payload_len)?;
        if !self.has_room(payload_len) {
            return Err(Error::BufferFull);
        }
        let sequence = self.acknowledged() + self.buffered_chunks();
        encode_chunk(label, self.info.run, sequence, parts, &mut self.buffer.bytes);
        self.buffer.chunks.push_back(Buffered { label: *label, payload_len, left_out: false });
        Ok(sequence)
    }

    /// Writes the buffered chunks and returns how many data chunks of the run are acknowledged:
    /// all with a smaller number are safe. With nothing buffered it makes sure that there is a
    /// file to write to, and space.
    ///
    /// # Errors
    /// What the system says, or [`Error::DiskReserve`]. The chunks stay in the buffer, but for those
    /// that a full disk took: [`acknowledged`](Self::acknowledged) counts them.
    pub fn commit(&mut self) -> Result<u64, Error> {
        self.note_content();
        if self.pending.len() >= SEALS_MAX {
            // Those that cannot be ended stay as `.part` files for `recover`; the run goes on.
            let _ = self.seal_pending();
            self.pending.clear();
        }
        let checked = self.file.as_mut().map_or(Ok(()), OpenFile::check);
        checked.inspect_err(|error| self.set_aside(error))?;
        self.leave_out();
        self.check_space(self.buffer.len_of(1))?;
        self.open_file()?;
        self.note_content();
        let mut count = self.buffer.chunks.len();
        loop {
            let written = self.check_space(self.buffer.len_of(count)).and_then(|()| {
                self.write_buffer(count, true).inspect_err(|error| self.set_aside(error))
            });
            match written {
                Ok(()) if self.buffer.chunks.is_empty() => return Ok(self.acknowledged()),
                Ok(()) => count = count.min(self.buffer.chunks.len()),
                Err(error) if error.is_for_file_size() && self.has_content() => {
                    self.next_file()?;
                    self.note_content();
                    count = self.buffer.chunks.len();
                }
                Err(error) if error.spoils_nothing() && count > 1 => count /= 2,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the present file holds more than its header.
    fn has_content(&self) -> bool {
        self.file.as_ref().is_some_and(|file| !file.is_without_data())
    }

    /// Leaves out the chunks that no file may hold.
    fn leave_out(&mut self) {
        let limit = self.disk.file_size_limit();
        let (most, run, sequence) = (payload_bytes_max(limit), self.info.run, self.acknowledged());
        if let Some(bytes) = self.buffer.leave_out(most, run, sequence) {
            self.left_out.error = Some(Error::ChunkTooLarge { bytes, limit });
        }
    }

    /// Hands out what was in the place of gaps that were written since the last call.
    pub(super) fn take_left_out(&mut self) -> LeftOut {
        std::mem::take(&mut self.left_out)
    }

    /// Remembers what is in the present file, for [`retract`](Self::retract).
    fn note_content(&mut self) {
        self.before = self.file.as_ref().map(|file| file.content).unwrap_or_default();
    }

    /// Forgets what is buffered, and writes one last chunk into the space that is kept for it, however
    /// full the disk is. Returns how many data chunks are acknowledged.
    ///
    /// # Errors
    /// As [`append`](Self::append) and [`commit`](Self::commit).
    pub fn commit_last<P: AsRef<[u8]>>(
        &mut self,
        label: &Label,
        parts: &[P],
    ) -> Result<u64, Error> {
        self.buffer = Buffer::default();
        self.append(label, parts)?;
        if self.file.is_none() {
            self.file = Some(self.create_file()?);
        }
        self.leave_out();
        let written = match self.write_buffer(1, false) {
            Err(error) if error.is_for_file_size() && self.has_content() => {
                self.next_file()?;
                self.write_buffer(1, false)
            }
            other => other,
        };
        written.inspect_err(|error| self.set_aside(error))?;
        Ok(self.acknowledged())
    }

    /// Takes the last commit back: its chunks were counted as lost while it was stuck, so the end of
    /// the file takes their place.
    pub(super) fn retract(&mut self) {
        if let Some(file) = &mut self.file {
            let mut items = file.content.items;
            items.take(&self.before.items);
            self.acknowledged.take(&items);
            file.content = self.before;
        }
    }

    /// Makes sure that there is a file that may take the buffer, or as much of it as there is space for.
    fn open_file(&mut self) -> Result<(), Error> {
        let bytes = self.buffer.bytes.len() as u64;
        let size_max = self.file_size_max();
        let is_full =
            |file: &OpenFile| !file.is_without_data() && file.content.len + bytes > size_max;
        if self.file.as_ref().is_none_or(is_full) {
            match self.next_file() {
                Err(error) if self.file.is_some() && error.is_for_want_of_space() => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Goes on in a new file. If there is no space for one, the present file stays.
    fn next_file(&mut self) -> Result<(), Error> {
        let next = self.create_file()?;
        self.end_file(EndCause::Rotated);
        self.file = Some(next);
        Ok(())
    }

    /// Writes the first `count` chunks of the buffer to the present file, and acknowledges what is in
    /// them. If `reserve`, space for the end of the run is kept behind them.
    fn write_buffer(&mut self, count: usize, reserve: bool) -> Result<(), Error> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let bytes = self.buffer.len_of(count);
        if bytes > 0 {
            if reserve {
                file.reserve(bytes as u64)?;
            }
            // Bytes written behind the end of a truncated file would leave a hole.
            file.check()?;
            file.write(&self.buffer.bytes[..bytes])?;
            if self.config.durability == Durability::Power {
                file.sync()?;
            }
        }
        file.check()?;
        for chunk in self.buffer.chunks.drain(..count) {
            let items = Tally::of(&chunk.label);
            self.acknowledged.add(&items);
            if chunk.left_out {
                file.acknowledge(&GAP, chunk.len() as u64);
                self.left_out.items.add(&items);
            } else {
                file.acknowledge(&chunk.label, chunk.len() as u64);
                self.payload_bytes += chunk.payload_len as u64;
            }
        }
        let capacity = self.commit_bytes_max() as usize;
        self.buffer.forget(bytes, capacity);
        Ok(())
    }

    /// Refuses to write `bytes` into the reserve of the disk.
    fn check_space(&self, bytes: usize) -> Result<(), Error> {
        let directory = &self.config.directory;
        let free = match self.disk.free_bytes(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::NoDirectory(directory.clone()));
            }
            other => other.map_err(Error::io("read the free space of", directory))?,
        };
        let needed = self.config.disk_reserve.bytes().saturating_add(bytes as u64);
        if free < needed {
            return Err(Error::DiskReserve { directory: directory.clone(), free, needed });
        }
        Ok(())
    }

    /// Makes a file under the next name that is free.
    fn create_under_free_name(&mut self) -> Result<OpenFile, Error> {
        let started = self.info.started_unix_ns;
        let created = if self.index == 0 { started } else { unix_ns().max(started) };
        let stem = run_stem(&self.config.prefix, self.info.run, created / 1_000_000_000);
        let path = |index| self.config.directory.join(file_name(&stem, index, EXTENSION));
        for _ in 0..NAME_TRIES {
            let finished = path(self.index);
            if is_taken(&finished) {
                tracing::warn!(file = %finished.display(), "name not used: it is taken");
            } else {
                let first = self.acknowledged();
                match OpenFile::create(
                    &*self.disk,
                    finished,
                    &self.info,
                    self.index,
                    first,
                    created,
                ) {
                    Err(Error::Io { source, path, .. })
                        if source.kind() == ErrorKind::AlreadyExists =>
                    {
                        tracing::warn!(file = %path.display(), cause = %source, "name not used");
                    }
                    other => return other,
                }
            }
            self.index += 1;
        }
        Err(Error::Exists(path(self.index)))
    }

    /// Makes the next file; it is on the disk if the durability asks for it.
    fn create_file(&mut self) -> Result<OpenFile, Error> {
        let mut file = self.create_under_free_name()?;
        self.index += 1;
        if let Err(error) = file.reserve(0) {
            let _ = self.disk.remove(&file.part);
            return Err(error);
        }
        if self.config.durability == Durability::Power {
            let directory = &self.config.directory;
            let named = self.disk.sync_directory(directory).map_err(Error::io("flush", directory));
            if let Err(error) = file.sync().and(named) {
                let _ = self.disk.remove(&file.part);
                return Err(error);
            }
        }
        Ok(file)
    }

    /// Gives up the present file after `error`, if that has spoilt it. What was acknowledged in it is
    /// kept.
    fn set_aside(&mut self, error: &Error) {
        if error.spoils_nothing() {
            return;
        }
        let Some(file) = self.file.take() else { return };
        if matches!(error, Error::Vanished { .. }) {
            return;
        }
        if file.is_without_data() {
            let _ = self.disk.remove(&file.part);
        } else {
            self.pending.push(file.end(EndCause::Failed, Some(error), (self.account)()));
        }
    }

    /// Ends the present file, if there is one; its seal is pending.
    pub fn end_file(&mut self, cause: EndCause) {
        if let Some(file) = self.file.take() {
            self.pending.push(file.end(cause, None, (self.account)()));
        }
    }

    /// Ends the last file of the run, with the final account.
    pub(super) fn end_run(&mut self, account: Vec<ItemAccount>) {
        if let Some(file) = self.file.take() {
            self.pending.push(file.end(EndCause::Closed, None, account));
        }
    }

    /// Hands out the files that wait for their end, for a thread that has time to wait for the disk.
    pub fn take_pending(&mut self) -> Vec<Seal> {
        std::mem::take(&mut self.pending)
    }

    /// Ends the files that wait for it.
    ///
    /// # Errors
    /// The first error. Files with an error are tried again at the next call, unless it is
    /// hopeless; then they stay as `.part` files for [`recover`](super::recover()).
    pub fn seal_pending(&mut self) -> Result<(), Error> {
        let mut first_error = Ok(());
        let disk = &*self.disk;
        self.pending.retain_mut(|seal| match seal.attempt(disk, &|| ()) {
            Ok(()) => false,
            Err(error) => {
                if first_error.is_ok() {
                    first_error = Err(error);
                }
                !seal.is_hopeless()
            }
        });
        first_error
    }

    /// Commits what is buffered and ends the last file.
    ///
    /// # Errors
    /// The first error; files that could not be ended stay for [`recover`](super::recover()).
    pub fn close(mut self) -> Result<u64, Error> {
        let acknowledged = self.commit()?;
        self.end_file(EndCause::Closed);
        self.seal_pending()?;
        Ok(acknowledged)
    }

    /// Number of acknowledged data chunks.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.get(Item::Chunk)
    }

    /// What was in the acknowledged chunks.
    pub fn acknowledged_items(&self) -> Tally {
        self.acknowledged
    }

    /// Payload bytes of the acknowledged chunks.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// Number of data chunks in the commit buffer.
    pub fn buffered_chunks(&self) -> u64 {
        self.buffer.chunks.len() as u64
    }

    /// Name of the file that is being written.
    pub fn present_file(&self) -> Option<PathBuf> {
        self.file.as_ref().map(|file| file.part.clone())
    }
}

/// Refuses chunks that the log never takes.
///
/// # Errors
/// [`Error::Refused`] with the reason.
pub(super) fn check_chunk(label: &Label, payload_len: usize) -> Result<(), Error> {
    if !label.kind.is_data() {
        return Err(Error::Refused("kinds below 16 are the log's own"));
    }
    if label.last_ticks < label.first_ticks {
        return Err(Error::Refused("the last time stamp is before the first"));
    }
    if payload_len > PAYLOAD_BYTES_MAX {
        return Err(Error::Refused("the payload is longer than 256 MiB"));
    }
    Ok(())
}
