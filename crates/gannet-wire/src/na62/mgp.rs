//! MGP (Multi-event GPU Packet): events of one board of the RICH, or merged events, in a datagram.
//! The experiment's bits are not public; these are ours.
//!
//! ```text
//! byte  0      1      2      3      4              8       10      12              16
//!      +------+------+------+------+--------------+-------+-------+---------------+
//!      |source|sub-id|format|flags | frame number |events |length |   sequence    |
//!      +------+------+------+------+--------------+-------+-------+---------------+
//!   16 | events                                                                   |
//!      +--------------------------------------------------------------------------+
//! ```
//!
//! Little-endian. `format` is the version of the layout: 1 for events of one board as below, 2 for
//! [merged events](super::m2egp). `length` counts header and events; a datagram may be longer, so
//! that all of a stream have one length, and what follows is zero. Events are in the order of time.
//! The frame number, in frames of 6.4 us since the start of the burst, says that every event before
//! that frame was sent: none of the datagram is before it, and a datagram without events carries
//! time on. Bit 0 of the flags ends the burst. The sequence number counts the datagrams of a stream.
//!
//! Source: the name is that of NaNet (Electronics 14 (2025) 1892); the layout is ours.

use core::fmt;
use core::ops::RangeInclusive;

use super::m2egp::{self, hits_of, write_hits};
use super::{FINE_CLOCK, FRAME_FINE_BITS, Source, Time};
use crate::error::{Error, Result};
use crate::frame_format::{FrameFormat, Heading, Rhythm, Step, StreamKey};
use crate::layout::{array_ref, check_len, word_format};
use crate::record::check_value;

/// Bytes of the header.
pub const HEADER_LEN: usize = HeaderRepr::LEN;
/// Most bytes of a datagram: what an Ethernet of 9000 bytes carries over IPv4 and UDP.
pub const LEN_MAX: usize = 8972;
/// Format of events of one board.
pub const BOARD_EVENTS: u8 = 1;
/// Format of merged events.
pub const MERGED_EVENTS: u8 = 2;
/// Flag of the last datagram of a burst.
pub const END_OF_BURST: u8 = 1;
/// Bytes of the header of a board's event.
pub const EVENT_HEADER_LEN: usize = EventHeaderRepr::LEN;
/// Longest time from the frame number of one datagram to that of the next, in units of 1/256 tick.
pub const STEP_MAX: u64 = FINE_CLOCK.ticks(200_000);
/// Bytes of the longest event of a board.
pub const EVENT_LEN_MAX: usize = event_len_of(m2egp::HITS_MAX);

const FORMAT: &str = "MGP datagram";
const EVENT: &str = "MGP event";
/// Events begin at multiples of so many bytes.
const ALIGNMENT: usize = 8;
const HIT_LEN: usize = 2;
const HITS_AT: usize = 5;

word_format! {
    /// View of the header of a datagram.
    view Header;
    /// The header of a datagram as plain values.
    repr HeaderRepr;
    format "MGP datagram", 2 words;

    /// Number of the [`Source`].
    source, set_source: u8 = word 0, bits 0..=7;
    /// Board of the source.
    sub_id, set_sub_id: u8 = word 0, bits 8..=15;
    /// [`BOARD_EVENTS`] or [`MERGED_EVENTS`].
    format, set_format: u8 = word 0, bits 16..=23;
    /// [`END_OF_BURST`] or 0.
    flags, set_flags: u8 = word 0, bits 24..=31;
    /// All events before this frame were sent.
    frame, set_frame: u32 = word 0, bits 32..=63, "frames of 6.4 us";
    /// Events in the datagram.
    events, set_events: u16 = word 1, bits 0..=15;
    /// Header and events.
    length, set_length: u16 = word 1, bits 16..=31, "bytes";
    /// Number of the datagram in its stream.
    sequence, set_sequence: u32 = word 1, bits 32..=63;
}

impl HeaderRepr {
    /// The stream of the datagram.
    pub const fn stream(&self) -> StreamKey {
        stream_key(self.format, self.source, self.sub_id)
    }

    /// Begin of the frame, on the 40 bits of detector time.
    pub const fn time(&self) -> Time {
        Time::from_fine_units((self.frame as u64) << FRAME_FINE_BITS)
    }
}

/// The stream of datagrams of `format` that a board sends.
pub const fn stream_key(format: u8, source: u8, sub_id: u8) -> StreamKey {
    StreamKey((format as u64) << 16 | (source as u64) << 8 | sub_id as u64)
}

word_format! {
    /// View of the header of a board's event.
    view EventHeader;
    /// The header of a board's event as plain values.
    repr EventHeaderRepr;
    format "MGP event", 1 words;

    /// Time since the start of the burst.
    timestamp, set_timestamp: u32 = word 0, bits 0..=31, "ticks of 24.95 ns";
    /// Time within the tick.
    fine_time, set_fine_time: u8 = word 0, bits 32..=39, "/256 tick";
    /// Hits.
    hits, set_hits: u8 = word 0, bits 40..=47;
    /// Reserved, 0.
    reserved, set_reserved: u16 = word 0, bits 48..=63;
}

/// Bytes of a board's event of `hits` hits.
#[inline]
pub const fn event_len_of(hits: usize) -> usize {
    EVENT_HEADER_LEN + (HIT_LEN * hits).next_multiple_of(ALIGNMENT)
}

/// Bytes of the board's event with this header; at most [`EVENT_LEN_MAX`].
#[inline]
pub const fn event_len(header: &[u8; EVENT_HEADER_LEN]) -> usize {
    event_len_of(header[HITS_AT] as usize)
}

/// An event of one board: a little-endian word of time and number of hits, then the hits, 16 bits
/// each, each a channel of the board, and zeros to a multiple of 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct BoardEvent<'a> {
    bytes: &'a [u8],
}

impl<'a> BoardEvent<'a> {
    /// The event at the begin of `bytes`, and what follows it.
    ///
    /// # Errors
    /// [`Error::Truncated`] when it does not end within `bytes`.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        check_len(EVENT, bytes, EVENT_HEADER_LEN)?;
        let len = event_len(array_ref(bytes, 0));
        check_len(EVENT, bytes, len)?;
        let (bytes, rest) = bytes.split_at(len);
        Ok((Self { bytes }, rest))
    }

    /// Header, hits and padding as they lie.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Time of the event.
    #[inline]
    pub fn time(&self) -> Time {
        let header = EventHeader::new_unchecked(self.bytes);
        Time::new(header.timestamp(), header.fine_time())
    }

    /// The hits as they lie: 16 bits each, little-endian, without padding.
    #[inline]
    pub fn hit_bytes(&self) -> &'a [u8] {
        &self.bytes[EVENT_HEADER_LEN..][..HIT_LEN * usize::from(self.bytes[HITS_AT])]
    }

    /// The hits, each a channel of the board.
    #[inline]
    pub fn hits(&self) -> impl ExactSizeIterator<Item = u16> + Clone + use<'a> {
        hits_of(self.hit_bytes())
    }
}

/// Prints time and hits.
impl fmt::Display for BoardEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event at {}", self.time())?;
        write_hits(f, self.hits())
    }
}

/// An event of a datagram.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Of one board.
    Board(BoardEvent<'a>),
    /// Merged from all boards.
    Merged(m2egp::Event<'a>),
}

impl Event<'_> {
    /// Time of the event.
    #[inline]
    pub fn time(&self) -> Time {
        match self {
            Self::Board(event) => event.time(),
            Self::Merged(event) => event.time(),
        }
    }
}

/// Prints time and hits.
impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Board(event) => event.fmt(f),
            Self::Merged(event) => event.fmt(f),
        }
    }
}

/// The events of a datagram one after the other. An error is the last that comes.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    format: u8,
    rest: &'a [u8],
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<Event<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let event = if self.format == MERGED_EVENTS {
            m2egp::Event::new_checked(self.rest).map(|(event, rest)| (Event::Merged(event), rest))
        } else {
            BoardEvent::new_checked(self.rest).map(|(event, rest)| (Event::Board(event), rest))
        };
        self.rest = event.map_or(&[], |(_, rest)| rest);
        Some(event.map(|(event, _)| event))
    }
}

/// View of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Header and events, without what pads the datagram.
    bytes: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// View of a datagram whose header is tested but not its events, for who tests each of them
    /// when it comes to it.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the header or what it says is longer than `datagram`;
    /// [`Error::Version`] for a format that is not known, [`Error::Range`] for a length without
    /// the header.
    #[inline]
    pub fn with_header_checked(datagram: &'a [u8]) -> Result<Self> {
        let header = Header::new_checked(datagram)?;
        if !matches!(header.format(), BOARD_EVENTS | MERGED_EVENTS) {
            let got = header.format().into();
            return Err(Error::Version { format: FORMAT, known: "1 and 2", got });
        }
        let length = usize::from(header.length());
        if length < HEADER_LEN {
            let (min, max) = (HEADER_LEN as u64, u16::MAX.into());
            let got = length as u64;
            return Err(Error::Range { format: FORMAT, field: "length", min, max, got });
        }
        check_len(FORMAT, datagram, length)?;
        Ok(Self { bytes: &datagram[..length] })
    }

    /// View of a datagram all of whose events are tested.
    ///
    /// # Errors
    /// As [`with_header_checked`](Self::with_header_checked) and as the first bad event;
    /// [`Error::Value`] when there are not as many events as the header says;
    /// [`Error::Range`] when one is before the one before it, or before the frame.
    pub fn new_checked(datagram: &'a [u8]) -> Result<Self> {
        let datagram = Self::with_header_checked(datagram)?;
        let header = datagram.header();
        let (mut newest, mut events) = (header.time(), 0);
        for event in datagram.events() {
            let time = event?.time();
            if time.since(newest) < 0 {
                let (min, max) = (newest.fine_units(), (1 << Time::BITS) - 1);
                let got = time.fine_units();
                return Err(Error::Range { format: FORMAT, field: "time", min, max, got });
            }
            (newest, events) = (time, events + 1);
        }
        check_value(FORMAT, "events", events, header.events.into())?;
        Ok(datagram)
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> HeaderRepr {
        HeaderRepr::parse(&Header::new_unchecked(self.bytes))
    }

    /// The events as they lie.
    #[inline]
    pub fn event_bytes(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }

    /// The events; none is an error if the view is of [`new_checked`](Self::new_checked).
    #[inline]
    pub fn events(&self) -> Events<'a> {
        let format = Header::new_unchecked(self.bytes).format();
        Events { format, rest: self.event_bytes() }
    }
}

/// Writes a datagram event by event.
///
/// ```
/// use gannet_wire::na62::{Source, Time, mgp};
///
/// let mut buffer = [0; 1472];
/// let header = mgp::HeaderRepr { source: Source::Rich.number(), frame: 1, ..Default::default() };
/// let mut writer = mgp::Writer::new(header, &mut buffer);
/// assert!(writer.board_event(Time::new(300, 7), [5, 510].into_iter()));
/// let len = writer.finish(0);
/// let datagram = mgp::Datagram::new_checked(&buffer[..len])?;
/// assert_eq!(datagram.events().count(), 1);
/// # Ok::<(), gannet_wire::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer<'a> {
    header: HeaderRepr,
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// A writer of a datagram that is at most as long as `buffer`. Of `header` the number of events
    /// and the length are counted here, and the format is that of the events, if there are any; a
    /// format of 0 becomes [`BOARD_EVENTS`].
    ///
    /// # Panics
    /// If `buffer` is shorter than a header.
    pub fn new(header: HeaderRepr, buffer: &'a mut [u8]) -> Self {
        assert!(buffer.len() >= HEADER_LEN, "a datagram has a header");
        let format = header.format.max(BOARD_EVENTS);
        Self { header: HeaderRepr { format, events: 0, ..header }, buffer, len: HEADER_LEN }
    }

    /// Events so far.
    pub const fn events(&self) -> u16 {
        self.header.events
    }

    /// Bytes so far.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no event yet.
    pub const fn is_empty(&self) -> bool {
        self.header.events == 0
    }

    /// Adds an event of the board, not before the last one; false when there is no place for it.
    ///
    /// # Panics
    /// If there are more than [`m2egp::HITS_MAX`] hits, or the datagram is of merged events.
    #[inline]
    pub fn board_event(&mut self, time: Time, hits: impl ExactSizeIterator<Item = u16>) -> bool {
        assert_eq!(self.header.format, BOARD_EVENTS, "a datagram has events of one kind");
        let count = u8::try_from(hits.len()).expect("an event has at most 255 hits");
        let Some(event) = self.place(event_len_of(hits.len())) else { return false };
        let (timestamp, fine_time) = (time.timestamp(), time.fine());
        let header = EventHeaderRepr { timestamp, fine_time, hits: count, reserved: 0 };
        header.emit(&mut EventHeader::new_unchecked(&mut *event));
        let (places, padding) =
            event[EVENT_HEADER_LEN..].split_at_mut(HIT_LEN * usize::from(count));
        for (place, hit) in places.as_chunks_mut().0.iter_mut().zip(hits) {
            *place = hit.to_le_bytes();
        }
        padding.fill(0);
        true
    }

    /// Adds a merged event, not before the last one; false when there is no place for it.
    ///
    /// # Panics
    /// If there are fewer hits than `header` says, or the datagram is of events of one board.
    #[inline]
    pub fn merged_event(
        &mut self,
        header: &m2egp::HeaderRepr,
        hits: impl IntoIterator<Item = u16>,
    ) -> bool {
        assert_eq!(self.header.format, MERGED_EVENTS, "a datagram has events of one kind");
        let Some(event) = self.place(header.event_len()) else { return false };
        m2egp::emit(header, hits, event);
        true
    }

    /// The next `len` bytes for an event, if there are as many.
    #[inline]
    fn place(&mut self, len: usize) -> Option<&mut [u8]> {
        let end = self.len + len;
        if end > self.buffer.len().min(u16::MAX.into()) {
            return None;
        }
        let place = &mut self.buffer[self.len..end];
        self.len = end;
        self.header.events += 1;
        Some(place)
    }

    /// Writes the header, and zeros up to `padded_len` bytes if that is longer. Returns the bytes of
    /// the datagram.
    ///
    /// # Panics
    /// If `padded_len` is longer than the buffer.
    pub fn finish(self, padded_len: usize) -> usize {
        let length = u16::try_from(self.len).expect("place is given up to the largest length");
        let header = HeaderRepr { length, ..self.header };
        header.emit(&mut Header::new_unchecked(&mut *self.buffer));
        let end = self.len.max(padded_len);
        self.buffer[self.len..end].fill(0);
        end
    }
}

/// Makes all events of a datagram later, by so many units of 1/256 tick.
fn move_events(datagram: &mut [u8], later: u64) {
    let header = HeaderRepr::parse(&Header::new_unchecked(&mut *datagram));
    let end = datagram.len().min(header.length.into());
    let mut rest = datagram.get_mut(HEADER_LEN..end).unwrap_or_default();
    for _ in 0..header.events {
        let moved = |time: Time| Time::from_fine_units(time.fine_units().wrapping_add(later));
        let len = if header.format == MERGED_EVENTS {
            let Some(word) = rest.first_chunk() else { return };
            let len = m2egp::event_len(word);
            let mut event = m2egp::Header::new_unchecked(&mut *rest);
            let time = moved(Time::new(event.timestamp(), event.fine_time()));
            event.set_timestamp(time.timestamp());
            event.set_fine_time(time.fine());
            len
        } else {
            let Some(word) = rest.first_chunk() else { return };
            let len = event_len(word);
            let mut event = EventHeader::new_unchecked(&mut *rest);
            let time = moved(Time::new(event.timestamp(), event.fine_time()));
            event.set_timestamp(time.timestamp());
            event.set_fine_time(time.fine());
            len
        };
        rest = rest.get_mut(len..).unwrap_or_default();
    }
}

/// The datagrams as frames that a receiver takes, one stream for each board and format.
///
/// Who sets the begin of a datagram moves its events along.
///
/// Of the sequence numbers the low 31 bits are compared. Time is that of the frame number, in units
/// of 1/256 tick; it does not wrap with the 40 bits of detector time.
#[derive(Clone, Debug)]
pub struct MgpFormat {
    /// Most bytes of a datagram.
    pub len_max: usize,
    /// Longest time that a board may let pass from the frame number of one datagram to that of the
    /// next, in units of 1/256 tick.
    pub step_max: u64,
}

impl Default for MgpFormat {
    /// Datagrams of up to [`LEN_MAX`] bytes, at most 200 us apart.
    fn default() -> Self {
        Self { len_max: LEN_MAX, step_max: STEP_MAX }
    }
}

impl FrameFormat for MgpFormat {
    fn lengths(&self) -> RangeInclusive<usize> {
        HEADER_LEN..=self.len_max
    }

    fn rhythm(&self) -> Rhythm {
        let step = Step::Varying { longest: self.step_max };
        Rhythm { clock: FINE_CLOCK, step, sequence_modulus: 1 << 31 }
    }

    #[inline]
    fn heading(&self, datagram: &[u8]) -> Result<Heading> {
        let header = Datagram::with_header_checked(datagram)?.header();
        let begin = u64::from(header.frame) << FRAME_FINE_BITS;
        let sequence = header.sequence & (u32::MAX >> 1);
        Ok(Heading { stream: header.stream(), begin, sequence })
    }

    fn set_heading(&self, datagram: &mut [u8], heading: &Heading) {
        let StreamKey(stream) = heading.stream;
        let mut header = Header::new_unchecked(&mut *datagram);
        let (before, frame) = (header.frame(), (heading.begin >> FRAME_FINE_BITS) as u32);
        header.set_sub_id(stream as u8);
        header.set_source((stream >> 8) as u8);
        header.set_format((stream >> 16) as u8);
        header.set_frame(frame);
        header.set_sequence(heading.sequence);
        if frame != before {
            move_events(datagram, u64::from(frame.wrapping_sub(before)) << FRAME_FINE_BITS);
        }
    }

    fn stream_name(&self, StreamKey(stream): StreamKey) -> String {
        let [board, source, format, ..] = stream.to_le_bytes();
        let merged = if format == MERGED_EVENTS { "/merged" } else { "" };
        match Source::from_number(source) {
            Source::Other(number) => format!("{number:#04x}/{board}{merged}"),
            source => format!("{source}/{board}{merged}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: HeaderRepr = HeaderRepr {
        source: 0x1c,
        sub_id: 2,
        format: BOARD_EVENTS,
        flags: END_OF_BURST,
        frame: 0x0001_0203,
        events: 0,
        length: 0,
        sequence: 0x8000_0007,
    };

    /// Two events, the second without hits.
    fn datagram(padded_len: usize) -> Vec<u8> {
        let mut buffer = vec![0xa5; 100];
        let mut writer = Writer::new(HEADER, &mut buffer);
        assert!(writer.board_event(Time::new(0x0102_0304, 0x80), [5, 510].into_iter()));
        assert!(writer.board_event(Time::new(0x0102_0305, 0), [].into_iter()));
        let len = writer.finish(padded_len);
        buffer.truncate(len);
        buffer
    }

    fn error_with(change: impl FnOnce(&mut Vec<u8>)) -> Error {
        let mut bytes = datagram(0);
        change(&mut bytes);
        Datagram::new_checked(&bytes).unwrap_err()
    }

    #[test]
    fn stored_form() {
        let expected = [
            0x1c, 2, 1, 1, 0x03, 0x02, 0x01, 0x00, 2, 0, 40, 0, 7, 0, 0, 0x80, //
            0x04, 0x03, 0x02, 0x01, 0x80, 2, 0, 0, 5, 0, 0xfe, 1, 0, 0, 0, 0, //
            0x05, 0x03, 0x02, 0x01, 0, 0, 0, 0,
        ];
        assert_eq!(datagram(0), expected);
        let padded = datagram(64);
        assert_eq!((&padded[..40], &padded[40..]), (&expected[..], &[0; 24][..]));
    }

    #[test]
    fn events_are_read_whatever_follows_them() {
        for padded_len in [0, 64] {
            let bytes = datagram(padded_len);
            let datagram = Datagram::new_checked(&bytes).unwrap();
            assert_eq!(datagram.header(), HeaderRepr { events: 2, length: 40, ..HEADER });
            let text: Vec<_> = datagram.events().map(|e| e.unwrap().to_string()).collect();
            assert_eq!(text[0], "event at 16909060 ticks 128/256, 2 hits: 5 510");
            assert_eq!(text[1], "event at 16909061 ticks 0/256, 0 hits");
        }
    }

    #[test]
    fn merged_events_follow_the_header_as_they_are() {
        let mut buffer = [0; 100];
        let header = HeaderRepr { format: MERGED_EVENTS, ..HEADER };
        let event = m2egp::HeaderRepr::new(Time::new(0x0102_0304, 0x80), [2, 0, 1, 1]);
        let mut writer = Writer::new(header, &mut buffer);
        assert!(writer.merged_event(&event, [5, 510, 1030, 2047]));
        assert!(writer.merged_event(&event, [5, 510, 1030, 2047]));
        assert!(!writer.merged_event(&event, [5, 510, 1030, 2047]), "100 bytes are full");
        assert_eq!(writer.finish(0), 80);
        let datagram = Datagram::new_checked(&buffer).unwrap();
        assert_eq!(m2egp::Events::new(datagram.event_bytes()).filter(Result::is_ok).count(), 2);
        assert!(datagram.events().all(|event| matches!(event, Ok(Event::Merged(_)))));
    }

    #[test]
    fn a_datagram_without_events_carries_time_on() {
        let mut buffer = [0xa5; 16];
        assert_eq!(Writer::new(HEADER, &mut buffer).finish(0), 16);
        assert_eq!(Datagram::new_checked(&buffer).unwrap().events().count(), 0);
    }

    #[test]
    fn time_wraps_within_a_datagram() {
        let mut buffer = [0; 64];
        let header = HeaderRepr { frame: 0xff_ffff, ..HEADER };
        let mut writer = Writer::new(header, &mut buffer);
        assert!(writer.board_event(Time::new(u32::MAX, 3), [1].into_iter()));
        assert!(writer.board_event(Time::new(0, 3), [1].into_iter()));
        writer.finish(0);
        assert!(Datagram::new_checked(&buffer).is_ok());
    }

    #[test]
    fn malformed_length() {
        let error = Error::Truncated { format: "MGP datagram", expected: 40, got: 39 };
        assert_eq!(error_with(|bytes| bytes.truncate(39)), error);
        let (min, max, got) = (16, 65535, 15);
        let error = Error::Range { format: "MGP datagram", field: "length", min, max, got };
        assert_eq!(error_with(|bytes| bytes[10] = 15), error);
        let error = Error::Truncated { format: "MGP event", expected: 8, got: 7 };
        assert_eq!(error_with(|bytes| bytes[10] = 39), error);
    }

    #[test]
    fn malformed_format() {
        let error = Error::Version { format: "MGP datagram", known: "1 and 2", got: 3 };
        assert_eq!(error_with(|bytes| bytes[2] = 3), error);
    }

    #[test]
    fn malformed_counts() {
        let (format, field) = ("MGP datagram", "events");
        let error = Error::Value { format, field, expected: 2, got: 3 };
        assert_eq!(error_with(|bytes| bytes[8] = 3), error);
        let error = Error::Truncated { format: "MGP event", expected: 520, got: 24 };
        assert_eq!(error_with(|bytes| bytes[21] = 255), error);
    }

    #[test]
    fn malformed_order() {
        let is_time = |error| matches!(error, Error::Range { field: "time", .. });
        assert!(is_time(error_with(|bytes| bytes[32] = 3)), "before the event before it");
        assert!(is_time(error_with(|bytes| bytes[5] = 4)), "before the frame");
    }

    #[test]
    fn a_heading_needs_the_header_only() {
        let format = MgpFormat::default();
        let mut bytes = datagram(0);
        let stream = stream_key(BOARD_EVENTS, 0x1c, 2);
        let heading = Heading { stream, begin: 0x01_0203_0000, sequence: 7 };
        assert_eq!(format.heading(&bytes), Ok(heading));
        bytes[21] = 255;
        assert_eq!(format.heading(&bytes), Ok(heading));
        assert_eq!(format.stream_name(stream), "RICH/2");
        assert_eq!(format.stream_name(stream_key(MERGED_EVENTS, 0x50, 0)), "0x50/0/merged");
    }

    #[test]
    fn events_move_along_with_the_begin_of_their_datagram() {
        let format = MgpFormat::default();
        let mut buffer = [0; 200];
        let header = HeaderRepr { source: 0x1c, frame: 5, ..HeaderRepr::default() };
        let mut board = Writer::new(header, &mut buffer);
        assert!(board.board_event(Time::new(5 << 8, 7), [1, 2].into_iter()));
        assert!(board.board_event(Time::new(5 << 8 | 30, 9), [3].into_iter()));
        let len = board.finish(0);
        for (frame, first) in [(3, 3 << 8), (u32::MAX, 0xffff_ff00), (1 << 24 | 2, 2 << 8)] {
            let heading = format.heading(&buffer[..len]).unwrap();
            let begin = u64::from(frame) << FRAME_FINE_BITS;
            format.set_heading(&mut buffer[..len], &Heading { begin, ..heading });
            let datagram = Datagram::new_checked(&buffer[..len]).unwrap();
            let times: Vec<_> = datagram.events().map(|event| event.unwrap().time()).collect();
            assert_eq!(times, [Time::new(first, 7), Time::new(first + 30, 9)]);
        }
        let header = HeaderRepr { format: MERGED_EVENTS, ..header };
        let mut merged = Writer::new(header, &mut buffer);
        let event = |tick| m2egp::HeaderRepr::new(Time::new(tick, 1), [0, 1, 0, 0]);
        assert!(merged.merged_event(&event(5 << 8), [600]));
        assert!(merged.merged_event(&event(5 << 8 | 3), [700]));
        let len = merged.finish(0);
        let heading = format.heading(&buffer[..len]).unwrap();
        let begin = heading.begin + (2 << FRAME_FINE_BITS);
        // What was cut is left as it is.
        format.set_heading(&mut buffer[..len - 17], &Heading { begin, ..heading });
        let events = m2egp::Events::new(&buffer[HEADER_LEN..len]);
        let times: Vec<_> = events.map(|event| event.unwrap().time()).collect();
        assert_eq!(times, [Time::new(7 << 8, 1), Time::new(5 << 8 | 3, 1)]);
    }

    #[test]
    fn a_step_of_200_us_is_the_default() {
        assert_eq!(FINE_CLOCK.ns(MgpFormat::default().step_max), 199_999);
    }

    proptest! {
        #[test]
        fn every_datagram_comes_back(
            (source, sub_id, frame, sequence) in any::<(u8, u8, u32, u32)>(),
            events in prop::collection::vec((0..1_000_000_u64, prop::collection::vec(any::<u16>(), 0..40)), 0..20),
            padded_len in 0..LEN_MAX,
        ) {
            let header = HeaderRepr { source, sub_id, frame, sequence, ..HEADER };
            let mut buffer = vec![0xa5; LEN_MAX];
            let mut writer = Writer::new(header, &mut buffer);
            let mut units = header.time().fine_units();
            let mut expected = Vec::new();
            for (step, hits) in &events {
                units += step;
                let time = Time::from_fine_units(units);
                prop_assert!(writer.board_event(time, hits.iter().copied()));
                expected.push((time, hits.clone()));
            }
            let len = writer.finish(padded_len);
            let datagram = Datagram::new_checked(&buffer[..len]).unwrap();
            let read: Vec<_> = datagram
                .events()
                .map(|event| match event {
                    Ok(Event::Board(event)) => (event.time(), event.hits().collect::<Vec<_>>()),
                    other => panic!("{other:?}"),
                })
                .collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn a_heading_that_is_set_is_read_back(
            (format, source, sub_id, frame, sequence) in (1..=2_u8, any::<u8>(), any::<u8>(), any::<u32>(), 0..1_u32 << 31)
        ) {
            let heading = Heading {
                stream: stream_key(format, source, sub_id),
                begin: u64::from(frame) << FRAME_FINE_BITS,
                sequence,
            };
            let mut bytes = datagram(0);
            MgpFormat::default().set_heading(&mut bytes, &heading);
            prop_assert_eq!(MgpFormat::default().heading(&bytes), Ok(heading));
        }
    }
}
