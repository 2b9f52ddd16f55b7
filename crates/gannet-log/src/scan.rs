//! What a scan of an unfinished file finds: sound chunks, and damage between them.

use std::ops::Range;
use std::path::Path;

use super::defect::Defect;
use super::error::Error;
use super::file::Content;
use super::format::{Header, Kind};
use super::reader::Reader;
use crate::files::open_own;

/// Bytes without a sound chunk, between two sound chunks or before the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    /// Where they stand in the file.
    pub bytes: Range<u64>,
    /// Number of the next data chunk before the damage.
    pub sequence: u64,
    /// Data chunks that stood there.
    pub missing: u32,
}

/// What a scan of an unfinished file finds.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Sound chunks of any kind.
    pub sound_chunks: u64,
    /// What the sound chunks hold.
    pub content: Content,
    /// Damage before the last sound chunk, at most one for each two blocks of the file.
    pub damage: Vec<Damage>,
    /// Whether there is an end chunk that counts right. One that does not is not counted as
    /// content: damage before it was found after it had been written.
    pub ended: bool,
    /// Size of the file in bytes.
    pub file_len: u64,
}

impl Scan {
    /// Scans the file from front to back.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let mut reader = Reader::new(open_own(path)?, path)?;
        let mut scan = Self { file_len: reader.file_len(), ..Self::default() };
        loop {
            match reader.next_chunk() {
                Ok(Some(chunk)) => {
                    let header = chunk.header;
                    let offset = chunk.offset;
                    scan.count(&header);
                    scan.content.len = match header.label.kind {
                        Kind::END_OF_FILE => offset,
                        _ => reader.offset(),
                    };
                }
                Ok(None) => break,
                // A newer program can recover what it wrote; here it would all count as damage.
                Err(error @ Error::Damaged { defect: Defect::Version(_), .. }) => {
                    return Err(error);
                }
                Err(Error::Damaged { .. }) => {
                    let before = reader.sequence();
                    let Some(bytes) = reader.resync()? else { break };
                    let after = reader.sequence().unwrap_or_default();
                    let sequence = before.unwrap_or(after);
                    // The reader resyncs only where the difference fits 32 bits.
                    let missing = u32::try_from(after - sequence).unwrap_or(u32::MAX);
                    scan.content.chunks_missing += u64::from(missing);
                    scan.damage.push(Damage { bytes, sequence, missing });
                }
                Err(error) => return Err(error),
            }
        }
        scan.content.run = reader.run().unwrap_or_default();
        scan.content.next_sequence = reader.sequence().unwrap_or_default();
        let content = &mut scan.content;
        scan.ended = reader.end().is_some_and(|end| {
            (end.data_chunks, end.chunks_missing) == (content.chunks, content.chunks_missing)
        });
        if scan.ended {
            content.len = reader.offset();
        }
        Ok(scan)
    }

    fn count(&mut self, header: &Header) {
        self.sound_chunks += 1;
        self.content.add(&header.label, header.chunk_len());
    }
}
