//! What the readout and the builder of one run tell each other, where these are two processes.
//!
//! A message begins with eight bytes, little-endian as all that follows:
//!
//! ```text
//! byte   0       4        6       8
//!        | magic | version | kind | body
//!
//! hello     8 digest of the configuration (8)   16 epoch (8)   24 bytes of an item (4)   28 spans (4)
//!           32 the spans, 8 bytes each
//! welcome   8 run (4)
//! refused   8 reason (4): 1 configuration, 2 streams, 3 items, 4 full
//! ask       8 number (8)   16 begin (8)   24 end (8)   32 wait in ns (8)
//! awaited   8 stream (4)   12 whether (4)
//! close     nothing
//! done      nothing
//! items     8 segments (4)   12 items (4)   16 the segments, 24 bytes each, then the items
//! figures   8 stream (4)   12 words (4)   16 the words (8 each)
//! fragment  8 number (8)   16 stream (4)   20 error bits (4)   24 bytes of the whole (8)
//!           32 place of these (8)   40 the bytes
//! ended     nothing
//!
//! span      0 first stream (4)   4 streams (4)
//! segment   0 stream (4)   4 items (4)   8 searched to (8)   16 age in ns (8)
//! ```
//!
//! A run has one builder, and readouts that share its streams out among them: these have the same numbers everywhere.
//! A readout says hello, and the builder welcomes or refuses it. Then the builder asks for windows of time, says which
//! streams are worth waiting for, closes (what has not come by now is missing) and is done with the readout. The
//! readout sends items, figures of its streams and fragments, and that no more items will come.
//!
//! Source: our own.

use core::fmt;
use core::ops::Range;

use crate::error::{Error, Result};
use crate::layout::{check_len, put};
use crate::little_endian as le;
use crate::record::{Record, Records, check_value};

/// Marks a message: `GNRB`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"GNRB");
/// Version of the layout.
pub const VERSION: u16 = 2;
/// Bytes before the bytes of a fragment.
pub const FRAGMENT_HEADER_LEN: usize = field::FRAGMENT;
/// Bytes before the segments of items.
pub const ITEMS_HEADER_LEN: usize = field::REST;

const FORMAT: &str = "message of readout and builder";
/// Bytes of magic, version and kind.
const HEADER_LEN: usize = field::BODY;

mod field {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 4;
    pub const KIND: usize = 6;
    pub const BODY: usize = 8;
    pub const SECOND: usize = 12;
    pub const REST: usize = 16;
    pub const ITEM: usize = 24;
    pub const SPANS: usize = 28;
    pub const FIRST_SPAN: usize = 32;
    pub const END: usize = 24;
    pub const WAIT: usize = 32;
    pub const ERROR_BITS: usize = 20;
    pub const WHOLE: usize = 24;
    pub const PLACE: usize = 32;
    pub const FRAGMENT: usize = 40;
}

/// Who a readout is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Greeting {
    /// Digest of its configuration, which is to be that of the builder.
    pub digest: u64,
    /// Number that it drew when it was started: one that comes back with another has counted anew.
    pub epoch: u64,
    /// Bytes of an item that it sends.
    pub item_len: u32,
}

/// Consecutive streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Number of the first.
    pub first: u32,
    /// How many they are.
    pub streams: u32,
}

impl Span {
    /// The numbers of its streams; none where these would be no numbers.
    pub fn numbers(&self) -> Option<Range<u32>> {
        Some(self.first..self.first.checked_add(self.streams)?)
    }
}

impl Record for Span {
    const FORMAT: &'static str = "span of streams";
    const LEN: usize = 8;

    fn check(_: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        Self { first: le::u32(bytes, 0), streams: le::u32(bytes, 4) }
    }

    fn emit(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.first.to_le_bytes());
        put(bytes, 4, self.streams.to_le_bytes());
    }
}

/// Who a readout is, and which streams it has.
#[derive(Clone, Debug)]
pub struct Hello<'a> {
    /// Who it is.
    pub greeting: Greeting,
    /// Its streams.
    pub spans: Records<'a, Span>,
}

/// Why a readout cannot be of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Refusal {
    /// Its configuration is another one.
    Configuration = 1,
    /// Its streams are those of another readout, or unknown.
    Streams = 2,
    /// Its items are of another version.
    Items = 3,
    /// The builder has as many readouts as it takes.
    Full = 4,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configuration => "it has another configuration",
            Self::Streams => "another readout has its streams, or the builder does not know them",
            Self::Items => "it is of another version",
            Self::Full => "the builder has as many readouts as it takes",
        })
    }
}

/// A window of time that every stream of a readout is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Number of the decision.
    pub number: u64,
    /// First tick of the window.
    pub begin: u64,
    /// First tick behind it.
    pub end: u64,
    /// How long to wait for data that have not come, in nanoseconds.
    pub wait_ns: u64,
}

/// Consecutive items that come from one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Number of the stream.
    pub stream: u32,
    /// Number of items.
    pub items: u32,
    /// Time up to which the stream has been searched, in ticks.
    pub searched_to: u64,
    /// Time since the arrival of its last frame, in nanoseconds.
    pub age_ns: u64,
}

impl Record for Segment {
    const FORMAT: &'static str = "segment of items";
    const LEN: usize = 24;

    fn check(_: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            stream: le::u32(bytes, 0),
            items: le::u32(bytes, 4),
            searched_to: le::u64(bytes, 8),
            age_ns: le::u64(bytes, 16),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.stream.to_le_bytes());
        put(bytes, 4, self.items.to_le_bytes());
        put(bytes, 8, self.searched_to.to_le_bytes());
        put(bytes, 16, self.age_ns.to_le_bytes());
    }
}

/// Items of several streams, in the order in which they were found.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    segments: Records<'a, Segment>,
    items: &'a [u8],
}

impl<'a> Items<'a> {
    /// The segments.
    pub fn segments(&self) -> Records<'a, Segment> {
        self.segments.clone()
    }

    /// The items of all segments.
    ///
    /// # Errors
    /// When they are no items of this kind, or not as many as the segments have.
    pub fn items<R: Record>(&self) -> Result<Records<'a, R>> {
        let items = Records::new_checked(self.items)?;
        let expected: u64 = self.segments().map(|segment| u64::from(segment.items)).sum();
        check_value(FORMAT, "items", expected, items.len() as u64)?;
        Ok(items)
    }
}

/// Figures of a stream, in an order that both sides know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures<'a> {
    /// Number of the stream.
    pub stream: u32,
    words: &'a [u8],
}

impl<'a> Figures<'a> {
    /// The words.
    pub fn words(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        self.words.chunks_exact(8).map(|word| le::u64(word, 0))
    }
}

/// A part of the data of one stream in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Number of the decision.
    pub number: u64,
    /// Number of the stream.
    pub stream: u32,
    /// What is wrong with the data.
    pub error_bits: u32,
    /// Bytes of the data in all.
    pub whole: u64,
    /// Where these begin in them.
    pub place: u64,
    /// As many of them as a message holds, or as are left.
    pub bytes: &'a [u8],
}

/// A message.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// A readout introduces itself.
    Hello(Hello<'a>),
    /// It is part of the run with this number.
    Welcome {
        /// Number of the run.
        run: u32,
    },
    /// It cannot be part of the run.
    Refused(Refusal),
    /// A window is wanted.
    Ask(Ask),
    /// Whether to wait for data of a stream.
    Awaited {
        /// Number of the stream.
        stream: u32,
        /// Whether it is worth waiting.
        awaited: bool,
    },
    /// What has not come by now is missing.
    Close,
    /// Nothing more will be asked.
    Done,
    /// What was found.
    Items(Items<'a>),
    /// How a stream is.
    Figures(Figures<'a>),
    /// Data of a window.
    Fragment(Fragment<'a>),
    /// No more items will come.
    Ended,
}

impl<'a> Message<'a> {
    /// Reads a message from untrusted bytes, which it fills.
    ///
    /// # Errors
    /// When the bytes end too early, or a field has a value that it cannot have.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        check_len(FORMAT, bytes, HEADER_LEN)?;
        check_value(FORMAT, "magic", MAGIC.into(), le::u32(bytes, field::MAGIC).into())?;
        check_value(FORMAT, "version", VERSION.into(), le::u16(bytes, field::VERSION).into())?;
        let kind = le::u16(bytes, field::KIND);
        let expected = |len: usize| check_len(FORMAT, bytes, len);
        Ok(match kind {
            1 => {
                expected(field::FIRST_SPAN)?;
                let greeting = Greeting {
                    digest: le::u64(bytes, field::BODY),
                    epoch: le::u64(bytes, field::REST),
                    item_len: le::u32(bytes, field::ITEM),
                };
                let (spans, rest) = (le::u32(bytes, field::SPANS), &bytes[field::FIRST_SPAN..]);
                let len = (spans as usize).saturating_mul(Span::LEN);
                check_len(FORMAT, rest, len)?;
                Self::Hello(Hello { greeting, spans: Records::new_checked(&rest[..len])? })
            }
            2 => {
                expected(field::BODY + 4)?;
                Self::Welcome { run: le::u32(bytes, field::BODY) }
            }
            3 => {
                expected(field::BODY + 4)?;
                Self::Refused(match le::u32(bytes, field::BODY) {
                    1 => Refusal::Configuration,
                    2 => Refusal::Streams,
                    3 => Refusal::Items,
                    4 => Refusal::Full,
                    got => return Err(wrong("reason", 4, got)),
                })
            }
            4 => {
                expected(field::WAIT + 8)?;
                Self::Ask(Ask {
                    number: le::u64(bytes, field::BODY),
                    begin: le::u64(bytes, field::REST),
                    end: le::u64(bytes, field::END),
                    wait_ns: le::u64(bytes, field::WAIT),
                })
            }
            5 => {
                expected(field::SECOND + 4)?;
                let awaited = match le::u32(bytes, field::SECOND) {
                    0 => false,
                    1 => true,
                    got => return Err(wrong("awaited", 1, got)),
                };
                Self::Awaited { stream: le::u32(bytes, field::BODY), awaited }
            }
            6 => Self::Close,
            7 => Self::Done,
            8 => {
                expected(field::REST)?;
                let segments = le::u32(bytes, field::BODY) as usize;
                let rest = &bytes[field::REST..];
                let len = segments.saturating_mul(Segment::LEN);
                check_len(FORMAT, rest, len)?;
                let (segments, items) = rest.split_at(len);
                let segments = Records::<Segment>::new_checked(segments)?;
                let count: u64 = segments.clone().map(|segment| u64::from(segment.items)).sum();
                check_value(FORMAT, "items", count, le::u32(bytes, field::SECOND).into())?;
                Self::Items(Items { segments, items })
            }
            9 => {
                expected(field::REST)?;
                let len = (le::u32(bytes, field::SECOND) as usize).saturating_mul(8);
                let rest = &bytes[field::REST..];
                check_len(FORMAT, rest, len)?;
                Self::Figures(Figures { stream: le::u32(bytes, field::BODY), words: &rest[..len] })
            }
            10 => {
                expected(field::FRAGMENT)?;
                let fragment = Fragment {
                    number: le::u64(bytes, field::BODY),
                    stream: le::u32(bytes, field::REST),
                    error_bits: le::u32(bytes, field::ERROR_BITS),
                    whole: le::u64(bytes, field::WHOLE),
                    place: le::u64(bytes, field::PLACE),
                    bytes: &bytes[field::FRAGMENT..],
                };
                let Fragment { whole, place, bytes, .. } = fragment;
                if place.checked_add(bytes.len() as u64).is_none_or(|end| end > whole) {
                    let (expected, got) = (whole, place.saturating_add(bytes.len() as u64));
                    return Err(Error::Value { format: FORMAT, field: "place", expected, got });
                }
                Self::Fragment(fragment)
            }
            11 => Self::Ended,
            got => return Err(wrong("kind", 11, got.into())),
        })
    }

    /// Writes it into `bytes`, in the place of what they held.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Hello(Hello { greeting, spans }) => write_hello(bytes, greeting, spans.clone()),
            Self::Welcome { run } => {
                begin(bytes, 2);
                bytes.extend(run.to_le_bytes());
            }
            Self::Refused(refusal) => {
                begin(bytes, 3);
                bytes.extend((*refusal as u32).to_le_bytes());
            }
            Self::Ask(Ask { number, begin: from, end, wait_ns }) => {
                begin(bytes, 4);
                [number, from, end, wait_ns]
                    .into_iter()
                    .for_each(|n| bytes.extend(n.to_le_bytes()));
            }
            Self::Awaited { stream, awaited } => {
                begin(bytes, 5);
                bytes.extend(stream.to_le_bytes());
                bytes.extend(u32::from(*awaited).to_le_bytes());
            }
            Self::Close => begin(bytes, 6),
            Self::Done => begin(bytes, 7),
            Self::Items(Items { segments, items }) => {
                let count = segments.clone().map(|segment| segment.items).sum();
                begin_items(bytes, segments.clone(), count);
                bytes.extend_from_slice(items);
            }
            Self::Figures(Figures { stream, words }) => {
                begin(bytes, 9);
                bytes.extend(stream.to_le_bytes());
                bytes.extend(((words.len() / 8) as u32).to_le_bytes());
                bytes.extend_from_slice(words);
            }
            Self::Fragment(fragment) => {
                begin(bytes, 10);
                bytes.extend(fragment.number.to_le_bytes());
                bytes.extend(fragment.stream.to_le_bytes());
                bytes.extend(fragment.error_bits.to_le_bytes());
                bytes.extend(fragment.whole.to_le_bytes());
                bytes.extend(fragment.place.to_le_bytes());
                bytes.extend_from_slice(fragment.bytes);
            }
            Self::Ended => begin(bytes, 11),
        }
    }
}

fn begin(bytes: &mut Vec<u8>, kind: u16) {
    bytes.clear();
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
}

/// Writes the hello of a readout with these streams in the place of what `bytes` held.
pub fn write_hello(
    bytes: &mut Vec<u8>,
    greeting: &Greeting,
    spans: impl ExactSizeIterator<Item = Span>,
) {
    let Greeting { digest, epoch, item_len } = greeting;
    begin(bytes, 1);
    bytes.extend(digest.to_le_bytes());
    bytes.extend(epoch.to_le_bytes());
    bytes.extend(item_len.to_le_bytes());
    bytes.extend((spans.len() as u32).to_le_bytes());
    spans.for_each(|span| push(bytes, &span));
}

/// Writes a message of items up to the first of these, of which `items` follow.
fn begin_items(bytes: &mut Vec<u8>, segments: impl ExactSizeIterator<Item = Segment>, items: u32) {
    begin(bytes, 8);
    bytes.extend((segments.len() as u32).to_le_bytes());
    bytes.extend(items.to_le_bytes());
    for segment in segments {
        push(bytes, &segment);
    }
}

/// Writes a message of items in the place of what `bytes` held.
pub fn write_items<'a, R: Record + 'a>(
    bytes: &mut Vec<u8>,
    segments: impl ExactSizeIterator<Item = Segment>,
    items: impl ExactSizeIterator<Item = &'a R>,
) {
    begin_items(bytes, segments, items.len() as u32);
    items.for_each(|item| push(bytes, item));
}

/// Writes the figures of a stream in the place of what `bytes` held.
pub fn write_figures(bytes: &mut Vec<u8>, stream: u32, words: impl ExactSizeIterator<Item = u64>) {
    begin(bytes, 9);
    bytes.extend(stream.to_le_bytes());
    bytes.extend((words.len() as u32).to_le_bytes());
    words.for_each(|word| bytes.extend(word.to_le_bytes()));
}

fn push(bytes: &mut Vec<u8>, record: &impl Record) {
    let at = bytes.len();
    bytes.resize(at + record_len(record), 0);
    record.emit(&mut bytes[at..]);
}

const fn record_len<R: Record>(_: &R) -> usize {
    R::LEN
}

fn wrong(field: &'static str, expected: u64, got: u32) -> Error {
    Error::Value { format: FORMAT, field, expected, got: got.into() }
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hello(Hello { greeting, spans }) => {
                let Greeting { digest, epoch, item_len } = greeting;
                f.write_str("hello of a readout with streams")?;
                for (index, span) in spans.clone().enumerate() {
                    let Span { first, streams } = span;
                    write!(f, "{} {streams} from {first} on", if index > 0 { "," } else { "" })?;
                }
                write!(
                    f,
                    "; epoch {epoch:016x}, items of {item_len} bytes, configuration {digest:016x}"
                )
            }
            Self::Welcome { run } => write!(f, "welcome to run {run}"),
            Self::Refused(refusal) => write!(f, "the readout is refused: {refusal}"),
            Self::Ask(Ask { number, begin, end, wait_ns }) => write!(
                f,
                "decision {number} asks for ticks {begin} to {end}, waiting at most {wait_ns} ns"
            ),
            Self::Awaited { stream, awaited } => {
                write!(f, "stream {stream} is {}awaited", if *awaited { "" } else { "not " })
            }
            Self::Close => f.write_str("what has not come is missing"),
            Self::Done => f.write_str("nothing more will be asked"),
            Self::Items(items) => {
                write!(f, "{} segments of items, {} bytes", items.segments.len(), items.items.len())
            }
            Self::Figures(figures) => {
                write!(f, "stream {}: {} figures", figures.stream, figures.words().len())
            }
            Self::Fragment(Fragment { number, stream, error_bits, whole, place, bytes }) => write!(
                f,
                "decision {number}, stream {stream}: {} bytes from {place} of {whole}, error bits \
                 {error_bits:#x}",
                bytes.len()
            ),
            Self::Ended => f.write_str("no more items will come"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trigger_primitive::TriggerPrimitive;
    use proptest::prelude::*;

    fn written(message: &Message<'_>) -> Vec<u8> {
        let mut bytes = vec![1; 3];
        message.write(&mut bytes);
        bytes
    }

    #[test]
    fn known_bytes() {
        let ask = Ask { number: 7, begin: 0x0201, end: 0x0302, wait_ns: 9 };
        let bytes = written(&Message::Ask(ask));
        assert_eq!(bytes[..16], *b"GNRB\x02\0\x04\0\x07\0\0\0\0\0\0\0");
        assert_eq!((bytes[16], bytes[17], bytes[24], bytes[32], bytes.len()), (1, 2, 2, 9, 40));
        let fragment =
            Fragment { number: 1, stream: 2, error_bits: 3, whole: 9, place: 4, bytes: b"abcde" };
        let bytes = written(&Message::Fragment(fragment));
        assert_eq!((bytes[6], bytes[8], bytes[16], bytes[20]), (10, 1, 2, 3));
        assert_eq!((bytes[24], bytes[32], &bytes[40..]), (9, 4, &b"abcde"[..]));
        let text = Message::parse(&bytes).unwrap().to_string();
        assert_eq!(text, "decision 1, stream 2: 5 bytes from 4 of 9, error bits 0x3");
    }

    #[test]
    fn a_hello_names_its_streams() {
        let greeting = Greeting { digest: 0x0102, epoch: 3, item_len: 24 };
        let spans = [Span { first: 2, streams: 1 }, Span { first: 8, streams: 4 }];
        let mut bytes = Vec::new();
        write_hello(&mut bytes, &greeting, spans.into_iter());
        assert_eq!((bytes[6], bytes[8], bytes[9], bytes[16], bytes[24]), (1, 2, 1, 3, 24));
        assert_eq!((bytes[28], bytes[32], bytes[40], bytes[44], bytes.len()), (2, 2, 8, 4, 48));
        let Message::Hello(hello) = Message::parse(&bytes).unwrap() else { panic!("{bytes:?}") };
        assert!(hello.greeting == greeting && hello.spans.clone().eq(spans));
        let text = Message::Hello(hello).to_string();
        assert!(text.contains("with streams 1 from 2 on, 4 from 8 on; epoch"), "{text}");
        assert!(matches!(Message::parse(&bytes[..47]), Err(Error::Truncated { .. })));
        assert_eq!(Span { first: 9, streams: u32::MAX }.numbers(), None);
        assert_eq!(spans[1].numbers(), Some(8..12));
    }

    #[test]
    fn items_come_back_and_are_counted() {
        let items = [TriggerPrimitive::INVALID; 3];
        let segments = [
            Segment { stream: 3, items: 1, searched_to: 99, age_ns: 5 },
            Segment { stream: 4, items: 2, searched_to: 98, age_ns: 4 },
        ];
        let mut bytes = Vec::new();
        write_items(&mut bytes, segments.into_iter(), items.iter());
        let Message::Items(found) = Message::parse(&bytes).unwrap() else { panic!("{bytes:?}") };
        assert!(found.segments().eq(segments));
        assert!(found.items::<TriggerPrimitive>().unwrap().eq(items));
        assert_eq!(written(&Message::Items(found)), bytes);
        let cut = &bytes[..bytes.len() - TriggerPrimitive::LEN];
        let Message::Items(found) = Message::parse(cut).unwrap() else { panic!("{bytes:?}") };
        assert!(matches!(
            found.items::<TriggerPrimitive>().unwrap_err(),
            Error::Value { field: "items", expected: 3, got: 2, .. }
        ));
    }

    #[test]
    fn each_malformed_field_by_name() {
        let refused = written(&Message::Refused(Refusal::Items));
        let awaited = written(&Message::Awaited { stream: 1, awaited: true });
        let mut items = Vec::new();
        let segment = Segment { items: 1, ..Segment::default() };
        write_items(&mut items, [segment].into_iter(), [TriggerPrimitive::INVALID].iter());
        let fragment =
            Fragment { number: 1, stream: 2, error_bits: 3, whole: 9, place: 4, bytes: b"abcde" };
        let fragment = written(&Message::Fragment(fragment));
        for (bytes, at, value, name) in [
            (&refused, 0, 0, "magic"),
            (&refused, 4, 1, "version"),
            (&refused, 6, 12, "kind"),
            (&refused, 8, 5, "reason"),
            (&awaited, 12, 2, "awaited"),
            (&items, 12, 2, "items"),
            (&fragment, 32, 5, "place"),
            (&fragment, 39, 255, "place"),
        ] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            let error = Message::parse(&bytes).unwrap_err();
            assert!(matches!(error, Error::Value { field, .. } if field == name), "{error}");
        }
        for bytes in [refused, awaited, fragment] {
            let cut = &bytes[..bytes.len().min(39) - 1];
            assert!(matches!(Message::parse(cut), Err(Error::Truncated { .. })));
        }
    }

    proptest! {
        #[test]
        fn what_can_be_read_is_written_again(
            kind in 0..13u8,
            body in prop::collection::vec(0..5u8, 0..200),
        ) {
            let mut bytes = written(&Message::Done);
            bytes[6] = kind;
            bytes.extend(body);
            if let Ok(message) = Message::parse(&bytes) {
                let again = written(&message);
                prop_assert!(bytes.starts_with(&again), "{message}");
            }
        }
    }
}
