//! What the chain does: configuration, per-channel numbers, and their checked form.

use gannet_wire::TriggerPrimitive;

use crate::block::{CHANNELS, SAMPLES};
use crate::isa::Isa;

/// Result of setting up a chain.
pub type Result<T> = core::result::Result<T, Error>;

/// Why a chain cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is not that of an instruction set.
    #[error("instruction set {got:?} is unknown; choose one of scalar, avx2, avx512")]
    UnknownIsa {
        /// Name given.
        got: String,
    },
    /// This machine lacks the instruction set.
    #[error("this machine does not have {isa}; choose {best} or another that it has")]
    IsaUnavailable {
        /// Instruction set asked for.
        isa: Isa,
        /// Fastest one that the machine has.
        best: Isa,
    },
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

    const fn accum_limit(self) -> u16 {
        match self {
            Self::Frugal { accum_limit } | Self::Fixed { accum_limit, .. } => accum_limit,
        }
    }
}

/// A running sum between pedestal subtraction and threshold: `RS = R*RS + S*signal`.
///
/// `R` and `S` are [`ChannelTable::memory_factor`] and [`ChannelTable::scale_factor`]. Integral
/// and peak of the primitives are then those of the sum, not of the ADC counts.
///
/// Source: DUNE-DAQ/tpglibs `AVXRunSumProcessor`, `AVXAbsRunSumProcessor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningSum {
    /// Sum the absolute value of the signal, so that bipolar induction pulses add up.
    pub absolute: bool,
}

/// The processing steps of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainConfig {
    /// Pedestal subtraction.
    pub subtraction: Pedestal,
    /// Pedestal before the first sample, ADC counts, `0..=PEDESTAL_UNSET`.
    pub initial_pedestal: i16,
    /// Step between pedestal subtraction and threshold.
    pub transform: Option<RunningSum>,
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

/// A chain in the form that the kernels use: checked, and laid out for vector loads.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Parameters {
    /// Thresholds; `i16::MAX` on masked channels, which no signal exceeds.
    pub(crate) threshold: [i16; CHANNELS],
    pub(crate) memory_factor: [i16; CHANNELS],
    pub(crate) scale_factor: [i16; CHANNELS],
    pub(crate) sot_minimum: [u16; CHANNELS],
    /// First word of a primitive of each channel, without its samples over threshold.
    pub(crate) word0: [u64; CHANNELS],
    pub(crate) ticks_per_sample: u64,
    /// `0..=Pedestal::ACCUM_LIMIT_MAX`.
    pub(crate) accum_limit: i8,
    /// Samples after which the pedestal is frozen.
    pub(crate) start_period: Option<u32>,
    pub(crate) transform: Option<RunningSum>,
}

impl Parameters {
    /// Checks a chain and its table.
    pub(crate) fn new(config: &ChainConfig, table: &ChannelTable) -> Result<Self> {
        let limit = config.subtraction.accum_limit();
        if limit > Pedestal::ACCUM_LIMIT_MAX {
            return Err(Error::AccumLimit { got: limit });
        }
        if !(0..=ChainConfig::PEDESTAL_UNSET).contains(&config.initial_pedestal) {
            return Err(Error::InitialPedestal { got: config.initial_pedestal });
        }
        for (index, (&threshold, &channel)) in
            table.threshold.iter().zip(&table.channel).enumerate()
        {
            if threshold < 0 {
                return Err(Error::Threshold { index, got: threshold });
            }
            if channel > 0xff_ffff {
                return Err(Error::ChannelNumber { index, got: channel });
            }
        }
        Ok(Self {
            threshold: core::array::from_fn(|c| {
                if table.masked[c] { i16::MAX } else { table.threshold[c] }
            }),
            memory_factor: table.memory_factor,
            scale_factor: table.scale_factor,
            sot_minimum: table.sot_minimum,
            word0: table.channel.map(|channel| {
                u64::from(TriggerPrimitive::VERSION)
                    | u64::from(table.detid) << 16
                    | u64::from(channel) << 24
            }),
            ticks_per_sample: u64::from(table.ticks_per_sample),
            accum_limit: limit as i8,
            start_period: match config.subtraction {
                Pedestal::Frugal { .. } => None,
                Pedestal::Fixed { start_period, .. } => Some(start_period),
            },
            transform: config.transform,
        })
    }

    /// How many of the next `SAMPLES` samples still move the pedestal, after `seen` samples.
    pub(crate) fn moving_samples(&self, seen: u64) -> usize {
        match self.start_period {
            None => SAMPLES,
            Some(period) => u64::from(period).saturating_sub(seen).min(SAMPLES as u64) as usize,
        }
    }

    /// Most counts that a pedestal can move within one block: it needs `accum_limit + 1` samples
    /// for each move but the first, whose counts may come from the block before.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn moves_max(&self) -> i16 {
        (SAMPLES as i16 - 1) / (i16::from(self.accum_limit) + 1) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(config: ChainConfig, table: ChannelTable) -> Error {
        Parameters::new(&config, &table).unwrap_err()
    }

    #[test]
    fn an_accumulator_limit_beyond_eight_bits_is_refused() {
        let subtraction = Pedestal::Frugal { accum_limit: 127 };
        let config = ChainConfig { subtraction, ..ChainConfig::default() };
        assert_eq!(refusal(config, ChannelTable::default()), Error::AccumLimit { got: 127 });
    }

    #[test]
    fn an_initial_pedestal_outside_the_adc_range_is_refused() {
        for got in [-1, 0x4001] {
            let config = ChainConfig { initial_pedestal: got, ..ChainConfig::default() };
            assert_eq!(refusal(config, ChannelTable::default()), Error::InitialPedestal { got });
        }
    }

    #[test]
    fn a_negative_threshold_is_refused_by_channel() {
        let mut table = ChannelTable::default();
        table.threshold[7] = -1;
        let error = refusal(ChainConfig::default(), table);
        assert_eq!(error, Error::Threshold { index: 7, got: -1 });
    }

    #[test]
    fn a_channel_number_of_25_bits_is_refused() {
        let mut table = ChannelTable::default();
        table.channel[63] = 1 << 24;
        let error = refusal(ChainConfig::default(), table);
        assert_eq!(error, Error::ChannelNumber { index: 63, got: 1 << 24 });
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_pedestal_moves_at_most_six_counts_in_a_block_at_the_published_limit() {
        let p = Parameters::new(&ChainConfig::default(), &ChannelTable::default()).unwrap();
        assert_eq!(p.moves_max(), 6);
    }
}
