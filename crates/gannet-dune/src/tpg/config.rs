//! What the chain of kernels does, by plane.

use gannet_kernels::tpg::{CHANNELS, ChainConfig, ChannelTable, Pedestal, Transform};
use gannet_kernels::{Isa, IsaError};
use gannet_wire::channel_map::{PLANES, StreamChannels};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::pedestal::InitialPedestal;
use crate::sampling::Sampling;
use gannet_trigger::error::{Error, Result, require};

/// How trigger primitives are found in the samples. Arrays hold one value per plane: first and
/// second induction plane, collection plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TpgConfig {
    /// Steps between the samples and the threshold.
    pub chain: Chain,
    /// Net counts of samples above or below the pedestal that it takes, and one more, to move it
    /// by one ADC count; 0 to 126.
    pub accum_limit: u16,
    /// Samples of a stream after which the pedestal is frozen; for `fixed-pedestal`.
    pub start_period: u32,
    /// Pedestal before the first sample: that of the data, or ADC counts, 0 to 16384. From 16384,
    /// as published, a stream gives no primitives until its pedestal has come down to its samples,
    /// which takes 46 ms from there to 8200.
    pub initial_pedestal: InitialPedestal,
    /// A sample belongs to a hit when it is above this; ADC counts, 1 to 32767. For `fir` in
    /// interquartile ranges, 1 to 511.
    #[serde(deserialize_with = "per_plane")]
    pub threshold: [u16; PLANES],
    /// Hits of fewer samples are dropped.
    #[serde(deserialize_with = "per_plane")]
    pub sot_minimum: [u16; PLANES],
    /// Part of the running sum that is kept from sample to sample, tenths, 0 to 10; for the chains
    /// with a running sum.
    #[serde(deserialize_with = "per_plane")]
    pub memory_factor: [u8; PLANES],
    /// Part of a sample that is added to the running sum, tenths, 1 to 10; for the chains with a
    /// running sum but `running-sum-feedback`, which adds a tenth.
    #[serde(deserialize_with = "per_plane")]
    pub scale_factor: [u8; PLANES],
    /// Offline numbers of channels that give no primitives.
    pub mask: Vec<u32>,
    /// Instruction set of the kernels.
    pub isa: IsaChoice,
}

/// Reads a value for each plane; an array would pass over what is too many.
fn per_plane<'de, T, D>(deserializer: D) -> std::result::Result<[T; PLANES], D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let values = Vec::deserialize(deserializer)?;
    values.try_into().map_err(|values: Vec<T>| {
        let expected = "3 values, of the first and second induction and the collection plane";
        D::Error::invalid_length(values.len(), &expected)
    })
}

/// Steps between the samples and the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Chain {
    /// A pedestal that follows the samples is subtracted.
    #[default]
    SimpleThreshold,
    /// The same, then a running sum of absolute values.
    AbsRs,
    /// The same, then a running sum.
    RunningSum,
    /// A pedestal that is frozen after a while is subtracted.
    FixedPedestal,
    /// The running sum of absolute values of DUNE's code of 2023, from which its own median is
    /// subtracted before it is fed back. Primitives sum the samples, not the running sum.
    AbsRsFeedback,
    /// The same, of the values themselves.
    RunningSumFeedback,
    /// A low-pass filter, with a threshold in interquartile ranges of the samples.
    Fir,
}

/// Instruction set of the kernels. All give the same primitives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IsaChoice {
    /// The fastest that the machine has.
    #[default]
    Auto,
    /// Plain code.
    Scalar,
    /// 256-bit vectors; an error where the machine lacks them.
    Avx2,
    /// 512-bit vectors; an error where the machine lacks them.
    Avx512,
}

impl IsaChoice {
    /// The instruction set that is meant on this machine.
    pub fn isa(self) -> Isa {
        match self {
            Self::Auto => Isa::best(),
            Self::Scalar => Isa::Scalar,
            Self::Avx2 => Isa::Avx2,
            Self::Avx512 => Isa::Avx512,
        }
    }
}

impl Default for TpgConfig {
    /// The published defaults, but that pedestals start from the data: from 16384, as published,
    /// the first 46 ms of a stream and short recordings of it give nothing.
    ///
    /// Source: DUNE-DAQ/appmodel `trigger.schema.xml`, classes of the AVX processors.
    fn default() -> Self {
        Self {
            chain: Chain::default(),
            accum_limit: 10,
            start_period: 1000,
            initial_pedestal: InitialPedestal::Data,
            threshold: [100; PLANES],
            sot_minimum: [1; PLANES],
            memory_factor: [8; PLANES],
            scale_factor: [10; PLANES],
            mask: Vec::new(),
            isa: IsaChoice::default(),
        }
    }
}

impl TpgConfig {
    /// Most channels that a mask may name: all that 24 bits number.
    pub const MASK_MAX: usize = 1 << 24;

    /// Tests the values against their bounds, and that this machine has the instruction set.
    ///
    /// # Errors
    /// Names the field and what it must be.
    pub fn check(&self) -> Result<()> {
        let each = |values: &[u8], allowed: std::ops::RangeInclusive<u8>| {
            values.iter().all(|value| allowed.contains(value))
        };
        require(
            self.accum_limit <= Pedestal::ACCUM_LIMIT_MAX,
            "accum_limit",
            "it must be 0 to 126",
        )?;
        let counts = match self.initial_pedestal {
            InitialPedestal::Data => 0,
            InitialPedestal::Counts(counts) => counts,
        };
        require(counts <= 16384, "initial_pedestal", "it must be 0 to 16384, or \"data\"")?;
        let in_range = |max: i16| self.threshold.iter().all(|t| (1..=max as u16).contains(t));
        require(in_range(i16::MAX), "threshold", "each must be 1 to 32767")?;
        require(
            self.chain != Chain::Fir || in_range(ChannelTable::FIR_THRESHOLD_MAX),
            "threshold",
            "with chain \"fir\" each is a multiple of the interquartile range, 1 to 511",
        )?;
        require(each(&self.memory_factor, 0..=10), "memory_factor", "each must be 0 to 10")?;
        require(each(&self.scale_factor, 1..=10), "scale_factor", "each must be 1 to 10")?;
        require(
            self.mask.len() <= Self::MASK_MAX,
            "mask",
            "it names more channels than there are",
        )?;
        let isa = self.isa.isa();
        let unavailable = || IsaError::Unavailable { isa, best: Isa::best() };
        if isa.is_available() { Ok(()) } else { Err(Error::new("isa", unavailable().to_string())) }
    }

    /// What is allowed and will hardly be meant: a pedestal that is frozen above all samples, so
    /// that nothing is found.
    pub fn doubt(&self) -> Option<String> {
        /// Pedestals that begin above this begin above the samples of every plane.
        const ABOVE_SAMPLES: u16 = 12_288;
        /// Frozen below this, they have come down to the samples of most planes.
        const DOWN: u32 = 512;
        let InitialPedestal::Counts(begin) = self.initial_pedestal else { return None };
        let (is_above, begin, samples) =
            (begin > ABOVE_SAMPLES, u32::from(begin), self.start_period);
        let samples_per_count = u32::from(self.accum_limit) + 1;
        let frozen = begin.saturating_sub(samples / samples_per_count);
        let is_high = is_above && frozen > DOWN;
        (self.chain == Chain::FixedPedestal && is_high).then(|| {
            format!(
                "chain fixed-pedestal freezes pedestals after start_period = {samples} samples, when \
                 they have come from initial_pedestal = {begin} to {frozen} at best: channels with \
                 samples below that give no primitives; set initial_pedestal = \"data\", \
                 or a start_period of {} samples",
                begin * samples_per_count
            )
        })
    }

    /// The steps as the kernels take them.
    pub fn chain_config(&self) -> ChainConfig {
        let accum_limit = self.accum_limit;
        let transform = match self.chain {
            Chain::SimpleThreshold | Chain::FixedPedestal => None,
            Chain::AbsRs => Some(Transform::RunningSum { absolute: true }),
            Chain::RunningSum => Some(Transform::RunningSum { absolute: false }),
            Chain::AbsRsFeedback => Some(Transform::FeedbackSum { absolute: true }),
            Chain::RunningSumFeedback => Some(Transform::FeedbackSum { absolute: false }),
            Chain::Fir => Some(Transform::Fir),
        };
        ChainConfig {
            subtraction: if self.chain == Chain::FixedPedestal {
                Pedestal::Fixed { accum_limit, start_period: self.start_period }
            } else {
                Pedestal::Frugal { accum_limit }
            },
            initial_pedestal: match self.initial_pedestal {
                // Until there are data.
                InitialPedestal::Data => ChainConfig::PEDESTAL_UNSET,
                // At most 16384, which fits.
                InitialPedestal::Counts(counts) => counts as i16,
            },
            transform,
        }
    }

    /// Which channels of a stream the mask names.
    pub(super) fn masked(&self, channels: &StreamChannels) -> [bool; CHANNELS] {
        channels.offline.map(|channel| self.mask.contains(&channel))
    }

    /// The numbers of each channel of a stream; channels that read no wire are masked.
    pub(super) fn table(
        &self,
        channels: &StreamChannels,
        detid: u8,
        sampling: Sampling,
    ) -> ChannelTable {
        // A plane that the map does not know is taken as the first; maps have 0, 1 and 2 only.
        let plane = |c: usize| usize::from(channels.plane[c]).min(PLANES - 1);
        fn per_channel<T>(value: impl Fn(usize) -> T) -> [T; CHANNELS] {
            std::array::from_fn(value)
        }
        let masked = self.masked(channels);
        ChannelTable {
            channel: channels.offline,
            threshold: per_channel(|c| self.threshold[plane(c)] as i16),
            sot_minimum: per_channel(|c| self.sot_minimum[plane(c)]),
            memory_factor: per_channel(|c| i16::from(self.memory_factor[plane(c)])),
            scale_factor: per_channel(|c| i16::from(self.scale_factor[plane(c)])),
            masked: per_channel(|c| !channels.is_connected(c) || masked[c]),
            detid,
            ticks_per_sample: sampling.ticks_per_sample,
        }
    }
}
