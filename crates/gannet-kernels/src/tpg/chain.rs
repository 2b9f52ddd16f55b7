//! What the chain does: configuration and per-channel numbers.

use crate::isa::IsaError;
use crate::tpg::block::CHANNELS;

/// Result of setting up a chain.
pub type Result<T> = core::result::Result<T, Error>;

/// Why a chain cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This machine lacks the instruction set.
    #[error(transparent)]
    Isa(#[from] IsaError),
    /// The limit of the accumulator is out of range.
    #[error("accum_limit is {got}; it must be 0..={max}", max = Pedestal::ACCUM_LIMIT_MAX)]
    AccumLimit {
        /// Value given.
        got: u16,
    },
    /// The initial pedestal is out of range.
    #[error("initial_pedestal is {got}; it must be 0..={max}", max = ChainConfig::PEDESTAL_UNSET)]
    InitialPedestal {
        /// Value given, ADC counts.
        got: i16,
    },
    /// A threshold is negative, which would make samples below the pedestal part of hits.
    #[error("threshold of channel {index} of the stream is {got}; it must be 0 or more")]
    Threshold {
        /// Index of the channel in the stream.
        index: usize,
        /// Value given.
        got: i16,
    },
    /// A threshold is no possible multiple of the interquartile range.
    #[error(
        "threshold of channel {index} of the stream is {got}; with the FIR filter it is a multiple \
         of the interquartile range, 0..={max}",
        max = ChannelTable::FIR_THRESHOLD_MAX
    )]
    FirThreshold {
        /// Index of the channel in the stream.
        index: usize,
        /// Value given.
        got: i16,
    },
    /// An offline channel number does not fit the 24 bits of a trigger primitive.
    #[error("channel number of channel {index} of the stream is {got}; it must fit 24 bits")]
    ChannelNumber {
        /// Index of the channel in the stream.
        index: usize,
        /// Value given.
        got: u32,
    },
}

/// How the pedestal of each channel is found and subtracted.
///
/// Both follow the "frugal" estimate: an accumulator counts samples above minus samples below
/// the pedestal; when it passes `accum_limit` on either side the pedestal moves by one count
/// towards the samples and the accumulator starts again at 0.
///
/// Source: DUNE-DAQ/tpglibs `AVXFrugalPedestalSubtractProcessor`,
/// `AVXFixedPedestalSubtractProcessor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pedestal {
    /// The pedestal follows the samples for ever.
    Frugal {
        /// Net counts that the accumulator may hold without a move, `0..=ACCUM_LIMIT_MAX`.
        accum_limit: u16,
    },
    /// The pedestal follows the samples at first and is frozen afterwards.
    Fixed {
        /// As for `Frugal`.
        accum_limit: u16,
        /// Samples of the stream after which the pedestal is frozen.
        start_period: u32,
    },
}

impl Pedestal {
    /// Largest `accum_limit`: the vector kernels keep accumulators in 8 bits.
    pub const ACCUM_LIMIT_MAX: u16 = 126;

    pub(crate) const fn accum_limit(self) -> u16 {
        match self {
            Self::Frugal { accum_limit } | Self::Fixed { accum_limit, .. } => accum_limit,
        }
    }
}

/// The step between pedestal subtraction and threshold.
///
/// `R` and `S` are [`ChannelTable::memory_factor`] and [`ChannelTable::scale_factor`], in tenths;
/// a tenth of a 16-bit number is taken as DUNE's code takes it, by a rounding multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// `sum = R * sum + S * signal`. Integral and peak of the primitives are those of the sum.
    ///
    /// Source: DUNE-DAQ/tpglibs `AVXRunSumProcessor`, `AVXAbsRunSumProcessor`.
    RunningSum {
        /// Sum the absolute value of the signal, so that bipolar induction pulses add up.
        absolute: bool,
    },
    /// `sum = R * sum + S * |signal|`, or `R * sum + signal / 10` if not absolute, from which
    /// its own frugal median is subtracted before it is compared and fed back.
    ///
    /// As in the code that it comes from, pedestals start from the first sample, integral and
    /// peak are those of the signal, the integral is a signed 16-bit number that saturates, the
    /// peak is that of all samples since the hit before, and a hit of integral 0 is dropped.
    ///
    /// Source: DUNE-DAQ/fdreadoutlibs `ProcessAbsRSAVX2.hpp`, `ProcessStandardRSAVX2.hpp`,
    /// `WIBEthFrameProcessor.cpp` (`process_swtpg_hits`).
    FeedbackSum {
        /// As for `RunningSum`.
        absolute: bool,
    },
    /// A low-pass filter of seven taps, [`FIR_TAPS`], over the samples two to eight steps back.
    /// The threshold is a multiple of the interquartile range of the samples, which frugal
    /// estimates of both quartiles give; [`ChannelTable::threshold`] holds the multiple.
    ///
    /// Primitives are as for `FeedbackSum`, with the filtered signal.
    ///
    /// Source: DUNE-DAQ/fdreadoutlibs `wib/tpg/ProcessAVX2.hpp`, `DesignFIR.cpp`.
    Fir,
}

impl Transform {
    /// Whether pedestals start from the first sample, whatever [`ChainConfig::initial_pedestal`]
    /// says.
    pub const fn starts_from_sample(self) -> bool {
        self.is_older()
    }

    /// Whether it is of the older generation, that of fdreadoutlibs.
    pub(crate) const fn is_older(self) -> bool {
        matches!(self, Self::FeedbackSum { .. } | Self::Fir)
    }
}

/// Taps of the low-pass filter, in 64ths: a Hamming window over a sinc with its cut-off at a
/// tenth of the Nyquist frequency. They are those of six sums of neighbours.
pub const FIR_TAPS: [i16; 7] = [1, 6, 15, 20, 15, 6, 1];

/// The processing steps of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainConfig {
    /// Pedestal subtraction.
    pub subtraction: Pedestal,
    /// Pedestal before the first sample, ADC counts, `0..=PEDESTAL_UNSET`.
    pub initial_pedestal: i16,
    /// Step between pedestal subtraction and threshold.
    pub transform: Option<Transform>,
}

impl ChainConfig {
    /// Initial pedestal of the published chain: one above every ADC value, so that a stream
    /// gives no hits until the pedestal has come down to its samples.
    pub const PEDESTAL_UNSET: i16 = 0x4000;
}

impl Default for ChainConfig {
    /// The published defaults: frugal pedestal with limit 10, no running sum.
    fn default() -> Self {
        Self {
            subtraction: Pedestal::Frugal { accum_limit: 10 },
            initial_pedestal: Self::PEDESTAL_UNSET,
            transform: None,
        }
    }
}

/// The numbers of the 64 channels of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelTable {
    /// Offline channel numbers, 24 bits each.
    pub channel: [u32; CHANNELS],
    /// A sample belongs to a hit when it is strictly greater than this; ADC counts, 0 or more.
    /// For [`Transform::Fir`] the multiple of the interquartile range, at most
    /// [`ChannelTable::FIR_THRESHOLD_MAX`].
    pub threshold: [i16; CHANNELS],
    /// Hits of fewer samples are dropped.
    pub sot_minimum: [u16; CHANNELS],
    /// `R` of the running sum, in tenths.
    pub memory_factor: [i16; CHANNELS],
    /// `S` of the running sum, in tenths.
    pub scale_factor: [i16; CHANNELS],
    /// Channels that give no primitives.
    pub masked: [bool; CHANNELS],
    /// Detector identifier written into the primitives.
    pub detid: u8,
    /// Clock ticks from one sample to the next.
    pub ticks_per_sample: u32,
}

impl ChannelTable {
    /// Largest threshold of [`Transform::Fir`]: its product with one count and the sum of the
    /// taps must fit 16 bits.
    pub const FIR_THRESHOLD_MAX: i16 = 511;
}

impl Default for ChannelTable {
    /// Channels 0 to 63 with the published defaults: threshold 100, minimum 1 sample, memory
    /// factor 0.8, scale factor 1.0, nothing masked, 32 ticks a sample.
    fn default() -> Self {
        Self {
            channel: core::array::from_fn(|index| index as u32),
            threshold: [100; CHANNELS],
            sot_minimum: [1; CHANNELS],
            memory_factor: [8; CHANNELS],
            scale_factor: [10; CHANNELS],
            masked: [false; CHANNELS],
            detid: 0,
            ticks_per_sample: 32,
        }
    }
}
