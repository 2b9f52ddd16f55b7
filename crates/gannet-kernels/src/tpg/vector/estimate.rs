//! Frugal estimates of all channels: pedestals, medians and quartiles.

use super::Lanes;
use super::quiet::Masks;
use crate::tpg::block::CHANNELS;
use crate::tpg::parameters::Parameters;

/// Frugal estimates: a `base` of 16 bits that they will not fall below, and over it an `offset` of
/// 8 bits, which is never negative.
#[derive(Clone, Copy)]
pub(crate) struct Estimate<L: Lanes> {
    base: L::Words,
    offset: L::Bytes,
    accumulator: L::Bytes,
    limits: L::Frugal,
}

impl<L: Lanes> Estimate<L> {
    /// The estimates `value`, to be moved by at most [`Parameters::rows_to_rebase`] samples.
    #[inline(always)]
    pub(super) fn load(
        lanes: L,
        parameters: &Parameters,
        limits: L::Frugal,
        value: &[i16; CHANNELS],
        accumulator: &[i16; CHANNELS],
    ) -> Self {
        let moves_max = lanes.splat(parameters.moves_max);
        Self {
            base: lanes.subtract(lanes.load(value), moves_max),
            offset: lanes.narrow(moves_max),
            accumulator: lanes.pack_accumulators(limits, lanes.load(accumulator)),
            limits,
        }
    }

    #[inline(always)]
    pub(super) fn store(
        &self,
        lanes: L,
        value: &mut [i16; CHANNELS],
        accumulator: &mut [i16; CHANNELS],
    ) {
        lanes.store(value, self.value(lanes));
        lanes.store(accumulator, lanes.unpack_accumulators(self.limits, self.accumulator));
    }

    /// The estimates.
    #[inline(always)]
    pub(super) fn value(&self, lanes: L) -> L::Words {
        lanes.add(self.base, lanes.widen_unsigned(self.offset))
    }

    /// What the estimates will not fall below.
    #[inline(always)]
    pub(super) fn base(&self) -> L::Words {
        self.base
    }

    /// Samples minus the base.
    #[inline(always)]
    pub(super) fn rise(&self, lanes: L, sample: L::Words) -> L::Words {
        lanes.subtract(sample, self.base)
    }

    /// The present offsets, for [`less_offset`].
    #[inline(always)]
    pub(super) fn offset(&self) -> L::Bytes {
        self.offset
    }

    /// The same estimates on another base, not far away; they may fall below it.
    #[inline(always)]
    pub(super) fn on_base(&self, lanes: L, base: L::Words) -> Self {
        let offset = lanes.add(lanes.widen(self.offset), lanes.subtract(self.base, base));
        Self { base, offset: lanes.narrow(offset), ..*self }
    }

    /// On which side of the estimates samples lie, by their rises saturated to 8 bits.
    #[inline(always)]
    pub(super) fn side(&self, lanes: L, rise: L::Bytes) -> L::Bytes {
        lanes.sign_of_difference(self.limits, rise, self.offset)
    }

    /// Counts a sample on this side of each estimate, and moves those that have counted enough.
    /// Gives the moves.
    #[inline(always)]
    pub(super) fn count(&mut self, lanes: L, side: L::Bytes) -> L::Bytes {
        lanes.count(self.limits, side, &mut self.offset, &mut self.accumulator)
    }
}

impl<L: Masks> Estimate<L> {
    /// These estimates, on some channels those of `other`, which has the same base.
    #[inline(always)]
    pub(super) fn replaced(&self, lanes: L, channels: L::ByteChannels, other: &Self) -> Self {
        Self {
            offset: lanes.choose_bytes(channels, other.offset, self.offset),
            accumulator: lanes.choose_bytes(channels, other.accumulator, self.accumulator),
            ..*self
        }
    }

    /// The accumulators with a sample on this side of each estimate.
    #[inline(always)]
    pub(super) fn counted(&self, lanes: L, side: L::Bytes) -> L::Bytes {
        lanes.add_bytes(self.accumulator, side)
    }

    /// Goes on from what was counted on these channels.
    #[inline(always)]
    pub(super) fn move_where(&mut self, lanes: L, channels: L::ByteChannels, counted: L::Bytes) {
        let (offset, accumulator) = (&mut self.offset, &mut self.accumulator);
        lanes.move_where(self.limits, channels, counted, offset, accumulator);
    }
}

/// Samples minus estimates, of samples minus the base and offsets over it.
#[inline(always)]
pub(super) fn less_offset<L: Lanes>(lanes: L, rise: L::Words, offset: L::Bytes) -> L::Words {
    lanes.subtract(rise, lanes.widen_unsigned(offset))
}
