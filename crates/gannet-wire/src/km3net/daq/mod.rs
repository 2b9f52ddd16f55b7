//! What KM3NeT's data filter writes and its programs exchange: time slices, summary slices, events.
//!
//! ```text
//! byte  0          4          8       10         14         18         22         26         30
//!      +----------+----------+-------+----------+----------+----------+----------+----------+
//!      |  length  |   type   |version| detector |   run    |  frame   |   UTC    |  ticks   |
//!      | (bytes)  |          |  16   |          |          |  index   | seconds  |  (16 ns) |
//!      +----------+----------+-------+----------+----------+----------+----------+----------+
//!   30 | what the type says, to the end of the length                                        |
//!      +------------------------------------------------------------------------------------+
//! ```
//!
//! Little-endian but for the times of hits. The length counts from its own first byte. The frame
//! index is the number of the slice in the run. Bit 31 of the seconds says that the clock was locked.
//! Over a ControlHost connection a prefix of 16 bytes comes before.
//!
//! Source: KM3NeT/km3pipe, `io/daq.py`; KM3NeT/KM3io.jl, `daq.jl` and `controlhost.jl`.

mod control_host;
mod event;
mod summary_slice;
mod time_slice;

use core::fmt;

use super::{CLOCK, TICK_NS, TICKS_PER_S};
use crate::error::{Error, Result};
use crate::layout::{check_len, put};
use crate::little_endian as le;
use crate::numbered::numbered;
use crate::record::Record;

pub use control_host::Prefix;
pub use event::{Event, EventHeader, SnapshotHit, TriggeredHit, Triggers, emit_event, trigger_bit};
pub use summary_slice::{
    RATE_MAX_HZ, RATE_MIN_HZ, SummaryFrame, SummarySlice, emit_summary_slice, rate_code, rate_hz,
};
pub use time_slice::{Frame, FrameHeader, TimeSlice, TimeSliceWriter};

/// Bytes of length, type and version.
pub const PREAMBLE_LEN: usize = 10;
/// Bytes up to what the type says.
pub const CONTENT_AT: usize = PREAMBLE_LEN + Header::LEN;

/// Bytes of length and type.
const LENGTH_AND_TYPE_LEN: usize = 8;

numbered! {
    /// What an object is.
    pub enum DataType: u32 {
        SuperFrame = 101 => "super frame",
        SummaryFrame = 201 => "summary frame",
        TimeSlice = 1001 => "time slice",
        TimeSliceL0 = 1002 => "time slice L0",
        TimeSliceL1 = 1003 => "time slice L1",
        TimeSliceL2 = 1004 => "time slice L2",
        TimeSliceSn = 1005 => "time slice SN",
        SummarySlice = 2001 => "summary slice",
        Event = 10001 => "event",
    }
}

impl DataType {
    /// Whether it is one of the time slices.
    pub const fn is_time_slice(self) -> bool {
        matches!(
            self,
            Self::TimeSlice
                | Self::TimeSliceL0
                | Self::TimeSliceL1
                | Self::TimeSliceL2
                | Self::TimeSliceSn
        )
    }

    /// Version of the layout that is read and written here, where objects of the type have one.
    pub const fn version(self) -> Option<u16> {
        match self {
            _ if self.is_time_slice() => Some(1),
            Self::SummarySlice => Some(6),
            Self::Event => Some(4),
            _ => None,
        }
    }
}

mod field {
    pub const DETECTOR: usize = 0;
    pub const RUN: usize = 4;
    pub const FRAME_INDEX: usize = 8;
    pub const UTC_SECONDS: usize = 12;
    pub const TICKS: usize = 16;
    pub const END: usize = 20;
}

/// Bit of the seconds that says that the clock was locked.
const WHITE_RABBIT: u32 = 1 << 31;

/// Detector, run and slice of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Header {
    /// Identifier of the detector.
    pub detector: u32,
    /// Number of the run.
    pub run: u32,
    /// Number of the slice in the run.
    pub frame_index: u32,
    /// Whether the clock was locked.
    pub white_rabbit: bool,
    /// Begin of the slice: seconds since 1970, 31 bits.
    pub utc_seconds: u32,
    /// Begin of the slice: ticks of 16 ns in the second.
    pub ticks: u32,
}

impl Header {
    /// Begin of the slice, in nanoseconds since 1970.
    pub const fn begin_ns(&self) -> u64 {
        self.utc_seconds as u64 * CLOCK.per_s() + self.ticks as u64 * TICK_NS
    }

    /// The header with the begin of its slice set, which is cut to whole ticks.
    pub const fn with_begin_ns(self, begin_ns: u64) -> Self {
        let utc_seconds = (begin_ns / CLOCK.per_s()) as u32;
        let ticks = (begin_ns % CLOCK.per_s() / TICK_NS) as u32;
        Self { utc_seconds, ticks, ..self }
    }
}

impl Record for Header {
    const FORMAT: &'static str = "DAQ header";
    const LEN: usize = field::END;

    fn check(bytes: &[u8]) -> Result<()> {
        let ticks = le::u32(bytes, field::TICKS);
        if ticks >= TICKS_PER_S {
            let (min, max, got) = (0, u64::from(TICKS_PER_S) - 1, ticks.into());
            return Err(Error::Range { format: Self::FORMAT, field: "ticks", min, max, got });
        }
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        let seconds = le::u32(bytes, field::UTC_SECONDS);
        Self {
            detector: le::u32(bytes, field::DETECTOR),
            run: le::u32(bytes, field::RUN),
            frame_index: le::u32(bytes, field::FRAME_INDEX),
            white_rabbit: seconds & WHITE_RABBIT != 0,
            utc_seconds: seconds & !WHITE_RABBIT,
            ticks: le::u32(bytes, field::TICKS),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        let flag = if self.white_rabbit { WHITE_RABBIT } else { 0 };
        let seconds = self.utc_seconds & !WHITE_RABBIT | flag;
        put(bytes, field::DETECTOR, self.detector.to_le_bytes());
        put(bytes, field::RUN, self.run.to_le_bytes());
        put(bytes, field::FRAME_INDEX, self.frame_index.to_le_bytes());
        put(bytes, field::UTC_SECONDS, seconds.to_le_bytes());
        put(bytes, field::TICKS, self.ticks.to_le_bytes());
    }
}

/// Prints detector, run, slice and its begin on one line.
impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { detector, run, frame_index, utc_seconds, ticks, .. } = self;
        write!(f, "detector {detector}, run {run}, slice {frame_index} at {utc_seconds} s ")?;
        write!(f, "{ticks} ticks of 16 ns, clock ")?;
        f.write_str(if self.white_rabbit { "locked" } else { "free" })
    }
}

/// An object as it lies.
#[derive(Clone, Copy, Debug)]
pub enum Object<'a> {
    /// A time slice of any kind.
    TimeSlice(TimeSlice<'a>),
    /// A summary slice.
    SummarySlice(SummarySlice<'a>),
    /// An event.
    Event(Event<'a>),
}

/// Prints the object on one line.
impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimeSlice(slice) => slice.fmt(f),
            Self::SummarySlice(slice) => slice.fmt(f),
            Self::Event(event) => event.fmt(f),
        }
    }
}

impl<'a> Object<'a> {
    /// The object at the begin of `bytes`, and what follows it.
    ///
    /// # Errors
    /// [`Error::Unknown`] for a type that is none of an object; else what is wrong with it.
    pub fn new_checked(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        check_len("DAQ preamble", bytes, PREAMBLE_LEN)?;
        let number = le::u32(bytes, 4);
        match DataType::from_number(number) {
            DataType::SummarySlice => SummarySlice::new_checked(bytes)
                .map(|(slice, rest)| (Self::SummarySlice(slice), rest)),
            DataType::Event => {
                Event::new_checked(bytes).map(|(event, rest)| (Self::Event(event), rest))
            }
            kind if kind.is_time_slice() => {
                TimeSlice::new_checked(bytes).map(|(slice, rest)| (Self::TimeSlice(slice), rest))
            }
            _ => Err(Error::Unknown { format: "DAQ preamble", field: "type", got: number.into() }),
        }
    }
}

/// Objects that follow one another, as in a file. An error is the last that comes.
#[derive(Clone, Debug)]
pub struct Objects<'a> {
    rest: &'a [u8],
}

impl<'a> Objects<'a> {
    /// The objects that fill `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Objects<'a> {
    type Item = Result<Object<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let object = Object::new_checked(self.rest);
        self.rest = object.map_or(&[], |(_, rest)| rest);
        Some(object.map(|(object, _)| object))
    }
}

/// Cuts what a length at the begin of `bytes` says from what follows it; it has at least `least` bytes.
fn split<'a>(format: &'static str, bytes: &'a [u8], least: usize) -> Result<(&'a [u8], &'a [u8])> {
    check_len(format, bytes, least)?;
    let len = le::u32(bytes, 0) as usize;
    if len < least {
        let (min, max, got) = (least as u64, i32::MAX as u64, len as u64);
        return Err(Error::Range { format, field: "length", min, max, got });
    }
    check_len(format, bytes, len)?;
    Ok(bytes.split_at(len))
}

/// Cuts an object of `is_of_type` from what follows it, with its version and header tested.
fn split_object<'a>(
    format: &'static str,
    bytes: &'a [u8],
    is_of_type: impl Fn(DataType) -> bool,
) -> Result<(&'a [u8], &'a [u8])> {
    let (object, rest) = split(format, bytes, CONTENT_AT)?;
    let number = le::u32(object, 4);
    let data_type = DataType::from_number(number);
    let Some(version) = data_type.version().filter(|_| is_of_type(data_type)) else {
        return Err(Error::Unknown { format, field: "type", got: number.into() });
    };
    let got = le::u16(object, LENGTH_AND_TYPE_LEN);
    if got != version {
        let known = match version {
            1 => "1",
            4 => "4",
            _ => "6",
        };
        return Err(Error::Version { format, known, got: got.into() });
    }
    Header::check(&object[PREAMBLE_LEN..])?;
    Ok((object, rest))
}

/// A count at `at`, and the bytes behind it, of which as many items of `unit` bytes must be there.
fn counted<'a>(format: &'static str, bytes: &'a [u8], unit: usize) -> Result<(&'a [u8], &'a [u8])> {
    check_len(format, bytes, 4)?;
    let count = le::u32(bytes, 0) as usize;
    let items = &bytes[4..];
    let len = count.saturating_mul(unit);
    check_len(format, items, len)?;
    Ok(items.split_at(len))
}

/// What is left when an object has been read is an error.
fn check_end(format: &'static str, rest: &[u8]) -> Result<()> {
    match rest.len() {
        0 => Ok(()),
        got => Err(Error::Value { format, field: "bytes left", expected: 0, got: got as u64 }),
    }
}

/// Begins an object at the end of `out`: preamble and header. Returns where it begins.
fn begin_object(data_type: DataType, header: &Header, out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.resize(at + CONTENT_AT, 0);
    let object = &mut out[at..];
    let version = data_type.version().expect("objects have versions");
    put(object, 4, data_type.number().to_le_bytes());
    put(object, LENGTH_AND_TYPE_LEN, version.to_le_bytes());
    header.emit(&mut object[PREAMBLE_LEN..]);
    at
}

/// Sets the length of what begins at `at` and ends where `out` does.
fn finish_object(at: usize, out: &mut [u8]) {
    let len = u32::try_from(out.len() - at).expect("an object has less than 4 GiB");
    put(out, at, len.to_le_bytes());
}

/// Appends a record.
fn push<R: Record>(record: &R, out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + R::LEN, 0);
    record.emit(&mut out[at..]);
}

/// Appends a count and records.
fn push_counted<R: Record>(records: &[R], out: &mut Vec<u8>) {
    let count = u32::try_from(records.len()).expect("a count has 32 bits");
    out.extend(count.to_le_bytes());
    records.iter().for_each(|record| push(record, out));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_versions_are_those_of_the_sources() {
        let of = |number| DataType::from_number(number).version();
        assert_eq!([1001, 1002, 1003, 1004, 1005].map(of), [Some(1); 5]);
        assert_eq!([2001, 10001, 101, 7].map(of), [Some(6), Some(4), None, None]);
    }

    #[test]
    fn the_header_keeps_the_clock_in_its_seconds() {
        let mut bytes = [0; Header::LEN];
        let header = Header {
            detector: 29,
            run: 7,
            frame_index: 5,
            white_rabbit: true,
            utc_seconds: 0x6553_f100,
            ticks: 6_250_000,
        };
        header.emit(&mut bytes);
        assert_eq!(bytes[12..], [0x00, 0xf1, 0x53, 0xe5, 0x10, 0x5e, 0x5f, 0]);
        assert_eq!(Header::parse(&bytes), Ok(header));
        assert_eq!(header.with_begin_ns(header.begin_ns()), header);
        let text =
            "detector 29, run 7, slice 5 at 1700000000 s 6250000 ticks of 16 ns, clock locked";
        assert_eq!(header.to_string(), text);
    }
}
