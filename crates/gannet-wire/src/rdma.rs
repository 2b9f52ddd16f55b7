//! End-to-end header of RDMA over the torus: the first 48 bytes of the payload of a link packet.
//!
//! ```text
//! word 0   63  60 59     56 55            36 35       16 15                8 7       0
//!         +------+---------+----------------+-----------+-------------------+---------+
//!         | ver. |operation|  destination   |  source   |acknowledged_epoch |  epoch  |
//!         |  4   |    4    |       20       |    20     |         8         |    8    |
//!         +------+---------+----------------+-----------+-------------------+---------+
//! word 1  |          acknowledged (32)      |             sequence (32)               |
//!         +---------------------------------+-----------------------------------------+
//! word 2  |            checksum (32)        |             selective (32)              |
//!         +---------------+-----------------+-----------------------------------------+
//! word 3  |  process (16) |                     base (48, bytes)                      |
//!         +---------------+-----------------+-----------------------------------------+
//! word 4  |        length (32, bytes)       |           offset (32, bytes)            |
//!         +---------------------------------+-----------------------------------------+
//! word 5  |            request (32)         |                tag (32)                 |
//!         +---------------------------------+-----------------------------------------+
//!         |  data: 0 to 65408 bytes of the message, those from `offset` on            |
//! ```
//!
//! Six little-endian 64-bit words, three words of an APElink. The published header of a link has
//! the destination and the address too, for routers and receivers in hardware; here they are said
//! again because only this copy is covered from end to end. A link packet carries at most 4096
//! bytes, which leaves [`DATA_LEN`] for data.
//!
//! * `sequence` counts the packets from one node to another, modulo 2^32, in each `epoch`. Epochs
//!   are 1 to 255, and 0 in `acknowledged_epoch` says that nothing has been received. Packets of
//!   [`Operation::Ack`] and [`Operation::Refused`] are not counted and carry the number that they are
//!   about, or 0.
//! * `acknowledged` is the next sequence number that the sender of the packet waits for, in the
//!   epoch `acknowledged_epoch` of the way back. Bit `i` of `selective` says that number
//!   `acknowledged + i` has arrived.
//! * `base`, `process` and `length` name the message in the memory of the node that the data goes
//!   to; of a [`Operation::Get`], the memory that is to be read.
//! * `checksum` is the CRC-32C (polynomial of Castagnoli, as in RFC 3720) of header and data but
//!   for its own four bytes.
//!
//! Source: ours. The published APElink header has no sequence number, no acknowledgement and no
//! check sum (APE-group/APEIRON, `apeiron_framework/include/apenet_packet.h`); selective
//! acknowledgement is as in RFC 2018.

use core::fmt;

use crate::apelink::WORD_LEN;
use crate::layout::{FieldValue, check_len, word_format};
use crate::numbered::numbered;
use crate::{Error, Result};
use gannet_checksum::Crc32c;

/// Bytes of the header.
pub const HEADER_LEN: usize = Repr::LEN;
/// Bytes of a packet that are summed sooner than their sum is found from another one.
const SHORT_LEN: usize = 512;
/// Most bytes of data after a header: those of a UDP datagram, and less than a page of 64 KiB.
pub const DATA_LEN_MAX: usize = 65_408;
/// Bytes of data that fit a link packet of 4096 bytes beside the header.
pub const DATA_LEN: usize = 4096 - HEADER_LEN;
/// The version of the layout.
pub const VERSION: u8 = 1;
/// Sequence numbers that `selective` speaks of.
pub const SELECTIVE: u32 = 32;

const FORMAT: &str = "RDMA packet";
/// Where the check sum lies, in bytes.
const CHECKSUM: core::ops::Range<usize> = 20..24;

numbered! {
    /// What a packet asks of its receiver.
    #[derive(Default)]
    pub enum Operation: u8 {
        /// Nothing but to read the acknowledgement.
        #[default]
        Ack = 0 => "ack",
        /// Write the data at `base + offset`.
        Put = 1 => "put",
        /// Send `length` bytes from `base` back.
        Get = 2 => "get",
        /// Write the data that `request` asked for, where it asked for them.
        Reply = 3 => "reply",
        /// The rest of what `request` asked for cannot be had; `tag` says why.
        ReplyRefused = 4 => "reply-refused",
        /// Nothing: fills the place of a packet that was given up.
        Skip = 5 => "skip",
        /// The packet with number `sequence` of the way back is refused; `tag` says why.
        Refused = 6 => "refused",
        /// Write the data at `base + offset`, and tell nobody of them.
        QuietPut = 7 => "quiet-put",
    }
}

impl FieldValue for Operation {
    fn from_bits(bits: u64) -> Self {
        Self::from_number(bits as u8)
    }
    fn to_bits(self) -> u64 {
        self.number().into()
    }
}

word_format! {
    /// View of an end-to-end header.
    view Header;
    /// An end-to-end header as plain values.
    repr Repr;
    format "RDMA header", 6 words;

    /// Counts how often the source began to count packets anew, 1 to 255.
    epoch, set_epoch: u8 = word 0, bits 0..=7;
    /// Epoch of the packets that are acknowledged; 0 if there are none.
    acknowledged_epoch, set_acknowledged_epoch: u8 = word 0, bits 8..=15;
    /// Node that sent the packet.
    source, set_source: u32 = word 0, bits 16..=35;
    /// Node that the packet is for.
    destination, set_destination: u32 = word 0, bits 36..=55;
    /// What is asked.
    operation, set_operation: Operation = word 0, bits 56..=59;
    /// Version of the layout, [`VERSION`].
    version, set_version: u8 = word 0, bits 60..=63;
    /// Number of the packet among those from source to destination.
    sequence, set_sequence: u32 = word 1, bits 0..=31;
    /// Number of the next packet that the source waits for.
    acknowledged, set_acknowledged: u32 = word 1, bits 32..=63;
    /// Which of the packets from `acknowledged` on have arrived.
    selective, set_selective: u32 = word 2, bits 0..=31, "one bit a packet";
    /// CRC-32C of header and data.
    checksum, set_checksum: u32 = word 2, bits 32..=63;
    /// Virtual address of the message.
    base, set_base: u64 = word 3, bits 0..=47, "bytes";
    /// Process whose address it is.
    process, set_process: u16 = word 3, bits 48..=63;
    /// Place of the data in the message.
    offset, set_offset: u32 = word 4, bits 0..=31, "bytes";
    /// Length of the message.
    length, set_length: u32 = word 4, bits 32..=63, "bytes";
    /// What the sender wants the receiver to know the message by, or the reason of a refusal.
    tag, set_tag: u32 = word 5, bits 0..=31;
    /// Number by which the source of a PUT or GET knows it.
    request, set_request: u32 = word 5, bits 32..=63;
}

/// View of a packet: header and data.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// View of the packet that fills `buffer`. The check sum is not tested: see
    /// [`Packet::verify_checksum`].
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Range`] when the length cannot be that of a packet,
    /// [`Error::Version`] and [`Error::Unknown`] when version or operation are not known, and
    /// [`Error::Range`] when data lie outside their message.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self> {
        let bytes = buffer.as_ref();
        check_len(FORMAT, bytes, HEADER_LEN)?;
        let (len, max) = (bytes.len() as u64, (HEADER_LEN + DATA_LEN_MAX) as u64);
        if len > max {
            let min = HEADER_LEN as u64;
            return Err(Error::Range { format: FORMAT, field: "length", min, max, got: len });
        }
        let packet = Self { buffer };
        packet.check_fields()?;
        Ok(packet)
    }

    fn check_fields(&self) -> Result<()> {
        let header = self.header();
        if header.version() != VERSION {
            let got = header.version().into();
            return Err(Error::Version { format: FORMAT, known: "1", got });
        }
        match header.operation() {
            Operation::Other(number) => {
                Err(Error::Unknown { format: FORMAT, field: "operation", got: number.into() })
            }
            Operation::Put | Operation::QuietPut | Operation::Reply => self.check_data(),
            _ => Ok(()),
        }
    }

    /// Refuses data that end after their message.
    fn check_data(&self) -> Result<()> {
        let header = self.header();
        let max = u64::from(header.length());
        let got = u64::from(header.offset()) + self.data().len() as u64;
        match got > max {
            true => Err(Error::Range { format: FORMAT, field: "end of data", min: 0, max, got }),
            false => Ok(()),
        }
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> Header<&[u8]> {
        Header::new_unchecked(&self.buffer.as_ref()[..HEADER_LEN])
    }

    /// The data after the header.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }

    /// Whether header and data are as they were sent.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        self.header().checksum() == checksum(self.buffer.as_ref())
    }

    /// The same where the sum of the packet is known, as [`Crc32c::of_padded`] gives it: without a look at the data of a long one.
    ///
    /// # Panics
    /// When the packet is longer than one of a link can be.
    #[inline]
    pub fn verify_by(&self, sum: Crc32c) -> bool {
        let packet = self.buffer.as_ref();
        if packet.len() <= SHORT_LEN { self.verify_checksum() } else { derived_sum(packet) == sum }
    }
}

/// Prints the header and the length of the data.
impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\ndata, {} bytes", self.header(), self.data().len())?;
        if !self.verify_checksum() {
            f.write_str("\n  the check sum is wrong")?;
        }
        Ok(())
    }
}

impl Repr {
    /// Writes the header in front of the data that `packet` already holds from [`HEADER_LEN`] on,
    /// with version and check sum, whatever the fields say of these.
    ///
    /// # Panics
    /// When `packet` is shorter than a header.
    pub fn seal(&self, packet: &mut [u8]) {
        self.seal_written(packet, |data, sum| sum.and(data));
    }

    /// The same for data that `write` writes, given the sum of what lies in front of them; it returns that sum continued over the data, which it can
    /// take piece by piece while they are in the cache.
    ///
    /// # Panics
    /// When `packet` is shorter than a header.
    pub fn seal_written(&self, packet: &mut [u8], write: impl FnOnce(&mut [u8], Crc32c) -> Crc32c) {
        let (header, data) = packet.split_at_mut(HEADER_LEN);
        Self { version: VERSION, checksum: 0, ..*self }
            .emit(&mut Header::new_unchecked(&mut *header));
        let sum = write(data, Crc32c::of(&header[..CHECKSUM.start]).and(&header[CHECKSUM.end..]));
        Header::new_unchecked(header).set_checksum(sum.0);
    }
}

/// CRC-32C of all of `packet` but the check sum itself.
fn checksum(packet: &[u8]) -> u32 {
    Crc32c::of(&packet[..CHECKSUM.start]).and(&packet[CHECKSUM.end..]).0
}

/// The sum of a sealed packet, as [`Crc32c::of_padded`] gives it: without a look at the data of a long one.
///
/// # Panics
/// When the packet is shorter than a header, or longer than one of a link can be.
#[inline]
pub fn sealed_sum(packet: &[u8]) -> Crc32c {
    if packet.len() <= SHORT_LEN { Crc32c::of_padded(packet) } else { derived_sum(packet) }
}

/// The padded sum that a packet has if its check sum is right, which it follows from.
fn derived_sum(packet: &[u8]) -> Crc32c {
    let (header, data) = packet.split_at(HEADER_LEN);
    let start = Crc32c::of(&header[..CHECKSUM.start]);
    let (with, without) =
        (start.and(&header[CHECKSUM.start..]), start.and(&header[CHECKSUM.end..]));
    // Both sums go on over the same data.
    let front = Crc32c(with.0 ^ without.0);
    let checksum = Crc32c(Header::new_unchecked(header).checksum()).padded(data.len());
    Crc32c(checksum.0 ^ front.behind(data.len().div_ceil(WORD_LEN)).0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apelink::FRAMED_LEN_MAX;
    use crate::noise;
    use proptest::prelude::*;

    fn repr() -> Repr {
        Repr {
            epoch: 0x12,
            acknowledged_epoch: 0x34,
            source: 0xabcde,
            destination: 0x54321,
            operation: Operation::Put,
            version: VERSION,
            sequence: 0x0102_0304,
            acknowledged: 0x0506_0708,
            selective: 0x8000_0001,
            checksum: 0,
            base: 0x1234_5678_9abc,
            process: 0xfedc,
            offset: 4,
            length: 9,
            tag: 0xcafe,
            request: 0xbeef,
        }
    }

    fn sealed(repr: &Repr, data: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; HEADER_LEN];
        packet.extend(data);
        repr.seal(&mut packet);
        packet
    }

    #[test]
    fn fields_lie_where_the_diagram_says() {
        let packet = sealed(&repr(), b"hello");
        let word =
            |index: usize| u64::from_le_bytes(packet[8 * index..8 * index + 8].try_into().unwrap());
        assert_eq!(word(0), 0x1154_321a_bcde_3412);
        assert_eq!(word(1), 0x0506_0708_0102_0304);
        assert_eq!(word(2) as u32, 0x8000_0001);
        assert_eq!(word(3), 0xfedc_1234_5678_9abc);
        assert_eq!(word(4), 0x0000_0009_0000_0004);
        assert_eq!(word(5), 0x0000_beef_0000_cafe);
        assert_eq!(CHECKSUM, 20..24);
    }

    #[test]
    fn the_check_sum_is_castagnoli_over_all_but_itself() {
        let packet = sealed(&repr(), b"hello");
        let mut rest = packet.clone();
        let stored: Vec<u8> = rest.drain(CHECKSUM).collect();
        assert_eq!(crc_fast::crc32_iscsi(&rest).to_le_bytes(), stored[..]);
        assert_eq!(crc_fast::crc32_iscsi(b"123456789"), 0xe306_9283);
        assert!(Packet::new_checked(&packet).unwrap().verify_checksum());
        for bit in 0..8 * packet.len() {
            let mut damaged = packet.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let intact = Packet::new_checked(&damaged).is_ok_and(|packet| packet.verify_checksum());
            assert!(!intact, "bit {bit}");
        }
    }

    #[test]
    fn what_is_no_packet_is_refused_by_name() {
        let packet = sealed(&repr(), b"hello");
        let error = |packet: &[u8]| Packet::new_checked(packet).unwrap_err();
        let truncated = Error::Truncated { format: FORMAT, expected: 48, got: 47 };
        assert_eq!(error(&packet[..47]), truncated);
        let long = vec![0; HEADER_LEN + DATA_LEN_MAX + 1];
        assert!(matches!(error(&long), Error::Range { field: "length", .. }));
        let mut wrong = packet.clone();
        wrong[7] = 0x21;
        assert_eq!(error(&wrong), Error::Version { format: FORMAT, known: "1", got: 2 });
        wrong[7] = 0x1f;
        let unknown = Error::Unknown { format: FORMAT, field: "operation", got: 15 };
        assert_eq!(error(&wrong), unknown);
        let outside = sealed(&repr(), b"hello!");
        assert!(matches!(error(&outside), Error::Range { field: "end of data", got: 10, .. }));
    }

    #[test]
    fn prints_header_and_data() {
        let mut packet = sealed(&repr(), b"hello");
        let text = Packet::new_checked(&packet).unwrap().to_string();
        assert!(text.contains("operation              put\n"), "{text}");
        assert!(text.ends_with("data, 5 bytes"), "{text}");
        packet[50] ^= 1;
        let text = Packet::new_checked(&packet).unwrap().to_string();
        assert!(text.ends_with("the check sum is wrong"), "{text}");
    }

    proptest! {
        #[test]
        fn emit_after_parse_gives_back_any_bytes(seed: u64) {
            let bytes = noise::bytes(seed, HEADER_LEN);
            let repr = Repr::parse(&Header::new_checked(&bytes).unwrap());
            let mut copy = Header::new_checked(vec![0xa5; HEADER_LEN]).unwrap();
            repr.emit(&mut copy);
            prop_assert_eq!(copy.into_inner(), bytes);
        }

        #[test]
        fn what_is_sealed_is_read_back(seed: u64, len in 0usize..=DATA_LEN_MAX) {
            let data = noise::bytes(seed, len);
            let repr = Repr { offset: seed as u32 >> 1, length: u32::MAX, ..repr() };
            let packet = sealed(&repr, &data);
            let packet = Packet::new_checked(&packet).unwrap();
            prop_assert!(packet.verify_checksum());
            prop_assert_eq!(packet.data(), data);
            let read = Repr::parse(&packet.header());
            prop_assert_eq!(read, Repr { checksum: read.checksum, ..repr });
        }

        #[test]
        fn the_sum_of_all_follows_from_the_check_sum(seed: u64, len in 0..=FRAMED_LEN_MAX - HEADER_LEN, bit: usize) {
            let mut packet = sealed(&repr(), &noise::bytes(seed, len));
            let sum = Crc32c::of_padded(&packet);
            prop_assert_eq!(derived_sum(&packet), sum);
            prop_assert_eq!(sealed_sum(&packet), sum);
            let is_intact = |packet: &[u8], sum| Packet { buffer: packet }.verify_by(sum);
            prop_assert!(is_intact(&packet, sum));
            let bit = bit % (8 * packet.len());
            packet[bit / 8] ^= 1 << (bit % 8);
            let sum = Crc32c::of_padded(&packet);
            prop_assert_ne!(derived_sum(&packet), sum);
            prop_assert!(!is_intact(&packet, sum));
        }
    }
}
