//! Brings a file that its writer could not end to its end.
//!
//! A forward scan finds what is sound. Everything else is first copied to side files
//! `<file>.torn_<offset>`, so that no byte is ever lost. Then what lies behind the last sound chunk
//! is cut off, damage between sound chunks is overwritten by gap chunks, and the file gets an end
//! chunk and its finished name. The file is changed in place, and at each moment the next
//! call finds all sound chunks where they were: being killed in the middle does no harm.

use std::fs;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest};
use serde::Serialize;

use super::disk::{Disk, Storage, SystemDisk, write_all_at};
use super::error::Error;
use super::file::{Content, OpenFile};
use super::format::{BLOCK_BYTES, HEADER_BYTES, Header, Kind, Label, MAGIC, encode_chunk};
use super::metadata::{EndCause, FileHeader, RunInfo};
use super::name::{EXTENSION, finished_path};
use super::scan::{Damage, Scan};
use super::verify::verify;
use crate::files::{self, OutputDirectory, directory_of, is_taken};

/// Longest gap chunk in bytes; longer damage gets several.
const GAP_BYTES_MAX: u64 = 16 << 20;
/// Bytes moved at a time.
const COPY_BYTES: usize = 1 << 20;
/// Most side files at one offset.
const SIDE_FILES_MAX: u32 = 100;

/// How a file came out of [`recover`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The file was finished and sound before.
    AlreadyFinished,
    /// The file is finished now.
    Finished,
    /// The file held no sound chunk, so that nothing of it had been acknowledged. If it held bytes,
    /// they are in the side file.
    NothingInside,
}

/// What [`recover`] did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// The finished file.
    pub file: PathBuf,
    /// What became of it.
    pub outcome: Outcome,
    /// Data chunks in it.
    pub data_chunks: u64,
    /// Data chunks known to be lost from its middle.
    pub chunks_missing: u64,
    /// Side files with the bytes that hold no sound chunk.
    pub set_aside: Vec<PathBuf>,
    /// Their size in bytes.
    pub bytes_set_aside: u64,
}

/// An unfinished file, and what [`recover`] did with it.
pub type RecoveredFile = (PathBuf, Result<Recovered, Error>);

/// Finishes the unfinished file `path` (a `.part` file) and puts it into the manifest of its run. A
/// finished file is only verified.
///
/// May be called any number of times, also after being killed, with the unfinished or the
/// finished name. Links, pipes, files of other users and files that are no logs are left alone.
///
/// # Errors
/// [`Error::InUse`] when a running program writes the file; [`Error::NotALog`] for a file without
/// anything of a log; [`Error::FinishedDamaged`] for a finished file that does not verify; else what
/// the system says.
pub fn recover(path: &Path) -> Result<Recovered, Error> {
    let recovered = recover_on(&SystemDisk, path)?;
    if recovered.outcome == Outcome::Finished
        && let Err(error) = files::list(&recovered.file)
    {
        tracing::warn!(%error, "the recovered file is not in the manifest of its run");
    }
    Ok(recovered)
}

/// Recovers every unfinished log in `directory`, in the order of their names.
///
/// # Errors
/// The directory cannot be read. What happened to each file is in the list.
pub fn recover_directory(directory: &Path) -> Result<Vec<RecoveredFile>, Error> {
    let files = unfinished_in(directory)?;
    Ok(files.into_iter().map(|path| (path.clone(), recover(&path))).collect())
}

/// Every unfinished log in `directory`, in the order of their names.
///
/// # Errors
/// The directory cannot be read.
pub fn unfinished_in(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let is_unfinished_log = |path: &PathBuf| {
        finished_path(path).is_some_and(|name| name.extension().is_some_and(|e| e == EXTENSION))
    };
    let listing = fs::read_dir(directory).map_err(Error::io("list", directory))?;
    let mut files = listing
        .map(|entry| entry.map(|entry| entry.path()))
        .filter(|path| path.as_ref().map_or(true, is_unfinished_log))
        .collect::<io::Result<Vec<_>>>()
        .map_err(Error::io("list", directory))?;
    files.sort();
    Ok(files)
}

/// [`recover`] on a given file system.
///
/// # Errors
/// As [`recover`].
pub fn recover_on(disk: &dyn Disk, path: &Path) -> Result<Recovered, Error> {
    let Some(finished) = finished_path(path) else { return check_finished(path) };
    let storage = match disk.open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && is_taken(&finished) => {
            return check_finished(&finished);
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            return Err(Error::InUse(path.to_owned()));
        }
        other => other.map_err(Error::io("open", path))?,
    };
    if storage.named_len(path).map_err(Error::io("look up", path))?.is_none() {
        // Another process finished the file between our opening and locking it.
        return check_finished(&finished);
    }
    if is_taken(&finished) {
        return Err(Error::Exists(finished));
    }
    Repair { disk, storage, part: path, finished, set_aside: Vec::new(), bytes_set_aside: 0 }.run()
}

/// The answer for a file that has its finished name.
fn check_finished(file: &Path) -> Result<Recovered, Error> {
    let report = verify(file)?;
    report.check_is_log()?;
    if let Some(problem) = report.problems.into_iter().next() {
        return Err(Error::FinishedDamaged { file: file.to_owned(), problem });
    }
    Ok(Recovered {
        file: file.to_owned(),
        outcome: Outcome::AlreadyFinished,
        data_chunks: report.data_chunks,
        chunks_missing: report.chunks_missing,
        set_aside: Vec::new(),
        bytes_set_aside: 0,
    })
}

/// One unfinished file under repair.
struct Repair<'a> {
    disk: &'a dyn Disk,
    storage: Box<dyn Storage>,
    part: &'a Path,
    finished: PathBuf,
    set_aside: Vec<PathBuf>,
    bytes_set_aside: u64,
}

impl Repair<'_> {
    fn run(mut self) -> Result<Recovered, Error> {
        let scan = Scan::of(self.part)?;
        let content = scan.content;
        if scan.sound_chunks == 0 && !begins_as_log(self.part)? {
            return Err(Error::NotALog(self.part.to_owned()));
        }
        self.keep(content.len..scan.file_len)?;
        for damage in &scan.damage {
            self.keep(damage.bytes.clone())?;
        }
        self.flush_directory()?;
        if scan.sound_chunks == 0 {
            self.disk.remove(self.part).map_err(Error::io("remove", self.part))?;
            self.flush_directory()?;
            return Ok(self.recovered(Outcome::NothingInside, content).0);
        }
        for damage in &scan.damage {
            self.fill(damage, content.run)?;
        }
        self.storage.sync().map_err(Error::io("flush", self.part))?;
        let disk = self.disk;
        let (recovered, file) = self.recovered(Outcome::Finished, content);
        let mut seal = match scan.ended {
            true => file.end_with(None),
            false => file.end(EndCause::Recovered, None, Vec::new()),
        };
        seal.attempt(disk, &|| ())?;
        Ok(recovered)
    }

    /// What to tell the caller, and the file for its seal.
    fn recovered(self, outcome: Outcome, content: Content) -> (Recovered, OpenFile) {
        let recovered = Recovered {
            file: self.finished.clone(),
            outcome,
            data_chunks: content.chunks,
            chunks_missing: content.chunks_missing,
            set_aside: self.set_aside,
            bytes_set_aside: self.bytes_set_aside,
        };
        let part = self.part.to_owned();
        (recovered, OpenFile::found(self.storage, self.finished, part, content))
    }

    fn flush_directory(&self) -> Result<(), Error> {
        let directory = directory_of(self.part);
        self.disk.sync_directory(directory).map_err(Error::io("flush", directory))
    }

    /// Copies bytes of the file to a side file of their own, unless an earlier call has done so.
    fn keep(&mut self, bytes: Range<u64>) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut side = self.finished.clone().into_os_string();
        side.push(format!(".torn_{:012}", bytes.start));
        for attempt in 0..SIDE_FILES_MAX {
            let mut path = side.clone();
            if attempt > 0 {
                path.push(format!("_{attempt}"));
            }
            let path = PathBuf::from(path);
            let kept = self.is_copy(&path, &bytes).map_err(Error::io("read", &path))?;
            if kept == Some(false) {
                continue;
            }
            if kept.is_none() {
                self.copy(&path, &bytes).map_err(Error::io("write", &path))?;
            }
            self.bytes_set_aside += bytes.end - bytes.start;
            self.set_aside.push(path);
            return Ok(());
        }
        Err(Error::Exists(side.into()))
    }

    /// Whether the side file `path` holds just these bytes; `None` when there is no such file.
    fn is_copy(&self, path: &Path, bytes: &Range<u64>) -> io::Result<Option<bool>> {
        let (directory, name) = OutputDirectory::of(path)?;
        let mut side = match directory.open_own(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(Some(false)),
            other => other?,
        };
        if side.metadata()?.len() != bytes.end - bytes.start {
            return Ok(Some(false));
        }
        let mut same = true;
        let mut theirs = vec![0; COPY_BYTES];
        for_each_piece(self.part, bytes, |_, piece| {
            let theirs = &mut theirs[..piece.len()];
            side.read_exact(theirs)?;
            same &= theirs == piece;
            Ok(())
        })?;
        Ok(Some(same))
    }

    /// Copies the bytes to the new file `path`, which appears with its name when it is whole.
    fn copy(&self, path: &Path, bytes: &Range<u64>) -> io::Result<()> {
        let mut temporary = path.to_owned().into_os_string();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        match self.disk.remove(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut side = self.disk.create(&temporary)?;
        for_each_piece(self.part, bytes, |at, piece| {
            write_all_at(&mut *side, piece, at - bytes.start)
        })?;
        side.sync()?;
        self.disk.rename(&temporary, path)
    }

    /// Overwrites damage by chunks that say what stood there.
    fn fill(&mut self, damage: &Damage, run: u32) -> Result<(), Error> {
        let mut at = damage.bytes.start;
        if at == 0 {
            at = self.rebuild_file_header(damage.sequence, run)?;
        }
        while at < damage.bytes.end {
            let len = (damage.bytes.end - at).min(GAP_BYTES_MAX);
            let last = at + len == damage.bytes.end;
            let label = Label::new(Kind::GAP).counts(0, if last { damage.missing } else { 0 });
            self.write_gap(at, len, label, run, damage.sequence)
                .map_err(Error::io("write", self.part))?;
            at += len;
        }
        Ok(())
    }

    /// Writes a file header in the place of a damaged one, and returns where it ends.
    fn rebuild_file_header(&mut self, sequence: u64, run: u32) -> Result<u64, Error> {
        let info = RunInfo { run, ..RunInfo::default() };
        let header = FileHeader { rebuilt: true, ..FileHeader::new(&info, 0, 0) };
        let mut chunk = Vec::new();
        encode_chunk(&Label::new(Kind::FILE_HEADER), run, sequence, &[header.encode()], &mut chunk);
        write_all_at(&mut *self.storage, &chunk, 0).map_err(Error::io("write", self.part))?;
        Ok(chunk.len() as u64)
    }

    /// Writes a gap chunk of `len` bytes, a multiple of the block size, at byte `at`.
    fn write_gap(
        &mut self,
        at: u64,
        len: u64,
        label: Label,
        run: u32,
        sequence: u64,
    ) -> io::Result<()> {
        let zeros = vec![0; COPY_BYTES];
        let payload = at + HEADER_BYTES as u64..at + len;
        let mut payload_crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let mut place = payload.start;
        while place < payload.end {
            let piece = &zeros[..(payload.end - place).min(COPY_BYTES as u64) as usize];
            write_all_at(&mut *self.storage, piece, place)?;
            payload_crc.update(piece);
            place += piece.len() as u64;
        }
        // The header comes last: until it stands, the place still counts as damage.
        let payload_len = (len - HEADER_BYTES as u64) as u32;
        let payload_crc = payload_crc.finalize() as u32;
        let header = Header { label, run, sequence, payload_len, payload_crc };
        debug_assert!(at.is_multiple_of(BLOCK_BYTES as u64) && header.chunk_len() == len);
        write_all_at(&mut *self.storage, &header.encode(), at)
    }
}

/// Whether the file `path`, which holds no sound chunk, may be what a killed writer or a power cut left
/// of a log: nothing, the start of a chunk, or zeros.
fn begins_as_log(path: &Path) -> Result<bool, Error> {
    let mut start = Vec::new();
    let mut head = files::open_own(path)?.take(BLOCK_BYTES as u64);
    head.read_to_end(&mut start).map_err(Error::io("read", path))?;
    let magic = &MAGIC[..start.len().min(MAGIC.len())];
    Ok(start.starts_with(magic) || start.iter().all(|&byte| byte == 0))
}

/// Calls `visit` with each piece of `bytes` of the file `path` and the byte at which it begins.
fn for_each_piece(
    path: &Path,
    bytes: &Range<u64>,
    mut visit: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (directory, name) = OutputDirectory::of(path)?;
    let mut file = directory.open_own(name)?;
    file.seek(SeekFrom::Start(bytes.start))?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = bytes.start;
    while at < bytes.end {
        let piece = &mut buffer[..(bytes.end - at).min(COPY_BYTES as u64) as usize];
        file.read_exact(piece)?;
        visit(at, piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}
