//! Ethernet II frame header, with at most one 802.1Q tag.
//!
//! ```text
//! byte 0               6               12          14
//!     +---------------+---------------+-----------+----------------
//!     |  destination  |    source     | ethertype | payload ...
//!     +---------------+---------------+-----------+----------------
//!
//! tagged:                              12       14       16          18
//!                                     +--------+--------+-----------+--------
//!                                     | 0x8100 |  TCI   | ethertype | payload
//!                                     +--------+--------+-----------+--------
//! TCI (tag control information): priority 15-13, drop eligible 12, VLAN identifier 11-0
//! ```
//!
//! Big-endian. Preamble and frame check sequence are not part of the bytes that software sees.
//!
//! Source: IEEE 802.3-2022 clause 3, IEEE 802.1Q-2022 clause 9.

use core::fmt;

use crate::Result;
use crate::layout::{array, check_len, put};

/// Bytes of the header without a tag.
pub const HEADER_LEN: usize = field::ETHERTYPE + 2;
/// Bytes of an 802.1Q tag.
pub const TAG_LEN: usize = 4;

/// Ethertype of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// Ethertype that announces an 802.1Q tag.
pub const ETHERTYPE_TAG: u16 = 0x8100;

mod field {
    pub const DESTINATION: usize = 0;
    pub const SOURCE: usize = 6;
    pub const ETHERTYPE: usize = 12;
    pub const TCI: usize = 14;
}

/// Hardware address of an Ethernet interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub [u8; 6]);

/// Prints six hexadecimal bytes, for example `02:00:00:00:00:01`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// View of an Ethernet frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// View without a length test: accessors panic when the buffer is too short.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// View of a frame whose header, tag included, lies in `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) when it does not.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self> {
        check_len("Ethernet frame", buffer.as_ref(), HEADER_LEN)?;
        let frame = Self { buffer };
        check_len("Ethernet frame", frame.buffer.as_ref(), frame.header_len())?;
        Ok(frame)
    }

    /// The buffer under the view.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes(array(self.buffer.as_ref(), at))
    }

    fn is_tagged(&self) -> bool {
        self.u16_at(field::ETHERTYPE) == ETHERTYPE_TAG
    }

    /// Address of the receiver.
    pub fn destination(&self) -> Address {
        Address(array(self.buffer.as_ref(), field::DESTINATION))
    }

    /// Address of the sender.
    pub fn source(&self) -> Address {
        Address(array(self.buffer.as_ref(), field::SOURCE))
    }

    /// Tag control information of the 802.1Q tag, if there is one.
    pub fn tci(&self) -> Option<u16> {
        self.is_tagged().then(|| self.u16_at(field::TCI))
    }

    /// Bytes before the payload: 14, or 18 with a tag.
    #[inline]
    pub fn header_len(&self) -> usize {
        if self.is_tagged() { HEADER_LEN + TAG_LEN } else { HEADER_LEN }
    }

    /// What the payload is. A second tag is not skipped: it shows here as [`ETHERTYPE_TAG`].
    #[inline]
    pub fn ethertype(&self) -> u16 {
        self.u16_at(self.header_len() - 2)
    }

    /// Everything after the header; short payloads are padded to 46 bytes by the sender.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[self.header_len()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// Sets the address of the receiver.
    pub fn set_destination(&mut self, address: Address) {
        put(self.buffer.as_mut(), field::DESTINATION, address.0);
    }

    /// Sets the address of the sender.
    pub fn set_source(&mut self, address: Address) {
        put(self.buffer.as_mut(), field::SOURCE, address.0);
    }

    /// Everything after the header, for writing.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let start = self.header_len();
        &mut self.buffer.as_mut()[start..]
    }
}

/// An Ethernet header as plain values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Address of the receiver.
    pub destination: Address,
    /// Address of the sender.
    pub source: Address,
    /// Tag control information of the 802.1Q tag, if there is one.
    pub tci: Option<u16>,
    /// What the payload is.
    pub ethertype: u16,
}

impl Repr {
    /// The fields of a header.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Self {
        Self {
            destination: frame.destination(),
            source: frame.source(),
            tci: frame.tci(),
            ethertype: frame.ethertype(),
        }
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        if self.tci.is_some() { HEADER_LEN + TAG_LEN } else { HEADER_LEN }
    }

    /// Writes the header.
    ///
    /// # Panics
    /// When the buffer is shorter than `buffer_len`.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, frame: &mut Frame<T>) {
        frame.set_destination(self.destination);
        frame.set_source(self.source);
        let bytes = frame.buffer.as_mut();
        if let Some(tci) = self.tci {
            put(bytes, field::ETHERTYPE, ETHERTYPE_TAG.to_be_bytes());
            put(bytes, field::TCI, tci.to_be_bytes());
        }
        put(bytes, self.buffer_len() - 2, self.ethertype.to_be_bytes());
    }
}

/// Prints one field a line.
impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Ethernet frame")?;
        writeln!(f, "  {:<22} {}", "destination", self.destination)?;
        writeln!(f, "  {:<22} {}", "source", self.source)?;
        if let Some(tci) = self.tci {
            writeln!(f, "  {:<22} {} (priority {})", "vlan", tci & 0xfff, tci >> 13)?;
        }
        write!(f, "  {:<22} {:#06x}", "ethertype", self.ethertype)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Frame<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use proptest::prelude::*;

    const PLAIN: [u8; 16] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0xaa, 0xbb];
    const TAGGED: [u8; 20] =
        [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0x00, 0x60, 0x2a, 0x08, 0x00, 0xaa, 0xbb];

    #[test]
    fn reads_a_plain_header() {
        let frame = Frame::new_checked(PLAIN).unwrap();
        assert_eq!(frame.destination().to_string(), "02:00:00:00:00:01");
        assert_eq!(frame.source(), Address([2, 0, 0, 0, 0, 2]));
        assert_eq!(frame.tci(), None);
        assert_eq!(frame.ethertype(), ETHERTYPE_IPV4);
        assert_eq!(frame.payload(), [0xaa, 0xbb]);
    }

    #[test]
    fn skips_one_tag() {
        let frame = Frame::new_checked(TAGGED).unwrap();
        assert_eq!(frame.tci(), Some(0x602a));
        assert_eq!(frame.ethertype(), ETHERTYPE_IPV4);
        assert_eq!(frame.payload(), [0xaa, 0xbb]);
        assert!(frame.to_string().contains("vlan                   42 (priority 3)"));
    }

    #[test]
    fn a_second_tag_is_shown_not_skipped() {
        let mut bytes = TAGGED;
        bytes[16..18].copy_from_slice(&[0x81, 0x00]);
        assert_eq!(Frame::new_checked(bytes).unwrap().ethertype(), ETHERTYPE_TAG);
    }

    #[test]
    fn refuses_a_header_cut_short() {
        let error = Frame::new_checked(&PLAIN[..13]).unwrap_err();
        assert_eq!(error, Error::Truncated { format: "Ethernet frame", expected: 14, got: 13 });
    }

    #[test]
    fn refuses_a_tag_cut_short() {
        let error = Frame::new_checked(&TAGGED[..17]).unwrap_err();
        assert_eq!(error, Error::Truncated { format: "Ethernet frame", expected: 18, got: 17 });
    }

    proptest! {
        #[test]
        fn emit_after_parse_gives_back_any_header(bytes: [u8; 18], tagged: bool) {
            let mut bytes = bytes;
            if tagged {
                bytes[12..14].copy_from_slice(&ETHERTYPE_TAG.to_be_bytes());
            }
            let frame = Frame::new_checked(bytes).unwrap();
            let repr = Repr::parse(&frame);
            prop_assert_eq!(repr.buffer_len(), frame.header_len());
            let mut copy = Frame::new_unchecked([0; 18]);
            repr.emit(&mut copy);
            prop_assert_eq!(&copy.into_inner()[..repr.buffer_len()], &bytes[..repr.buffer_len()]);
        }
    }
}
