//! The work of one call, and the primitives that come of it.

use gannet_wire::TriggerPrimitive;

use crate::tpg::block::MAX_TPS_PER_FRAME;
#[cfg(target_arch = "x86_64")]
use crate::tpg::block::SAMPLES;
use crate::tpg::parameters::Parameters;
use crate::tpg::state::{Hits, State};
#[cfg(target_arch = "x86_64")]
use crate::tpg::vector::{HitBatch, TimeBase};

/// All that a kernel needs in a call to process the samples of 64 channels.
pub(crate) struct Job<'a> {
    pub(crate) parameters: &'a Parameters,
    pub(crate) state: &'a mut State,
    /// Time of the first sample, ticks.
    pub(crate) timestamp: u64,
    pub(crate) completed: &'a mut Completed,
    #[cfg(target_arch = "x86_64")]
    pub(crate) batch: &'a mut HitBatch,
}

impl Job<'_> {
    /// Time of sample `t`, ticks.
    #[inline(always)]
    pub(crate) fn time(&self, t: usize) -> u64 {
        self.timestamp.wrapping_add(self.parameters.ticks_per_sample.wrapping_mul(t as u64))
    }

    /// Where the samples lie in time.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn time_base(&self) -> TimeBase {
        TimeBase { end: self.time(SAMPLES), ticks_per_sample: self.parameters.ticks_per_sample }
    }

    /// Completes the hits of the channels in `ended`, one bit each, which fell below threshold
    /// at sample `t`. The state stays as it is.
    #[inline(always)]
    pub(crate) fn complete(&mut self, t: usize, mut ended: u64) {
        let (time, hits) = (self.time(t), &self.state.hits);
        while ended != 0 {
            self.completed.add(self.parameters, ended.trailing_zeros() as usize, hits, time);
            ended &= ended - 1;
        }
    }
}

/// The primitives that one call completes.
///
/// A fixed array rather than a growing vector: a call to grow, even if never taken, makes the
/// compiler save all vector registers around each hit.
#[derive(Clone, Debug)]
pub(crate) struct Completed {
    /// With room for those that are written eight at a time.
    tps: Box<[TriggerPrimitive; MAX_TPS_PER_FRAME + 7]>,
    count: usize,
}

impl Completed {
    pub(crate) fn new() -> Self {
        Self { tps: Box::new([TriggerPrimitive::default(); MAX_TPS_PER_FRAME + 7]), count: 0 }
    }

    /// Primitives so far.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds the primitive of a hit that ended at `time`, unless it is too short or, in the older
    /// chains, of integral 0; whether it is makes no branch.
    #[inline(always)]
    fn add(&mut self, parameters: &Parameters, channel: usize, hits: &Hits, time: u64) {
        debug_assert!(self.count < MAX_TPS_PER_FRAME, "more hits than samples allow");
        let sot = hits.samples_over_threshold[channel] as u16;
        self.tps[self.count % MAX_TPS_PER_FRAME] = primitive(parameters, hits, channel, sot, time);
        let long = sot >= parameters.sot_minimum[channel];
        let counts = hits.integral_low[channel] >= parameters.integral_minimum;
        self.count += usize::from(long & counts);
    }

    /// Room for eight primitives behind those so far and `ahead` more.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn room_for_eight(&mut self, ahead: usize) -> Option<&mut [TriggerPrimitive; 8]> {
        self.tps.get_mut(self.count + ahead..)?.first_chunk_mut()
    }

    /// Adds so many primitives that have been written in that room.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn add_written(&mut self, count: usize) {
        self.count = (self.count + count).min(MAX_TPS_PER_FRAME);
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
