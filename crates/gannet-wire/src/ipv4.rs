//! IPv4 packet.
//!
//! ```text
//!  0       4       8               16  19                       31
//! +-------+-------+---------------+------------------------------+
//! |   4   |  IHL  |    DSCP/ECN   |     total length (bytes)     |
//! +-------+-------+---------------+---+--------------------------+
//! |        identification         |flg| fragment offset (8 bytes)|
//! +---------------+---------------+---+--------------------------+
//! | time to live  |   protocol    |       header check sum       |
//! +---------------+---------------+------------------------------+
//! |                        source address                        |
//! +--------------------------------------------------------------+
//! |                     destination address                      |
//! +--------------------------------------------------------------+
//! |            options, IHL - 5 words of 32 bits                 |
//! +--------------------------------------------------------------+
//! flg: bit 0 reserved, bit 1 don't fragment, bit 2 more fragments
//! ```
//!
//! Big-endian, bits counted from the most significant as in the source. Options are skipped by
//! their length and not interpreted; fragments are recognised and not put together again.
//!
//! Source: RFC 791 section 3.1, RFC 1071 (check sum).

use core::fmt;
use core::net::Ipv4Addr;

use crate::checksum::Sum;
use crate::layout::{array, check_len, put};
use crate::{Error, Result};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = field::DESTINATION + 4;
/// Largest packet, header included.
pub const PACKET_LEN_MAX: usize = u16::MAX as usize;
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

const FORMAT: &str = "IPv4 packet";
const VERSION: u8 = 4;

mod field {
    pub const VERSION_IHL: usize = 0;
    pub const DSCP_ECN: usize = 1;
    pub const TOTAL_LENGTH: usize = 2;
    pub const IDENTIFICATION: usize = 4;
    pub const FLAGS_OFFSET: usize = 6;
    pub const TIME_TO_LIVE: usize = 8;
    pub const PROTOCOL: usize = 9;
    pub const CHECKSUM: usize = 10;
    pub const SOURCE: usize = 12;
    pub const DESTINATION: usize = 16;

    pub const DONT_FRAGMENT: u16 = 1 << 14;
    pub const MORE_FRAGMENTS: u16 = 1 << 13;
    pub const OFFSET_MASK: u16 = (1 << 13) - 1;
}

/// View of an IPv4 packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// View without any test: accessors panic when header or lengths are wrong.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// View of the packet at the start of `buffer`; bytes after its total length are ignored.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the packet does not end in `buffer`, [`Error::Value`] when the
    /// version is not 4, [`Error::Range`] when header length or total length is impossible. The
    /// check sum is not tested: see [`Packet::verify_checksum`].
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self> {
        check_len(FORMAT, buffer.as_ref(), HEADER_LEN)?;
        let packet = Self { buffer };
        let (bytes, header_len, total_len) =
            (packet.buffer.as_ref(), packet.header_len(), packet.total_len());
        let version = bytes[field::VERSION_IHL] >> 4;
        if version != VERSION {
            let (expected, got) = (VERSION.into(), version.into());
            return Err(Error::Value { format: FORMAT, field: "version", expected, got });
        }
        let range = |field, min: usize, got: usize| Error::Range {
            format: FORMAT,
            field,
            min: min as u64,
            max: PACKET_LEN_MAX as u64,
            got: got as u64,
        };
        if header_len < HEADER_LEN {
            return Err(range("header length", HEADER_LEN, header_len));
        }
        if total_len < header_len {
            return Err(range("total length", header_len, total_len));
        }
        check_len(FORMAT, bytes, total_len)?;
        Ok(packet)
    }

    /// The buffer under the view.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes(array(self.buffer.as_ref(), at))
    }

    /// Bytes before the payload, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        4 * usize::from(self.buffer.as_ref()[field::VERSION_IHL] & 0xf)
    }

    /// Differentiated services and congestion bits.
    pub fn dscp_ecn(&self) -> u8 {
        self.buffer.as_ref()[field::DSCP_ECN]
    }

    /// Bytes of header and payload together.
    #[inline]
    pub fn total_len(&self) -> usize {
        self.u16_at(field::TOTAL_LENGTH).into()
    }

    /// Number that the fragments of one packet share.
    pub fn identification(&self) -> u16 {
        self.u16_at(field::IDENTIFICATION)
    }

    /// Routers must not split the packet.
    pub fn dont_fragment(&self) -> bool {
        self.u16_at(field::FLAGS_OFFSET) & field::DONT_FRAGMENT != 0
    }

    /// Fragments follow this one.
    pub fn more_fragments(&self) -> bool {
        self.u16_at(field::FLAGS_OFFSET) & field::MORE_FRAGMENTS != 0
    }

    /// Place of this fragment's payload in the whole payload, in bytes.
    pub fn fragment_offset(&self) -> usize {
        8 * usize::from(self.u16_at(field::FLAGS_OFFSET) & field::OFFSET_MASK)
    }

    /// This is a part of a packet, not a whole one.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.u16_at(field::FLAGS_OFFSET) & (field::MORE_FRAGMENTS | field::OFFSET_MASK) != 0
    }

    /// Hops that are left.
    pub fn time_to_live(&self) -> u8 {
        self.buffer.as_ref()[field::TIME_TO_LIVE]
    }

    /// What the payload is; 17 is UDP.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.buffer.as_ref()[field::PROTOCOL]
    }

    /// Check sum of the header, as stored.
    pub fn checksum(&self) -> u16 {
        self.u16_at(field::CHECKSUM)
    }

    /// Address of the sender.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.buffer.as_ref(), field::SOURCE))
    }

    /// Address of the receiver.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.buffer.as_ref(), field::DESTINATION))
    }

    /// The uninterpreted options.
    pub fn options(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..self.header_len()]
    }

    /// The bytes after the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[self.header_len()..self.total_len()]
    }

    /// The header's check sum is right.
    pub fn verify_checksum(&self) -> bool {
        Sum::default().add(&self.buffer.as_ref()[..self.header_len()]).finish() == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the number that the fragments of one packet share.
    pub fn set_identification(&mut self, identification: u16) {
        put(self.buffer.as_mut(), field::IDENTIFICATION, identification.to_be_bytes());
    }

    /// Sets the address of the sender.
    pub fn set_source(&mut self, address: Ipv4Addr) {
        put(self.buffer.as_mut(), field::SOURCE, address.octets());
    }

    /// Sets the address of the receiver.
    pub fn set_destination(&mut self, address: Ipv4Addr) {
        put(self.buffer.as_mut(), field::DESTINATION, address.octets());
    }

    /// Computes and stores the check sum of the header; the last step after any other setter.
    pub fn fill_checksum(&mut self) {
        let end = self.header_len();
        let bytes = self.buffer.as_mut();
        put(bytes, field::CHECKSUM, [0; 2]);
        let checksum = Sum::default().add(&bytes[..end]).finish();
        put(bytes, field::CHECKSUM, checksum.to_be_bytes());
    }

    /// The bytes after the header, for writing.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = self.header_len()..self.total_len();
        &mut self.buffer.as_mut()[range]
    }
}

/// An IPv4 header without options as plain values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Differentiated services and congestion bits.
    pub dscp_ecn: u8,
    /// Number that the fragments of one packet share.
    pub identification: u16,
    /// Routers must not split the packet.
    pub dont_fragment: bool,
    /// Fragments follow this one.
    pub more_fragments: bool,
    /// Place of this fragment's payload in the whole payload, in bytes; a multiple of 8.
    pub fragment_offset: u16,
    /// Hops that are left.
    pub time_to_live: u8,
    /// What the payload is; 17 is UDP.
    pub protocol: u8,
    /// Address of the sender.
    pub source: Ipv4Addr,
    /// Address of the receiver.
    pub destination: Ipv4Addr,
    /// Bytes of payload, at most 65 515.
    pub payload_len: u16,
}

impl Repr {
    /// The fields of a header; options are left out.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        Self {
            dscp_ecn: packet.dscp_ecn(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset() as u16,
            time_to_live: packet.time_to_live(),
            protocol: packet.protocol(),
            source: packet.source(),
            destination: packet.destination(),
            payload_len: (packet.total_len() - packet.header_len()) as u16,
        }
    }

    /// Bytes that `emit` writes: the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes a header without options, check sum included.
    ///
    /// # Panics
    /// When the buffer is shorter than the header, or `payload_len` exceeds 65 515 bytes.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        let total = usize::from(self.payload_len) + HEADER_LEN;
        assert!(total <= PACKET_LEN_MAX, "an IPv4 packet carries at most 65 515 bytes of payload");
        let mut flags_offset = self.fragment_offset / 8;
        if self.dont_fragment {
            flags_offset |= field::DONT_FRAGMENT;
        }
        if self.more_fragments {
            flags_offset |= field::MORE_FRAGMENTS;
        }
        let bytes = packet.buffer.as_mut();
        bytes[field::VERSION_IHL] = VERSION << 4 | (HEADER_LEN / 4) as u8;
        bytes[field::DSCP_ECN] = self.dscp_ecn;
        put(bytes, field::TOTAL_LENGTH, (total as u16).to_be_bytes());
        put(bytes, field::FLAGS_OFFSET, flags_offset.to_be_bytes());
        bytes[field::TIME_TO_LIVE] = self.time_to_live;
        bytes[field::PROTOCOL] = self.protocol;
        packet.set_identification(self.identification);
        packet.set_source(self.source);
        packet.set_destination(self.destination);
        packet.fill_checksum();
    }
}

/// Prints one field a line, with its unit.
impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FORMAT}")?;
        writeln!(f, "  {:<22} {}", "source", self.source)?;
        writeln!(f, "  {:<22} {}", "destination", self.destination)?;
        writeln!(f, "  {:<22} {}", "protocol", self.protocol)?;
        writeln!(f, "  {:<22} {} hops", "time_to_live", self.time_to_live)?;
        writeln!(f, "  {:<22} {:#04x}", "dscp_ecn", self.dscp_ecn)?;
        writeln!(f, "  {:<22} {}", "identification", self.identification)?;
        writeln!(f, "  {:<22} {}", "dont_fragment", self.dont_fragment)?;
        writeln!(f, "  {:<22} {}", "more_fragments", self.more_fragments)?;
        writeln!(f, "  {:<22} {} bytes", "fragment_offset", self.fragment_offset)?;
        write!(f, "  {:<22} {} bytes", "payload_len", self.payload_len)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 10.0.0.1 to 10.0.0.2, UDP, don't fragment, two bytes of payload and one of Ethernet padding.
    /// The other nine words of the header add up to 0xeb5e, of which the check sum is the complement.
    const PACKET: [u8; 23] = [
        0x45, 0x00, 0x00, 0x16, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0x14, 0xa1, 10, 0, 0, 1, 10, 0,
        0, 2, 0xaa, 0xbb, 0xcc,
    ];

    fn corrupt(at: usize, value: u8) -> Error {
        let mut bytes = PACKET;
        bytes[at] = value;
        Packet::new_checked(bytes).unwrap_err()
    }

    #[test]
    fn reads_a_packet() {
        let packet = Packet::new_checked(PACKET).unwrap();
        assert_eq!(packet.source(), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(packet.destination(), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!((packet.protocol(), packet.time_to_live()), (PROTOCOL_UDP, 64));
        assert!(packet.dont_fragment() && !packet.is_fragment());
        assert_eq!(packet.payload(), [0xaa, 0xbb]);
        assert!(packet.verify_checksum());
    }

    #[test]
    fn a_flipped_bit_breaks_the_check_sum() {
        for at in 0..HEADER_LEN {
            let mut bytes = PACKET;
            bytes[at] ^= 0x01;
            let packet = Packet::new_unchecked(bytes);
            // A changed header length sums other bytes, and may be longer than the buffer.
            if at != field::VERSION_IHL {
                assert!(!packet.verify_checksum(), "byte {at}");
            }
        }
    }

    #[test]
    fn options_are_skipped_by_the_header_length() {
        let mut bytes = [0; 28];
        bytes[..20].copy_from_slice(&PACKET[..20]);
        bytes[0] = 0x46;
        bytes[3] = 26;
        bytes[20..26].copy_from_slice(&[0x94, 0x04, 0, 0, 0xaa, 0xbb]);
        let mut packet = Packet::new_checked(bytes).unwrap();
        assert_eq!(packet.options(), [0x94, 0x04, 0, 0]);
        assert_eq!(packet.payload(), [0xaa, 0xbb]);
        packet.fill_checksum();
        assert!(packet.verify_checksum());
    }

    #[test]
    fn first_middle_and_last_fragment_are_recognised() {
        for (flags_offset, more, offset) in
            [(0x2000u16, true, 0), (0x2001, true, 8), (0x0400, false, 8192)]
        {
            let mut bytes = PACKET;
            bytes[6..8].copy_from_slice(&flags_offset.to_be_bytes());
            let packet = Packet::new_checked(bytes).unwrap();
            assert!(packet.is_fragment());
            assert_eq!((packet.more_fragments(), packet.fragment_offset()), (more, offset));
        }
    }

    #[test]
    fn refuses_version_6() {
        let expected = Error::Value { format: FORMAT, field: "version", expected: 4, got: 6 };
        assert_eq!(corrupt(0, 0x65), expected);
    }

    #[test]
    fn refuses_a_header_length_below_20() {
        let (field, max) = ("header length", 65535);
        assert_eq!(corrupt(0, 0x44), Error::Range { format: FORMAT, field, min: 20, max, got: 16 });
    }

    #[test]
    fn refuses_a_total_length_shorter_than_the_header() {
        let (field, max) = ("total length", 65535);
        assert_eq!(corrupt(3, 19), Error::Range { format: FORMAT, field, min: 20, max, got: 19 });
    }

    #[test]
    fn refuses_a_total_length_past_the_buffer() {
        assert_eq!(corrupt(3, 24), Error::Truncated { format: FORMAT, expected: 24, got: 23 });
    }

    #[test]
    fn refuses_options_past_the_total_length() {
        let (field, max) = ("total length", 65535);
        assert_eq!(corrupt(0, 0x4f), Error::Range { format: FORMAT, field, min: 60, max, got: 22 });
    }

    #[test]
    fn refuses_a_header_cut_short() {
        let error = Packet::new_checked(&PACKET[..19]).unwrap_err();
        assert_eq!(error, Error::Truncated { format: FORMAT, expected: 20, got: 19 });
    }

    proptest! {
        #[test]
        fn parse_after_emit_gives_back_the_values(
            numbers: (u8, u16, u8, u8), flags: (bool, bool), units in 0u16..8192,
            addresses: (u32, u32), payload_len in 0u16..200,
        ) {
            let (dscp_ecn, identification, time_to_live, protocol) = numbers;
            let repr = Repr {
                dscp_ecn, identification, time_to_live, protocol, payload_len,
                dont_fragment: flags.0, more_fragments: flags.1, fragment_offset: 8 * units,
                source: addresses.0.into(), destination: addresses.1.into(),
            };
            let mut packet = Packet::new_unchecked([0xff; 220]);
            repr.emit(&mut packet);
            let packet = Packet::new_checked(packet.into_inner()).unwrap();
            prop_assert!(packet.verify_checksum());
            prop_assert_eq!(Repr::parse(&packet), repr);
        }
    }
}
