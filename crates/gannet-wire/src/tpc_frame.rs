//! Frame of 64 TPC channels over Ethernet: what WIBEth and TDEEth have in common.
//!
//! ```text
//! byte 0           16               32                                         7200
//!      +------------+----------------+-------------------------------------------+
//!      |    DAQ     |  front end's   |                 ADC block                 |
//!      |  Ethernet  |   own header   |  64 samples x 64 channels x 14 bits,      |
//!      |   header   |    16 bytes    |  7168 bytes                               |
//!      +------------+----------------+-------------------------------------------+
//! ```
//!
//! The front ends differ only in the second header, and are types that implement [`FrontEnd`].
//!
//! Source: DUNE-DAQ/fddetdataformats `include/fddetdataformats/{WIBEthFrame,TDEEthFrame}.hpp`.

use core::fmt;
use core::marker::PhantomData;
use core::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layout::{array_mut, array_ref, check_len};
use crate::{
    Detector, Error, FrameFormat, GeoId, Heading, Result, Rhythm, Step, StreamKey, adc14,
    daq_ethernet, tdeeth, wibeth,
};

pub use crate::adc14::{CHANNELS, SAMPLES};

/// Bytes of the front end's own header.
pub const FRONT_END_LEN: usize = 16;
/// Bytes of both headers.
pub const HEADERS_LEN: usize = field::ADC;
/// Bytes of a frame.
pub const FRAME_LEN: usize = field::ADC + adc14::BLOCK_LEN;
/// Value that the DAQ header's `block_length` has in real frames: 64-bit words minus one, 899.
pub const BLOCK_LENGTH: u16 = (FRAME_LEN / 8 - 1) as u16;

mod field {
    use crate::daq_ethernet;
    use core::ops::Range;

    pub const DAQ: Range<usize> = 0..daq_ethernet::HEADER_LEN;
    pub const FRONT_END: usize = DAQ.end;
    pub const ADC: usize = FRONT_END + super::FRONT_END_LEN;
}

/// Formats of frames of 64 TPC channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TpcFormat {
    /// Warm interface board over Ethernet: 2048 ticks a frame, 30,517.578 frames/s.
    #[default]
    WibEth,
    /// Top drift electronics over Ethernet: 2000 ticks a frame, 31,250 frames/s.
    TdeEth,
}

impl TpcFormat {
    /// Ticks of 16 ns from one frame of a stream to the next.
    pub const fn ticks_per_frame(self) -> u64 {
        match self {
            Self::WibEth => wibeth::TICKS_PER_FRAME,
            Self::TdeEth => tdeeth::TICKS_PER_FRAME,
        }
    }

    /// Frames per second of one stream at the true rate.
    pub fn frames_per_s(self) -> f64 {
        self.rhythm().frames_per_s()
    }

    /// Samples per second of one channel at the true rate.
    pub fn samples_per_s(self) -> f64 {
        self.frames_per_s() * SAMPLES as f64
    }

    /// Detector that sends this format, when none is configured.
    pub const fn detector(self) -> Detector {
        match self {
            Self::WibEth => Detector::HdTpc,
            Self::TdeEth => Detector::VdTopTpc,
        }
    }

    /// Format of the frames that the detector of this number sends.
    pub const fn of_detector(number: u16) -> Self {
        if number == Self::TdeEth.detector().number() { Self::TdeEth } else { Self::WibEth }
    }
}

impl FrameFormat for TpcFormat {
    fn lengths(&self) -> RangeInclusive<usize> {
        FRAME_LEN..=FRAME_LEN
    }

    fn rhythm(&self) -> Rhythm {
        Rhythm {
            clock: daq_ethernet::CLOCK,
            step: Step::Fixed(self.ticks_per_frame()),
            sequence_modulus: daq_ethernet::SEQ_MODULUS.into(),
        }
    }

    /// What is read here lies at the same place in the frames of all front ends.
    #[inline]
    fn heading(&self, datagram: &[u8]) -> Result<Heading> {
        const FORMAT: &str = "TPC frame";
        check_len(FORMAT, datagram, FRAME_LEN)?;
        let daq = daq_ethernet::Header::new_unchecked(&datagram[field::DAQ]);
        if daq.block_length() != BLOCK_LENGTH {
            return Err(Error::Value {
                format: FORMAT,
                field: "block_length",
                expected: BLOCK_LENGTH.into(),
                got: daq.block_length().into(),
            });
        }
        Ok(Heading {
            stream: daq.geo_id().into(),
            begin: daq.timestamp(),
            sequence: daq.seq_id().into(),
        })
    }

    /// Of a frame only the two headers need be there.
    #[inline]
    fn set_heading(&self, datagram: &mut [u8], heading: &Heading) {
        let (daq, own) = datagram[..HEADERS_LEN].split_at_mut(field::FRONT_END);
        let mut daq = daq_ethernet::Header::new_unchecked(daq);
        daq.set_geo_id(GeoId::from_bits(heading.stream.0));
        daq.set_timestamp(heading.begin);
        daq.set_seq_id(heading.sequence as u16 % daq_ethernet::SEQ_MODULUS);
        if *self == Self::WibEth {
            // Both chips count the low bits of the same time.
            let mut own = wibeth::Header::new_unchecked(own);
            own.set_colddata_timestamp_0(heading.begin as u16);
            own.set_colddata_timestamp_1(heading.begin as u16);
        }
    }

    fn stream_name(&self, stream: StreamKey) -> String {
        GeoId::from_bits(stream.0).to_string()
    }
}

impl From<GeoId> for StreamKey {
    #[inline]
    fn from(geo_id: GeoId) -> Self {
        Self(geo_id.to_bits())
    }
}

/// A front end's own header as plain values, which also names the kind of the frame.
pub trait FrontEnd: Copy + fmt::Debug + fmt::Display + PartialEq {
    /// Name of the frame in messages.
    const FORMAT: &'static str;
    /// Ticks of 16 ns from one frame of a stream to the next.
    const TICKS_PER_FRAME: u64;

    /// The header in its 16 bytes; every bit pattern is valid.
    fn parse(bytes: &[u8; FRONT_END_LEN]) -> Self;

    /// Writes the header.
    fn emit(&self, bytes: &mut [u8; FRONT_END_LEN]);
}

/// View of a frame of the front end `H`.
#[derive(Clone, Copy, Debug)]
pub struct Frame<T, H> {
    buffer: T,
    front_end: PhantomData<H>,
}

impl<T: AsRef<[u8]>, H: FrontEnd> Frame<T, H> {
    /// View without a length test: accessors panic when the buffer is too short.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer, front_end: PhantomData }
    }

    /// View of the first [`FRAME_LEN`] bytes of `buffer`; bytes after them are ignored.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the buffer is too short.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self> {
        check_len(H::FORMAT, buffer.as_ref(), FRAME_LEN)?;
        Ok(Self::new_unchecked(buffer))
    }

    /// The buffer under the view.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// The DAQ Ethernet header.
    #[inline]
    pub fn daq(&self) -> daq_ethernet::Header<&[u8]> {
        daq_ethernet::Header::new_unchecked(&self.buffer.as_ref()[field::DAQ])
    }

    /// The bytes of the front end's own header.
    #[inline]
    pub fn front_end(&self) -> &[u8; FRONT_END_LEN] {
        array_ref(self.buffer.as_ref(), field::FRONT_END)
    }

    /// The packed ADC values.
    #[inline]
    pub fn adc_block(&self) -> &adc14::Block {
        array_ref(self.buffer.as_ref(), field::ADC)
    }

    /// ADC value of one channel at one time sample.
    ///
    /// # Panics
    /// When `channel` or `sample` is not below 64.
    #[inline]
    pub fn adc(&self, channel: usize, sample: usize) -> u16 {
        adc14::get(self.adc_block(), channel, sample)
    }

    /// Where the frame comes from: the key of its stream.
    #[inline]
    pub fn geo_id(&self) -> GeoId {
        self.daq().geo_id()
    }

    /// Time of the first sample, in ticks of 16 ns.
    #[inline]
    pub fn timestamp(&self) -> u64 {
        self.daq().timestamp()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>, H: FrontEnd> Frame<T, H> {
    /// The DAQ Ethernet header, for writing.
    #[inline]
    pub fn daq_mut(&mut self) -> daq_ethernet::Header<&mut [u8]> {
        daq_ethernet::Header::new_unchecked(&mut self.buffer.as_mut()[field::DAQ])
    }

    /// The bytes of the front end's own header, for writing.
    #[inline]
    pub fn front_end_mut(&mut self) -> &mut [u8; FRONT_END_LEN] {
        array_mut(self.buffer.as_mut(), field::FRONT_END)
    }

    /// The packed ADC values, for writing.
    #[inline]
    pub fn adc_block_mut(&mut self) -> &mut adc14::Block {
        array_mut(self.buffer.as_mut(), field::ADC)
    }

    /// Stores the low 14 bits of `adc` for one channel at one time sample.
    ///
    /// # Panics
    /// When `channel` or `sample` is not below 64.
    #[inline]
    pub fn set_adc(&mut self, channel: usize, sample: usize, adc: u16) {
        adc14::set(self.adc_block_mut(), channel, sample, adc);
    }
}

/// A frame as plain values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repr<H> {
    /// The DAQ Ethernet header.
    pub daq: daq_ethernet::Repr,
    /// The front end's own header.
    pub front_end: H,
    /// ADC values, `[sample][channel]`, of which the low 14 bits are stored.
    pub adc: adc14::Samples,
}

impl<H: FrontEnd> Repr<H> {
    /// The values of a frame; every bit pattern is valid.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T, H>) -> Self {
        let mut adc = [[0; CHANNELS]; SAMPLES];
        adc14::unpack(frame.adc_block(), &mut adc);
        let daq = daq_ethernet::Repr::parse(&frame.daq());
        Self { daq, front_end: H::parse(frame.front_end()), adc }
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        FRAME_LEN
    }

    /// Writes the whole frame.
    ///
    /// # Panics
    /// When the buffer under an unchecked view is too short.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, frame: &mut Frame<T, H>) {
        self.daq.emit(&mut frame.daq_mut());
        self.front_end.emit(frame.front_end_mut());
        adc14::pack(&self.adc, frame.adc_block_mut());
    }
}

/// Prints both headers and the range of the ADC values; `{:#}` adds every value, a row a sample.
impl<H: FrontEnd> fmt::Display for Repr<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = || self.adc.iter().flatten();
        let (min, max) = (values().min().unwrap_or(&0), values().max().unwrap_or(&0));
        writeln!(f, "{}\n{}\n{}", H::FORMAT, self.daq, self.front_end)?;
        write!(f, "ADC block\n  {CHANNELS} channels x {SAMPLES} samples, {min} to {max} counts")?;
        if f.alternate() {
            for (sample, row) in self.adc.iter().enumerate() {
                write!(f, "\n  {sample:>2}:")?;
                row.iter().try_for_each(|adc| write!(f, " {adc}"))?;
            }
        }
        Ok(())
    }
}

impl<T: AsRef<[u8]>, H: FrontEnd> fmt::Display for Frame<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wibeth_frame_lasts_2048_ticks_or_32768_ns() {
        let rhythm = TpcFormat::WibEth.rhythm();
        assert_eq!(rhythm.step, Step::Fixed(2048));
        assert_eq!(rhythm.clock.ns(rhythm.step.longest()), 32_768);
        assert_eq!(TpcFormat::TdeEth.rhythm().frames_per_s(), 31_250.0);
    }

    #[test]
    fn a_heading_is_what_the_daq_header_says() {
        let mut bytes = vec![0; FRAME_LEN];
        let geo_id = GeoId::new(3, 1, 2, 64);
        let mut daq = daq_ethernet::Header::new_unchecked(&mut bytes[field::DAQ]);
        daq.set_geo_id(geo_id);
        daq.set_timestamp(77);
        daq.set_seq_id(5);
        let format = TpcFormat::WibEth;
        assert!(format.heading(&bytes).is_err(), "a frame says how long it is");
        daq_ethernet::Header::new_unchecked(&mut bytes[field::DAQ]).set_block_length(BLOCK_LENGTH);
        let heading = format.heading(&bytes).unwrap();
        assert_eq!(heading, Heading { stream: geo_id.into(), begin: 77, sequence: 5 });
        assert_eq!(format.stream_name(heading.stream), "3/1/2/64");
        assert!(format.heading(&bytes[1..]).is_err());
    }

    proptest! {
        #[test]
        fn a_heading_is_read_back_and_nothing_else_changes(
            place in (0..64u16, 0..1024u16, 0..16u16, 0..256u16),
            begin: u64, sequence in 0..4096u32, was: [u8; HEADERS_LEN],
        ) {
            let (detector, crate_id, slot, stream) = place;
            let stream = GeoId::new(detector, crate_id, slot, stream).into();
            let heading = Heading { stream, begin, sequence };
            for format in [TpcFormat::WibEth, TpcFormat::TdeEth] {
                let mut frame = [&was[..], &[0x5a; FRAME_LEN - HEADERS_LEN]].concat();
                daq_ethernet::Header::new_unchecked(&mut frame[..]).set_block_length(BLOCK_LENGTH);
                let before = frame.clone();
                format.set_heading(&mut frame[..HEADERS_LEN], &heading);
                prop_assert_eq!(format.heading(&frame).unwrap(), heading);
                let own = wibeth::Header::new_unchecked(&frame[field::FRONT_END..]);
                if format == TpcFormat::WibEth {
                    prop_assert_eq!(own.colddata_timestamp_0(), begin as u16 & 0x7fff);
                    prop_assert_eq!(own.colddata_timestamp_1(), begin as u16 & 0x7fff);
                } else {
                    prop_assert_eq!(&frame[field::FRONT_END..], &before[field::FRONT_END..]);
                }
                format.set_heading(&mut frame, &Heading { begin: !begin, ..heading });
                format.set_heading(&mut frame, &heading_of(&before));
                if format == TpcFormat::TdeEth {
                    prop_assert_eq!(frame, before);
                }
            }
        }
    }

    fn heading_of(frame: &[u8]) -> Heading {
        TpcFormat::TdeEth.heading(frame).unwrap()
    }
}
