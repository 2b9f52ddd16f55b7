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

use crate::layout::{array_mut, array_ref, check_len};
use crate::{GeoId, Result, adc14, daq_ethernet};

pub use crate::adc14::{CHANNELS, SAMPLES};

/// Bytes of the front end's own header.
pub const FRONT_END_LEN: usize = 16;
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
    /// [`Error::Truncated`](crate::Error::Truncated) when the buffer is too short.
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
