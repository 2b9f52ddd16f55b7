//! Hits of the dense path that have ended, and wait for their primitives to be put together.

use gannet_wire::TriggerPrimitive;

use crate::tpg::Path;
use crate::tpg::block::{CHANNELS, SAMPLES};
use crate::tpg::job::Completed;
use crate::tpg::parameters::Parameters;

use super::Lanes;

/// Hits after which no row is added before their primitives are put together.
const ENDINGS: usize = 960;
/// Places for those hits, the ones of one row more, and what is written behind them.
pub(crate) const PLACES: usize = ENDINGS + 2 * CHANNELS;
/// Primitives that may be put together at once.
pub(crate) const AT_ONCE: usize = 8;

/// Hits that have ended, by quantity.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Endings {
    pub(crate) channel: [u16; PLACES],
    pub(crate) samples_over_threshold: [u16; PLACES],
    pub(crate) integral_low: [u16; PLACES],
    pub(crate) integral_high: [u16; PLACES],
    pub(crate) peak: [u16; PLACES],
    pub(crate) samples_to_peak: [u16; PLACES],
    /// Samples from the end of the hit to [`TimeBase::end`].
    pub(crate) samples_left: [u16; PLACES],
    pub(crate) count: usize,
}

/// Where the samples of a call lie in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeBase {
    /// Ticks after the first sample by [`SAMPLES`] samples.
    pub(crate) end: u64,
    pub(crate) ticks_per_sample: u64,
}

impl Endings {
    const NONE: Self = Self {
        channel: [0; PLACES],
        samples_over_threshold: [0; PLACES],
        integral_low: [0; PLACES],
        integral_high: [0; PLACES],
        peak: [0; PLACES],
        samples_to_peak: [0; PLACES],
        samples_left: [0; PLACES],
        count: 0,
    };

    /// The primitive of a hit.
    #[inline(always)]
    pub(crate) fn primitive(
        &self,
        parameters: &Parameters,
        time_base: TimeBase,
        i: usize,
    ) -> TriggerPrimitive {
        let sot = u64::from(self.samples_over_threshold[i]);
        let before_end = u64::from(self.samples_left[i]) + sot;
        TriggerPrimitive {
            words: [
                parameters.word0[usize::from(self.channel[i]) % CHANNELS] | sot << 48,
                time_base.end.wrapping_sub(time_base.ticks_per_sample.wrapping_mul(before_end)),
                u64::from(self.samples_to_peak[i])
                    | u64::from(self.integral_low[i]) << 16
                    | u64::from(self.integral_high[i]) << 32
                    | u64::from(self.peak[i]) << 48,
            ],
        }
    }
}

/// Hits that end in some rows. What it holds lives for one call; the room is kept.
#[derive(Clone, Debug)]
pub(crate) struct HitBatch {
    path: Path,
    /// Whether the dense path is expected to suit the next samples.
    dense: bool,
    endings: Box<Endings>,
}

impl HitBatch {
    pub(crate) fn new() -> Self {
        Self { path: Path::default(), dense: false, endings: Box::new(Endings::NONE) }
    }

    /// Chooses the path.
    pub(crate) fn set_path(&mut self, path: Path) {
        self.path = path;
    }

    /// Whether to take the dense path.
    pub(super) fn is_dense(&self) -> bool {
        match self.path {
            Path::Adaptive => self.dense,
            Path::Sparse => false,
            Path::Dense => true,
        }
    }

    /// Expects of the next samples what so many have brought: that the dense path suits them if
    /// there were at least `dense_from` primitives for [`SAMPLES`] samples.
    pub(super) fn expect(&mut self, completed: &Completed, samples: usize, dense_from: usize) {
        self.dense = completed.count() * SAMPLES / samples.max(1) >= dense_from;
    }

    /// Adds the hits of channels that end at sample `t - 1`, and of others that end at sample `t`.
    #[inline(always)]
    pub(super) fn add<L: Lanes>(
        &mut self,
        lanes: L,
        hits: super::hits::HitLanes<L>,
        ended: [L::Channels; 2],
        t: usize,
    ) {
        let (quantities, has_high) = hits.quantities();
        lanes.append(&mut self.endings, quantities, has_high, ended, (SAMPLES - t) as u16);
    }

    /// Puts the primitives together if there is no room for those of one row more.
    #[inline(always)]
    pub(super) fn make_room<L: Lanes>(
        &mut self,
        lanes: L,
        parameters: &Parameters,
        time_base: TimeBase,
        completed: &mut Completed,
    ) {
        if self.endings.count > ENDINGS {
            self.complete(lanes, parameters, time_base, completed);
        }
    }

    /// Puts the primitives of all hits that have ended together.
    #[inline(always)]
    pub(super) fn complete<L: Lanes>(
        &mut self,
        lanes: L,
        parameters: &Parameters,
        time_base: TimeBase,
        completed: &mut Completed,
    ) {
        let count = self.endings.count;
        for first in (0..count).step_by(AT_ONCE) {
            if let Some(room) = completed.room_for_eight(first) {
                lanes.primitives(&self.endings, parameters, time_base, first, room);
            }
        }
        completed.add_written(count);
        self.endings.count = 0;
    }
}
