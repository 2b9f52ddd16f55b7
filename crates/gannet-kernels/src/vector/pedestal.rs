//! Pedestals of all channels.

use super::Lanes;
use crate::parameters::Parameters;
use crate::state::State;

/// Pedestals: a `base` of 16 bits that they will not fall below, and over it an `offset` of 8 bits,
/// which is never negative.
#[derive(Clone, Copy)]
pub(super) struct PedestalLanes<L: Lanes> {
    base: L::Words,
    offset: L::Bytes,
    accumulator: L::Bytes,
    limits: L::Frugal,
}

impl<L: Lanes> PedestalLanes<L> {
    #[inline(always)]
    pub(super) fn load(lanes: L, parameters: &Parameters, state: &State) -> Self {
        let limits = lanes.frugal(parameters.accum_limit);
        let moves_max = lanes.splat(parameters.moves_max());
        Self {
            base: lanes.subtract(lanes.load(&state.pedestal), moves_max),
            offset: lanes.narrow(moves_max),
            accumulator: lanes.pack_accumulators(limits, lanes.load(&state.accumulator)),
            limits,
        }
    }

    #[inline(always)]
    pub(super) fn store(&self, lanes: L, state: &mut State) {
        let pedestal = lanes.add(self.base, lanes.widen_unsigned(self.offset));
        lanes.store(&mut state.pedestal, pedestal);
        let accumulator = lanes.unpack_accumulators(self.limits, self.accumulator);
        lanes.store(&mut state.accumulator, accumulator);
    }

    /// Samples minus the base.
    #[inline(always)]
    pub(super) fn rise(&self, lanes: L, adc: L::Words) -> L::Words {
        lanes.subtract(adc, self.base)
    }

    /// The present offsets, for [`signal`].
    #[inline(always)]
    pub(super) fn offset(&self) -> L::Bytes {
        self.offset
    }

    /// One sample of the frugal estimate, on the rises saturated to 8 bits.
    #[inline(always)]
    pub(super) fn step(&mut self, lanes: L, rise: L::Bytes) {
        lanes.move_pedestals(self.limits, rise, &mut self.offset, &mut self.accumulator);
    }
}

/// Samples minus pedestals, of samples minus the base and offsets over it.
#[inline(always)]
pub(super) fn signal<L: Lanes>(lanes: L, rise: L::Words, offset: L::Bytes) -> L::Words {
    lanes.subtract(rise, lanes.widen_unsigned(offset))
}

/// The rise above which a channel may be over threshold.
///
/// The signal is at most the rise. A rise that saturates at 127 must always pass, hence the
/// minimum.
#[inline(always)]
pub(super) fn screen<L: Lanes>(lanes: L, parameters: &Parameters) -> L::Bytes {
    lanes.min_bytes(lanes.narrow(lanes.load(&parameters.threshold)), 126)
}

/// A frugal estimate of 16 bits, on some of the channels.
#[derive(Clone, Copy)]
pub(super) struct FrugalLanes<L: Lanes> {
    pub(super) estimate: L::Words,
    pub(super) accumulator: L::Words,
}

impl<L: Lanes> FrugalLanes<L> {
    /// One sample of the channels where it is `higher` or `lower` than the estimate; the channels
    /// in neither stay as they are.
    #[inline(always)]
    pub(super) fn step(
        &mut self,
        lanes: L,
        higher: L::Channels,
        lower: L::Channels,
        limit: L::Words,
    ) {
        let one = lanes.splat(1);
        let zero = lanes.splat(0);
        let counted = lanes.add(self.accumulator, lanes.keep(higher, one));
        let counted = lanes.subtract(counted, lanes.keep(lower, one));
        let up = lanes.above(counted, limit);
        let down = lanes.above(lanes.subtract(zero, limit), counted);
        self.estimate = lanes.add_saturating(self.estimate, lanes.keep(up, one));
        let minus_one = lanes.splat(-1);
        self.estimate = lanes.add_saturating(self.estimate, lanes.keep(down, minus_one));
        self.accumulator = lanes.choose(lanes.either(up, down), zero, counted);
    }
}
