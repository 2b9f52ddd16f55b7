//! The work on one block, and the primitives that come of it.

use gannet_wire::TriggerPrimitive;

use crate::block::{Block, MAX_TPS_PER_FRAME};
use crate::chain::Parameters;
use crate::state::State;

/// One block, and all that a kernel needs to process it.
pub(crate) struct Job<'a> {
    pub(crate) parameters: &'a Parameters,
    pub(crate) state: &'a mut State,
    pub(crate) block: &'a Block,
    /// Time of the first sample, ticks.
    pub(crate) timestamp: u64,
    pub(crate) completed: &'a mut Completed,
}

impl Job<'_> {
    /// Completes the hits of the channels in `ended`, one bit each, which fell below threshold
    /// at sample `t` of the block.
    #[inline]
    pub(crate) fn complete(&mut self, t: usize, mut ended: u64) {
        let ticks = self.parameters.ticks_per_sample.wrapping_mul(t as u64);
        let time = self.timestamp.wrapping_add(ticks);
        while ended != 0 {
            self.complete_channel(ended.trailing_zeros() as usize, time);
            ended &= ended - 1;
        }
    }

    /// Completes the hit of a channel, unless it is shorter than the channel's minimum. The
    /// state stays as it is.
    #[inline]
    fn complete_channel(&mut self, channel: usize, time: u64) {
        let (parameters, state) = (self.parameters, &self.state);
        let sot = state.samples_over_threshold[channel] as u16;
        if sot < parameters.sot_minimum[channel] {
            return;
        }
        let length = parameters.ticks_per_sample.wrapping_mul(u64::from(sot));
        self.completed.push(TriggerPrimitive {
            words: [
                parameters.word0[channel] | u64::from(sot) << 48,
                time.wrapping_sub(length),
                u64::from(state.samples_to_peak[channel] as u16)
                    | u64::from(state.integral_low[channel]) << 16
                    | u64::from(state.integral_high[channel]) << 32
                    | u64::from(state.peak[channel] as u16) << 48,
            ],
        });
    }
}

/// The primitives that one block completes.
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

    #[inline]
    fn push(&mut self, tp: TriggerPrimitive) {
        debug_assert!(self.count < MAX_TPS_PER_FRAME, "more hits than samples allow");
        if let Some(free) = self.tps.get_mut(self.count) {
            *free = tp;
            self.count += 1;
        }
    }

    /// Moves the primitives to the end of `out`.
    pub(crate) fn drain_into(&mut self, out: &mut Vec<TriggerPrimitive>) {
        out.extend_from_slice(&self.tps[..self.count]);
        self.count = 0;
    }
}
