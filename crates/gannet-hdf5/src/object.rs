//! Object headers: the messages of a group or data set, with a checksum.

use crate::checksum::lookup3;
use crate::message;

/// An object header of version 2 in one piece.
///
/// ```text
///   0  "OHDR" | version (2) | flags (2: the size has 4 bytes)
///   6  bytes of the messages
///  10  messages
///      checksum
/// ```
///
/// Source: HDF5 File Format Specification 3.0, section IV.A.1.b.
pub fn header(messages: &[u8]) -> Vec<u8> {
    let mut bytes = b"OHDR\x02\x02".to_vec();
    bytes.extend((messages.len() as u32).to_le_bytes());
    bytes.extend(messages);
    seal(bytes)
}

/// The object header of a data set of `size` bytes at `address`.
pub fn data_set(address: u64, size: u64) -> Vec<u8> {
    let messages = [
        message::extent(size),
        message::byte_type(),
        message::fill_value(),
        message::layout(address, size),
    ];
    header(&messages.concat())
}

/// Adds the checksum of what is there.
pub fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = lookup3(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}
