//! MEP (Multi Event Packet): what a readout board sends to the PC farm, events of consecutive
//! triggers one after the other.
//!
//! ```text
//! word 0   31                     24 23                                       0
//!         +-------------------------+------------------------------------------+
//!         |        source id        |     number of the first event            |
//! word 1  +-------------------------+------------+-----------------------------+
//!         |         sub-id          |   events   |   length in bytes           |
//!         +-------------------------+------------+-----------------------------+
//! each event:
//! word 0  |          flags          | event, low |   length in bytes           |
//! word 1  |                          time stamp (ticks)                        |
//!         +--------------------------------------------------------------------+
//!         |  payload: words of a TDC board, or those of the level-0 processor  |
//! ```
//!
//! Little-endian words of 32 bits; lengths count their own headers. The low byte of the number of an
//! event counts up by one. Bit 7 of its flags marks the last event of a burst.
//!
//! Source: NA62/na62-farm-lib, `l0/MEP.h` and `l0/MEPFragment.h`.

pub mod l0;
pub mod tdc;

use core::fmt;

use crate::error::{Error, Result};
use crate::layout::{check_len, word_format};
use crate::record::check_value;

/// Bytes of the header of a packet.
pub const HEADER_LEN: usize = HeaderRepr::LEN;
/// Bytes of the header of an event.
pub const FRAGMENT_HEADER_LEN: usize = FragmentRepr::LEN;
/// Flag of the last event of a burst.
pub const LAST_EVENT_OF_BURST: u8 = 1 << 7;

const FORMAT: &str = "MEP packet";
const FRAGMENT: &str = "MEP fragment";

word_format! {
    /// View of the header of a packet.
    view Header;
    /// The header of a packet as plain values.
    repr HeaderRepr;
    format "MEP packet", 1 words;

    /// Number of the first event, 24 bits.
    first_event, set_first_event: u32 = word 0, bits 0..=23;
    /// Number of the [`Source`](super::Source).
    source, set_source: u8 = word 0, bits 24..=31;
    /// Header and all events.
    length, set_length: u16 = word 0, bits 32..=47, "bytes";
    /// Events in the packet.
    events, set_events: u8 = word 0, bits 48..=55;
    /// Board of the source.
    sub_id, set_sub_id: u8 = word 0, bits 56..=63;
}

word_format! {
    /// View of the header of an event.
    view FragmentHeader;
    /// The header of an event as plain values.
    repr FragmentRepr;
    format "MEP fragment", 1 words;

    /// Header and payload.
    length, set_length: u16 = word 0, bits 0..=15, "bytes";
    /// Low byte of the number of the event.
    event_low, set_event_low: u8 = word 0, bits 16..=23;
    /// [`LAST_EVENT_OF_BURST`], and bits of the source.
    flags, set_flags: u8 = word 0, bits 24..=31;
    /// Time of the event since the start of the burst.
    timestamp, set_timestamp: u32 = word 0, bits 32..=63, "ticks of 24.95 ns";
}

/// What a board has of one event.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    bytes: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// The fragment at the begin of `bytes`, and what follows it.
    fn new_checked(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let length = usize::from(FragmentHeader::new_checked(bytes)?.length());
        if length < FRAGMENT_HEADER_LEN {
            let (min, max, got) = (FRAGMENT_HEADER_LEN as u64, u16::MAX.into(), length as u64);
            return Err(Error::Range { format: FRAGMENT, field: "length", min, max, got });
        }
        check_len(FRAGMENT, bytes, length)?;
        let (bytes, rest) = bytes.split_at(length);
        Ok((Self { bytes }, rest))
    }

    /// Length, number, flags and time.
    pub fn header(&self) -> FragmentRepr {
        FragmentRepr::parse(&FragmentHeader::new_unchecked(self.bytes))
    }

    /// What the board says of the event.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[FRAGMENT_HEADER_LEN..]
    }
}

/// Prints number, time and length.
impl fmt::Display for Fragment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FragmentRepr { event_low, flags, timestamp, .. } = self.header();
        write!(f, "event ..{event_low:02x} at {timestamp} ticks, {} bytes", self.payload().len())?;
        if flags & LAST_EVENT_OF_BURST != 0 { f.write_str(", last of the burst") } else { Ok(()) }
    }
}

/// View of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// View of a datagram, all of whose events are tested, but not their payloads.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Range`] where an event does not fit, [`Error::Value`] where
    /// length or number of events is not that of the datagram, or an event has not the number
    /// that follows.
    pub fn new_checked(datagram: &'a [u8]) -> Result<Self> {
        check_len(FORMAT, datagram, HEADER_LEN)?;
        let packet = Self { bytes: datagram };
        let header = packet.header();
        check_value(FORMAT, "length", datagram.len() as u64, header.length.into())?;
        let mut rest = &datagram[HEADER_LEN..];
        for index in 0..header.events {
            let fragment;
            (fragment, rest) = Fragment::new_checked(rest)?;
            let expected = (header.first_event as u8).wrapping_add(index);
            check_value(FRAGMENT, "event", expected.into(), fragment.header().event_low.into())?;
        }
        check_value(FORMAT, "bytes left", 0, rest.len() as u64)?;
        Ok(packet)
    }

    /// The header.
    pub fn header(&self) -> HeaderRepr {
        HeaderRepr::parse(&Header::new_unchecked(self.bytes))
    }

    /// The events, each with its whole number.
    pub fn fragments(&self) -> impl Iterator<Item = (u32, Fragment<'a>)> + use<'a> {
        let mut rest = &self.bytes[HEADER_LEN..];
        let fragments = core::iter::from_fn(move || {
            let (fragment, behind) = Fragment::new_checked(rest).ok()?;
            rest = behind;
            Some(fragment)
        });
        (self.header().first_event..).zip(fragments)
    }
}

/// Appends a packet to a vector, event by event.
#[derive(Debug)]
pub struct Writer<'a> {
    header: HeaderRepr,
    out: &'a mut Vec<u8>,
    at: usize,
}

impl<'a> Writer<'a> {
    /// Begins a packet at the end of `out`; of `header` length and number of events are counted here.
    pub fn new(header: HeaderRepr, out: &'a mut Vec<u8>) -> Self {
        let at = out.len();
        out.resize(at + HEADER_LEN, 0);
        Self { header: HeaderRepr { events: 0, ..header }, out, at }
    }

    /// Appends the next event; false when there is no place for it.
    pub fn fragment(&mut self, timestamp: u32, flags: u8, payload: &[u8]) -> bool {
        let length = FRAGMENT_HEADER_LEN + payload.len();
        let Some(events) = self.header.events.checked_add(1) else { return false };
        if self.out.len() - self.at + length > u16::MAX.into() {
            return false;
        }
        let event_low = (self.header.first_event as u8).wrapping_add(self.header.events);
        let header = FragmentRepr { length: length as u16, event_low, flags, timestamp };
        let at = self.out.len();
        self.out.resize(at + FRAGMENT_HEADER_LEN, 0);
        header.emit(&mut FragmentHeader::new_unchecked(&mut self.out[at..]));
        self.out.extend_from_slice(payload);
        self.header.events = events;
        true
    }

    /// Writes the header.
    pub fn finish(self) {
        let length = (self.out.len() - self.at) as u16;
        let header = HeaderRepr { length, ..self.header };
        header.emit(&mut Header::new_unchecked(&mut self.out[self.at..]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: HeaderRepr =
        HeaderRepr { first_event: 0x0001_02ff, source: 0x1c, length: 0, events: 0, sub_id: 3 };

    fn packet() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(HEADER, &mut bytes);
        assert!(writer.fragment(0x1234_5678, 0, &[9; 4]));
        assert!(writer.fragment(0x1234_5679, LAST_EVENT_OF_BURST, &[]));
        writer.finish();
        bytes
    }

    fn error_with(at: usize, value: u8) -> Error {
        let mut bytes = packet();
        bytes[at] = value;
        Packet::new_checked(&bytes).unwrap_err()
    }

    #[test]
    fn stored_form() {
        let expected = [
            0xff, 0x02, 0x01, 0x1c, 28, 0, 2, 3, //
            12, 0, 0xff, 0, 0x78, 0x56, 0x34, 0x12, 9, 9, 9, 9, //
            8, 0, 0x00, 0x80, 0x79, 0x56, 0x34, 0x12,
        ];
        assert_eq!(packet(), expected);
        let packet = Packet::new_checked(&expected).unwrap();
        let events: Vec<_> =
            packet.fragments().map(|(event, f)| (event, f.payload().len())).collect();
        assert_eq!(events, [(0x0001_02ff, 4), (0x0001_0300, 0)]);
        let last = packet.fragments().last().unwrap().1.to_string();
        assert_eq!(last, "event ..00 at 305419897 ticks, 0 bytes, last of the burst");
    }

    #[test]
    fn malformed_lengths() {
        let value = |field, expected, got| Error::Value { format: FORMAT, field, expected, got };
        assert_eq!(error_with(4, 27), value("length", 28, 27));
        assert_eq!(error_with(6, 1), value("bytes left", 0, 8));
        assert!(matches!(error_with(6, 3), Error::Truncated { got: 0, .. }));
        assert!(matches!(error_with(8, 7), Error::Range { field: "length", got: 7, .. }));
        assert!(matches!(error_with(20, 9), Error::Truncated { expected: 9, got: 8, .. }));
    }

    #[test]
    fn malformed_number() {
        let error = Error::Value { format: FRAGMENT, field: "event", expected: 0, got: 5 };
        assert_eq!(error_with(22, 5), error);
    }

    proptest! {
        #[test]
        fn every_packet_comes_back(
            (first, source, sub_id) in (0..1_u32 << 24, any::<u8>(), any::<u8>()),
            events in prop::collection::vec((any::<u32>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..90)), 0..40),
        ) {
            let header = HeaderRepr { first_event: first, source, sub_id, ..HEADER };
            let mut bytes = Vec::new();
            let mut writer = Writer::new(header, &mut bytes);
            for (timestamp, flags, payload) in &events {
                prop_assert!(writer.fragment(*timestamp, *flags, payload));
            }
            writer.finish();
            let packet = Packet::new_checked(&bytes).unwrap();
            let read: Vec<_> = packet.fragments().map(|(_, fragment)| {
                let FragmentRepr { timestamp, flags, .. } = fragment.header();
                (timestamp, flags, fragment.payload().to_vec())
            }).collect();
            prop_assert_eq!(read, events);
        }
    }
}
