//! Classic pcap capture file, in either byte order, with microseconds or nanoseconds.
//!
//! ```text
//! file header, 24 bytes:
//! byte 0       4       6       8          12        16         20                24
//!     +-------+-------+-------+----------+---------+----------+-----------------+
//!     | magic | major | minor | time     | accuracy| snapshot | link type       |
//!     |       |  = 2  |  = 4  | zone = 0 |   = 0   | length   | (low 16 bits)   |
//!     +-------+-------+-------+----------+---------+----------+-----------------+
//! record header, 16 bytes, then the packet:
//! byte 0         4           8                 12                16
//!     +---------+-----------+-----------------+-----------------+--------
//!     | seconds | us or ns  | captured length | original length | packet
//!     +---------+-----------+-----------------+-----------------+--------
//! ```
//!
//! Lengths in bytes, time since the Unix epoch. The magic number is 0xa1b2c3d4 for microseconds
//! and 0xa1b23c4d for nanoseconds, and its order of bytes is that of the whole file.
//!
//! Source: IETF draft-ietf-opsawg-pcap; `pcap-savefile(5)` of libpcap.

use core::fmt;

use crate::capture::{ByteOrder, Event, PACKET_LEN_MAX, Packet, Progress};
use crate::layout::{array, check_len, put};
use crate::{Error, Result};

/// Bytes of the file header.
pub const FILE_HEADER_LEN: usize = field::LINK_TYPE + 4;
/// Bytes of the header of each record.
pub const RECORD_HEADER_LEN: usize = field::ORIGINAL_LEN + 4;

const FORMAT: &str = "pcap file";
const MAJOR: u16 = 2;
const MINOR: u16 = 4;

mod field {
    pub const MAGIC: usize = 0;
    pub const MAJOR: usize = 4;
    pub const MINOR: usize = 6;
    pub const SNAP_LEN: usize = 16;
    pub const LINK_TYPE: usize = 20;

    pub const SECONDS: usize = 0;
    pub const FRACTION: usize = 4;
    pub const CAPTURED_LEN: usize = 8;
    pub const ORIGINAL_LEN: usize = 12;
}

/// Unit of the fraction of a second in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    #[default]
    Nanoseconds,
}

impl Resolution {
    const fn magic(self) -> u32 {
        match self {
            Self::Microseconds => 0xa1b2_c3d4,
            Self::Nanoseconds => 0xa1b2_3c4d,
        }
    }

    const fn unit_ns(self) -> u64 {
        match self {
            Self::Microseconds => 1_000,
            Self::Nanoseconds => 1,
        }
    }
}

/// File header as plain values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileHeader {
    /// Byte order of the file.
    pub order: ByteOrder,
    /// Unit of the fraction of a second.
    pub resolution: Resolution,
    /// Longest packet that the capture kept, in bytes.
    pub snap_len: u32,
    /// What packets begin with, for example [`LINK_TYPE_ETHERNET`](crate::capture::LINK_TYPE_ETHERNET).
    pub link_type: u16,
}

impl FileHeader {
    /// Header of a file of packets of any length, little-endian with nanoseconds.
    pub const fn new(link_type: u16) -> Self {
        let (order, resolution) = (ByteOrder::Little, Resolution::Nanoseconds);
        Self { order, resolution, snap_len: PACKET_LEN_MAX as u32, link_type }
    }

    /// The header at the start of `bytes`. Bits that describe a trailing check sequence are left
    /// out.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Unknown`] for another magic number, [`Error::Value`] for
    /// another version than 2.4.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        check_len(FORMAT, bytes, FILE_HEADER_LEN)?;
        let magic = array(bytes, field::MAGIC);
        let known = [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| {
            [Resolution::Microseconds, Resolution::Nanoseconds]
                .into_iter()
                .find(|resolution| order.u32(magic) == resolution.magic())
                .map(|resolution| (order, resolution))
        });
        let (order, resolution) = known.ok_or(Error::Unknown {
            format: FORMAT,
            field: "magic number",
            got: u32::from_be_bytes(magic).into(),
        })?;
        for (field, at, expected) in
            [("major version", field::MAJOR, MAJOR), ("minor version", field::MINOR, MINOR)]
        {
            let got = order.u16(array(bytes, at));
            if got != expected {
                let (expected, got) = (expected.into(), got.into());
                return Err(Error::Value { format: FORMAT, field, expected, got });
            }
        }
        let snap_len = order.u32(array(bytes, field::SNAP_LEN));
        let link_type = order.u32(array(bytes, field::LINK_TYPE)) as u16;
        Ok(Self { order, resolution, snap_len, link_type })
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        FILE_HEADER_LEN
    }

    /// The stored form.
    pub fn emit(&self) -> [u8; FILE_HEADER_LEN] {
        let (order, mut bytes) = (self.order, [0; FILE_HEADER_LEN]);
        put(&mut bytes, field::MAGIC, order.bytes_u32(self.resolution.magic()));
        put(&mut bytes, field::MAJOR, order.bytes_u16(MAJOR));
        put(&mut bytes, field::MINOR, order.bytes_u16(MINOR));
        put(&mut bytes, field::SNAP_LEN, order.bytes_u32(self.snap_len));
        put(&mut bytes, field::LINK_TYPE, order.bytes_u32(self.link_type.into()));
        bytes
    }

    /// The stored form of the record header of `packet`; the packet's bytes follow it.
    ///
    /// # Errors
    /// [`Error::Range`] when the packet is longer than [`PACKET_LEN_MAX`] or later than the
    /// 32-bit count of seconds, which ends in 2106.
    pub fn emit_record(&self, packet: &Packet<'_>) -> Result<[u8; RECORD_HEADER_LEN]> {
        let range = |field, max, got| Error::Range { format: FORMAT, field, min: 0, max, got };
        let len = packet.data.len();
        if len > PACKET_LEN_MAX {
            return Err(range("captured length", PACKET_LEN_MAX as u64, len as u64));
        }
        let time = packet.timestamp_ns.unwrap_or(0);
        let seconds = u32::try_from(time / 1_000_000_000)
            .map_err(|_| range("seconds", u32::MAX.into(), time / 1_000_000_000))?;
        let fraction = (time % 1_000_000_000 / self.resolution.unit_ns()) as u32;
        let (order, mut bytes) = (self.order, [0; RECORD_HEADER_LEN]);
        put(&mut bytes, field::SECONDS, order.bytes_u32(seconds));
        put(&mut bytes, field::FRACTION, order.bytes_u32(fraction));
        put(&mut bytes, field::CAPTURED_LEN, order.bytes_u32(len as u32));
        put(&mut bytes, field::ORIGINAL_LEN, order.bytes_u32(packet.original_len));
        Ok(bytes)
    }

    /// The packet at the start of `bytes`, or how many bytes it needs.
    fn parse_record<'a>(&self, bytes: &'a [u8]) -> Result<core::result::Result<Packet<'a>, usize>> {
        if bytes.len() < RECORD_HEADER_LEN {
            return Ok(Err(RECORD_HEADER_LEN));
        }
        let number = |at| self.order.u32(array(bytes, at));
        let len = number(field::CAPTURED_LEN) as usize;
        if len > PACKET_LEN_MAX {
            let (field, max, got) = ("captured length", PACKET_LEN_MAX as u64, len as u64);
            return Err(Error::Range { format: FORMAT, field, min: 0, max, got });
        }
        let end = RECORD_HEADER_LEN + len;
        let Some(data) = bytes.get(RECORD_HEADER_LEN..end) else {
            return Ok(Err(end));
        };
        let seconds = u64::from(number(field::SECONDS));
        let fraction = u64::from(number(field::FRACTION));
        Ok(Ok(Packet {
            interface: 0,
            link_type: self.link_type,
            timestamp_ns: Some(seconds * 1_000_000_000 + fraction * self.resolution.unit_ns()),
            original_len: number(field::ORIGINAL_LEN),
            data,
        }))
    }
}

/// Prints one field a line, with its unit.
impl fmt::Display for FileHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FORMAT}")?;
        writeln!(f, "  {:<22} {:?}-endian", "order", self.order)?;
        writeln!(f, "  {:<22} {:?}", "resolution", self.resolution)?;
        writeln!(f, "  {:<22} {} bytes", "snap_len", self.snap_len)?;
        write!(f, "  {:<22} {}", "link_type", self.link_type)
    }
}

/// Finds the packets of a file in slices of it; see [`capture`](crate::capture) for how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    header: Option<FileHeader>,
    position: u64,
    needed: usize,
}

impl Reader {
    /// Reader at the start of a file.
    pub const fn new() -> Self {
        Self { header: None, position: 0, needed: FILE_HEADER_LEN }
    }

    /// The file header, once it was seen.
    pub const fn header(&self) -> Option<&FileHeader> {
        self.header.as_ref()
    }

    /// Bytes of the file that the reader is done with; where an error lies.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Looks for the next packet at the front of `input`.
    ///
    /// # Errors
    /// When the file is not as the format requires; there is no way to go on after it.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Progress<'a>> {
        let mut consumed = 0;
        let header = match self.header {
            Some(header) => header,
            None if input.len() < FILE_HEADER_LEN => {
                return Ok(Progress { consumed, event: None });
            }
            None => {
                consumed = FILE_HEADER_LEN;
                self.position += FILE_HEADER_LEN as u64;
                *self.header.insert(FileHeader::parse(input)?)
            }
        };
        match header.parse_record(&input[consumed..])? {
            Ok(packet) => {
                let len = RECORD_HEADER_LEN + packet.data.len();
                self.position += len as u64;
                let event = Some(Event::Packet(packet));
                Ok(Progress { consumed: consumed + len, event })
            }
            Err(needed) => {
                self.needed = needed;
                Ok(Progress { consumed, event: None })
            }
        }
    }

    /// Says whether a file that ends with `rest`, the bytes not consumed, is whole.
    ///
    /// # Errors
    /// [`Error::Truncated`] when it ends inside its header or inside a record.
    pub fn finish(&self, rest: &[u8]) -> Result<()> {
        if self.header.is_some() && rest.is_empty() {
            return Ok(());
        }
        Err(Error::Truncated { format: FORMAT, expected: self.needed, got: rest.len() })
    }
}

/// Writes a file by appending to a buffer, which the caller empties into a file.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    header: FileHeader,
}

impl Writer {
    /// Starts a file: appends its header.
    pub fn new(header: FileHeader, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&header.emit());
        Self { header }
    }

    /// Appends a packet. Its interface and link type are not stored; without a timestamp it is
    /// given the time 0.
    ///
    /// # Errors
    /// As [`FileHeader::emit_record`]; nothing is appended then.
    pub fn packet(&self, packet: &Packet<'_>, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&self.header.emit_record(packet)?);
        out.extend_from_slice(packet.data);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::LINK_TYPE_ETHERNET;
    use crate::noise;
    use proptest::prelude::*;

    /// Two packets of 3 and 0 bytes, written by hand: little-endian, microseconds.
    const LITTLE: &[u8] =
        b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00\0\0\0\0\0\0\0\0\x00\x00\x04\x00\x01\0\0\0\
        \x05\x00\x00\x00\x07\x00\x00\x00\x03\x00\x00\x00\x3c\x00\x00\x00abc\
        \x06\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    /// The same, big-endian with nanoseconds.
    const BIG: &[u8] =
        b"\xa1\xb2\x3c\x4d\x00\x02\x00\x04\0\0\0\0\0\0\0\0\x00\x04\x00\x00\0\0\0\x01\
        \x00\x00\x00\x05\x00\x00\x00\x07\x00\x00\x00\x03\x00\x00\x00\x3cabc\
        \x00\x00\x00\x06\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00";

    fn packet(timestamp_ns: u64, original_len: u32, data: &[u8]) -> Packet<'_> {
        let (interface, link_type) = (0, LINK_TYPE_ETHERNET);
        Packet { interface, link_type, timestamp_ns: Some(timestamp_ns), original_len, data }
    }

    /// All packets of a file that is shown whole.
    fn packets(file: &[u8]) -> Result<Vec<Packet<'_>>> {
        let (mut reader, mut rest, mut packets) = (Reader::new(), file, Vec::new());
        loop {
            let progress = reader.next(rest)?;
            rest = &rest[progress.consumed..];
            match progress.event {
                Some(Event::Packet(packet)) => packets.push(packet),
                Some(Event::Statistics(_)) => unreachable!("pcap has no statistics"),
                None => return reader.finish(rest).map(|()| packets),
            }
        }
    }

    fn corrupt(at: usize, value: u8) -> Error {
        let mut file = LITTLE.to_vec();
        file[at] = value;
        packets(&file).unwrap_err()
    }

    #[test]
    fn reads_little_endian_microseconds() {
        let expected = [packet(5_000_007_000, 60, b"abc"), packet(6_000_008_000, 0, b"")];
        assert_eq!(packets(LITTLE).unwrap(), expected);
        assert!(expected[0].is_cut());
    }

    #[test]
    fn reads_big_endian_nanoseconds() {
        let expected = [packet(5_000_000_007, 60, b"abc"), packet(6_000_000_008, 0, b"")];
        assert_eq!(packets(BIG).unwrap(), expected);
    }

    #[test]
    fn writes_the_same_files() {
        for file in [LITTLE, BIG] {
            let header = FileHeader::parse(file).unwrap();
            let mut out = Vec::new();
            let writer = Writer::new(header, &mut out);
            for packet in packets(file).unwrap() {
                writer.packet(&packet, &mut out).unwrap();
            }
            assert_eq!(out, file);
        }
    }

    #[test]
    fn refuses_another_magic_number() {
        let error = corrupt(0, 0x34);
        let (field, got) = ("magic number", 0x34c3_b2a1);
        assert_eq!(error, Error::Unknown { format: FORMAT, field, got });
    }

    #[test]
    fn refuses_version_2_3() {
        let (field, expected, got) = ("minor version", 4, 3);
        assert_eq!(corrupt(6, 3), Error::Value { format: FORMAT, field, expected, got });
    }

    #[test]
    fn refuses_a_packet_above_the_limit_before_waiting_for_it() {
        let error = corrupt(24 + 8 + 3, 0x7f);
        let (field, max, got) = ("captured length", 262_144, 0x7f00_0003);
        assert_eq!(error, Error::Range { format: FORMAT, field, min: 0, max, got });
    }

    #[test]
    fn tells_a_cut_file_from_a_clean_end() {
        let ends = [24, 24 + 16 + 3, LITTLE.len()];
        for len in 0..=LITTLE.len() {
            let result = packets(&LITTLE[..len]);
            assert_eq!(result.is_ok(), ends.contains(&len), "{len}");
        }
        let error = packets(&LITTLE[..42]).unwrap_err();
        assert_eq!(error, Error::Truncated { format: FORMAT, expected: 19, got: 18 });
    }

    #[test]
    fn the_position_is_that_of_the_damaged_record() {
        let mut file = LITTLE.to_vec();
        file[43 + 8 + 3] = 0xff;
        let mut reader = Reader::new();
        let consumed = reader.next(&file).unwrap().consumed;
        assert!(reader.next(&file[consumed..]).is_err());
        assert_eq!(reader.position(), 43);
    }

    #[test]
    fn refuses_to_write_what_the_format_cannot_hold() {
        let header = FileHeader::new(LINK_TYPE_ETHERNET);
        let late = header.emit_record(&packet((1 << 32) * 1_000_000_000, 0, b"")).unwrap_err();
        assert!(matches!(late, Error::Range { field: "seconds", .. }));
        let data = vec![0; PACKET_LEN_MAX + 1];
        let long = header.emit_record(&packet(0, 0, &data)).unwrap_err();
        assert!(matches!(long, Error::Range { field: "captured length", .. }));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back(
            big: bool, seed: u64, contents in proptest::collection::vec((0u64..1 << 61, 0usize..300), 0..10),
        ) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let header = FileHeader { order, ..FileHeader::new(LINK_TYPE_ETHERNET) };
            let bytes = noise::bytes(seed, 300);
            let expected: Vec<_> = contents
                .iter()
                .map(|&(time, len)| packet(time, len as u32 + 4, &bytes[..len]))
                .collect();
            let mut file = Vec::new();
            let writer = Writer::new(header, &mut file);
            for packet in &expected {
                writer.packet(packet, &mut file).unwrap();
            }
            prop_assert_eq!(packets(&file).unwrap(), expected);
        }
    }
}
