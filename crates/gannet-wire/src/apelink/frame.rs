//! A frame: what a line in software carries at once. Credit and packets, whole.
//!
//! ```text
//!  bytes  0-63   head
//!  bytes 64-     packets, each as it lies in memory: see [`packet`](super::packet)
//!
//!  head, little-endian
//!   0    4   magic: "GTL" and the version
//!   4    1   flags: bit 0, resend; bit 1, asks; the others are 0
//!   5    1   virtual channels of the link
//!   6    2   packets in the frame
//!   8    4   session of the sender, not 0
//!  12    4   echo: session of the other end that this frame answers, 0 for none
//!  16    4   next: sequence number of the packet that is expected next
//!  20    2   diagnostics for the fault monitor
//!  22    2   0
//!  24   16   free words of the data FIFO, by virtual channel, 4 bytes each
//!  40   16   free places of the header FIFO, by virtual channel, 4 bytes each
//!  56    4   longest frame that the sender takes, bytes
//!  60    4   CRC-32C of the 60 bytes before
//! ```
//!
//! The head says what a [credit word](super::Credit) says, in numbers that do not end at 16 KiB a
//! channel: how much room there is after the packets before `next`, instead of how much is used. A
//! frame has a length, so that its packets need no START and no escapes.
//!
//! Source: ours.

use core::fmt;

use gannet_checksum::Crc32c;

use super::{Packet, VIRTUAL_CHANNELS, WORD_LEN};
use crate::error::{Error, Result};
use crate::layout::{array, put};
use crate::record::{Record, check_value};

/// The version of the layout.
pub const VERSION: u8 = 3;
/// Bytes of the head of a frame.
pub const HEAD_LEN: usize = Head::LEN;

const MAGIC: u32 = u32::from_be_bytes(*b"\0GTL");
const RESEND: u8 = 1;
const ASKS: u8 = 2;
/// Bytes that the check sum covers.
const SUMMED: usize = HEAD_LEN - size_of::<u32>();

/// Free places of the FIFOs of a virtual channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Room {
    /// Words of the data FIFO.
    pub words: u32,
    /// Headers of the header FIFO.
    pub headers: u32,
}

/// The head of a frame as plain values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Head {
    /// Packets from `next` on have to be sent again.
    pub resend: bool,
    /// The sender has heard nothing for a while: the other end is to answer at once.
    pub asks: bool,
    /// Virtual channels of the link.
    pub virtual_channels: u8,
    /// Packets in the frame.
    pub packets: u16,
    /// Session of the sender, not 0.
    pub session: u32,
    /// Session of the other end as the sender knows it, 0 if it does not.
    pub echo: u32,
    /// Sequence number that is expected next.
    pub next: u32,
    /// Bits for the fault monitor.
    pub diagnostics: u16,
    /// What is free, by virtual channel.
    pub room: [Room; VIRTUAL_CHANNELS],
    /// Longest frame that the sender takes, bytes.
    pub frame_bytes: u32,
}

impl Record for Head {
    const FORMAT: &'static str = "APElink frame";
    const LEN: usize = 64;

    #[inline]
    fn check(bytes: &[u8]) -> Result<()> {
        let start = u32::from_be_bytes(array(bytes, 0));
        check_value(Self::FORMAT, "magic", MAGIC.into(), (start >> 8).into())?;
        check_value(Self::FORMAT, "version", VERSION.into(), (start & 0xff).into())?;
        let sum = Crc32c::of(&bytes[..SUMMED]).0;
        let got = u32::from_le_bytes(array(bytes, SUMMED));
        check_value(Self::FORMAT, "crc", sum.into(), got.into())?;
        check_value(Self::FORMAT, "flags", 0, (bytes[4] & !(RESEND | ASKS)).into())?;
        check_value(Self::FORMAT, "reserved", 0, u16::from_le_bytes(array(bytes, 22)).into())
    }

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        let u32_at = |at| u32::from_le_bytes(array(bytes, at));
        let u16_at = |at| u16::from_le_bytes(array(bytes, at));
        Self {
            resend: bytes[4] & RESEND != 0,
            asks: bytes[4] & ASKS != 0,
            virtual_channels: bytes[5],
            packets: u16_at(6),
            session: u32_at(8),
            echo: u32_at(12),
            next: u32_at(16),
            diagnostics: u16_at(20),
            room: core::array::from_fn(|vc| Room {
                words: u32_at(24 + 4 * vc),
                headers: u32_at(40 + 4 * vc),
            }),
            frame_bytes: u32_at(56),
        }
    }

    #[inline]
    fn emit(&self, bytes: &mut [u8]) {
        let magic = (MAGIC << 8 | u32::from(VERSION)).swap_bytes();
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        let flags = flag(self.resend, RESEND) | flag(self.asks, ASKS);
        let (channels, packets) = (u32::from(self.virtual_channels), u32::from(self.packets));
        let [first, second, third, fourth] = self.room;
        // Written in the pieces in which the sum reads, so that it need not wait for them.
        let words = [
            [magic, u32::from(flags) | channels << 8 | packets << 16],
            [self.session, self.echo],
            [self.next, self.diagnostics.into()],
            [first.words, second.words],
            [third.words, fourth.words],
            [first.headers, second.headers],
            [third.headers, fourth.headers],
        ];
        for (at, [low, high]) in words.into_iter().enumerate() {
            put(bytes, 8 * at, (u64::from(low) | u64::from(high) << 32).to_le_bytes());
        }
        put(bytes, 56, self.frame_bytes.to_le_bytes());
        let sum = Crc32c::of(&bytes[..SUMMED]).0;
        put(bytes, SUMMED, sum.to_le_bytes());
    }
}

/// Prints one field a line, with its unit.
impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Self::FORMAT)?;
        write!(f, "\n  {:<22} {}", "packets", self.packets)?;
        for (vc, Room { words, headers }) in self.room.iter().enumerate() {
            write!(f, "\n  room {vc:<17} {words} words, {headers} headers")?;
        }
        write!(f, "\n  {:<22} {:#06x}", "diagnostics", self.diagnostics)?;
        write!(f, "\n  {:<22} {}", "next", self.next)?;
        write!(f, "\n  {:<22} {:#010x}", "session", self.session)?;
        write!(f, "\n  {:<22} {:#010x}", "echo", self.echo)?;
        write!(f, "\n  {:<22} {}", "resend", self.resend)?;
        write!(f, "\n  {:<22} {}", "asks", self.asks)?;
        write!(f, "\n  {:<22} {}", "virtual channels", self.virtual_channels)?;
        write!(f, "\n  {:<22} {} bytes", "longest frame", self.frame_bytes)
    }
}

/// View of a whole frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    head: Head,
    packets: &'a [u8],
}

impl<'a> Frame<'a> {
    /// View of the frame that `bytes` are.
    ///
    /// # Errors
    ///
    /// When the head is none, or when the bytes are not those of the packets that it names.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self> {
        let head = Head::parse(bytes)?;
        let frame = Self { head, packets: &bytes[HEAD_LEN..] };
        let len = frame
            .packets()
            .try_fold(0, |len, packet| Ok::<_, Error>(len + packet?.packet_len()))?;
        match frame.packets.len() - len {
            0 => Ok(frame),
            got => Err(Error::Remainder { format: Head::FORMAT, unit: WORD_LEN, got }),
        }
    }

    /// The head.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The packets in the order of their sending.
    ///
    /// # Errors
    ///
    /// Of each as [`Packet::new_checked`]; there is none behind one that fails.
    pub fn packets(&self) -> impl Iterator<Item = Result<Packet<&'a [u8]>>> + use<'a> {
        let mut rest = Some(self.packets);
        (0..self.head.packets).map_while(move |_| {
            let packet = Packet::new_checked(rest.take()?);
            if let Ok(packet) = &packet {
                rest = Some(packet.behind());
            }
            Some(packet)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Footer, Header, packet};
    use super::*;
    use proptest::prelude::*;

    fn bytes(head: &Head) -> [u8; HEAD_LEN] {
        let mut bytes = [0xa5; HEAD_LEN];
        head.emit(&mut bytes);
        bytes
    }

    #[test]
    fn each_field_lies_where_the_table_says() {
        let set = |set: fn(&mut Head)| {
            let mut head = Head::default();
            set(&mut head);
            let (with, without) = (bytes(&head), bytes(&Head::default()));
            let changed = (0..SUMMED).filter(|&at| with[at] != without[at]);
            changed.collect::<Vec<_>>()
        };
        assert_eq!(set(|head| head.resend = true), [4]);
        assert_eq!(set(|head| head.asks = true), [4]);
        assert_eq!(set(|head| head.virtual_channels = 255), [5]);
        assert_eq!(set(|head| head.packets = u16::MAX), [6, 7]);
        assert_eq!(set(|head| head.session = u32::MAX), [8, 9, 10, 11]);
        assert_eq!(set(|head| head.echo = u32::MAX), [12, 13, 14, 15]);
        assert_eq!(set(|head| head.next = u32::MAX), [16, 17, 18, 19]);
        assert_eq!(set(|head| head.diagnostics = u16::MAX), [20, 21]);
        assert_eq!(set(|head| head.room[0].words = u32::MAX), [24, 25, 26, 27]);
        assert_eq!(set(|head| head.room[3].headers = u32::MAX), [52, 53, 54, 55]);
        assert_eq!(set(|head| head.frame_bytes = u32::MAX), [56, 57, 58, 59]);
        assert_eq!(bytes(&Head::default())[..4], *b"GTL\x03");
    }

    #[test]
    fn another_version_is_refused_by_name_before_its_sum() {
        let mut other = bytes(&Head::default());
        other[3] = 1;
        let refused = Head::parse(&other).unwrap_err();
        assert!(matches!(refused, Error::Value { field: "version", expected: 3, got: 1, .. }));
        assert!(matches!(Head::parse(&[0; 64]), Err(Error::Value { field: "magic", .. })));
        assert!(matches!(Head::parse(&other[1..]), Err(Error::Truncated { .. })));
    }

    #[test]
    fn a_wrong_bit_anywhere_is_found() {
        let good = bytes(&Head { session: 7, next: 9, ..Head::default() });
        for bit in 0..8 * HEAD_LEN {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Head::parse(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_frame_has_the_packets_that_it_names_and_nothing_else() {
        let mut bytes = bytes(&Head { packets: 2, ..Head::default() }).to_vec();
        for payload in [&[1; 20][..], &[]] {
            let mut packet = [0; 100];
            let (header, footer) = (Header::default(), Footer::default());
            let len = packet::emit(&header, payload, footer, &mut packet);
            bytes.extend(&packet[..len]);
        }
        let frame = Frame::new_checked(&bytes).unwrap();
        let lengths = frame.packets().map(|packet| packet.unwrap().payload().len());
        assert_eq!(lengths.collect::<Vec<_>>(), [20, 0]);
        assert!(matches!(Frame::new_checked(&bytes[..100]), Err(Error::Truncated { .. })));
        bytes.push(0);
        assert!(matches!(Frame::new_checked(&bytes), Err(Error::Remainder { got: 1, .. })));
    }

    proptest! {
        #[test]
        fn parse_after_emit_gives_back_any_head(
            flags: (bool, bool), counts: (u8, u16), sessions: (u32, u32), next: u32, diagnostics: u16,
            words: [u32; 4], headers: [u32; 4], frame_bytes: u32,
        ) {
            let ((resend, asks), (virtual_channels, packets)) = (flags, counts);
            let (session, echo) = sessions;
            let room = core::array::from_fn(|vc| Room { words: words[vc], headers: headers[vc] });
            let head = Head {
                resend, asks, virtual_channels, packets, session, echo, next, diagnostics, room,
                frame_bytes,
            };
            prop_assert_eq!(Head::parse(&bytes(&head)).unwrap(), head);
        }
    }
}
