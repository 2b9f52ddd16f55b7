//! The header of a packet: one word.
//!
//! Bit 0 is the least significant.
//!
//! ```text
//!   bits   width  field
//!   3:0      4    virtual channel
//!     4      1    last hop in the current dimension
//!  20:5     16    process
//!  26:21     6    x of the destination     \
//!  31:27     5    y of the destination      } published form: at most 64 x 32 x 32 nodes
//!  36:32     5    z of the destination     /
//!  40:37     4    port on the node
//!    41      1    extended form; reserved in the published header
//!    42      1    out of the lattice
//!  47:43     5    packet type; bit 47: nothing follows the header
//!  61:48    14    size of the payload, bytes
//! 109:62    48    address at the destination
//! 119:110  10    hops
//! 127:120   8    check bits (SECDED)
//!
//! extended form (bit 41 set), ours:
//!  16:5     12    process
//!  36:17    20    number of the destination node, x running fastest: at most 2^20 nodes
//! ```
//!
//! The extended form takes four bits from the process identifier, which leaves 4096 of them on a
//! node, so that one contiguous field reaches every lattice of up to [`NODES_MAX`] nodes whatever
//! its shape. Both ends know the lattice.
//!
//! Trap: the HLS interface of the same core packs the same fields from the most significant bit
//! down; [`hls`](super::hls) converts.
//!
//! Source: APE-group/APEIRON `apeiron_framework/include/apenet_packet.h` and VHDL `header_pkg`.

use core::fmt;

use super::run::Run;
use super::secded::{self, Decoded};
use super::{FRAMED_LEN_MAX, WORD_LEN, Word, payload_words};
use crate::error::{Error, Result};
use crate::layout::{array, put};
use crate::record::Record;

/// Nodes that the extended form of the header reaches.
pub const NODES_MAX: u32 = 1 << 20;
/// Bit of the packet type that says that neither payload nor footer follow.
pub const HEADER_ONLY: u8 = 1 << 4;
/// Largest number of hops that the header counts.
pub const HOPS_MAX: u16 = (1 << 10) - 1;

mod field {
    use super::Run;

    pub const VIRTUAL_CHANNEL: Run = Run::new(3, 0);
    pub const LAST_IN_DIMENSION: Run = Run::new(4, 4);
    pub const PROCESS: Run = Run::new(20, 5);
    pub const X: Run = Run::new(26, 21);
    pub const Y: Run = Run::new(31, 27);
    pub const Z: Run = Run::new(36, 32);
    pub const EXTENDED_PROCESS: Run = Run::new(16, 5);
    pub const EXTENDED_NODE: Run = Run::new(36, 17);
    pub const PORT: Run = Run::new(40, 37);
    pub const EXTENDED: Run = Run::new(41, 41);
    pub const OUT_OF_LATTICE: Run = Run::new(42, 42);
    pub const PACKET_TYPE: Run = Run::new(47, 43);
    pub const SIZE: Run = Run::new(61, 48);
    pub const ADDRESS: Run = Run::new(109, 62);
    pub const HOPS: Run = Run::new(119, 110);
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// Coordinates: the published form.
    Coordinates {
        /// x, 0 to 63.
        x: u8,
        /// y, 0 to 31.
        y: u8,
        /// z, 0 to 31.
        z: u8,
    },
    /// Number of the node in its lattice, below [`NODES_MAX`]: the extended form.
    Node(u32),
}

impl Default for Destination {
    fn default() -> Self {
        Self::Coordinates { x: 0, y: 0, z: 0 }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coordinates { x, y, z } => write!(f, "x {x}, y {y}, z {z}"),
            Self::Node(node) => write!(f, "node {node}"),
        }
    }
}

/// A header as plain values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Header {
    /// Virtual channel, 0 to 15; links have 2 of them, or 4 with escape channels.
    pub virtual_channel: u8,
    /// This hop is the last one in its dimension.
    pub last_in_dimension: bool,
    /// Process at the destination; 16 bits, or 12 in the extended form.
    pub process: u16,
    /// Where the packet goes; it decides which form is written.
    pub destination: Destination,
    /// Port on the destination node, 0 to 15.
    pub port: u8,
    /// The packet is for something outside the torus.
    pub out_of_lattice: bool,
    /// Type, 5 bits; those with [`HEADER_ONLY`] have no payload and no footer.
    pub packet_type: u8,
    /// Size of the payload, bytes; 14 bits: up to [`PAYLOAD_LEN_MAX`](super::PAYLOAD_LEN_MAX) on a line of words, and up to
    /// [`FRAMED_LEN_MAX`] in a frame.
    pub size: u16,
    /// Virtual address at the destination, 48 bits.
    pub address: u64,
    /// Hops made, 10 bits.
    pub hops: u16,
}

impl Header {
    /// The fields of `word`, whatever its check bits: see [`secded::decode`].
    #[inline]
    pub const fn from_word(word: Word) -> Self {
        let extended = field::EXTENDED.of(word) == 1;
        let destination = if extended {
            Destination::Node(field::EXTENDED_NODE.of(word) as u32)
        } else {
            Destination::Coordinates {
                x: field::X.of(word) as u8,
                y: field::Y.of(word) as u8,
                z: field::Z.of(word) as u8,
            }
        };
        let process = if extended { field::EXTENDED_PROCESS } else { field::PROCESS };
        Self {
            virtual_channel: field::VIRTUAL_CHANNEL.of(word) as u8,
            last_in_dimension: field::LAST_IN_DIMENSION.of(word) == 1,
            process: process.of(word) as u16,
            destination,
            port: field::PORT.of(word) as u8,
            out_of_lattice: field::OUT_OF_LATTICE.of(word) == 1,
            packet_type: field::PACKET_TYPE.of(word) as u8,
            size: field::SIZE.of(word) as u16,
            address: field::ADDRESS.of(word),
            hops: field::HOPS.of(word) as u16,
        }
    }

    /// The header with its check bits; bits above the width of a field are dropped.
    #[inline]
    pub const fn to_word(&self) -> Word {
        let process = self.process as u64;
        let destination = match self.destination {
            Destination::Coordinates { x, y, z } => {
                field::PROCESS.place(process)
                    | field::X.place(x as u64)
                    | field::Y.place(y as u64)
                    | field::Z.place(z as u64)
            }
            Destination::Node(node) => {
                field::EXTENDED.place(1)
                    | field::EXTENDED_PROCESS.place(process)
                    | field::EXTENDED_NODE.place(node as u64)
            }
        };
        let data = destination
            | field::VIRTUAL_CHANNEL.place(self.virtual_channel as u64)
            | field::LAST_IN_DIMENSION.place(self.last_in_dimension as u64)
            | field::PORT.place(self.port as u64)
            | field::OUT_OF_LATTICE.place(self.out_of_lattice as u64)
            | field::PACKET_TYPE.place(self.packet_type as u64)
            | field::SIZE.place(self.size as u64)
            | field::ADDRESS.place(self.address)
            | field::HOPS.place(self.hops as u64);
        secded::encode(data)
    }

    /// Whether neither payload nor footer follow.
    #[inline]
    pub const fn is_header_only(&self) -> bool {
        self.packet_type & HEADER_ONLY != 0
    }

    /// Words of payload that follow the header on the link.
    #[inline]
    pub const fn payload_words(&self) -> usize {
        if self.is_header_only() { 0 } else { payload_words(self.size as usize) }
    }
}

/// A single wrong bit is corrected; two are an error.
impl Record for Header {
    const FORMAT: &'static str = "APElink header";
    const LEN: usize = WORD_LEN;

    fn check(bytes: &[u8]) -> Result<()> {
        let word = Word::from_le_bytes(array(bytes, 0));
        let (Decoded::Clean(word) | Decoded::Corrected(word)) = secded::decode(word) else {
            return Err(Error::Value {
                format: Self::FORMAT,
                field: "edac",
                expected: (secded::encode(word) >> secded::DATA_BITS) as u64,
                got: (word >> secded::DATA_BITS) as u64,
            });
        };
        let (size, max) = (field::SIZE.of(word), FRAMED_LEN_MAX as u64);
        if size > max {
            return Err(Error::Range {
                format: Self::FORMAT,
                field: "size",
                min: 0,
                max,
                got: size,
            });
        }
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        let word = Word::from_le_bytes(array(bytes, 0));
        match secded::decode(word) {
            Decoded::Clean(word) | Decoded::Corrected(word) => Self::from_word(word),
            Decoded::Uncorrectable => Self::from_word(word),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.to_word().to_le_bytes());
    }
}

/// Prints one field a line, with its unit.
impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Self::FORMAT)?;
        write!(f, "\n  {:<22} {}", "virtual_channel", self.virtual_channel)?;
        write!(f, "\n  {:<22} {}", "last_in_dimension", self.last_in_dimension)?;
        write!(f, "\n  {:<22} {}", "process", self.process)?;
        write!(f, "\n  {:<22} {}", "destination", self.destination)?;
        write!(f, "\n  {:<22} {}", "port", self.port)?;
        write!(f, "\n  {:<22} {}", "out_of_lattice", self.out_of_lattice)?;
        write!(f, "\n  {:<22} {:#x}", "packet_type", self.packet_type)?;
        write!(f, "\n  {:<22} {} bytes", "size", self.size)?;
        write!(f, "\n  {:<22} {:#x}", "address", self.address)?;
        write!(f, "\n  {:<22} {}", "hops", self.hops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The data bits of a header that is zero but for what `set` sets.
    fn bits(set: impl FnOnce(&mut Header)) -> Word {
        let mut header = Header::default();
        set(&mut header);
        header.to_word() & secded::DATA
    }

    #[test]
    fn each_field_lies_where_the_table_says() {
        let ones = |last: u32, first: u32| (1u128 << (last + 1)) - (1u128 << first);
        let to = |x, y, z| Destination::Coordinates { x, y, z };
        assert_eq!(bits(|h| h.virtual_channel = 0xff), ones(3, 0));
        assert_eq!(bits(|h| h.last_in_dimension = true), ones(4, 4));
        assert_eq!(bits(|h| h.process = 0xffff), ones(20, 5));
        assert_eq!(bits(|h| h.destination = to(0xff, 0, 0)), ones(26, 21));
        assert_eq!(bits(|h| h.destination = to(0, 0xff, 0)), ones(31, 27));
        assert_eq!(bits(|h| h.destination = to(0, 0, 0xff)), ones(36, 32));
        assert_eq!(bits(|h| h.port = 0xff), ones(40, 37));
        assert_eq!(bits(|h| h.out_of_lattice = true), ones(42, 42));
        assert_eq!(bits(|h| h.packet_type = 0xff), ones(47, 43));
        assert_eq!(bits(|h| h.packet_type = HEADER_ONLY), ones(47, 47));
        assert_eq!(bits(|h| h.size = 0xffff), ones(61, 48));
        assert_eq!(bits(|h| h.address = u64::MAX), ones(109, 62));
        assert_eq!(bits(|h| h.hops = 0xffff), ones(119, 110));
    }

    #[test]
    fn the_extended_form_is_marked_by_the_reserved_bit() {
        let node = |node| bits(|h| h.destination = Destination::Node(node));
        assert_eq!(node(0), 1 << 41);
        assert_eq!(node(NODES_MAX - 1), 1 << 41 | 0xf_ffff << 17);
        let with_process = bits(|h| {
            h.destination = Destination::Node(0);
            h.process = 0xffff;
        });
        assert_eq!(with_process, 1 << 41 | 0xfff << 5);
    }

    #[test]
    fn a_header_only_packet_has_no_payload_words() {
        let with = |packet_type, size| Header { packet_type, size, ..Header::default() };
        assert_eq!(with(0, 33).payload_words(), 3);
        assert_eq!(with(HEADER_ONLY, 33).payload_words(), 0);
        assert!(with(HEADER_ONLY | 3, 0).is_header_only());
    }

    #[test]
    fn one_wrong_bit_is_corrected_and_two_are_refused() {
        let header = Header { address: 0x1234, size: 4096, ..Header::default() };
        let mut bytes = header.to_word().to_le_bytes();
        bytes[3] ^= 4;
        assert_eq!(Header::parse(&bytes), Ok(header));
        bytes[9] ^= 1;
        let error = Header::parse(&bytes).unwrap_err();
        assert!(matches!(error, Error::Value { field: "edac", .. }), "{error}");
    }

    #[test]
    fn a_payload_that_is_too_long_or_bytes_that_are_too_few_are_refused() {
        let header = Header { size: 16_369, ..Header::default() };
        let bytes = header.to_word().to_le_bytes();
        assert_eq!(
            Header::parse(&bytes).unwrap_err().to_string(),
            "APElink header: size is 16369, expected 0 to 16368"
        );
        assert!(matches!(Header::parse(&bytes[1..]), Err(Error::Truncated { got: 15, .. })));
    }

    #[test]
    fn prints_every_field_with_its_unit() {
        let header =
            Header { destination: Destination::Node(99_999), size: 17, ..Header::default() };
        let text = header.to_string();
        assert!(text.contains("destination            node 99999\n"), "{text}");
        assert!(text.contains("size                   17 bytes\n"), "{text}");
    }

    proptest! {
        #[test]
        fn emit_after_parse_gives_back_any_data_bits(data: u128) {
            let word = secded::encode(data);
            prop_assert_eq!(Header::from_word(word).to_word(), word);
        }
    }
}
