//! pcapng capture file, in either byte order.
//!
//! A file is a row of blocks. Each has its length at both ends:
//!
//! ```text
//! byte 0      4              8                               total - 4
//!     +------+--------------+--------------------+----------+--------------+
//!     | type | total length | body               | options  | total length |
//!     +------+--------------+--------------------+----------+--------------+
//! body of the blocks that are read and written; each part is padded to 4 bytes:
//!   section header    0x0a0d0d0a | byte-order magic 4 | major 2 | minor 2 | section length 8 |
//!   interface             1      | link type 2 | reserved 2 | snapshot length 4 |
//!   simple packet         3      | original length 4 | packet
//!   interface statistics  5      | interface 4 | time high 4 | time low 4 |
//!   enhanced packet       6      | interface 4 | time high 4 | time low 4 | captured length 4 |
//!                                | original length 4 | packet
//! option: code 2 | length 2 | value, padded to 4 bytes; code 0 ends the list
//! ```
//!
//! Lengths in bytes. Times count units of the interface's option `if_tsresol` (default: 1 us) from
//! the Unix epoch, plus `if_tsoffset` seconds. Other blocks are skipped, and counted. A file may
//! hold several sections, each with its own byte order and interfaces.
//!
//! Source: IETF draft-ietf-opsawg-pcapng.

mod interface;
mod options;
mod reader;
mod writer;

pub use interface::{Interface, Resolution};
pub use reader::Reader;
pub use writer::Writer;

/// Most interfaces that a section may describe.
pub const INTERFACES_MAX: usize = 1024;

const FORMAT: &str = "pcapng file";

/// Types of the blocks that are read and written.
mod block_type {
    /// The same in either byte order, so that a reader knows it before it knows the order.
    pub const SECTION: u32 = 0x0a0d_0d0a;
    pub const INTERFACE: u32 = 1;
    pub const SIMPLE_PACKET: u32 = 3;
    pub const STATISTICS: u32 = 5;
    pub const ENHANCED_PACKET: u32 = 6;
}

/// Offsets in a block, in bytes.
mod field {
    pub const TYPE: usize = 0;
    pub const TOTAL_LEN: usize = 4;
    pub const BODY: usize = 8;
    /// Bytes of a block without a body.
    pub const BLOCK_LEN_MIN: usize = BODY + 4;

    /// Of the section header.
    pub mod section {
        pub const MAGIC: usize = 8;
        pub const MAJOR: usize = 12;
        // The minor version and the length of the section are not needed to read it.
        pub const END: usize = 24;
    }
    /// Of the interface description.
    pub mod interface {
        pub const LINK_TYPE: usize = 8;
        pub const SNAP_LEN: usize = 12;
        pub const OPTIONS: usize = 16;
    }
    /// Of the simple packet block.
    pub mod simple {
        pub const ORIGINAL_LEN: usize = 8;
        pub const DATA: usize = 12;
    }
    /// Of the statistics block, and of the front of the enhanced packet block.
    pub mod timed {
        pub const INTERFACE: usize = 8;
        pub const TIME_HIGH: usize = 12;
        pub const TIME_LOW: usize = 16;
        pub const END: usize = 20;
    }
    /// Of the rest of the enhanced packet block.
    pub mod enhanced {
        pub const CAPTURED_LEN: usize = 20;
        pub const ORIGINAL_LEN: usize = 24;
        pub const DATA: usize = 28;
    }
}

/// Marks the byte order of a section.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Major version of the format.
const MAJOR: u16 = 1;

#[cfg(test)]
mod tests;
