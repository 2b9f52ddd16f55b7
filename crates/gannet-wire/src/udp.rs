//! UDP datagram.
//!
//! ```text
//! byte 0             2                  4                6            8
//!     +-------------+------------------+----------------+------------+---------
//!     | source port | destination port | length (bytes) | check sum  | payload
//!     +-------------+------------------+----------------+------------+---------
//! ```
//!
//! Big-endian. `length` counts header and payload. The check sum covers a pseudo-header (source,
//! destination, protocol, length), the header and the payload; 0 says that there is none.
//!
//! Source: RFC 768.

use core::fmt;
use core::net::Ipv4Addr;

use crate::checksum::Sum;
use crate::ipv4::{self, PROTOCOL_UDP};
use crate::layout::{array, check_len, put};
use crate::{Error, Result};

/// Bytes of the header.
pub const HEADER_LEN: usize = field::CHECKSUM + 2;
/// Largest payload in an IPv4 packet without options.
pub const PAYLOAD_LEN_MAX: usize = ipv4::PACKET_LEN_MAX - ipv4::HEADER_LEN - HEADER_LEN;

const FORMAT: &str = "UDP datagram";

mod field {
    pub const SOURCE_PORT: usize = 0;
    pub const DESTINATION_PORT: usize = 2;
    pub const LENGTH: usize = 4;
    pub const CHECKSUM: usize = 6;
}

/// View of a UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Datagram<T> {
    /// View without any test: accessors panic when header or length is wrong.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// View of the datagram at the start of `buffer`; bytes after its length are ignored.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the datagram does not end in `buffer`, [`Error::Range`] when its
    /// length is shorter than the header. The check sum is not tested: see
    /// [`Datagram::verify_checksum`].
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self> {
        check_len(FORMAT, buffer.as_ref(), HEADER_LEN)?;
        let datagram = Self { buffer };
        let len = datagram.len();
        if len < HEADER_LEN {
            let (min, max) = (HEADER_LEN as u64, u16::MAX.into());
            let got = len as u64;
            return Err(Error::Range { format: FORMAT, field: "length", min, max, got });
        }
        check_len(FORMAT, datagram.buffer.as_ref(), len)?;
        Ok(datagram)
    }

    /// The buffer under the view.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes(array(self.buffer.as_ref(), at))
    }

    /// Port of the sender.
    #[inline]
    pub fn source_port(&self) -> u16 {
        self.u16_at(field::SOURCE_PORT)
    }

    /// Port of the receiver.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        self.u16_at(field::DESTINATION_PORT)
    }

    /// Bytes of header and payload together, never 0 in a checked datagram.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a datagram always has its header")]
    pub fn len(&self) -> usize {
        self.u16_at(field::LENGTH).into()
    }

    /// The check sum as stored; `None` when the sender gave none.
    pub fn checksum(&self) -> Option<u16> {
        Some(self.u16_at(field::CHECKSUM)).filter(|&checksum| checksum != 0)
    }

    /// The bytes after the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..self.len()]
    }

    /// The check sum between these addresses is right, or absent.
    pub fn verify_checksum(&self, source: Ipv4Addr, destination: Ipv4Addr) -> bool {
        let bytes = &self.buffer.as_ref()[..self.len()];
        self.checksum().is_none() || checksum(bytes, source, destination) == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Datagram<T> {
    /// Sets the port of the sender.
    pub fn set_source_port(&mut self, port: u16) {
        put(self.buffer.as_mut(), field::SOURCE_PORT, port.to_be_bytes());
    }

    /// Sets the port of the receiver.
    pub fn set_destination_port(&mut self, port: u16) {
        put(self.buffer.as_mut(), field::DESTINATION_PORT, port.to_be_bytes());
    }

    /// Computes and stores the check sum; the last step after any other change.
    pub fn fill_checksum(&mut self, source: Ipv4Addr, destination: Ipv4Addr) {
        let end = self.len();
        let bytes = &mut self.buffer.as_mut()[..end];
        put(bytes, field::CHECKSUM, [0; 2]);
        // 0 would say that there is no check sum; all ones is the same number.
        let checksum = match checksum(bytes, source, destination) {
            0 => u16::MAX,
            checksum => checksum,
        };
        put(bytes, field::CHECKSUM, checksum.to_be_bytes());
    }

    /// Says that there is no check sum.
    pub fn clear_checksum(&mut self) {
        put(self.buffer.as_mut(), field::CHECKSUM, [0; 2]);
    }

    /// The bytes after the header, for writing.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.len();
        &mut self.buffer.as_mut()[HEADER_LEN..end]
    }
}

/// Check sum of a datagram with its pseudo-header; 0 if it contains its own right check sum.
fn checksum(datagram: &[u8], source: Ipv4Addr, destination: Ipv4Addr) -> u16 {
    Sum::default()
        .add(&source.octets())
        .add(&destination.octets())
        .add(&[0, PROTOCOL_UDP])
        .add(&(datagram.len() as u16).to_be_bytes())
        .add(datagram)
        .finish()
}

/// A UDP header as plain values; the check sum is filled or cleared on the view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Bytes of payload, at most 65 527.
    pub payload_len: u16,
}

impl Repr {
    /// The fields of a header.
    pub fn parse<T: AsRef<[u8]>>(datagram: &Datagram<T>) -> Self {
        Self {
            source_port: datagram.source_port(),
            destination_port: datagram.destination_port(),
            payload_len: (datagram.len() - HEADER_LEN) as u16,
        }
    }

    /// Bytes that `emit` writes: the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, without a check sum.
    ///
    /// # Panics
    /// When the buffer is shorter than the header, or `payload_len` exceeds 65 527 bytes.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, datagram: &mut Datagram<T>) {
        let len = self.payload_len.checked_add(HEADER_LEN as u16);
        let len = len.expect("a UDP datagram carries at most 65 527 bytes of payload");
        datagram.set_source_port(self.source_port);
        datagram.set_destination_port(self.destination_port);
        put(datagram.buffer.as_mut(), field::LENGTH, len.to_be_bytes());
        datagram.clear_checksum();
    }
}

/// Prints one field a line, with its unit.
impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FORMAT}")?;
        writeln!(f, "  {:<22} {}", "source_port", self.source_port)?;
        writeln!(f, "  {:<22} {}", "destination_port", self.destination_port)?;
        write!(f, "  {:<22} {} bytes", "payload_len", self.payload_len)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Datagram<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise;
    use proptest::prelude::*;

    const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    /// Ports 1 and 2, payload "hi", one byte of padding after it. The check sum by hand:
    /// 0a00 + 0001 + 0a00 + 0002 + 0011 + 000a + 0001 + 0002 + 000a + 6869 = 7c94, complement 836b.
    const DATAGRAM: [u8; 11] = [0, 1, 0, 2, 0, 10, 0x83, 0x6b, b'h', b'i', 0xee];

    #[test]
    fn reads_a_datagram() {
        let datagram = Datagram::new_checked(DATAGRAM).unwrap();
        assert_eq!((datagram.source_port(), datagram.destination_port()), (1, 2));
        assert_eq!(datagram.payload(), b"hi");
        assert_eq!(datagram.checksum(), Some(0x836b));
        assert!(datagram.verify_checksum(SOURCE, DESTINATION));
        assert!(!datagram.verify_checksum(SOURCE, Ipv4Addr::new(10, 0, 0, 3)));
    }

    #[test]
    fn an_absent_check_sum_is_not_wrong() {
        let mut datagram = Datagram::new_checked(DATAGRAM).unwrap();
        datagram.payload_mut()[0] = b'H';
        assert!(!datagram.verify_checksum(SOURCE, DESTINATION));
        datagram.clear_checksum();
        assert_eq!(datagram.checksum(), None);
        assert!(datagram.verify_checksum(SOURCE, DESTINATION));
    }

    #[test]
    fn a_check_sum_of_zero_is_sent_as_all_ones() {
        let mut datagram = Datagram::new_checked(DATAGRAM).unwrap();
        // The payload that makes the sum of the rest all ones: "hi" plus the check sum above.
        datagram.payload_mut().copy_from_slice(&(0x6869 + 0x836b_u16).to_be_bytes());
        datagram.fill_checksum(SOURCE, DESTINATION);
        assert_eq!(datagram.checksum(), Some(0xffff));
        assert!(datagram.verify_checksum(SOURCE, DESTINATION));
    }

    #[test]
    fn refuses_a_length_shorter_than_the_header() {
        let mut bytes = DATAGRAM;
        bytes[5] = 7;
        let error = Datagram::new_checked(bytes).unwrap_err();
        let (field, max) = ("length", 65535);
        assert_eq!(error, Error::Range { format: FORMAT, field, min: 8, max, got: 7 });
    }

    #[test]
    fn refuses_a_length_past_the_buffer() {
        let mut bytes = DATAGRAM;
        bytes[5] = 12;
        let error = Datagram::new_checked(bytes).unwrap_err();
        assert_eq!(error, Error::Truncated { format: FORMAT, expected: 12, got: 11 });
    }

    #[test]
    fn refuses_a_header_cut_short() {
        let error = Datagram::new_checked(&DATAGRAM[..7]).unwrap_err();
        assert_eq!(error, Error::Truncated { format: FORMAT, expected: 8, got: 7 });
    }

    proptest! {
        #[test]
        fn parse_after_emit_gives_back_the_values(
            source_port: u16, destination_port: u16, seed: u64, payload_len in 0u16..300,
            addresses: (u32, u32),
        ) {
            let repr = Repr { source_port, destination_port, payload_len };
            let mut datagram = Datagram::new_unchecked(noise::bytes(seed, 308));
            repr.emit(&mut datagram);
            let (source, destination) = (addresses.0.into(), addresses.1.into());
            datagram.fill_checksum(source, destination);
            let datagram = Datagram::new_checked(datagram.into_inner()).unwrap();
            prop_assert!(datagram.checksum().is_some());
            prop_assert!(datagram.verify_checksum(source, destination));
            prop_assert_eq!(Repr::parse(&datagram), repr);
        }
    }
}
