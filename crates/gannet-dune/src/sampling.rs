//! Times of a hit, which a primitive stores in samples.

use gannet_wire::TriggerPrimitive;

/// Clock ticks from one sample to the next: 32 for WIBEth. The published code counts 32 in TDEEth
/// frames too, where 31.25 would be exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Ticks of a sample.
    pub ticks_per_sample: u32,
}

impl Sampling {
    /// Time over threshold of a hit, in ticks.
    #[inline]
    pub fn time_over_threshold(self, tp: &TriggerPrimitive) -> u64 {
        u64::from(tp.samples_over_threshold()) * u64::from(self.ticks_per_sample)
    }

    /// First tick after a hit.
    #[inline]
    pub fn time_end(self, tp: &TriggerPrimitive) -> u64 {
        tp.time_start().saturating_add(self.time_over_threshold(tp))
    }

    /// Tick of the largest sample of a hit.
    #[inline]
    pub fn time_peak(self, tp: &TriggerPrimitive) -> u64 {
        let rise = u64::from(tp.samples_to_peak()) * u64::from(self.ticks_per_sample);
        tp.time_start().saturating_add(rise)
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self { ticks_per_sample: 32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{START, tp};

    #[test]
    fn samples_become_ticks() {
        let (sampling, tp) = (Sampling::default(), tp(7, 1));
        assert_eq!(sampling.time_over_threshold(&tp), 320);
        assert_eq!(sampling.time_end(&tp), START + 7 + 320);
        assert_eq!(sampling.time_peak(&tp), START + 7 + 128);
    }
}
