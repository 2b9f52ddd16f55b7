//! Reads a log from front to back with bounded memory, and finds its way after damage.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::defect::Defect;
use super::error::Error;
use super::format::{BLOCK_BYTES, HEADER_BYTES, Header, Kind};
use super::metadata::{EndOfFile, FileHeader};
use crate::files::open_input;

/// A chunk as read; it borrows the buffer of the reader.
#[derive(Clone, Copy, Debug)]
pub struct ChunkView<'a> {
    /// Byte of the file at which the chunk begins.
    pub offset: u64,
    /// The header.
    pub header: Header,
    /// The payload.
    pub payload: &'a [u8],
}

/// A forward reader over the chunks of one file, all kinds included.
///
/// Every chunk that it returns has passed every check: CRCs, padding, run, sequence and place.
/// It holds one chunk at a time, so its memory is bounded by
/// [`PAYLOAD_BYTES_MAX`](super::format::PAYLOAD_BYTES_MAX) and by the size of the file.
pub struct Reader<R> {
    source: R,
    name: PathBuf,
    len: u64,
    at: u64,
    chunks: u64,
    run: Option<u32>,
    sequence: Option<u64>,
    file_header: Option<FileHeader>,
    end: Option<EndOfFile>,
    buffer: Vec<u8>,
}

impl Reader<File> {
    /// Opens the file `path`, finished or not.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::new(open_input(path).map_err(Error::io("open", path))?, path)
    }
}

impl<R: Read + Seek> Reader<R> {
    /// A reader over `source`, which errors call `name`.
    ///
    /// # Errors
    /// The length of the source cannot be found.
    pub fn new(mut source: R, name: impl Into<PathBuf>) -> Result<Self, Error> {
        let name = name.into();
        let len = source.seek(SeekFrom::End(0)).map_err(Error::io("read", &name))?;
        Ok(Self {
            source,
            name,
            len,
            at: 0,
            chunks: 0,
            run: None,
            sequence: None,
            file_header: None,
            end: None,
            buffer: Vec::new(),
        })
    }

    /// The next chunk; `None` at the end of the file.
    ///
    /// A file without end chunk ends with `None` too, if it ends behind a whole chunk:
    /// see [`end`](Self::end).
    ///
    /// # Errors
    /// [`Error::Damaged`] with offset and cause; the reader stays before the damage, and
    /// [`resync`](Self::resync) leads past it. Else what the system says.
    pub fn next_chunk(&mut self) -> Result<Option<ChunkView<'_>>, Error> {
        if self.at == self.len {
            return Ok(None);
        }
        let offset = self.at;
        let header = self.load(offset)?;
        self.check_place(&header).map_err(|defect| self.damaged(defect))?;
        self.accept(&header).map_err(|defect| self.damaged(defect))?;
        let payload = &self.buffer[HEADER_BYTES..HEADER_BYTES + header.payload_len as usize];
        Ok(Some(ChunkView { offset, header, payload }))
    }

    /// Steps over damage: goes to the next place that holds a whole chunk that may follow,
    /// and returns the bytes stepped over. `None`, without a step, when there is no such place.
    ///
    /// # Errors
    /// What the system says.
    pub fn resync(&mut self) -> Result<Option<Range<u64>>, Error> {
        let block = BLOCK_BYTES as u64;
        let mut at = (self.at / block + 1) * block;
        while at < self.len {
            match self.load(at) {
                Ok(header) if self.may_follow_damage(&header) => {
                    let stepped = self.at..at;
                    self.at = at;
                    self.run = Some(header.run);
                    self.sequence = Some(header.sequence);
                    return Ok(Some(stepped));
                }
                Ok(_) | Err(Error::Damaged { .. }) => at += block,
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Passes every sound chunk from here on to `see`, until it says that this is enough; damage is stepped
    /// over.
    ///
    /// # Errors
    /// What the system says.
    pub fn each_sound(&mut self, mut see: impl FnMut(&ChunkView<'_>) -> bool) -> Result<(), Error> {
        loop {
            match self.next_chunk() {
                Ok(Some(chunk)) if see(&chunk) => continue,
                Ok(_) => return Ok(()),
                Err(Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
            if self.resync()?.is_none() {
                return Ok(());
            }
        }
    }

    /// Passes the header of every chunk of the file to `see`, with as much of its payload as lies in
    /// its first block. The payloads are neither read nor checked; damage is stepped over. The
    /// reader stays where it is.
    ///
    /// # Errors
    /// What the system says.
    pub fn glance(&mut self, mut see: impl FnMut(&Header, &[u8])) -> Result<(), Error> {
        let mut at = 0;
        while at < self.len {
            let got = (self.len - at).min(BLOCK_BYTES as u64) as usize;
            match self.fill(at, 0..got) {
                Err(Error::Damaged { .. }) => return Ok(()),
                other => other?,
            }
            let Ok(header) = Header::decode(&self.buffer[..got]) else {
                at += BLOCK_BYTES as u64;
                continue;
            };
            let end = got.min(HEADER_BYTES + header.payload_len as usize);
            see(&header, &self.buffer[HEADER_BYTES..end]);
            at += header.chunk_len();
        }
        Ok(())
    }

    /// The header of the next chunk, and the byte at which it begins; `None` at the end of the
    /// file. The payload is stepped over unread, but for that of file header and end chunk.
    ///
    /// # Errors
    /// As [`next_chunk`](Self::next_chunk), without what is wrong with a payload.
    pub fn next_header(&mut self) -> Result<Option<(u64, Header)>, Error> {
        if self.at == self.len {
            return Ok(None);
        }
        let offset = self.at;
        let mut header = self.load_header(offset)?;
        self.check_place(&header).map_err(|defect| self.damaged(defect))?;
        let kind = header.label.kind;
        if kind == Kind::FILE_HEADER || kind == Kind::END_OF_FILE {
            header = self.load(offset)?;
        }
        self.accept(&header).map_err(|defect| self.damaged(defect))?;
        Ok(Some((offset, header)))
    }

    /// Reads the chunk at byte `offset` of the file into `chunk`, whatever was read before, and
    /// stays where it is. The payload begins at [`HEADER_BYTES`].
    ///
    /// # Errors
    /// As [`next_chunk`](Self::next_chunk); place and number of the chunk are not checked.
    pub fn read_chunk(&mut self, offset: u64, chunk: &mut Vec<u8>) -> Result<Header, Error> {
        std::mem::swap(&mut self.buffer, chunk);
        let header = self.load(offset);
        std::mem::swap(&mut self.buffer, chunk);
        let header = header?;
        chunk.truncate(HEADER_BYTES + header.payload_len as usize);
        Ok(header)
    }

    /// Reads the chunk at byte `at` into the buffer and checks it in itself.
    fn load(&mut self, at: u64) -> Result<Header, Error> {
        let header = self.load_header(at)?;
        let len = header.chunk_len();
        // The header CRC held and the file is that long: the buffer may grow to this length.
        self.fill(at, BLOCK_BYTES.min(len as usize)..len as usize)?;
        header
            .check_rest(&self.buffer[HEADER_BYTES..len as usize])
            .map_err(|defect| self.damaged_at(at, defect))?;
        Ok(header)
    }

    /// Reads the first block of the chunk at byte `at` into the buffer, and checks the header and
    /// that the file is long enough for the rest.
    fn load_header(&mut self, at: u64) -> Result<Header, Error> {
        let got = self.len.saturating_sub(at).min(BLOCK_BYTES as u64);
        self.fill(at, 0..got as usize)?;
        let header = Header::decode(&self.buffer[..got as usize])
            .map_err(|defect| self.damaged_at(at, defect))?;
        let (expected, got) = (header.chunk_len(), self.len - at);
        if expected > got {
            return Err(self.damaged_at(at, Defect::Truncated { expected, got }));
        }
        Ok(header)
    }

    /// Reads the bytes `range` of the chunk at byte `at` to the same place in the buffer.
    fn fill(&mut self, at: u64, range: Range<usize>) -> Result<(), Error> {
        if self.buffer.len() < range.end {
            self.buffer.resize(range.end, 0);
        }
        let place = SeekFrom::Start(at + range.start as u64);
        let target = &mut self.buffer[range.clone()];
        match self.source.seek(place).and_then(|_| self.source.read_exact(target)) {
            // The file became shorter since it was opened.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                let (expected, got) = (range.end as u64, range.start as u64);
                Err(self.damaged_at(at, Defect::Truncated { expected, got }))
            }
            other => other.map_err(Error::io("read", &self.name)),
        }
    }

    /// Whether a sound chunk may stand where the reader is.
    fn check_place(&self, header: &Header) -> Result<(), Defect> {
        let kind = header.label.kind;
        if self.end.is_some() {
            return Err(Defect::AfterEnd(self.len - self.at));
        }
        if (self.at == 0) != (kind == Kind::FILE_HEADER) {
            return Err(Defect::Misplaced(kind));
        }
        if let Some(expected) = self.run.filter(|&run| run != header.run) {
            return Err(Defect::Run { expected, got: header.run });
        }
        match self.sequence.filter(|&expected| expected != header.sequence) {
            Some(expected) => Err(Defect::Sequence { expected, got: header.sequence }),
            None => Ok(()),
        }
    }

    /// Whether a sound chunk may come next after damage.
    fn may_follow_damage(&self, header: &Header) -> bool {
        // A gap chunk counts the chunks that it stands for in 32 bits.
        let expected = self.sequence.unwrap_or(header.sequence);
        let missing = header.sequence.checked_sub(expected);
        self.end.is_none()
            && header.label.kind != Kind::FILE_HEADER
            && self.run.is_none_or(|run| run == header.run)
            && missing.is_some_and(|missing| missing <= u64::from(u32::MAX))
    }

    /// Goes past the chunk in the buffer.
    fn accept(&mut self, header: &Header) -> Result<(), Defect> {
        // Of data chunks the payload may not have been read.
        let payload = || &self.buffer[HEADER_BYTES..HEADER_BYTES + header.payload_len as usize];
        let counted = match header.label.kind {
            Kind::FILE_HEADER => {
                let file_header = FileHeader::decode(payload())?;
                if file_header.run != header.run {
                    return Err(Defect::Run { expected: file_header.run, got: header.run });
                }
                self.file_header = Some(file_header);
                0
            }
            Kind::END_OF_FILE => {
                self.end = Some(EndOfFile::decode(payload())?);
                0
            }
            Kind::GAP => u64::from(header.label.items_missing),
            kind => u64::from(kind.is_data()),
        };
        self.run = Some(header.run);
        self.sequence = Some(header.sequence.saturating_add(counted));
        self.at += header.chunk_len();
        self.chunks += 1;
        Ok(())
    }

    fn damaged(&self, defect: Defect) -> Error {
        self.damaged_at(self.at, defect)
    }

    fn damaged_at(&self, offset: u64, defect: Defect) -> Error {
        Error::Damaged { file: self.name.clone(), offset, chunk: self.chunks, defect }
    }

    /// What the file header says, once it has been read.
    pub fn file_header(&self) -> Option<&FileHeader> {
        self.file_header.as_ref()
    }

    /// What the end chunk says, once it has been read.
    pub fn end(&self) -> Option<&EndOfFile> {
        self.end.as_ref()
    }

    /// Run number, once a chunk has been read.
    pub fn run(&self) -> Option<u32> {
        self.run
    }

    /// Number of the next data chunk, once a chunk has been read.
    pub fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// Byte of the file at which the next chunk begins.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// Size of the file in bytes, as it was when the reader was made.
    pub fn file_len(&self) -> u64 {
        self.len
    }
}
