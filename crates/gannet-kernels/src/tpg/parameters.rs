//! A chain in the form that the kernels use.

use gannet_wire::TriggerPrimitive;

use crate::tpg::block::CHANNELS;
#[cfg(target_arch = "x86_64")]
use crate::tpg::block::SAMPLES;
use crate::tpg::chain::{ChainConfig, ChannelTable, Error, FIR_TAPS, Pedestal, Result, Transform};
#[cfg(target_arch = "x86_64")]
use crate::tpg::tables::{FrugalTables, LimitTable, SumTables, feedback_factors};

/// A chain in the form that the kernels use: checked, and laid out for vector loads.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Parameters {
    /// Thresholds; `i16::MAX` on masked channels, which no signal exceeds. With the FIR filter
    /// the least threshold: no limit but on masked channels.
    pub(crate) threshold: [i16; CHANNELS],
    /// With the FIR filter, what the interquartile range is multiplied with.
    pub(crate) range_factor: [i16; CHANNELS],
    /// With the FIR filter, the interquartile range beyond which its product does not fit 16 bits.
    pub(crate) range_max: [i16; CHANNELS],
    pub(crate) memory_factor: [i16; CHANNELS],
    pub(crate) scale_factor: [i16; CHANNELS],
    pub(crate) sot_minimum: [u16; CHANNELS],
    /// Least low half of the integral: 1 in the older chains, whose integral has no other half.
    pub(crate) integral_minimum: u16,
    /// First word of a primitive of each channel, without its samples over threshold.
    pub(crate) word0: [u64; CHANNELS],
    pub(crate) ticks_per_sample: u64,
    /// `0..=Pedestal::ACCUM_LIMIT_MAX`.
    pub(crate) accum_limit: i8,
    /// Samples after which the pedestal is frozen.
    pub(crate) start_period: Option<u32>,
    pub(crate) transform: Option<Transform>,
    /// Samples after which the vector kernels choose a new base for the pedestals; at most once a
    /// call. That is so that all moves to both sides fit the 7 bits that they are compared in.
    #[cfg(target_arch = "x86_64")]
    pub(crate) rows_to_rebase: usize,
    /// Most counts that a pedestal can move before it gets a new base.
    #[cfg(target_arch = "x86_64")]
    pub(crate) moves_max: i16,
    #[cfg(target_arch = "x86_64")]
    pub(crate) frugal_tables: FrugalTables,
    /// For rows in 8 bits, where they can be taken so.
    #[cfg(target_arch = "x86_64")]
    pub(crate) sum_tables: Option<SumTables>,
    #[cfg(target_arch = "x86_64")]
    pub(crate) feedback_factors: Option<[u16; CHANNELS]>,
    #[cfg(target_arch = "x86_64")]
    pub(crate) limit_table: Option<LimitTable>,
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
        let fir = matches!(config.transform, Some(Transform::Fir));
        for (index, (&threshold, &channel)) in
            table.threshold.iter().zip(&table.channel).enumerate()
        {
            if threshold < 0 {
                return Err(Error::Threshold { index, got: threshold });
            }
            if fir && threshold > ChannelTable::FIR_THRESHOLD_MAX {
                return Err(Error::FirThreshold { index, got: threshold });
            }
            if channel > 0xff_ffff {
                return Err(Error::ChannelNumber { index, got: channel });
            }
        }
        #[cfg(target_arch = "x86_64")]
        let rows_to_rebase = if moves_within(SAMPLES, limit) <= 32 { SAMPLES } else { SAMPLES / 2 };
        let gain: i16 = FIR_TAPS.iter().sum();
        let parameters = Self {
            threshold: core::array::from_fn(|c| match (table.masked[c], fir) {
                (true, _) => i16::MAX,
                (false, true) => i16::MIN,
                (false, false) => table.threshold[c],
            }),
            range_factor: table.threshold.map(|multiple| multiple.saturating_mul(gain)),
            range_max: table.threshold.map(|multiple| {
                i16::MAX.checked_div(multiple.saturating_mul(gain)).unwrap_or(i16::MAX)
            }),
            memory_factor: table.memory_factor,
            scale_factor: table.scale_factor,
            sot_minimum: table.sot_minimum,
            integral_minimum: config.transform.is_some_and(Transform::is_older).into(),
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
            #[cfg(target_arch = "x86_64")]
            rows_to_rebase,
            #[cfg(target_arch = "x86_64")]
            moves_max: moves_within(rows_to_rebase, limit),
            #[cfg(target_arch = "x86_64")]
            frugal_tables: FrugalTables::new(limit as i8),
            #[cfg(target_arch = "x86_64")]
            sum_tables: SumTables::new(config.transform, table),
            #[cfg(target_arch = "x86_64")]
            feedback_factors: feedback_factors(config.transform, table),
            #[cfg(target_arch = "x86_64")]
            limit_table: None,
        };
        #[cfg(target_arch = "x86_64")]
        let parameters = Self {
            limit_table: LimitTable::new(config.transform, table, |range, channel| {
                parameters.range_limit(range, channel)
            }),
            ..parameters
        };
        Ok(parameters)
    }

    /// With the FIR filter, the multiple of an interquartile range that filtered signals of a
    /// channel are compared with.
    pub(crate) fn range_limit(&self, range: i16, channel: usize) -> i16 {
        range.min(self.range_max[channel]).wrapping_mul(self.range_factor[channel])
    }

    /// How many of the next `count` samples still move the pedestal, after `seen` samples.
    pub(crate) fn moving_samples(&self, seen: u64, count: usize) -> usize {
        match self.start_period {
            None => count,
            Some(period) => u64::from(period).saturating_sub(seen).min(count as u64) as usize,
        }
    }
}

/// Most counts that a frugal estimate can move within so many samples: it needs `limit + 1` of
/// them for each move but the first, whose counts may come from the samples before.
#[cfg(target_arch = "x86_64")]
fn moves_within(samples: usize, limit: u16) -> i16 {
    ((samples - 1) / (usize::from(limit) + 1) + 1) as i16
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
        assert_eq!(p.moves_max, 6);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn pedestals_move_at_most_32_counts_before_they_get_a_new_base() {
        for accum_limit in 0..=Pedestal::ACCUM_LIMIT_MAX {
            let subtraction = Pedestal::Frugal { accum_limit };
            let config = ChainConfig { subtraction, ..ChainConfig::default() };
            let p = Parameters::new(&config, &ChannelTable::default()).unwrap();
            assert!(p.moves_max <= 32 && 2 * p.rows_to_rebase >= SAMPLES, "{accum_limit}");
        }
    }
}
