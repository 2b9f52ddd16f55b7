//! Time slices: the hits of all modules in a slice.
//!
//! Source: KM3NeT/km3pipe, `io/daq.py`; KM3NeT/KM3io.jl, `daq.jl`.

use core::fmt;

use super::{
    CONTENT_AT, DataType, Header, PREAMBLE_LEN, begin_object, check_end, finish_object, push,
    push_counted, split, split_object,
};
use crate::error::{Error, Result};
use crate::km3net::{Hit, Status};
use crate::layout::{check_len, put};
use crate::little_endian as le;
use crate::record::{Record, Records};

const FORMAT: &str = "KM3NeT time slice";
const FRAME: &str = "KM3NeT frame";
/// Bytes of the number of frames.
const COUNT_LEN: usize = 4;

/// Places within a frame.
mod field {
    use crate::km3net::daq::Header;
    use crate::record::Record;

    pub const TYPE: usize = 4;
    pub const HEADER: usize = 8;
    pub const MODULE: usize = HEADER + Header::LEN;
    pub const DAQ_STATUS: usize = MODULE + 4;
    pub const STATUS: usize = DAQ_STATUS + 4;
    pub const HITS: usize = STATUS + 16;
    pub const END: usize = HITS + 4;
}

/// What a frame tells beside its hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameHeader {
    /// Detector, run and slice.
    pub header: Header,
    /// Identifier of the module.
    pub module: u32,
    /// Bits 14:0: packets that came; bits 31:16: largest number of a packet in the slice.
    pub daq_status: u32,
    /// What the module says of itself.
    pub status: Status,
}

/// The hits of one module in a slice.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    fn new_checked(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let (frame, rest) = split(FRAME, bytes, field::END)?;
        let data_type = le::u32(frame, field::TYPE);
        if data_type != DataType::SuperFrame.number() {
            return Err(Error::Unknown { format: FRAME, field: "type", got: data_type.into() });
        }
        Header::check(&frame[field::HEADER..])?;
        let hits = &frame[field::END..];
        let len = (le::u32(frame, field::HITS) as usize).saturating_mul(Hit::LEN);
        check_len(FRAME, hits, len)?;
        check_end(FRAME, &hits[len..])?;
        Ok((Self { bytes: frame }, rest))
    }

    /// What it tells beside its hits.
    pub fn header(&self) -> FrameHeader {
        FrameHeader {
            header: Header::read(&self.bytes[field::HEADER..]),
            module: le::u32(self.bytes, field::MODULE),
            daq_status: le::u32(self.bytes, field::DAQ_STATUS),
            status: Status::read_le(&self.bytes[field::STATUS..]),
        }
    }

    /// Its hits.
    pub fn hits(&self) -> Records<'a, Hit> {
        Records::new_checked(&self.bytes[field::END..]).expect("the frame was tested")
    }
}

/// Prints module, status and number of hits.
impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FrameHeader { module, status, .. } = self.header();
        write!(f, "module {module}, {} hits, status {status}", self.hits().len())
    }
}

/// View of a time slice.
#[derive(Clone, Copy, Debug)]
pub struct TimeSlice<'a> {
    bytes: &'a [u8],
}

impl<'a> TimeSlice<'a> {
    /// The time slice at the begin of `bytes`, all of whose frames are tested, and what follows it.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Range`] for lengths that do not hold what is counted,
    /// [`Error::Value`] where they hold more; [`Error::Unknown`] for another type,
    /// [`Error::Version`] for another version.
    pub fn new_checked(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let (object, rest) = split_object(FORMAT, bytes, DataType::is_time_slice)?;
        check_len(FORMAT, object, CONTENT_AT + COUNT_LEN)?;
        let mut frames = &object[CONTENT_AT + COUNT_LEN..];
        for _ in 0..le::u32(object, CONTENT_AT) {
            (_, frames) = Frame::new_checked(frames)?;
        }
        check_end(FORMAT, frames)?;
        Ok((Self { bytes: object }, rest))
    }

    /// Which hits it has.
    pub fn data_type(&self) -> DataType {
        DataType::from_number(le::u32(self.bytes, 4))
    }

    /// Detector, run and slice.
    pub fn header(&self) -> Header {
        Header::read(&self.bytes[PREAMBLE_LEN..])
    }

    /// Number of frames.
    pub fn frame_count(&self) -> u32 {
        le::u32(self.bytes, CONTENT_AT)
    }

    /// The frames, one for each module.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'a>> + use<'a> {
        let mut rest = &self.bytes[CONTENT_AT + COUNT_LEN..];
        core::iter::from_fn(move || {
            let (frame, behind) = Frame::new_checked(rest).ok()?;
            rest = behind;
            Some(frame)
        })
    }
}

/// Prints type, header and number of frames.
impl fmt::Display for TimeSlice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {} frames", self.data_type(), self.header(), self.frame_count())
    }
}

/// Appends a time slice to a vector, frame by frame.
#[derive(Debug)]
pub struct TimeSliceWriter<'a> {
    out: &'a mut Vec<u8>,
    at: usize,
    frames: u32,
}

impl<'a> TimeSliceWriter<'a> {
    /// Begins a time slice at the end of `out`.
    ///
    /// # Panics
    /// If `data_type` is of no time slice.
    pub fn new(data_type: DataType, header: &Header, out: &'a mut Vec<u8>) -> Self {
        assert!(data_type.is_time_slice(), "{data_type} is no time slice");
        let at = begin_object(data_type, header, out);
        out.extend([0; COUNT_LEN]);
        Self { out, at, frames: 0 }
    }

    /// Appends the frame of a module.
    pub fn frame(&mut self, frame: &FrameHeader, hits: &[Hit]) {
        let (at, out) = (self.out.len(), &mut *self.out);
        out.resize(at + field::HEADER, 0);
        put(&mut out[at..], field::TYPE, DataType::SuperFrame.number().to_le_bytes());
        push(&frame.header, out);
        out.extend(frame.module.to_le_bytes());
        out.extend(frame.daq_status.to_le_bytes());
        out.extend(frame.status.0.iter().flat_map(|word| word.to_le_bytes()));
        push_counted(hits, out);
        finish_object(at, out);
        self.frames += 1;
    }

    /// Sets what is known at the end: lengths and number of frames.
    pub fn finish(self) {
        put(self.out, self.at + CONTENT_AT, self.frames.to_le_bytes());
        finish_object(self.at, self.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: Header = Header {
        detector: 29,
        run: 7,
        frame_index: 5,
        white_rabbit: true,
        utc_seconds: 1_700_000_000,
        ticks: 6_250_000,
    };
    const FRAME: FrameHeader = FrameHeader {
        header: HEADER,
        module: 808_488_895,
        daq_status: 19 << 16 | 20,
        status: Status::new(true, 0, true, 0),
    };

    fn slice() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = TimeSliceWriter::new(DataType::TimeSliceL0, &HEADER, &mut bytes);
        writer.frame(&FRAME, &[Hit { channel: 3, time: 0x0102_0304, time_over_threshold: 26 }]);
        writer.frame(&FRAME, &[]);
        writer.finish();
        bytes
    }

    fn error_with(change: impl FnOnce(&mut Vec<u8>)) -> Error {
        let mut bytes = slice();
        change(&mut bytes);
        TimeSlice::new_checked(&bytes).unwrap_err()
    }

    #[test]
    fn stored_form() {
        let bytes = slice();
        assert_eq!(bytes.len(), 34 + 62 + 56);
        assert_eq!(bytes[..10], [152, 0, 0, 0, 0xea, 3, 0, 0, 1, 0]);
        assert_eq!(bytes[30..42], [2, 0, 0, 0, 62, 0, 0, 0, 101, 0, 0, 0]);
        assert_eq!(bytes[62..70], [0xbf, 0x8f, 0x30, 0x30, 20, 0, 19, 0]);
        assert_eq!(bytes[86..96], [1, 0, 0, 0, 3, 1, 2, 3, 4, 26]);
    }

    #[test]
    fn reads_what_is_written() {
        let bytes = [slice(), vec![7; 3]].concat();
        let (slice, rest) = TimeSlice::new_checked(&bytes).unwrap();
        assert_eq!(rest, [7; 3]);
        assert_eq!((slice.data_type(), slice.header()), (DataType::TimeSliceL0, HEADER));
        let frames: Vec<_> = slice.frames().map(|f| (f.header(), f.hits().len())).collect();
        assert_eq!(frames, [(FRAME, 1), (FRAME, 0)]);
        assert!(slice.to_string().ends_with("clock locked, 2 frames"), "{slice}");
        let text = slice.frames().next().unwrap().to_string();
        assert!(text.starts_with("module 808488895, 1 hits, status 0x80000000"), "{text}");
    }

    #[test]
    fn malformed_lengths_and_counts() {
        assert!(matches!(error_with(|b| b.truncate(151)), Error::Truncated { got: 151, .. }));
        assert!(matches!(error_with(|b| b[0] = 151), Error::Truncated { .. }));
        assert!(matches!(error_with(|b| b[0] = 9), Error::Range { field: "length", got: 9, .. }));
        assert!(matches!(error_with(|b| b[30] = 3), Error::Truncated { got: 0, .. }));
        assert!(matches!(error_with(|b| b[30] = 1), Error::Value { field: "bytes left", .. }));
        assert!(matches!(error_with(|b| b[86] = 0), Error::Value { got: 6, .. }));
        assert!(matches!(error_with(|b| b[86..90].fill(255)), Error::Truncated { .. }));
    }

    #[test]
    fn malformed_type_and_version() {
        assert!(matches!(error_with(|b| b[4] = 0), Error::Unknown { field: "type", .. }));
        assert!(matches!(error_with(|b| b[38] = 0), Error::Unknown { field: "type", .. }));
        assert!(matches!(error_with(|b| b[8] = 2), Error::Version { known: "1", got: 2, .. }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_slice_comes_back(
            frames in prop::collection::vec(
                (any::<u32>(), any::<[u32; 4]>(), prop::collection::vec(any::<(u8, u32, u8)>(), 0..20)), 0..20),
        ) {
            let mut bytes = Vec::new();
            let mut writer = TimeSliceWriter::new(DataType::TimeSliceSn, &HEADER, &mut bytes);
            let frames: Vec<_> = frames.into_iter().map(|(module, status, hits)| {
                let hit = |(channel, time, time_over_threshold)| Hit { channel, time, time_over_threshold };
                let hits: Vec<_> = hits.into_iter().map(hit).collect();
                (FrameHeader { module, status: Status(status), ..FRAME }, hits)
            }).collect();
            frames.iter().for_each(|(frame, hits)| writer.frame(frame, hits));
            writer.finish();
            let (slice, _) = TimeSlice::new_checked(&bytes).unwrap();
            let read: Vec<_> = slice.frames().map(|f| (f.header(), f.hits().collect::<Vec<_>>())).collect();
            prop_assert_eq!(read, frames);
        }
    }
}
