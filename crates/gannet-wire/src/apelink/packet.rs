//! A packet as it lies in memory: header, payload words, footer.
//!
//! ```text
//!  bytes 0-15   header
//!  bytes 16-    payload, padded with zeros to a whole number of words
//!  last 16      footer
//! ```
//!
//! A packet whose type says so is its header alone.
//!
//! Source: APE-group/APEIRON `apeiron_framework/include/apenet_packet.h`.

use core::fmt;

use super::{FRAMED_LEN_MAX, Footer, Header, WORD_LEN, Word};
use crate::error::Result;
use crate::layout::{array, check_len};
use crate::record::Record;
use gannet_checksum::Crc32c;

const FORMAT: &str = "APElink packet";

/// View of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    buffer: T,
    header: Header,
}

impl<'a> Packet<&'a [u8]> {
    /// The bytes behind the packet.
    pub(super) fn behind(&self) -> &'a [u8] {
        &self.buffer[packet_len(&self.header)..]
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// View of the packet at the front of `buffer`; a single wrong bit of the header is corrected.
    ///
    /// # Errors
    ///
    /// When the header cannot be corrected, when its size is above [`FRAMED_LEN_MAX`], or when the buffer
    /// ends before the packet.
    pub fn new_checked(buffer: T) -> Result<Self> {
        let header = Header::parse(buffer.as_ref())?;
        check_len(FORMAT, buffer.as_ref(), packet_len(&header))?;
        Ok(Self { buffer, header })
    }

    /// The header, corrected.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes of header, padded payload and footer.
    pub fn packet_len(&self) -> usize {
        packet_len(&self.header)
    }

    /// The payload without padding; empty if the packet is its header alone.
    pub fn payload(&self) -> &[u8] {
        let len = if self.header.is_header_only() { 0 } else { usize::from(self.header.size) };
        &self.buffer.as_ref()[WORD_LEN..WORD_LEN + len]
    }

    /// The footer, if the packet has one.
    pub fn footer(&self) -> Option<Footer> {
        let at = self.packet_len() - WORD_LEN;
        let word = || Word::from_le_bytes(array(self.buffer.as_ref(), at));
        (!self.header.is_header_only()).then(|| Footer::from_word(word()))
    }

    /// Whether the check sum is that of the packet; a packet without footer has none to be wrong.
    pub fn verify_crc(&self) -> bool {
        let Some(footer) = self.footer() else { return true };
        let padded = WORD_LEN * (1 + self.header.payload_words());
        let payload = Crc32c::of(&self.buffer.as_ref()[WORD_LEN..padded]);
        footer.seals(self.header.to_word(), payload)
    }
}

/// Prints header and footer, one field a line.
impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\npayload, {} bytes", self.header, self.payload().len())?;
        match self.footer() {
            Some(footer) => write!(f, "\n{footer}"),
            None => Ok(()),
        }
    }
}

/// Bytes of the packet that begins with `header`.
fn packet_len(header: &Header) -> usize {
    let footer = if header.is_header_only() { 0 } else { WORD_LEN };
    WORD_LEN + WORD_LEN * header.payload_words() + footer
}

/// Writes a packet to the front of `bytes` and gives the number of bytes written. The size in the
/// header and the sum in the footer become what they have to be.
///
/// # Panics
///
/// When the payload is longer than [`FRAMED_LEN_MAX`], when the header is of a type without
/// payload and there is one, or when `bytes` is too short.
pub fn emit(header: &Header, payload: &[u8], footer: Footer, bytes: &mut [u8]) -> usize {
    assert!(payload.len() <= FRAMED_LEN_MAX, "a payload has at most {FRAMED_LEN_MAX} bytes");
    assert!(payload.is_empty() || !header.is_header_only(), "this type has no payload");
    let header = Header { size: payload.len() as u16, ..*header };
    let len = packet_len(&header);
    header.emit(bytes);
    let place = &mut bytes[WORD_LEN..WORD_LEN * (1 + header.payload_words())];
    let sum = Crc32c::default().and_copied(payload, place);
    if !header.is_header_only() {
        footer.sealed(header.to_word(), sum).emit(&mut bytes[len - WORD_LEN..]);
    }
    len
}

#[cfg(test)]
mod tests {
    use super::super::HEADER_ONLY;
    use super::*;
    use crate::{Error, noise};
    use proptest::prelude::*;

    fn packet(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xa5; 3 * WORD_LEN + payload.len()];
        let footer = Footer { sequence: 7, source: 9, time: 11, crc: 0 };
        let len = emit(&Header::default(), payload, footer, &mut bytes);
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn a_packet_without_payload_has_a_footer_and_one_of_header_only_has_none() {
        assert_eq!(packet(&[]).len(), 32);
        let header = Header { packet_type: HEADER_ONLY, ..Header::default() };
        let mut bytes = [0; WORD_LEN];
        assert_eq!(emit(&header, &[], Footer::default(), &mut bytes), WORD_LEN);
        let packet = Packet::new_checked(bytes).unwrap();
        assert_eq!((packet.payload().len(), packet.footer()), (0, None));
        assert!(packet.verify_crc());
    }

    #[test]
    fn a_packet_cut_short_is_refused() {
        let bytes = packet(&[1; 20]);
        assert_eq!(
            Packet::new_checked(&bytes[..63]).unwrap_err(),
            Error::Truncated { format: "APElink packet", expected: 64, got: 63 }
        );
    }

    #[test]
    fn a_wrong_bit_is_corrected_in_the_header_and_found_elsewhere() {
        let good = packet(b"some payload of two words");
        for bit in 0..8 * good.len() {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let packet = Packet::new_checked(&bytes).unwrap();
            assert_eq!(packet.verify_crc(), bit < 128, "bit {bit}");
        }
    }

    #[test]
    fn prints_header_payload_and_footer() {
        let text = Packet::new_checked(packet(&[1; 3])).unwrap().to_string();
        assert!(text.contains("payload, 3 bytes\nAPElink footer\n"), "{text}");
        assert!(text.contains("sequence               7\n"), "{text}");
    }

    proptest! {
        #[test]
        fn parse_after_emit_gives_back_any_payload(seed: u64, len in 0..=FRAMED_LEN_MAX) {
            let payload = noise::bytes(seed, len);
            let bytes = packet(&payload);
            let packet = Packet::new_checked(&bytes).unwrap();
            prop_assert!(packet.payload() == payload && packet.verify_crc());
            prop_assert_eq!(packet.packet_len(), bytes.len());
        }
    }
}
