//! M2EGP (Multi Merged Event GPU Packet): events of the RICH, merged from its boards, as they lie
//! one after the other in a receive buffer.
//!
//! ```text
//! byte  0     1             5      6        8                      12  13  14      16
//!      +-----+-------------+------+--------+-----+-----+-----+-----+---+---+---+---+
//!      |fine | timestamp   | hits | 0xffff | hits of board 0 to 3  |mis| 0 | labels|
//!      +-----+-------------+------+--------+-----+-----+-----+-----+---+---+---+---+
//!   16 | hits: 16 bits each, those of board 0 first; zeros to a multiple of 16     |
//!      +---------------------------------------------------------------------------+
//! ```
//!
//! Words of 16 bytes, little-endian. A hit is the number of a channel, 512 a board; 0 is a channel
//! too, so the number of hits tells where the padding begins. An event has 16 (1 + ceil(hits / 8))
//! bytes. `mis` has a bit for each board whose data are missing, in events that we merged. Labels are
//! the truth about an event of an emulator or a test file; 0 in a live stream.
//!
//! Source: APE-group/APEIRON, `m2egp.h` and `krnl_sender.cpp`; the meaning of fine time is
//! inferred, as all samples there have 0.

use core::fmt;

use super::Time;
use super::pm_map::BOARDS;
use crate::error::Result;
use crate::layout::{array_ref, check_len, word_format};
use crate::record::check_value;

/// Bytes of a word.
pub const WORD_LEN: usize = 16;
/// Most hits of an event.
pub const HITS_MAX: usize = u8::MAX as usize;
/// Bytes of the longest event.
pub const EVENT_LEN_MAX: usize = event_len_of(HITS_MAX);
/// What separates time and number of hits from the counts of the boards.
pub const DELIMITER: u16 = 0xffff;

const FORMAT: &str = "M2EGP event";
const HIT_LEN: usize = 2;
const HITS_AT: usize = 5;

word_format! {
    /// View of the header of an event.
    view Header;
    /// The header of an event as plain values.
    repr HeaderRepr;
    format "M2EGP event", 2 words;

    /// Time within the tick.
    fine_time, set_fine_time: u8 = word 0, bits 0..=7, "/256 tick";
    /// Time since the start of the burst.
    timestamp, set_timestamp: u32 = word 0, bits 8..=39, "ticks of 24.95 ns";
    /// Hits of all boards.
    hits, set_hits: u8 = word 0, bits 40..=47;
    /// Always [`DELIMITER`].
    delimiter, set_delimiter: u16 = word 0, bits 48..=63;
    /// Hits of board 0.
    hits_board_0, set_hits_board_0: u8 = word 1, bits 0..=7;
    /// Hits of board 1.
    hits_board_1, set_hits_board_1: u8 = word 1, bits 8..=15;
    /// Hits of board 2.
    hits_board_2, set_hits_board_2: u8 = word 1, bits 16..=23;
    /// Hits of board 3.
    hits_board_3, set_hits_board_3: u8 = word 1, bits 24..=31;
    /// A bit for each board whose data are missing, in events that we merged; else 0.
    missing, set_missing: u8 = word 1, bits 32..=39;
    /// Always 0.
    reserved, set_reserved: u8 = word 1, bits 40..=47;
    /// First label: in truth of ours, the rings of the event.
    label_0, set_label_0: u8 = word 1, bits 48..=55;
    /// Second label.
    label_1, set_label_1: u8 = word 1, bits 56..=63;
}

impl HeaderRepr {
    /// The header of an event without labels.
    ///
    /// # Panics
    /// If the boards have more than [`HITS_MAX`] hits together.
    #[inline]
    pub fn new(time: Time, hits_by_board: [u8; BOARDS]) -> Self {
        let hits: usize = hits_by_board.iter().map(|&hits| usize::from(hits)).sum();
        let hits = u8::try_from(hits).expect("an event has at most 255 hits");
        let [hits_board_0, hits_board_1, hits_board_2, hits_board_3] = hits_by_board;
        Self {
            fine_time: time.fine(),
            timestamp: time.timestamp(),
            hits,
            delimiter: DELIMITER,
            hits_board_0,
            hits_board_1,
            hits_board_2,
            hits_board_3,
            ..Self::default()
        }
    }

    /// Time of the event.
    #[inline]
    pub const fn time(&self) -> Time {
        Time::new(self.timestamp, self.fine_time)
    }

    /// Hits of each board.
    pub const fn hits_by_board(&self) -> [u8; BOARDS] {
        [self.hits_board_0, self.hits_board_1, self.hits_board_2, self.hits_board_3]
    }

    /// Bytes of the event.
    pub const fn event_len(&self) -> usize {
        event_len_of(self.hits as usize)
    }
}

/// Bytes of an event of `hits` hits.
#[inline]
pub const fn event_len_of(hits: usize) -> usize {
    WORD_LEN * (1 + (HIT_LEN * hits).div_ceil(WORD_LEN))
}

/// Bytes of the event with this header, whatever else it says; at most [`EVENT_LEN_MAX`].
#[inline]
pub const fn event_len(header: &[u8; WORD_LEN]) -> usize {
    event_len_of(header[HITS_AT] as usize)
}

/// Writes an event: `header`, as many of `hits` as it says, and padding. Returns its bytes.
///
/// # Panics
/// If there are fewer hits than `header` says, or `bytes` is too short.
#[inline]
pub fn emit(header: &HeaderRepr, hits: impl IntoIterator<Item = u16>, bytes: &mut [u8]) -> usize {
    let event = &mut bytes[..header.event_len()];
    header.emit(&mut Header::new_unchecked(&mut *event));
    let (places, padding) = event[WORD_LEN..].split_at_mut(HIT_LEN * usize::from(header.hits));
    let mut hits = hits.into_iter();
    for place in places.as_chunks_mut().0 {
        *place = hits.next().expect("as many hits as the header says").to_le_bytes();
    }
    padding.fill(0);
    header.event_len()
}

/// As [`emit`], from the hits of each board as they lie in the event.
///
/// # Panics
/// If they are not as many as `header` says, or `bytes` is too short.
#[inline]
pub fn emit_bytes(header: &HeaderRepr, boards: [&[u8]; BOARDS], bytes: &mut [u8]) -> usize {
    let event = &mut bytes[..header.event_len()];
    header.emit(&mut Header::new_unchecked(&mut *event));
    let (mut places, padding) = event[WORD_LEN..].split_at_mut(HIT_LEN * usize::from(header.hits));
    for hits in boards {
        let (own, others) = places.split_at_mut(hits.len());
        own.copy_from_slice(hits);
        places = others;
    }
    assert!(places.is_empty(), "as many hits as the header says");
    padding.fill(0);
    header.event_len()
}

/// A whole event, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    bytes: &'a [u8],
}

impl<'a> Event<'a> {
    /// The event at the begin of `bytes`, and what follows it.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) when it does not end within `bytes`;
    /// [`Error::Value`](crate::Error::Value) when delimiter,
    /// reserved bytes or padding are not what they always are, or the hits of the boards are not
    /// those of the event.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        check_len(FORMAT, bytes, WORD_LEN)?;
        let len = event_len(array_ref(bytes, 0));
        check_len(FORMAT, bytes, len)?;
        let (bytes, rest) = bytes.split_at(len);
        let event = Self { bytes };
        let header = event.header();
        check_value(FORMAT, "delimiter", DELIMITER.into(), header.delimiter.into())?;
        check_value(FORMAT, "reserved", 0, header.reserved.into())?;
        let hits = header.hits_by_board().iter().map(|&hits| u64::from(hits)).sum();
        check_value(FORMAT, "hits of all boards", header.hits.into(), hits)?;
        let padding = &bytes[WORD_LEN + event.hit_bytes().len()..];
        let first = padding.iter().copied().find(|&byte| byte != 0);
        check_value(FORMAT, "padding", 0, first.unwrap_or(0).into())?;
        Ok((event, rest))
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> HeaderRepr {
        HeaderRepr::parse(&Header::new_unchecked(self.bytes))
    }

    /// Header, hits and padding as they lie.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Time of the event.
    #[inline]
    pub fn time(&self) -> Time {
        self.header().time()
    }

    /// The hits as they lie: 16 bits each, little-endian, without padding.
    #[inline]
    pub fn hit_bytes(&self) -> &'a [u8] {
        &self.bytes[WORD_LEN..][..HIT_LEN * usize::from(self.bytes[HITS_AT])]
    }

    /// The hits, each the number of a channel.
    #[inline]
    pub fn hits(&self) -> impl ExactSizeIterator<Item = u16> + Clone + use<'a> {
        hits_of(self.hit_bytes())
    }

    /// The hits of one board.
    ///
    /// # Panics
    /// If `board` is none of the four.
    pub fn hits_of_board(
        &self,
        board: usize,
    ) -> impl ExactSizeIterator<Item = u16> + Clone + use<'a> {
        let counts = self.header().hits_by_board().map(usize::from);
        let first: usize = counts[..board].iter().sum();
        hits_of(&self.hit_bytes()[HIT_LEN * first..][..HIT_LEN * counts[board]])
    }
}

/// The hits that fill `bytes`.
pub(super) fn hits_of(bytes: &[u8]) -> impl ExactSizeIterator<Item = u16> + Clone + use<'_> {
    bytes.as_chunks().0.iter().map(|&hit| u16::from_le_bytes(hit))
}

/// Prints hits behind a colon, or nothing if there are none.
pub(super) fn write_hits(
    f: &mut fmt::Formatter<'_>,
    hits: impl ExactSizeIterator<Item = u16>,
) -> fmt::Result {
    write!(f, ", {} hits", hits.len())?;
    for (index, hit) in hits.enumerate() {
        write!(f, "{}{hit}", if index == 0 { ": " } else { " " })?;
    }
    Ok(())
}

/// Prints time, labels where there are any, and the hits.
impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.header();
        write!(f, "event at {}", header.time())?;
        if (header.label_0, header.label_1) != (0, 0) {
            write!(f, ", labels {} {}", header.label_0, header.label_1)?;
        }
        let [a, b, c, d] = header.hits_by_board();
        write!(f, ", boards {a} {b} {c} {d}")?;
        write_hits(f, self.hits())
    }
}

/// Events that follow one another. An error is the last that comes: behind it no event is found.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    rest: &'a [u8],
}

impl<'a> Events<'a> {
    /// The events that fill `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<Event<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let event = Event::new_checked(self.rest);
        self.rest = event.map_or(&[], |(_, rest)| rest);
        Some(event.map(|(event, _)| event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use proptest::prelude::*;

    /// The example of the fact sheet: time 0x01020304.80, hits 5 and 510 of board 0, 1030 of board
    /// 2, 2047 of board 3.
    const EXAMPLE: [u8; 32] = [
        0x80, 0x04, 0x03, 0x02, 0x01, 0x04, 0xff, 0xff, 2, 0, 1, 1, 0, 0, 0, 0, //
        0x05, 0x00, 0xfe, 0x01, 0x06, 0x04, 0xff, 0x07, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    const HITS: [u16; 4] = [5, 510, 1030, 2047];

    fn violation(place: usize, value: u8) -> Error {
        let mut bytes = EXAMPLE;
        bytes[place] = value;
        Event::new_checked(&bytes).unwrap_err()
    }

    fn value(field: &'static str, expected: u64, got: u64) -> Error {
        Error::Value { format: "M2EGP event", field, expected, got }
    }

    #[test]
    fn hits_as_bytes_are_written_as_the_example() {
        let bytes: Vec<u8> = HITS.iter().flat_map(|hit| hit.to_le_bytes()).collect();
        let boards = [&bytes[..4], &[], &bytes[4..6], &bytes[6..]];
        let header = HeaderRepr::new(Time::new(0x0102_0304, 0x80), [2, 0, 1, 1]);
        let mut written = [0xa5; EVENT_LEN_MAX];
        let len = emit_bytes(&header, boards, &mut written);
        assert_eq!(&written[..len], EXAMPLE);
    }

    #[test]
    fn reads_the_example() {
        let (event, rest) = Event::new_checked(&EXAMPLE).unwrap();
        assert!(rest.is_empty());
        assert_eq!(event.time(), Time::new(0x0102_0304, 0x80));
        assert_eq!(event.hits().collect::<Vec<_>>(), HITS);
        let boards: Vec<Vec<_>> = (0..BOARDS).map(|b| event.hits_of_board(b).collect()).collect();
        assert_eq!(boards, [&HITS[..2], &[], &HITS[2..3], &HITS[3..]]);
        assert_eq!(event.header().hits_by_board(), [2, 0, 1, 1]);
        assert_eq!(event.as_bytes(), EXAMPLE);
        let text = "event at 16909060 ticks 128/256, boards 2 0 1 1, 4 hits: 5 510 1030 2047";
        assert_eq!(event.to_string(), text);
    }

    #[test]
    fn writes_the_example() {
        let header = HeaderRepr::new(Time::new(0x0102_0304, 0x80), [2, 0, 1, 1]);
        let mut bytes = [0xa5; 40];
        assert_eq!(emit(&header, HITS, &mut bytes), 32);
        assert_eq!(bytes[..32], EXAMPLE);
        assert_eq!(bytes[32..], [0xa5; 8]);
    }

    #[test]
    fn an_event_grows_by_a_word_for_eight_hits() {
        let len = |hits| {
            let mut header = [0; WORD_LEN];
            header[5] = hits;
            event_len(&header)
        };
        assert_eq!([0, 1, 8, 9, 255].map(len), [16, 32, 32, 48, 528]);
        assert_eq!(EVENT_LEN_MAX, 528);
    }

    #[test]
    fn malformed_delimiter() {
        assert_eq!(violation(7, 0xfe), value("delimiter", 0xffff, 0xfeff));
    }

    #[test]
    fn malformed_counts() {
        assert_eq!(violation(9, 1), value("hits of all boards", 4, 5));
        // Four counts of 255 do not wrap to another sum.
        assert_eq!(violation(8, 255), value("hits of all boards", 4, 257));
    }

    #[test]
    fn malformed_reserved_byte_and_padding() {
        assert_eq!(violation(13, 1), value("reserved", 0, 1));
        assert_eq!(violation(31, 7), value("padding", 0, 7));
    }

    #[test]
    fn malformed_length() {
        let truncated = |expected, got| Error::Truncated { format: "M2EGP event", expected, got };
        assert_eq!(Event::new_checked(&EXAMPLE[..31]).unwrap_err(), truncated(32, 31));
        assert_eq!(Event::new_checked(&EXAMPLE[..15]).unwrap_err(), truncated(16, 15));
        assert_eq!(violation(5, 255), truncated(528, 32));
    }

    #[test]
    fn events_end_with_the_first_violation() {
        let mut bytes = EXAMPLE.repeat(3);
        bytes[32 + 6] = 0;
        let events: Vec<_> =
            Events::new(&bytes).map(|event| event.map(|e| e.hits().len())).collect();
        assert_eq!(events, [Ok(4), Err(value("delimiter", 0xffff, 0xff00))]);
    }

    #[test]
    fn channel_0_is_a_hit() {
        let mut bytes = [0; 32];
        emit(&HeaderRepr::new(Time::default(), [2, 0, 0, 0]), [0, 0], &mut bytes);
        assert_eq!(Event::new_checked(&bytes).unwrap().0.hits().collect::<Vec<_>>(), [0, 0]);
    }

    proptest! {
        #[test]
        fn every_event_comes_back(
            (timestamp, fine, label_0, label_1) in any::<(u32, u8, u8, u8)>(),
            hits in prop::collection::vec(any::<u16>(), 0..=255),
            cuts in any::<[u8; 3]>(),
        ) {
            let mut cuts = cuts.map(|cut| cut as usize % (hits.len() + 1));
            cuts.sort_unstable();
            let [a, b, c] = cuts;
            let counts = [a, b - a, c - b, hits.len() - c].map(|count| count as u8);
            let header = HeaderRepr { label_0, label_1, ..HeaderRepr::new(Time::new(timestamp, fine), counts) };
            let mut bytes = vec![0xa5; EVENT_LEN_MAX];
            let len = emit(&header, hits.iter().copied(), &mut bytes);
            let (event, rest) = Event::new_checked(&bytes).unwrap();
            prop_assert_eq!(rest.len(), EVENT_LEN_MAX - len);
            prop_assert_eq!(event.header(), header);
            prop_assert_eq!(event.hits().collect::<Vec<_>>(), hits);
        }
    }
}
