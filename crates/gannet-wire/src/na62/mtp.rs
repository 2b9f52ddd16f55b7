//! MTP (Multi Trigger Packet): primitives that a source sends to the level-0 processor, one packet
//! or more for each frame of 6.4 us, also for one without primitives.
//!
//! ```text
//! word 0   31         24 23                                       0
//!         +-------------+------------------------------------------+
//!         |  source id  |   timestamp_high: bits 31:8 of its time  |
//! word 1  +-------------+-------------+----------------------------+
//!         |   sub-id    | primitives  |      length in bytes       |
//! word 2  +-------------+-------------+-------------+--------------+
//!  ...    |       primitive id        | timestamp_low |  fine time |
//!         +-------------+-------------+-------------+--------------+
//!    or   |      0      |              timestamp_high              |
//!         +-------------+------------------------------------------+
//! ```
//!
//! Little-endian words of 32 bits. The time stamp of a primitive is the last `timestamp_high` before
//! it with its own low byte. A word whose high byte is 0 sets `timestamp_high` anew, so that one
//! packet may span several frames; so the high byte of an id is never 0.
//!
//! Source: dariosol/na62l0tpfw, `ethlink/ethlink.vhd`, the 32-bit format.

use core::fmt;
use core::ops::RangeInclusive;

use super::{FINE_CLOCK, FRAME_FINE_BITS, Source, Time};
use crate::error::{Error, Result};
use crate::frame_format::{FrameFormat, Heading, Rhythm, Step, StreamKey};
use crate::layout::{check_len, put, word_format};
use crate::record::check_value;

/// Bytes of the header.
pub const HEADER_LEN: usize = HeaderRepr::LEN;
/// Most bytes of a packet.
pub const LEN_MAX: usize = 1472;
/// Most primitives of a packet.
pub const PRIMITIVES_MAX: usize = u8::MAX as usize;
/// Bit of an id: the primitive is of a calibration, which no mask concerns.
pub const CALIBRATION: u16 = 1 << 15;

const FORMAT: &str = "MTP packet";
const WORD_LEN: usize = 4;
/// Bits of `timestamp_high`.
const HIGH_MASK: u32 = 0xff_ffff;

word_format! {
    /// View of the header of a packet.
    view Header;
    /// The header of a packet as plain values.
    repr HeaderRepr;
    format "MTP packet", 1 words;

    /// Bits 31:8 of the time of the first primitives: the number of their frame.
    timestamp_high, set_timestamp_high: u32 = word 0, bits 0..=23, "frames of 6.4 us";
    /// Number of the [`Source`].
    source, set_source: u8 = word 0, bits 24..=31;
    /// Header and all words.
    length, set_length: u16 = word 0, bits 32..=47, "bytes";
    /// Primitives in the packet.
    primitives, set_primitives: u8 = word 0, bits 48..=55;
    /// Part of the source.
    sub_id, set_sub_id: u8 = word 0, bits 56..=63;
}

/// What a source saw at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Primitive {
    /// Conditions that hold, and [`CALIBRATION`]; the high byte is not 0.
    pub id: u16,
    /// When.
    pub time: Time,
}

/// Prints id and time.
impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "primitive {:#06x} at {}", self.id, self.time)
    }
}

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its length is not that of the datagram, or no whole number of words.
    Length,
    /// It has not as many primitives as it says.
    Count,
    /// A word sets its time back: forward by more than half of what 24 bits count.
    TimeBack,
}

/// Packets by what was wrong with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets without fault.
    pub packets: u64,
    /// Primitives in them.
    pub primitives: u64,
    /// Packets of [`Fault::Length`].
    pub length: u64,
    /// Packets of [`Fault::Count`].
    pub count: u64,
    /// Packets of [`Fault::TimeBack`].
    pub time_back: u64,
}

impl Counts {
    /// Reads a packet and counts what it is.
    pub fn read<'a>(&mut self, datagram: &'a [u8]) -> Option<Packet<'a>> {
        let counter = match examine(datagram) {
            Ok(()) => {
                let packet = Packet { bytes: datagram };
                self.packets += 1;
                self.primitives += u64::from(packet.header().primitives);
                return Some(packet);
            }
            Err((Fault::Length, _)) => &mut self.length,
            Err((Fault::Count, _)) => &mut self.count,
            Err((Fault::TimeBack, _)) => &mut self.time_back,
        };
        *counter += 1;
        None
    }
}

/// What is wrong with a datagram, if anything is.
fn examine(datagram: &[u8]) -> core::result::Result<(), (Fault, Error)> {
    let length = |error| (Fault::Length, error);
    check_len(FORMAT, datagram, HEADER_LEN).map_err(length)?;
    let header = HeaderRepr::parse(&Header::new_unchecked(datagram));
    let value = |field, expected, got| Error::Value { format: FORMAT, field, expected, got };
    if usize::from(header.length) != datagram.len() {
        return Err(length(value("length", datagram.len() as u64, header.length.into())));
    }
    if !datagram.len().is_multiple_of(WORD_LEN) {
        let got = datagram.len();
        return Err(length(Error::Remainder { format: FORMAT, unit: WORD_LEN, got }));
    }
    let (mut high, mut primitives) = (header.timestamp_high, 0_u64);
    for word in words(&datagram[HEADER_LEN..]) {
        match Word::of(word) {
            Word::Time(time) => {
                if time.wrapping_sub(high) & HIGH_MASK > HIGH_MASK / 2 {
                    let error = value("timestamp_high", high.into(), time.into());
                    return Err((Fault::TimeBack, error));
                }
                high = time;
            }
            Word::Primitive { .. } => primitives += 1,
        }
    }
    if primitives != u64::from(header.primitives) {
        let error = value("primitives", primitives, header.primitives.into());
        return Err((Fault::Count, error));
    }
    Ok(())
}

/// A word behind the header.
enum Word {
    /// Sets the bits above the low byte.
    Time(u32),
    /// What has the id, and the low 16 bits of its time in units of fine time.
    Primitive { id: u16, low: u16 },
}

impl Word {
    fn of(word: u32) -> Self {
        match word >> 24 {
            0 => Self::Time(word),
            _ => Self::Primitive { id: (word >> 16) as u16, low: word as u16 },
        }
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + Clone + use<'_> {
    bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word))
}

/// View of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// View of a datagram, all of whose words are tested.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Value`] or [`Error::Remainder`] for a [`Fault`].
    pub fn new_checked(datagram: &'a [u8]) -> Result<Self> {
        examine(datagram).map_err(|(_, error)| error)?;
        Ok(Self { bytes: datagram })
    }

    /// The header.
    pub fn header(&self) -> HeaderRepr {
        HeaderRepr::parse(&Header::new_unchecked(self.bytes))
    }

    /// The primitives with their whole times, in the order of the packet.
    pub fn primitives(&self) -> impl Iterator<Item = Primitive> + Clone + use<'a> {
        let words = words(&self.bytes[HEADER_LEN..]);
        words
            .scan(self.header().timestamp_high, |high, word| {
                Some(match Word::of(word) {
                    Word::Time(time) => {
                        *high = time;
                        None
                    }
                    Word::Primitive { id, low } => {
                        let units = u64::from(*high) << u16::BITS | u64::from(low);
                        Some(Primitive { id, time: Time::from_fine_units(units) })
                    }
                })
            })
            .flatten()
    }
}

/// Writes a packet, primitive by primitive.
///
/// ```
/// use gannet_wire::na62::{Source, Time, mtp};
///
/// let mut buffer = [0; mtp::LEN_MAX];
/// let mut writer = mtp::Writer::new(Source::Rich, 1, 0x123, &mut buffer);
/// assert!(writer.primitive(mtp::Primitive { id: 0x4203, time: Time::new(0x12310, 0x80) }));
/// assert_eq!(writer.finish(), 12);
/// ```
#[derive(Debug)]
pub struct Writer<'a> {
    header: HeaderRepr,
    high: u32,
    buffer: &'a mut [u8; LEN_MAX],
    len: usize,
}

impl<'a> Writer<'a> {
    /// A writer of a packet that begins in `frame`, of which the low 24 bits are kept.
    pub fn new(source: Source, sub_id: u8, frame: u32, buffer: &'a mut [u8; LEN_MAX]) -> Self {
        let timestamp_high = frame & HIGH_MASK;
        let source = source.number();
        let header = HeaderRepr { timestamp_high, source, length: 0, primitives: 0, sub_id };
        Self { header, high: timestamp_high, buffer, len: HEADER_LEN }
    }

    /// Primitives so far.
    pub const fn primitives(&self) -> u8 {
        self.header.primitives
    }

    /// Adds a primitive, with a word of time before it if its frame is a later one; false when there
    /// is no place for it. Frames must not go back.
    ///
    /// # Panics
    /// If the high byte of the id is 0.
    pub fn primitive(&mut self, primitive: Primitive) -> bool {
        let Primitive { id, time } = primitive;
        assert!(id > u8::MAX.into(), "an id has a high byte");
        let is_later = time.frame() != self.high;
        let words = 1 + usize::from(is_later);
        if usize::from(self.header.primitives) == PRIMITIVES_MAX
            || self.len + words * WORD_LEN > LEN_MAX
        {
            return false;
        }
        if is_later {
            self.high = time.frame();
            self.word(self.high);
        }
        self.word(u32::from(id) << 16 | u32::from(time.fine_units() as u16));
        self.header.primitives += 1;
        true
    }

    fn word(&mut self, word: u32) {
        put(&mut self.buffer[..], self.len, word.to_le_bytes());
        self.len += WORD_LEN;
    }

    /// Writes the header. Returns the bytes of the packet.
    pub fn finish(self) -> usize {
        let header = HeaderRepr { length: self.len as u16, ..self.header };
        header.emit(&mut Header::new_unchecked(&mut self.buffer[..]));
        self.len
    }
}

/// The stream of the packets that a part of a source sends.
pub const fn stream_key(source: u8, sub_id: u8) -> StreamKey {
    StreamKey((source as u64) << 8 | sub_id as u64)
}

/// The packets as frames that a receiver takes: one for each 6.4 us, by whose number it tells what is missing.
///
/// Time is that of the 24 bits of the frame, in units of 1/256 tick: it begins anew after 107 s, longer than
/// any burst. Who sets the begin of a packet moves its primitives along.
#[derive(Clone, Copy, Debug, Default)]
pub struct MtpFormat;

impl FrameFormat for MtpFormat {
    fn lengths(&self) -> RangeInclusive<usize> {
        HEADER_LEN..=LEN_MAX
    }

    fn rhythm(&self) -> Rhythm {
        let step = Step::Fixed(1 << FRAME_FINE_BITS);
        Rhythm { clock: FINE_CLOCK, step, sequence_modulus: HIGH_MASK + 1 }
    }

    #[inline]
    fn heading(&self, datagram: &[u8]) -> Result<Heading> {
        let header = HeaderRepr::parse(&Header::new_checked(datagram)?);
        check_value(FORMAT, "length", datagram.len() as u64, header.length.into())?;
        let begin = u64::from(header.timestamp_high) << FRAME_FINE_BITS;
        let stream = stream_key(header.source, header.sub_id);
        Ok(Heading { stream, begin, sequence: header.timestamp_high })
    }

    fn set_heading(&self, datagram: &mut [u8], heading: &Heading) {
        let StreamKey(stream) = heading.stream;
        let mut header = Header::new_unchecked(&mut *datagram);
        let frame = (heading.begin >> FRAME_FINE_BITS) as u32 & HIGH_MASK;
        let later = frame.wrapping_sub(header.timestamp_high());
        header.set_sub_id(stream as u8);
        header.set_source((stream >> 8) as u8);
        header.set_timestamp_high(frame);
        for bytes in datagram[HEADER_LEN..].as_chunks_mut().0 {
            if let Word::Time(time) = Word::of(u32::from_le_bytes(*bytes)) {
                *bytes = (time.wrapping_add(later) & HIGH_MASK).to_le_bytes();
            }
        }
    }

    fn stream_name(&self, StreamKey(stream): StreamKey) -> String {
        let [part, source, ..] = stream.to_le_bytes();
        match Source::from_number(source) {
            Source::Other(number) => format!("{number:#04x}/{part}/primitives"),
            source => format!("{source}/{part}/primitives"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of the fact sheet: two primitives in two frames.
    const EXAMPLE: [u8; 20] = [
        0x23, 0x01, 0x00, 0x1c, 0x14, 0x00, 0x02, 0x01, 0x80, 0x10, 0x03, 0x42, //
        0x24, 0x01, 0x00, 0x00, 0x00, 0xff, 0x01, 0x01,
    ];
    const PRIMITIVES: [Primitive; 2] = [
        Primitive { id: 0x4203, time: Time::new(0x0001_2310, 0x80) },
        Primitive { id: 0x0101, time: Time::new(0x0001_24ff, 0) },
    ];

    fn fault(change: impl FnOnce(&mut Vec<u8>)) -> (Fault, Error) {
        let mut bytes = EXAMPLE.to_vec();
        change(&mut bytes);
        examine(&bytes).unwrap_err()
    }

    fn value(field: &'static str, expected: u64, got: u64) -> Error {
        Error::Value { format: "MTP packet", field, expected, got }
    }

    #[test]
    fn reads_the_example() {
        let packet = Packet::new_checked(&EXAMPLE).unwrap();
        let header = packet.header();
        assert_eq!((header.source, header.sub_id, header.timestamp_high), (0x1c, 1, 0x123));
        assert_eq!(packet.primitives().collect::<Vec<_>>(), PRIMITIVES);
        let text = "primitive 0x4203 at 74512 ticks 128/256";
        assert_eq!(PRIMITIVES[0].to_string(), text);
    }

    #[test]
    fn writes_the_example() {
        let mut buffer = [0xa5; LEN_MAX];
        let mut writer = Writer::new(Source::Rich, 1, 0x123, &mut buffer);
        assert!(PRIMITIVES.into_iter().all(|primitive| writer.primitive(primitive)));
        let len = writer.finish();
        assert_eq!(buffer[..len], EXAMPLE);
    }

    #[test]
    fn a_frame_without_primitives_is_a_header() {
        let mut buffer = [0xa5; LEN_MAX];
        let len = Writer::new(Source::Rich, 0, 0x0700_0001, &mut buffer).finish();
        assert_eq!(buffer[..len], [1, 0, 0, 0x1c, 8, 0, 0, 0]);
        assert_eq!(Packet::new_checked(&buffer[..len]).unwrap().primitives().count(), 0);
    }

    #[test]
    fn malformed_length() {
        let truncated = Error::Truncated { format: "MTP packet", expected: 8, got: 7 };
        assert_eq!(fault(|bytes| bytes.truncate(7)), (Fault::Length, truncated));
        assert_eq!(fault(|bytes| bytes[4] = 16), (Fault::Length, value("length", 20, 16)));
        let remainder = Error::Remainder { format: "MTP packet", unit: 4, got: 19 };
        let cut = |bytes: &mut Vec<u8>| {
            bytes.pop();
            bytes[4] = 19;
        };
        assert_eq!(fault(cut), (Fault::Length, remainder));
    }

    #[test]
    fn malformed_count() {
        assert_eq!(fault(|bytes| bytes[6] = 3), (Fault::Count, value("primitives", 2, 3)));
    }

    #[test]
    fn malformed_time() {
        let error = value("timestamp_high", 0x123, 0x122);
        assert_eq!(fault(|bytes| bytes[12] = 0x22), (Fault::TimeBack, error));
        // From the last frame to the first is forward.
        let mut bytes = EXAMPLE;
        bytes[..3].fill(0xff);
        bytes[12..15].fill(0);
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!(packet.primitives().last().unwrap().time, Time::new(0xff, 0));
    }

    #[test]
    fn packets_are_frames_whose_begin_carries_their_primitives_along() {
        let heading = MtpFormat.heading(&EXAMPLE).unwrap();
        let stream = stream_key(0x1c, 1);
        assert_eq!(heading, Heading { stream, begin: 0x123_0000, sequence: 0x123 });
        assert_eq!(MtpFormat.stream_name(stream), "RICH/1/primitives");
        assert_eq!(MtpFormat.stream_name(stream_key(9, 0)), "0x09/0/primitives");
        let mut moved = EXAMPLE;
        let to =
            Heading { stream: stream_key(0x18, 2), begin: 0xff_ffff_0000, sequence: 0xff_ffff };
        MtpFormat.set_heading(&mut moved, &to);
        assert_eq!(MtpFormat.heading(&moved).unwrap(), to);
        let packet = Packet::new_checked(&moved).unwrap();
        let times: Vec<_> = packet.primitives().map(|primitive| primitive.time).collect();
        // The second is in the next frame, the first after all.
        assert_eq!(times, [Time::new(0xffff_ff10, 0x80), Time::new(0xff, 0)]);
        assert_eq!(MtpFormat.heading(&EXAMPLE[..16]), Err(value("length", 16, 20)));
        assert!(MtpFormat.heading(&EXAMPLE[..7]).is_err());
    }

    #[test]
    fn packets_are_counted_by_their_faults() {
        let mut counts = Counts::default();
        assert!(counts.read(&EXAMPLE).is_some());
        assert!(counts.read(&EXAMPLE[..19]).is_none());
        for (place, value) in [(6, 1), (12, 0), (6, 0)] {
            let mut bytes = EXAMPLE;
            bytes[place] = value;
            assert!(counts.read(&bytes).is_none());
        }
        let expected = Counts { packets: 1, primitives: 2, length: 1, count: 2, time_back: 1 };
        assert_eq!(counts, expected);
    }

    #[test]
    fn a_packet_takes_what_its_length_and_its_count_allow() {
        let fill = |frames_apart: u32| {
            let mut buffer = [0; LEN_MAX];
            let mut writer = Writer::new(Source::Rich, 0, 0, &mut buffer);
            let mut times = (1..).map(|frame| Time::new((frame * frames_apart) << 8, 0));
            while writer.primitive(Primitive { id: 0x100, time: times.next().unwrap() }) {}
            let len = writer.finish();
            Packet::new_checked(&buffer[..len]).unwrap().primitives().count()
        };
        assert_eq!([fill(0), fill(1)], [255, 183]);
    }

    proptest! {
        #[test]
        fn every_packet_comes_back(
            (frame, sub_id) in any::<(u32, u8)>(),
            steps in prop::collection::vec((0x100..=u16::MAX, 0..100_000_u64), 0..150),
        ) {
            let mut buffer = [0; LEN_MAX];
            let mut writer = Writer::new(Source::Chod, sub_id, frame, &mut buffer);
            let mut units = u64::from(frame) << 16;
            let mut primitives = Vec::new();
            for (id, step) in steps {
                units += step;
                let primitive = Primitive { id, time: Time::from_fine_units(units) };
                prop_assert!(writer.primitive(primitive));
                primitives.push(primitive);
            }
            let len = writer.finish();
            let packet = Packet::new_checked(&buffer[..len]).unwrap();
            prop_assert_eq!(packet.primitives().collect::<Vec<_>>(), primitives);
        }
    }
}
