//! The work of one call, and the primitives that come of it.

use gannet_wire::TriggerPrimitive;

use crate::block::{CHANNELS, MAX_TPS_PER_FRAME};
use crate::parameters::Parameters;
use crate::samples::Samples;
use crate::state::{Hits, State};

/// The samples of a call, and all that a kernel needs to process them.
pub(crate) struct Job<'a> {
    pub(crate) parameters: &'a Parameters,
    pub(crate) state: &'a mut State,
    pub(crate) samples: &'a Samples<'a>,
    /// Time of the first sample, ticks.
    pub(crate) timestamp: u64,
    pub(crate) completed: &'a mut Completed,
}

impl Job<'_> {
    /// Time of sample `t`, ticks.
    #[inline(always)]
    pub(crate) fn time(&self, t: usize) -> u64 {
        self.timestamp.wrapping_add(self.parameters.ticks_per_sample.wrapping_mul(t as u64))
    }

    /// Completes the hits of the channels in `ended`, one bit each, which fell below threshold
    /// at sample `t`. The state stays as it is.
    #[inline(always)]
    pub(crate) fn complete(&mut self, t: usize, mut ended: u64) {
        let (time, hits) = (self.time(t), &self.state.hits);
        let channels = core::iter::from_fn(|| {
            let channel = ended.trailing_zeros() as usize;
            ended &= ended.wrapping_sub(1);
            (channel < CHANNELS).then_some((channel, hits, time))
        });
        self.completed.extend(self.parameters, channels);
    }
}

/// The primitives that one call completes.
///
/// A fixed array rather than a growing vector: a call to grow, even if never taken, makes the
/// compiler save all vector registers around each hit.
#[derive(Clone, Debug)]
pub(crate) struct Completed {
    tps: Box<[TriggerPrimitive; MAX_TPS_PER_FRAME]>,
    count: usize,
}

impl Completed {
    pub(crate) fn new() -> Self {
        Self { tps: Box::new([TriggerPrimitive::default(); MAX_TPS_PER_FRAME]), count: 0 }
    }

    /// Primitives so far.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds the primitives of `ended` hits: the channel, all hits at that time, and the time. Those
    /// that are too short, or in the older chains of integral 0, are left out; whether one is makes
    /// no branch.
    #[inline(always)]
    pub(crate) fn extend<'a>(
        &mut self,
        parameters: &Parameters,
        ended: impl Iterator<Item = (usize, &'a Hits, u64)>,
    ) {
        let (tps, mut count) = (&mut *self.tps, self.count);
        for (channel, hits, time) in ended {
            debug_assert!(count < MAX_TPS_PER_FRAME, "more hits than samples allow");
            let sot = hits.samples_over_threshold[channel] as u16;
            tps[count % MAX_TPS_PER_FRAME] = primitive(parameters, hits, channel, sot, time);
            let long = sot >= parameters.sot_minimum[channel];
            count +=
                usize::from(long & (hits.integral_low[channel] >= parameters.integral_minimum));
        }
        self.count = count;
    }

    /// Moves the primitives to the end of `out`.
    pub(crate) fn drain_into(&mut self, out: &mut Vec<TriggerPrimitive>) {
        out.extend_from_slice(&self.tps[..self.count]);
        self.count = 0;
    }
}

/// The primitive of a hit of `sot` samples that ended at `time`.
#[inline(always)]
fn primitive(
    parameters: &Parameters,
    hits: &Hits,
    channel: usize,
    sot: u16,
    time: u64,
) -> TriggerPrimitive {
    let sot = u64::from(sot);
    let length = parameters.ticks_per_sample.wrapping_mul(sot);
    TriggerPrimitive {
        words: [
            parameters.word0[channel] | sot << 48,
            time.wrapping_sub(length),
            u64::from(hits.samples_to_peak[channel] as u16)
                | u64::from(hits.integral_low[channel]) << 16
                | u64::from(hits.integral_high[channel]) << 32
                | u64::from(hits.peak[channel] as u16) << 48,
        ],
    }
}
