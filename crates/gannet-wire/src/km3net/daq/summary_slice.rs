//! Summary slices: the rate of every photomultiplier in a slice, one byte each.
//!
//! Source: KM3NeT/km3pipe, `io/daq.py`; KM3NeT/KM3io.jl, `daq.jl`.

use core::fmt;

use super::{
    CONTENT_AT, DataType, Header, PREAMBLE_LEN, begin_object, check_end, counted, finish_object,
    push_counted, split_object,
};
use crate::error::Result;
use crate::km3net::{CHANNELS, Status};
use crate::layout::{array, put};
use crate::little_endian as le;
use crate::record::{Record, Records};

const FORMAT: &str = "KM3NeT summary slice";

/// Rate that the codes begin above, in hertz.
pub const RATE_MIN_HZ: f64 = 2e3;
/// Rate of the largest code, in hertz.
pub const RATE_MAX_HZ: f64 = 2e6;

/// The rate of a code, in hertz: 0, or from [`RATE_MIN_HZ`] to [`RATE_MAX_HZ`] in 255 equal ratios.
pub fn rate_hz(code: u8) -> f64 {
    match code {
        0 => 0.0,
        _ => RATE_MIN_HZ * (f64::from(code) * step()).exp(),
    }
}

/// The code of the rate that is nearest by ratio; 0 for none above [`RATE_MIN_HZ`].
pub fn rate_code(hz: f64) -> u8 {
    if hz > RATE_MIN_HZ { ((hz / RATE_MIN_HZ).ln() / step()).round() as u8 } else { 0 }
}

/// Logarithm of the ratio of neighbouring codes.
fn step() -> f64 {
    (RATE_MAX_HZ / RATE_MIN_HZ).ln() / f64::from(u8::MAX)
}

mod field {
    pub const MODULE: usize = 0;
    pub const DAQ_STATUS: usize = 4;
    pub const STATUS: usize = 8;
    pub const RATES: usize = 24;
    pub const END: usize = RATES + super::CHANNELS;
}

/// The rates of one module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SummaryFrame {
    /// Identifier of the module.
    pub module: u32,
    /// Bits 14:0: packets that came; bits 31:16: largest number of a packet in the slice.
    pub daq_status: u32,
    /// What the module says of itself.
    pub status: Status,
    /// A code for each photomultiplier, see [`rate_hz`].
    pub rates: [u8; CHANNELS],
}

impl SummaryFrame {
    /// Whether every packet of the slice came: the last, which says so, and as many as are numbered.
    pub const fn is_complete(&self) -> bool {
        let (packets, largest) = (self.daq_status & 0x7fff, self.daq_status >> 16);
        self.status.udp_trailer() && packets == largest + 1
    }
}

impl Record for SummaryFrame {
    const FORMAT: &'static str = "KM3NeT summary frame";
    const LEN: usize = field::END;

    fn check(_: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            module: le::u32(bytes, field::MODULE),
            daq_status: le::u32(bytes, field::DAQ_STATUS),
            status: Status::read_le(&bytes[field::STATUS..]),
            rates: array(bytes, field::RATES),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        put(bytes, field::MODULE, self.module.to_le_bytes());
        put(bytes, field::DAQ_STATUS, self.daq_status.to_le_bytes());
        for (index, word) in self.status.0.iter().enumerate() {
            put(bytes, field::STATUS + 4 * index, word.to_le_bytes());
        }
        put(bytes, field::RATES, self.rates);
    }
}

/// Prints module, the sum of its rates, and its status.
impl fmt::Display for SummaryFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum: f64 = self.rates.into_iter().map(rate_hz).sum();
        write!(f, "module {}, {:.1} kHz, status {}", self.module, sum / 1e3, self.status)
    }
}

/// View of a summary slice.
#[derive(Clone, Copy, Debug)]
pub struct SummarySlice<'a> {
    bytes: &'a [u8],
}

impl<'a> SummarySlice<'a> {
    /// The summary slice at the begin of `bytes`, and what follows it.
    ///
    /// # Errors
    /// As [`TimeSlice::new_checked`](super::TimeSlice::new_checked).
    pub fn new_checked(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let is_summary = |data_type| data_type == DataType::SummarySlice;
        let (object, rest) = split_object(FORMAT, bytes, is_summary)?;
        let (_, behind) = counted(FORMAT, &object[CONTENT_AT..], SummaryFrame::LEN)?;
        check_end(FORMAT, behind)?;
        Ok((Self { bytes: object }, rest))
    }

    /// Detector, run and slice.
    pub fn header(&self) -> Header {
        Header::read(&self.bytes[PREAMBLE_LEN..])
    }

    /// The rates, module by module.
    pub fn frames(&self) -> Records<'a, SummaryFrame> {
        Records::new_checked(&self.bytes[CONTENT_AT + 4..]).expect("the slice was tested")
    }
}

/// Prints the header and the number of frames.
impl fmt::Display for SummarySlice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, frames) = (DataType::SummarySlice, self.frames());
        write!(f, "{kind}, {}, {} frames", self.header(), frames.len())
    }
}

/// Appends a summary slice to `out`.
pub fn emit_summary_slice(header: &Header, frames: &[SummaryFrame], out: &mut Vec<u8>) {
    let at = begin_object(DataType::SummarySlice, header, out);
    push_counted(frames, out);
    finish_object(at, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use proptest::prelude::*;

    fn slice(frames: &[SummaryFrame]) -> Vec<u8> {
        let mut bytes = Vec::new();
        emit_summary_slice(&Header { run: 7, ..Header::default() }, frames, &mut bytes);
        bytes
    }

    #[test]
    fn stored_form() {
        let frame = SummaryFrame { module: 9, rates: [46; CHANNELS], ..SummaryFrame::default() };
        let bytes = slice(&[frame; 2]);
        assert_eq!(bytes.len(), 34 + 2 * 55);
        assert_eq!(bytes[..10], [144, 0, 0, 0, 0xd1, 7, 0, 0, 6, 0]);
        assert_eq!(bytes[30..38], [2, 0, 0, 0, 9, 0, 0, 0]);
        assert_eq!(bytes[58..89], [46; 31]);
        let (slice, rest) = SummarySlice::new_checked(&bytes).unwrap();
        assert!(rest.is_empty());
        assert_eq!((slice.header().run, slice.frames().last()), (7, Some(frame)));
        assert!(slice.to_string().ends_with("clock free, 2 frames"), "{slice}");
        assert!(frame.to_string().starts_with("module 9, 215.6 kHz, status 0x"), "{frame}");
    }

    #[test]
    fn complete_is_a_slice_whose_last_packet_and_all_before_it_came() {
        let complete = |daq_status, trailer| {
            let status = Status::new(true, 0, trailer, 0);
            SummaryFrame { daq_status, status, ..SummaryFrame::default() }.is_complete()
        };
        assert!(complete(19 << 16 | 20, true) && complete(1, true));
        assert!(!complete(19 << 16 | 20, false));
        assert!(!complete(19 << 16 | 19, true) && !complete(0, true));
    }

    #[test]
    fn malformed_counts() {
        let mut bytes = slice(&[SummaryFrame::default()]);
        bytes[30] = 2;
        let error = SummarySlice::new_checked(&bytes).unwrap_err();
        assert!(matches!(error, Error::Truncated { expected: 110, got: 55, .. }), "{error}");
        bytes[30] = 0;
        let error = SummarySlice::new_checked(&bytes).unwrap_err();
        assert!(matches!(error, Error::Value { field: "bytes left", got: 55, .. }), "{error}");
        bytes[30..34].fill(255);
        assert!(SummarySlice::new_checked(&bytes).is_err());
    }

    #[test]
    fn rates_lie_between_2_khz_and_2_mhz() {
        assert_eq!([rate_hz(0), rate_hz(255).round()], [0.0, 2e6]);
        assert!((rate_hz(1) - 2054.9).abs() < 0.1, "{}", rate_hz(1));
        assert_eq!([0.0, 2e3, -1.0, 2e6, 1e9, f64::NAN].map(rate_code), [0, 0, 0, 255, 255, 0]);
        assert!((0..=255).all(|code| rate_code(rate_hz(code)) == code));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_slice_comes_back(
            frames in prop::collection::vec(any::<(u32, u32, [u32; 4], [u8; CHANNELS])>(), 0..20),
        ) {
            let frame = |(module, daq_status, status, rates)| {
                SummaryFrame { module, daq_status, status: Status(status), rates }
            };
            let frames: Vec<_> = frames.into_iter().map(frame).collect();
            let bytes = slice(&frames);
            let (slice, _) = SummarySlice::new_checked(&bytes).unwrap();
            prop_assert_eq!(slice.frames().collect::<Vec<_>>(), frames);
        }
    }
}
