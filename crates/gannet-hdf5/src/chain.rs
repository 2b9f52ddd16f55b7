//! The root group, which grows: an object header that goes on in a chain of blocks.

use crate::message;
use crate::object::{header, seal};

/// Bytes of a block, and what its address is a multiple of.
///
/// One page: the kernel copies a page in one go, so a process that is killed while it writes a
/// block leaves the old block or the new one, never a mixture.
pub const BLOCK: usize = 4096;

const SIGNATURE: &[u8] = b"OCHK";
const CHECKSUM: usize = 4;
/// Bytes for messages in a block that is not the last.
const ROOM: usize = BLOCK - SIGNATURE.len() - CHECKSUM - message::CONTINUATION;

/// The object header of the root group, whose messages begin in the block at `first`.
pub fn root(first: u64) -> Vec<u8> {
    header(&[message::group(), message::continuation(first, BLOCK as u64)].concat())
}

/// The last block of the chain, to which messages are added.
///
/// ```text
///   0  "OCHK"
///   4  messages, then a continuation message if another block follows, then nothing
/// 4092  checksum
/// ```
///
/// Source: HDF5 File Format Specification 3.0, section IV.A.1.b, "Object Header Continuation".
#[derive(Clone, Debug)]
pub struct Block {
    address: u64,
    messages: Vec<u8>,
}

impl Block {
    /// An empty block at an address.
    pub fn new(address: u64) -> Self {
        Self { address, messages: Vec::with_capacity(ROOM) }
    }

    /// Where the block lies.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Whether a message still fits.
    ///
    /// Messages are far smaller than a block: names have at most [`message::NAME_MAX`] bytes.
    pub fn has_room_for(&self, message: &[u8]) -> bool {
        self.messages.len() + message.len() <= ROOM
    }

    /// Adds a message that fits.
    pub fn push(&mut self, message: &[u8]) {
        debug_assert!(self.has_room_for(message));
        self.messages.extend(message);
    }

    /// The stored form; `next` is the address of the block that follows.
    pub fn encode(&self, next: Option<u64>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK);
        bytes.extend(SIGNATURE);
        bytes.extend(&self.messages);
        bytes.extend(next.map_or(vec![], |next| message::continuation(next, BLOCK as u64)));
        let rest = BLOCK - CHECKSUM - bytes.len();
        if rest >= message::HEADER {
            bytes.extend(message::nil(rest));
        }
        // Fewer bytes than a message needs are a gap, which the format allows at the end.
        bytes.resize(BLOCK - CHECKSUM, 0);
        seal(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_its_size_whatever_it_holds() {
        for len in 0..=ROOM {
            let mut block = Block::new(0);
            block.push(&vec![1; len]);
            assert!(!block.has_room_for(&vec![1; ROOM + 1 - len]));
            assert_eq!(block.encode(None).len(), BLOCK);
            assert_eq!(block.encode(Some(8)).len(), BLOCK);
        }
    }
}
