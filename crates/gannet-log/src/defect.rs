//! What can be wrong with a chunk.

use super::format::{Kind, VERSION};

/// What is wrong with the bytes of a chunk, or with its place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// The file ends inside the chunk.
    #[error("the file ends after {got} of {expected} bytes of the chunk")]
    Truncated {
        /// Bytes that the chunk, or its header, has.
        expected: u64,
        /// Bytes up to the end of the file.
        got: u64,
    },
    /// The chunk does not begin with [`MAGIC`](super::format::MAGIC).
    #[error("no chunk begins here (magic number {0:#010x})")]
    Magic(u32),
    /// The header CRC does not hold.
    #[error("header CRC is {stored:#010x}, computed {computed:#010x}")]
    HeaderCrc {
        /// CRC in the header.
        stored: u32,
        /// CRC of the header as read.
        computed: u32,
    },
    /// The format version is unknown.
    #[error("format version {0}, this program reads version {VERSION}")]
    Version(u16),
    /// A field holds a value that the format does not allow.
    #[error("header field {field} holds the value {got}, which is not allowed")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Value found.
        got: u64,
    },
    /// The payload CRC does not hold.
    #[error("payload CRC is {stored:#010x}, computed {computed:#010x}")]
    PayloadCrc {
        /// CRC in the header.
        stored: u32,
        /// CRC of the payload as read.
        computed: u32,
    },
    /// The padding is not zero.
    #[error("byte {0} of the chunk is padding and not zero")]
    Padding(u64),
    /// The chunk is of another run than the file.
    #[error("run {got} in a file of run {expected}")]
    Run {
        /// Run of the file.
        expected: u32,
        /// Run of the chunk.
        got: u32,
    },
    /// Chunks are missing or repeated before this one.
    #[error("sequence number {got}, expected {expected}")]
    Sequence {
        /// Number that has its turn.
        expected: u64,
        /// Number of the chunk.
        got: u64,
    },
    /// The chunk may not stand at this place of the file.
    #[error("{0} at this place of the file")]
    Misplaced(Kind),
    /// The text of a file header or end chunk cannot be read.
    #[error("the text of the {0} chunk cannot be read")]
    Text(Kind),
    /// Bytes follow the end chunk.
    #[error("{0} bytes after the end chunk")]
    AfterEnd(u64),
}
