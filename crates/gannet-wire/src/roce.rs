//! Packet of RoCEv2: the payload of a UDP datagram to port 4791.
//!
//! ```text
//! byte 0    1   7   6  5 4 3   0  2           4            5            8   7  6    0  9          12
//!     +--------+---+---+---+-----+-----------+------------+------------+---+--------+----------+
//!     | opcode | s | m |pad| ver | partition | congestion | queue pair | a |reserved| sequence |
//!     |   8    | 1 | 1 | 2 |  4  |    16     |     8      |     24     | 1 |   7    |    24    |
//!     +--------+---+---+---+-----+-----------+------------+------------+---+--------+----------+
//!     | virtual address 64 (bytes) | key 32  | length 32 (bytes)  |   of what begins a write (RETH)
//!     +----------------------------+---------+--------------------+
//!     | immediate 32 |                                                 of what ends a message with one
//!     +--------------+
//!     | data         |
//!     +--------------+------------------+
//!     | zeros, `pad` | invariant CRC 32 |
//!     +--------------+------------------+
//! ```
//!
//! Big-endian, but for the invariant CRC, which is little-endian. `pad` fills the data up to four bytes.
//! Headers are known of the packets of unreliable connections that send or write; after the first
//! twelve bytes of others everything is data here.
//!
//! * `s` says that the receiver is to be told, `m` that the connection has changed its path, `a` that an acknowledgement
//!   is asked for.
//! * The opcode has the service in its upper three bits (1: unreliable connection) and says which
//!   packet of a message it is.
//! * `congestion` is two bits that routers set, and six reserved ones. No check sum covers them.
//! * `sequence` counts the packets of a queue pair, modulo 2^24.
//! * The invariant CRC is in [`invariant_crc`].
//!
//! Source: InfiniBand Architecture Specification, volume 1, chapter 9 (base transport header, RDMA
//! extended transport header, immediate) and annex A17 (RoCEv2), as `drivers/infiniband/sw/rxe` of Linux
//! and the RoCE layer of scapy have them.

pub mod invariant_crc;

use core::fmt;

use crate::big_endian as be;
use crate::layout::{array, check_len, put};
use crate::numbered::numbered;
use crate::{Error, Result};

/// The port of UDP that such packets go to.
pub const PORT: u16 = 4791;
/// Bytes of the base transport header.
pub const BASE_LEN: usize = field::SEQUENCE + 3;
/// Bytes of the header that says where a write goes to.
pub const WRITE_LEN: usize = 16;
/// Bytes of an immediate.
pub const IMMEDIATE_LEN: usize = 4;
/// Bytes of the invariant CRC.
pub const CRC_LEN: usize = 4;
/// Most bytes of headers in front of the data.
pub const HEADERS_LEN_MAX: usize = BASE_LEN + WRITE_LEN + IMMEDIATE_LEN;
/// The partition that every node is a member of.
pub const DEFAULT_PARTITION: u16 = 0xffff;
/// Queue pairs and sequence numbers have so many values.
pub const NUMBERS: u32 = 1 << 24;

const FORMAT: &str = "RoCEv2 packet";

mod field {
    pub const OPCODE: usize = 0;
    pub const FLAGS: usize = 1;
    pub const PARTITION: usize = 2;
    /// Three bytes of queue pair follow.
    pub const CONGESTION: usize = 4;
    pub const ACKNOWLEDGE: usize = 8;
    pub const SEQUENCE: usize = 9;

    /// Places in the header of a write.
    pub mod write {
        pub const ADDRESS: usize = 0;
        pub const KEY: usize = 8;
        pub const LENGTH: usize = 12;
    }
}

numbered! {
    /// What a packet is of which message.
    pub enum Opcode: u8 {
        SendFirst = 0x20 => "send-first",
        SendMiddle = 0x21 => "send-middle",
        SendLast = 0x22 => "send-last",
        SendLastImmediate = 0x23 => "send-last-immediate",
        SendOnly = 0x24 => "send-only",
        SendOnlyImmediate = 0x25 => "send-only-immediate",
        WriteFirst = 0x26 => "write-first",
        WriteMiddle = 0x27 => "write-middle",
        WriteLast = 0x28 => "write-last",
        WriteLastImmediate = 0x29 => "write-last-immediate",
        WriteOnly = 0x2a => "write-only",
        WriteOnlyImmediate = 0x2b => "write-only-immediate",
    }
}

impl Opcode {
    /// Whether the packet says where the message is to be written.
    #[inline]
    pub const fn begins_write(self) -> bool {
        matches!(self, Self::WriteFirst | Self::WriteOnly | Self::WriteOnlyImmediate)
    }

    /// Whether a message of a write goes on after the packet.
    #[inline]
    pub const fn goes_on(self) -> bool {
        matches!(self, Self::WriteFirst | Self::WriteMiddle)
    }

    /// Whether the packet is of a write.
    #[inline]
    pub const fn is_write(self) -> bool {
        self.begins_write()
            || matches!(self, Self::WriteMiddle | Self::WriteLast | Self::WriteLastImmediate)
    }

    /// Whether the packet has an immediate.
    #[inline]
    pub const fn has_immediate(self) -> bool {
        matches!(
            self,
            Self::SendLastImmediate
                | Self::SendOnlyImmediate
                | Self::WriteLastImmediate
                | Self::WriteOnlyImmediate
        )
    }

    /// Bytes of the headers in front of the data.
    #[inline]
    pub const fn headers_len(self) -> usize {
        let write = if self.begins_write() { WRITE_LEN } else { 0 };
        let immediate = if self.has_immediate() { IMMEDIATE_LEN } else { 0 };
        BASE_LEN + write + immediate
    }
}

/// View of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// View of the packet that fills `buffer`. The invariant CRC is not tested: it covers addresses
    /// that are not here.
    ///
    /// # Errors
    /// [`Error::Truncated`] when headers, padding and check sum do not fit, [`Error::Version`] when the
    /// version is not 0.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self> {
        check_len(FORMAT, buffer.as_ref(), BASE_LEN + CRC_LEN)?;
        let packet = Self { buffer };
        let version = packet.version();
        if version != 0 {
            return Err(Error::Version { format: FORMAT, known: "0", got: version.into() });
        }
        check_len(FORMAT, packet.bytes(), packet.data_start() + packet.pad() + CRC_LEN)?;
        Ok(packet)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// What the packet is.
    #[inline]
    pub fn opcode(&self) -> Opcode {
        Opcode::from_number(self.bytes()[field::OPCODE])
    }

    fn flags(&self) -> u8 {
        self.bytes()[field::FLAGS]
    }

    /// Whether the receiver is to be told.
    pub fn is_solicited(&self) -> bool {
        self.flags() & 0x80 != 0
    }

    /// Whether the connection has changed its path.
    pub fn is_migrated(&self) -> bool {
        self.flags() & 0x40 != 0
    }

    /// Bytes of zero after the data, 0 to 3.
    #[inline]
    pub fn pad(&self) -> usize {
        usize::from(self.flags() >> 4 & 3)
    }

    /// Version of the headers, 0.
    #[inline]
    pub fn version(&self) -> u8 {
        self.flags() & 0xf
    }

    /// The partition that the packet is of.
    #[inline]
    pub fn partition(&self) -> u16 {
        u16::from_be_bytes(array(self.bytes(), field::PARTITION))
    }

    /// What routers say about congestion, and six reserved bits.
    pub fn congestion(&self) -> u8 {
        self.bytes()[field::CONGESTION]
    }

    /// Queue pair that the packet is for, 24 bits.
    #[inline]
    pub fn queue_pair(&self) -> u32 {
        be::u32(self.bytes(), field::CONGESTION) & (NUMBERS - 1)
    }

    /// Whether an acknowledgement is asked for.
    pub fn asks_acknowledgement(&self) -> bool {
        self.bytes()[field::ACKNOWLEDGE] & 0x80 != 0
    }

    /// Number of the packet, 24 bits.
    #[inline]
    pub fn sequence(&self) -> u32 {
        be::u32(self.bytes(), field::ACKNOWLEDGE) & (NUMBERS - 1)
    }

    /// Where the message is to be written, of a packet that begins one.
    #[inline]
    pub fn write(&self) -> Option<Write> {
        let header = self.opcode().begins_write().then(|| &self.bytes()[BASE_LEN..])?;
        Some(Write {
            address: u64::from_be_bytes(array(header, field::write::ADDRESS)),
            key: be::u32(header, field::write::KEY),
            length: be::u32(header, field::write::LENGTH),
        })
    }

    /// The immediate, of a packet that has one.
    #[inline]
    pub fn immediate(&self) -> Option<u32> {
        let at = self.data_start() - IMMEDIATE_LEN;
        self.opcode().has_immediate().then(|| be::u32(self.bytes(), at))
    }

    /// Bytes of headers in front of the data.
    #[inline]
    pub fn data_start(&self) -> usize {
        self.opcode().headers_len()
    }

    /// The data, without padding.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let bytes = self.bytes();
        &bytes[self.data_start()..bytes.len() - CRC_LEN - self.pad()]
    }

    /// The invariant CRC as stored.
    #[inline]
    pub fn crc(&self) -> u32 {
        let bytes = self.bytes();
        u32::from_le_bytes(array(bytes, bytes.len() - CRC_LEN))
    }
}

/// Prints the headers and the length of the data.
impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {:<22} {:#010x}", Repr::parse(self), "invariant_crc", self.crc())?;
        write!(f, "\ndata, {} bytes", self.data().len())
    }
}

/// Where a message is to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Write {
    /// First byte, as the receiver names its memory.
    pub address: u64,
    /// Key of the window of memory.
    pub key: u32,
    /// Bytes of the whole message.
    pub length: u32,
}

/// The headers of a packet as plain values; the invariant CRC is filled in by [`Repr::seal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// What the packet is.
    pub opcode: Opcode,
    /// Whether the receiver is to be told.
    pub solicited: bool,
    /// Whether the connection has changed its path.
    pub migrated: bool,
    /// The partition, [`DEFAULT_PARTITION`] if nothing else was agreed.
    pub partition: u16,
    /// What routers say about congestion.
    pub congestion: u8,
    /// Queue pair that the packet is for, 24 bits.
    pub queue_pair: u32,
    /// Whether an acknowledgement is asked for.
    pub acknowledge: bool,
    /// Number of the packet, 24 bits.
    pub sequence: u32,
    /// Where the message goes to, if the opcode [begins a write](Opcode::begins_write).
    pub write: Write,
    /// The immediate, if the opcode [has one](Opcode::has_immediate).
    pub immediate: u32,
    /// Bytes of data.
    pub data_len: usize,
}

impl Repr {
    /// A packet of the default partition with nothing in its headers.
    pub const fn new(opcode: Opcode) -> Self {
        Self {
            opcode,
            solicited: false,
            migrated: false,
            partition: DEFAULT_PARTITION,
            congestion: 0,
            queue_pair: 0,
            acknowledge: false,
            sequence: 0,
            write: Write { address: 0, key: 0, length: 0 },
            immediate: 0,
            data_len: 0,
        }
    }

    /// The headers of a packet.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        Self {
            opcode: packet.opcode(),
            solicited: packet.is_solicited(),
            migrated: packet.is_migrated(),
            partition: packet.partition(),
            congestion: packet.congestion(),
            queue_pair: packet.queue_pair(),
            acknowledge: packet.asks_acknowledgement(),
            sequence: packet.sequence(),
            write: packet.write().unwrap_or_default(),
            immediate: packet.immediate().unwrap_or_default(),
            data_len: packet.data().len(),
        }
    }

    /// Bytes of zero after the data.
    pub const fn pad(&self) -> usize {
        self.data_len.next_multiple_of(4) - self.data_len
    }

    /// Bytes of the packet: headers, data, padding and check sum.
    pub const fn buffer_len(&self) -> usize {
        self.opcode.headers_len() + self.data_len + self.pad() + CRC_LEN
    }

    /// Writes the headers and the padding around data that lie after the headers already. The check sum
    /// is left as it is.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Repr::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        buffer[field::OPCODE] = self.opcode.number();
        buffer[field::FLAGS] =
            flag(self.solicited, 0x80) | flag(self.migrated, 0x40) | (self.pad() as u8) << 4;
        put(buffer, field::PARTITION, self.partition.to_be_bytes());
        let number = |value: u32, top: u8| {
            let [_, rest @ ..] = value.to_be_bytes();
            [top, rest[0], rest[1], rest[2]]
        };
        put(buffer, field::CONGESTION, number(self.queue_pair, self.congestion));
        put(buffer, field::ACKNOWLEDGE, number(self.sequence, flag(self.acknowledge, 0x80)));
        if self.opcode.begins_write() {
            let header = &mut buffer[BASE_LEN..];
            put(header, field::write::ADDRESS, self.write.address.to_be_bytes());
            put(header, field::write::KEY, self.write.key.to_be_bytes());
            put(header, field::write::LENGTH, self.write.length.to_be_bytes());
        }
        let start = self.opcode.headers_len();
        if self.opcode.has_immediate() {
            put(buffer, start - IMMEDIATE_LEN, self.immediate.to_be_bytes());
        }
        buffer[start + self.data_len..][..self.pad()].fill(0);
    }

    /// Writes headers, padding and check sum around data that lie after the headers already.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Repr::buffer_len`].
    pub fn seal(&self, path: &invariant_crc::Path, buffer: &mut [u8]) {
        self.emit(buffer);
        let end = self.buffer_len() - CRC_LEN;
        let crc = path.crc(&buffer[..end]);
        put(buffer, end, crc.to_le_bytes());
    }
}

/// Prints one field a line, with its unit.
impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FORMAT)?;
        let mut line = |name: &str, value: &dyn fmt::Display| write!(f, "\n  {name:<22} {value}");
        line("opcode", &self.opcode)?;
        line("solicited", &self.solicited)?;
        line("migrated", &self.migrated)?;
        line("partition", &format_args!("{:#06x}", self.partition))?;
        line("congestion", &format_args!("{:#04x}", self.congestion))?;
        line("queue_pair", &format_args!("{:#08x}", self.queue_pair))?;
        line("acknowledge", &self.acknowledge)?;
        line("sequence", &self.sequence)?;
        if self.opcode.begins_write() {
            line("address", &format_args!("{:#018x}", self.write.address))?;
            line("key", &format_args!("{:#010x}", self.write.key))?;
            line("length", &format_args!("{} bytes", self.write.length))?;
        }
        if self.opcode.has_immediate() {
            line("immediate", &format_args!("{:#010x}", self.immediate))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
