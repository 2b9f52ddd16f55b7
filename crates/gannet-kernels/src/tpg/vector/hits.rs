//! Open hits of all channels.

use super::Lanes;
use super::transform::Transform;
use crate::tpg::parameters::Parameters;
use crate::tpg::state::Hits;

#[derive(Clone, Copy)]
pub(super) struct HitLanes<L: Lanes> {
    sot: L::Words,
    low: L::Words,
    high: L::Words,
    peak: L::Words,
    to_peak: L::Words,
    /// Whether any of `high` may be other than 0, which is rare.
    has_high: bool,
}

impl<L: Lanes> HitLanes<L> {
    #[inline(always)]
    pub(super) fn load(lanes: L, hits: &Hits) -> Self {
        let high = lanes.load(&hits.integral_high);
        Self {
            sot: lanes.load(&hits.samples_over_threshold),
            low: lanes.load(&hits.integral_low),
            high,
            has_high: lanes.any(lanes.below_unsigned(lanes.splat(0), high)),
            peak: lanes.load(&hits.peak),
            to_peak: lanes.load(&hits.samples_to_peak),
        }
    }

    #[inline(always)]
    pub(super) fn store(&self, lanes: L, hits: &mut Hits) {
        lanes.store(&mut hits.samples_over_threshold, self.sot);
        lanes.store(&mut hits.integral_low, self.low);
        lanes.store(&mut hits.integral_high, self.high);
        lanes.store(&mut hits.peak, self.peak);
        lanes.store(&mut hits.samples_to_peak, self.to_peak);
    }

    /// Stores the hits, with nothing left on channels without.
    #[inline(always)]
    pub(super) fn store_tidy<T: Transform<L>>(mut self, lanes: L, hits: &mut Hits) {
        if !T::SUMS_ASIDE {
            self.to_peak = lanes.keep(self.open(lanes), self.to_peak);
        }
        self.store(lanes, hits);
    }

    /// All quantities, in the order of [`Hits`], and whether any high half of an integral may be
    /// other than 0.
    #[inline(always)]
    pub(super) fn quantities(&self) -> ([L::Words; 5], bool) {
        ([self.sot, self.low, self.high, self.peak, self.to_peak], self.has_high)
    }

    /// The hits, on some channels those of `other`.
    #[inline(always)]
    pub(super) fn replaced(mut self, lanes: L, channels: L::Channels, other: &Self) -> Self {
        self.sot = lanes.choose(channels, other.sot, self.sot);
        self.low = lanes.choose(channels, other.low, self.low);
        if self.has_high {
            self.high = lanes.choose(channels, other.high, self.high);
        }
        self.peak = lanes.choose(channels, other.peak, self.peak);
        self.to_peak = lanes.choose(channels, other.to_peak, self.to_peak);
        self
    }

    /// The channels whose hits would make no primitive, if they ended now.
    #[inline(always)]
    pub(super) fn short<T: Transform<L>>(&self, lanes: L, parameters: &Parameters) -> L::Channels {
        let short = lanes.below_unsigned(self.sot, lanes.load(&parameters.sot_minimum));
        if !T::SUMS_ASIDE {
            return short;
        }
        let least = lanes.splat(parameters.integral_minimum as i16);
        lanes.either(short, lanes.below_unsigned(self.low, least))
    }

    /// The channels with an open hit.
    #[inline(always)]
    pub(super) fn open(&self, lanes: L) -> L::Channels {
        lanes.above(self.sot, lanes.splat(0))
    }

    /// Goes on from a sample whose `ended` hits have been taken care of.
    #[inline(always)]
    pub(super) fn advance<T: Transform<L>>(
        &mut self,
        lanes: L,
        value: L::Words,
        over: L::Channels,
        ended: L::Channels,
    ) {
        if T::SUMS_ASIDE { self.clear(lanes, ended) } else { self.extend(lanes, value, over) }
    }

    /// Adds a sample to the hits over threshold. All other channels are cleared: their hit either
    /// has just ended or did not exist. Only their time to the peak is left, which the first
    /// sample of a hit sets anew.
    #[inline(always)]
    fn extend(&mut self, lanes: L, value: L::Words, over: L::Channels) {
        let one = lanes.splat(1);
        // Values have 15 bits.
        let may_carry = lanes.any_negative_words(self.low);
        self.low = lanes.keep(over, lanes.add(self.low, value));
        if self.has_high || may_carry {
            let carry = lanes.both(over, lanes.below_unsigned(self.low, value));
            let high = lanes.add_saturating_unsigned(self.high, lanes.keep(carry, one));
            self.high = lanes.keep(over, high);
            self.has_high = true;
        }
        let higher = lanes.above(value, self.peak);
        self.to_peak = lanes.choose(higher, self.sot, self.to_peak);
        self.peak = lanes.keep(over, lanes.max(self.peak, value));
        self.sot = lanes.keep(over, lanes.add_saturating(self.sot, one));
    }

    /// In a chain that sums aside, adds a sample to the hits over threshold, and to the search for
    /// the peak everywhere.
    #[inline(always)]
    pub(super) fn extend_aside<T: Transform<L>>(
        &mut self,
        lanes: L,
        value: L::Words,
        over: L::Channels,
    ) {
        if !T::SUMS_ASIDE {
            return;
        }
        let higher = lanes.above(value, self.peak);
        self.peak = lanes.max(self.peak, value);
        self.to_peak = lanes.choose(higher, self.sot, self.to_peak);
        self.low = lanes.add_saturating(self.low, lanes.keep(over, value));
        self.sot = lanes.add_saturating(self.sot, lanes.keep(over, lanes.splat(1)));
    }

    /// Raises the peaks to the highest values of rows without an open hit.
    #[inline(always)]
    pub(super) fn raise_peaks(&mut self, lanes: L, highest: L::Words) {
        self.peak = lanes.max(self.peak, highest);
    }

    /// Closes hits.
    #[inline(always)]
    fn clear(&mut self, lanes: L, ended: L::Channels) {
        let zero = lanes.splat(0);
        for quantity in
            [&mut self.sot, &mut self.low, &mut self.high, &mut self.peak, &mut self.to_peak]
        {
            *quantity = lanes.choose(ended, zero, *quantity);
        }
    }
}
