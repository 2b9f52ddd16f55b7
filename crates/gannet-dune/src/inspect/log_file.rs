//! Listing a log, and printing a chunk of it.

use std::fmt::Write;
use std::fs::File;
use std::path::Path;

use gannet_wire::inspect::{Format, describe, identify};

use super::detail::{ChunkDetail, Payload};
use super::entry::{ChunkEntry, DamageEntry, Entry};
use super::error::Error;
use gannet_log::{ChunkView, Kind, Reader};
use gannet_record::StoredRecord;

/// Iterator over the chunks of a log and the damage between them.
pub(super) struct LogListing {
    reader: Reader<File>,
    chunks: u64,
    /// Nothing more can be found.
    done: bool,
}

impl LogListing {
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { reader: Reader::open(path)?, chunks: 0, done: false })
    }

    /// Steps over what is wrong where the reader stands.
    fn damage(&mut self, error: &gannet_log::Error) -> Result<Entry, Error> {
        let offset = self.reader.offset();
        let stepped = self.reader.resync()?;
        self.done = stepped.is_none();
        let end = stepped.map_or(self.reader.file_len(), |stepped| stepped.end);
        let problem = error.to_string();
        Ok(Entry::Damage(DamageEntry { offset, bytes: end - offset, problem }))
    }
}

impl Iterator for LogListing {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let entry = match self.reader.next_chunk() {
            Ok(Some(chunk)) => {
                self.chunks += 1;
                Ok(Entry::Chunk(ChunkEntry::new(self.chunks - 1, &chunk)))
            }
            Ok(None) => return None,
            Err(error @ gannet_log::Error::Damaged { .. }) => self.damage(&error),
            Err(error) => Err(error.into()),
        };
        self.done |= entry.is_err();
        Some(entry)
    }
}

/// Prints sound chunk `index` of the log `path`, counted from 0, with all that is in it.
///
/// # Errors
/// When there is no such chunk, or the file cannot be read. A payload that is not what its kind
/// says is no error: what is wrong with it is printed.
pub fn describe_chunk(path: &Path, index: u64, out: &mut dyn Write) -> Result<(), Error> {
    at_chunk(path, index, |chunk| {
        writeln!(out, "{}", ChunkEntry::new(index, chunk))?;
        payload(chunk.header.label.kind, chunk.payload, out)
    })
}

/// Sound chunk `index` of the log `path`, counted from 0, with all that is in it.
///
/// # Errors
/// As [`describe_chunk`].
pub fn chunk_detail(path: &Path, index: u64) -> Result<ChunkDetail, Error> {
    at_chunk(path, index, |chunk| {
        let payload = Payload::of(chunk.header.label.kind, chunk.payload);
        Ok(ChunkDetail { chunk: ChunkEntry::new(index, chunk), payload })
    })
}

/// Hands sound chunk `index` to `look`.
fn at_chunk<T>(
    path: &Path,
    index: u64,
    look: impl FnOnce(&ChunkView<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut reader = Reader::open(path)?;
    let mut chunks = 0;
    loop {
        match reader.next_chunk() {
            Ok(Some(chunk)) if chunks == index => return look(&chunk),
            Ok(Some(_)) => {
                chunks += 1;
                continue;
            }
            Ok(None) | Err(gannet_log::Error::Damaged { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if reader.resync()?.is_none() {
            return Err(Error::NoChunk { file: path.to_owned(), wanted: index, chunks });
        }
    }
}

fn payload(kind: Kind, payload: &[u8], out: &mut dyn Write) -> Result<(), Error> {
    let described = match kind {
        // Its text stands in the line of the chunk.
        Kind::FILE_HEADER | Kind::END_OF_FILE | Kind::GAP => Ok(()),
        Kind::TRIGGER_RECORD => StoredRecord::trigger_record(payload)
            .and_then(|record| stored(Format::TriggerRecord, &record, out)),
        Kind::TP_SLICE => StoredRecord::time_slice(payload)
            .and_then(|slice| stored(Format::TimeSlice, &slice, out)),
        _ => text_or_known_format(payload, out),
    };
    said(described, out)
}

/// Prints what is wrong with bytes instead of what would have followed.
pub(super) fn said(described: gannet_wire::Result<()>, out: &mut dyn Write) -> Result<(), Error> {
    match described {
        Err(gannet_wire::Error::Output(error)) => Err(error.into()),
        Err(error) => Ok(writeln!(out, "WRONG: {error}")?),
        Ok(()) => Ok(()),
    }
}

/// Prints a record: its header, then each fragment.
fn stored(
    header: Format,
    record: &StoredRecord<'_>,
    out: &mut dyn Write,
) -> gannet_wire::Result<()> {
    describe(header, record.header(), out)?;
    for fragment in record.fragments() {
        describe(Format::Fragment, fragment?.as_bytes(), out)?;
    }
    Ok(())
}

/// Prints a JSON document with one value a line, other text as it is, else what bytes seem to be.
fn text_or_known_format(payload: &[u8], out: &mut dyn Write) -> gannet_wire::Result<()> {
    if let Ok(document) = serde_json::from_slice::<serde_json::Value>(payload) {
        return Ok(writeln!(out, "{document:#}")?);
    }
    match (std::str::from_utf8(payload), identify(payload)) {
        (Ok(text), _) if !text.contains('\0') => Ok(writeln!(out, "{}", text.trim_end())?),
        (_, Some(format)) => describe(format, payload, out),
        _ => Ok(writeln!(out, "payload of no known format, {} bytes", payload.len())?),
    }
}
