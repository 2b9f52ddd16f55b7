//! The chunk format: encode and decode, over byte slices only.
//!
//! A file is a sequence of chunks. Every chunk begins at a multiple of [`BLOCK_BYTES`] and is a
//! header of [`HEADER_BYTES`], a payload, and zeros up to the next multiple of [`BLOCK_BYTES`].
//! All integers are little-endian.
//!
//! ```text
//!          bit 0                       bit 32                      bit 63
//!  byte  0  | magic "GnLg"              | version      | kind          |
//!        8  | run number                | payload length, bytes        |
//!       16  | sequence: data chunks of the run before this chunk       |
//!       24  | first time stamp, ticks                                  |
//!       32  | last time stamp, ticks                                   |
//!       40  | items in the payload      | items known to be missing    |
//!       48  | reserved, zero                                           |
//!       56  | CRC-32C of the payload    | CRC-32C of bytes 0..60       |
//!       64  | payload ...                                              |
//!           | zeros to a multiple of 4096                              |
//! ```
//!
//! Why it is so:
//!
//! * The header has a CRC of its own, so that a reader trusts the payload length, and allocates
//!   by it, only after the CRC held. The payload CRC lies under the header CRC. Padding must be
//!   zero. So every bit of a file is under a check, and a single flipped bit is always found.
//! * A chunk starts on a 4096-byte border, the page of the kernel and the sector of today's disks:
//!   writing a chunk never rewrites a sector that holds acknowledged bytes, and after damage
//!   a reader finds the next chunk by looking at the borders only. A log stored as payload
//!   of another log starts 64 bytes past a border, so its chunks are never taken for real ones.
//! * `sequence` counts data chunks over all files of a run. File header, gap and end chunk do not
//!   count; they carry the number of the data chunk that would come next.
//!
//! The first 8 bytes and the place of the header CRC are the same in every version.
//!
//! CRC-32C is the Castagnoli polynomial 0x1EDC6F41 (RFC 3720, appendix B.4).

use std::fmt;

use crc_fast::{CrcAlgorithm, Digest};

use super::defect::Defect;

/// Alignment of chunks, in bytes.
pub const BLOCK_BYTES: usize = 4096;
/// Size of a chunk header, in bytes.
pub const HEADER_BYTES: usize = 64;
/// Largest payload of a chunk, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 256 << 20;
/// First bytes of every chunk.
pub const MAGIC: [u8; 4] = *b"GnLg";
/// Version of the format that this code writes, and the only one it reads.
pub const VERSION: u16 = 1;

/// Byte offsets in the header.
mod field {
    use std::ops::Range;

    pub const MAGIC: Range<usize> = 0..4;
    pub const VERSION: Range<usize> = 4..6;
    pub const KIND: Range<usize> = 6..8;
    pub const RUN: Range<usize> = 8..12;
    pub const PAYLOAD_LEN: Range<usize> = 12..16;
    pub const SEQUENCE: Range<usize> = 16..24;
    pub const FIRST_TICKS: Range<usize> = 24..32;
    pub const LAST_TICKS: Range<usize> = 32..40;
    pub const ITEMS: Range<usize> = 40..44;
    pub const ITEMS_MISSING: Range<usize> = 44..48;
    pub const RESERVED: Range<usize> = 48..56;
    pub const PAYLOAD_CRC: Range<usize> = 56..60;
    pub const HEADER_CRC: Range<usize> = 60..64;
}

/// What a chunk holds. The numbers are open: a reader passes on the kinds that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u16);

impl Kind {
    /// First chunk of a file: [`FileHeader`](super::FileHeader).
    pub const FILE_HEADER: Self = Self(1);
    /// Last chunk of a file: [`EndOfFile`](super::EndOfFile).
    pub const END_OF_FILE: Self = Self(2);
    /// Zeros where damaged bytes stood; `items_missing` is the number of data chunks lost with them.
    pub const GAP: Self = Self(3);
    /// Least kind that users of the log may write; those below belong to the log itself.
    pub const DATA_FIRST: Self = Self(16);
    /// What is known at the start of a run: configuration, streams, versions.
    pub const RUN_START: Self = Self(16);
    /// What is known at the end of a run: totals and state.
    pub const RUN_END: Self = Self(17);
    /// Intervals in which the trigger was busy; items are intervals.
    pub const BUSY: Self = Self(19);
    /// One trigger record; items are fragments.
    pub const TRIGGER_RECORD: Self = Self(32);
    /// Trigger primitives of one time slice; items are primitives.
    pub const TP_SLICE: Self = Self(33);
    /// Frames of one length as they came from the front end; items are frames.
    pub const RAW_FRAMES: Self = Self(34);
    /// The same, of any length, each with its length before it; items are frames.
    pub const SIZED_FRAMES: Self = Self(35);
    /// Events, time slices or summary slices of KM3NeT, one behind the other as its programs exchange them;
    /// items are these.
    pub const DAQ_OBJECTS: Self = Self(36);

    /// Whether chunks of this kind are counted by the sequence number.
    pub const fn is_data(self) -> bool {
        self.0 >= Self::DATA_FIRST.0
    }

    /// Name of a known kind.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::FILE_HEADER => "file header",
            Self::END_OF_FILE => "end of file",
            Self::GAP => "gap",
            Self::RUN_START => "run start",
            Self::RUN_END => "run end",
            Self::BUSY => "busy intervals",
            Self::TRIGGER_RECORD => "trigger record",
            Self::TP_SLICE => "TP slice",
            Self::RAW_FRAMES => "raw frames",
            Self::SIZED_FRAMES => "sized frames",
            Self::DAQ_OBJECTS => "DAQ objects",
            _ => return None,
        })
    }
}

/// The name, or the number of an unknown kind.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => f.pad(&format!("kind {}", self.0)),
        }
    }
}

/// What a chunk says about its payload, given by who writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// What the payload is.
    pub kind: Kind,
    /// Earliest time stamp in the payload, ticks of the detector clock.
    pub first_ticks: u64,
    /// Latest time stamp in the payload, ticks; not below `first_ticks`.
    pub last_ticks: u64,
    /// Number of items in the payload; what an item is follows from the kind.
    pub items: u32,
    /// Number of items that should be in the payload and are known to be missing.
    pub items_missing: u32,
}

impl Label {
    /// A label without times and counts.
    pub const fn new(kind: Kind) -> Self {
        Self { kind, first_ticks: 0, last_ticks: 0, items: 0, items_missing: 0 }
    }

    /// The same label with the times `first..=last`, in ticks.
    pub const fn times(mut self, first: u64, last: u64) -> Self {
        self.first_ticks = first;
        self.last_ticks = last;
        self
    }

    /// The same label with the number of items present and missing.
    pub const fn counts(mut self, items: u32, missing: u32) -> Self {
        self.items = items;
        self.items_missing = missing;
        self
    }
}

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the writer said about the payload.
    pub label: Label,
    /// Run number.
    pub run: u32,
    /// Number of data chunks of the run before this chunk.
    pub sequence: u64,
    /// Size of the payload in bytes, at most [`PAYLOAD_BYTES_MAX`].
    pub payload_len: u32,
    /// CRC-32C of the payload.
    pub payload_crc: u32,
}

/// Reads `N` bytes at `range`, which is a constant range of that length.
fn bytes<const N: usize>(block: &[u8; HEADER_BYTES], range: std::ops::Range<usize>) -> [u8; N] {
    std::array::from_fn(|i| block[range.start + i])
}

impl Header {
    /// The header as bytes, CRC included.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut block = [0; HEADER_BYTES];
        let mut put = |range: std::ops::Range<usize>, value: &[u8]| {
            block[range].copy_from_slice(value);
        };
        put(field::MAGIC, &MAGIC);
        put(field::VERSION, &VERSION.to_le_bytes());
        put(field::KIND, &self.label.kind.0.to_le_bytes());
        put(field::RUN, &self.run.to_le_bytes());
        put(field::PAYLOAD_LEN, &self.payload_len.to_le_bytes());
        put(field::SEQUENCE, &self.sequence.to_le_bytes());
        put(field::FIRST_TICKS, &self.label.first_ticks.to_le_bytes());
        put(field::LAST_TICKS, &self.label.last_ticks.to_le_bytes());
        put(field::ITEMS, &self.label.items.to_le_bytes());
        put(field::ITEMS_MISSING, &self.label.items_missing.to_le_bytes());
        put(field::PAYLOAD_CRC, &self.payload_crc.to_le_bytes());
        let crc = crc_fast::crc32_iscsi(&block[..field::HEADER_CRC.start]);
        block[field::HEADER_CRC].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Reads a header from the first [`HEADER_BYTES`] of `bytes`.
    ///
    /// # Errors
    /// Says which check failed: length, magic, CRC, version or a field.
    pub fn decode(chunk: &[u8]) -> Result<Self, Defect> {
        let Some(block) = chunk.first_chunk::<HEADER_BYTES>() else {
            return Err(Defect::Truncated {
                expected: HEADER_BYTES as u64,
                got: chunk.len() as u64,
            });
        };
        if block[field::MAGIC] != MAGIC {
            return Err(Defect::Magic(u32::from_le_bytes(bytes(block, field::MAGIC))));
        }
        let stored = u32::from_le_bytes(bytes(block, field::HEADER_CRC));
        let computed = crc_fast::crc32_iscsi(&block[..field::HEADER_CRC.start]);
        if stored != computed {
            return Err(Defect::HeaderCrc { stored, computed });
        }
        let version = u16::from_le_bytes(bytes(block, field::VERSION));
        if version != VERSION {
            return Err(Defect::Version(version));
        }
        Self::parse(block).check_fields(u64::from_le_bytes(bytes(block, field::RESERVED)))
    }

    /// Reads the fields of a header whose CRC held.
    fn parse(block: &[u8; HEADER_BYTES]) -> Self {
        let u32_at = |range| u32::from_le_bytes(bytes(block, range));
        let u64_at = |range| u64::from_le_bytes(bytes(block, range));
        Self {
            label: Label {
                kind: Kind(u16::from_le_bytes(bytes(block, field::KIND))),
                first_ticks: u64_at(field::FIRST_TICKS),
                last_ticks: u64_at(field::LAST_TICKS),
                items: u32_at(field::ITEMS),
                items_missing: u32_at(field::ITEMS_MISSING),
            },
            run: u32_at(field::RUN),
            sequence: u64_at(field::SEQUENCE),
            payload_len: u32_at(field::PAYLOAD_LEN),
            payload_crc: u32_at(field::PAYLOAD_CRC),
        }
    }

    /// Refuses values that no writer makes.
    fn check_fields(self, reserved: u64) -> Result<Self, Defect> {
        if self.payload_len as usize > PAYLOAD_BYTES_MAX {
            return Err(Defect::Field {
                field: "payload length",
                got: u64::from(self.payload_len),
            });
        }
        if self.label.last_ticks < self.label.first_ticks {
            return Err(Defect::Field { field: "last time stamp", got: self.label.last_ticks });
        }
        if reserved != 0 {
            return Err(Defect::Field { field: "reserved", got: reserved });
        }
        Ok(self)
    }

    /// Size of the whole chunk in bytes, padding included.
    pub const fn chunk_len(&self) -> u64 {
        chunk_len(self.payload_len as usize)
    }

    /// Checks what follows the header: `rest` is payload and padding, read in full.
    ///
    /// # Errors
    /// The payload CRC does not hold, the padding is not zero, or `rest` is short.
    pub fn check_rest(&self, rest: &[u8]) -> Result<(), Defect> {
        let expected = self.chunk_len() - HEADER_BYTES as u64;
        if (rest.len() as u64) < expected {
            return Err(Defect::Truncated { expected, got: rest.len() as u64 });
        }
        let (payload, padding) = rest[..expected as usize].split_at(self.payload_len as usize);
        let computed = crc_fast::crc32_iscsi(payload);
        if computed != self.payload_crc {
            return Err(Defect::PayloadCrc { stored: self.payload_crc, computed });
        }
        match padding.iter().position(|&byte| byte != 0) {
            Some(at) => Err(Defect::Padding((HEADER_BYTES + payload.len() + at) as u64)),
            None => Ok(()),
        }
    }
}

/// Size in bytes of a chunk with `payload_len` bytes of payload, padding included.
pub const fn chunk_len(payload_len: usize) -> u64 {
    (HEADER_BYTES + payload_len).next_multiple_of(BLOCK_BYTES) as u64
}

/// Appends a whole chunk to `out`: header, the parts of the payload one after the other, padding.
///
/// # Panics
/// The parts are longer than [`PAYLOAD_BYTES_MAX`] in total; the caller has checked that.
pub fn encode_chunk<P: AsRef<[u8]>>(
    label: &Label,
    run: u32,
    sequence: u64,
    parts: &[P],
    out: &mut Vec<u8>,
) {
    let payload_len: usize = parts.iter().map(|part| part.as_ref().len()).sum();
    assert!(payload_len <= PAYLOAD_BYTES_MAX, "a payload of {payload_len} bytes is too long");
    let mut payload_crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| payload_crc.update(part.as_ref()));
    let payload_crc = payload_crc.finalize() as u32;
    let payload_len = payload_len as u32;
    let header = Header { label: *label, run, sequence, payload_len, payload_crc };
    let end = out.len() + header.chunk_len() as usize;
    out.reserve(header.chunk_len() as usize);
    out.extend_from_slice(&header.encode());
    for part in parts {
        out.extend_from_slice(part.as_ref());
    }
    out.resize(end, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Header {
        Header {
            label: Label::new(Kind::TP_SLICE).times(0x1122_3344_5566_7788, u64::MAX).counts(7, 2),
            run: 123,
            sequence: 0x0102_0304_0506_0708,
            payload_len: 9,
            payload_crc: 0xe306_9283,
        }
    }

    #[test]
    fn header_has_the_documented_bytes() {
        let mut expected = Vec::new();
        expected.extend_from_slice(b"GnLg\x01\x00\x21\x00");
        expected.extend_from_slice(&[123, 0, 0, 0, 9, 0, 0, 0]);
        expected.extend_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
        expected.extend_from_slice(&[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
        expected.extend_from_slice(&[0xff; 8]);
        expected.extend_from_slice(&[7, 0, 0, 0, 2, 0, 0, 0]);
        expected.extend_from_slice(&[0; 8]);
        expected.extend_from_slice(&[0x83, 0x92, 0x06, 0xe3]);
        // Computed bit by bit with the polynomial of the RFC, outside this program.
        expected.extend_from_slice(&HEADER_CRC_BY_HAND.to_le_bytes());
        assert_eq!(sample().encode().as_slice(), expected);
        assert_eq!(Header::decode(&expected), Ok(sample()));
    }

    const HEADER_CRC_BY_HAND: u32 = 0x3e81_5e30;

    #[test]
    fn crc_is_castagnoli() {
        // The check value of CRC-32C.
        assert_eq!(crc_fast::crc32_iscsi(b"123456789"), 0xe306_9283);
        let mut chunk = Vec::new();
        encode_chunk(&Label::new(Kind::BUSY), 1, 0, &["1234", "", "56789"], &mut chunk);
        assert_eq!(Header::decode(&chunk).unwrap().payload_crc, 0xe306_9283);
    }

    #[test]
    fn chunks_are_whole_blocks() {
        for (payload, blocks) in [(0, 1), (1, 1), (4032, 1), (4033, 2), (8128, 2), (8129, 3)] {
            assert_eq!(chunk_len(payload), blocks * BLOCK_BYTES as u64, "{payload}");
        }
    }

    /// Sets bytes of a header and corrects its CRC, as a wrong writer would.
    fn forged(range: std::ops::Range<usize>, value: &[u8]) -> Result<Header, Defect> {
        let mut block = sample().encode();
        block[range].copy_from_slice(value);
        let crc = crc_fast::crc32_iscsi(&block[..60]);
        block[60..].copy_from_slice(&crc.to_le_bytes());
        Header::decode(&block)
    }

    #[test]
    fn refuses_malformed_headers_by_name() {
        let block = sample().encode();
        assert_eq!(Header::decode(&block[..63]), Err(Defect::Truncated { expected: 64, got: 63 }));
        assert_eq!(forged(0..4, b"GnLh"), Err(Defect::Magic(u32::from_le_bytes(*b"GnLh"))));
        assert_eq!(forged(4..6, &[2, 0]), Err(Defect::Version(2)));
        let too_long = (PAYLOAD_BYTES_MAX as u32 + 1).to_le_bytes();
        assert!(matches!(
            forged(12..16, &too_long),
            Err(Defect::Field { field: "payload length", .. })
        ));
        assert!(matches!(
            forged(32..40, &[0; 8]),
            Err(Defect::Field { field: "last time stamp", .. })
        ));
        assert!(matches!(forged(48..49, &[1]), Err(Defect::Field { field: "reserved", got: 1 })));
        assert_eq!(forged(6..8, &[0xff, 0xff]).unwrap().label.kind.to_string(), "kind 65535");
    }

    proptest! {
        #[test]
        fn a_chunk_is_read_back(
            kind: u16, first in 0..u64::MAX, span: u32, items: u32, missing: u32, run: u32,
            sequence: u64, parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..4),
        ) {
            let label = Label::new(Kind(kind))
                .times(first, first.saturating_add(span.into()))
                .counts(items, missing);
            let mut chunk = Vec::new();
            encode_chunk(&label, run, sequence, &parts, &mut chunk);
            prop_assert_eq!(chunk.len() % BLOCK_BYTES, 0);
            let header = Header::decode(&chunk).unwrap();
            prop_assert_eq!((header.label, header.run, header.sequence), (label, run, sequence));
            prop_assert_eq!(header.chunk_len(), chunk.len() as u64);
            let payload = parts.concat();
            prop_assert_eq!(header.payload_len as usize, payload.len());
            prop_assert_eq!(&chunk[HEADER_BYTES..HEADER_BYTES + payload.len()], &payload[..]);
            prop_assert_eq!(header.check_rest(&chunk[HEADER_BYTES..]), Ok(()));
        }

        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Header::decode(&bytes);
            let _ = sample().check_rest(&bytes);
        }
    }
}
