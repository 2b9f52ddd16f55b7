//! What an instruction set must give to run the chain.

use gannet_wire::TriggerPrimitive;

use super::batch::{AT_ONCE, Endings, TimeBase};
use super::quiet::Quiet;
use super::transform::{Filter, RunningSum};
use crate::tpg::block::{CHANNELS, Row};
use crate::tpg::parameters::Parameters;
use crate::tpg::state::Word16;
use crate::tpg::tables::FrugalTables;

/// Vector operations on one quantity of all 64 channels.
///
/// A value of the type is the proof that the machine has the instruction set, so every operation
/// is safe. All are inlined into one function that the instruction set is enabled for.
pub(crate) trait Lanes: Copy {
    /// Rows that are taken in 8 bits, where a step does not say otherwise, before it is asked whether
    /// one of them may be loud.
    const QUIET_ROWS: usize;
    /// Primitives of [`SAMPLES`](crate::tpg::SAMPLES) samples from which on the dense path is the faster one.
    const DENSE_FROM: usize;

    /// A 16-bit quantity, channel 0 first.
    type Words: Copy;
    /// An 8-bit quantity, in an order that only the instruction set knows.
    type Bytes: Copy;
    /// Some of the channels.
    type Channels: Copy;

    /// The running sum in 8 bits.
    type QuietSum<const ABSOLUTE: bool>: Quiet<Self, RunningSum<Self, ABSOLUTE>>;
    /// The filter in 8 bits.
    type QuietFilter: Quiet<Self, Filter<Self>>;

    fn load<T: Word16>(self, from: &[T; CHANNELS]) -> Self::Words;
    fn store<T: Word16>(self, to: &mut [T; CHANNELS], x: Self::Words);
    fn splat(self, x: i16) -> Self::Words;

    /// The samples of a row of 14-bit values.
    fn unpack_adc14(self, row: &Row) -> Self::Words;
    /// The samples of a COLDATA block.
    fn unpack_coldata(self, row: &Row) -> Self::Words;
    /// Fetches the cache line of an address.
    fn prefetch(self, address: *const u8);
    /// The same, into the second-level cache only.
    fn prefetch_far(self, address: *const u8);

    fn add(self, a: Self::Words, b: Self::Words) -> Self::Words;
    fn add_saturating(self, a: Self::Words, b: Self::Words) -> Self::Words;
    fn add_saturating_unsigned(self, a: Self::Words, b: Self::Words) -> Self::Words;
    fn subtract(self, a: Self::Words, b: Self::Words) -> Self::Words;
    fn abs(self, a: Self::Words) -> Self::Words;
    fn min(self, a: Self::Words, b: Self::Words) -> Self::Words;
    fn max(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// The low halves of the products.
    fn multiply(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// `(a * b + 0x4000) >> 15`.
    fn multiply_rounding(self, a: Self::Words, b: Self::Words) -> Self::Words;
    fn shift_right<const BITS: u32>(self, a: Self::Words) -> Self::Words;

    /// Where `a > b`, as signed numbers.
    fn above(self, a: Self::Words, b: Self::Words) -> Self::Channels;
    /// Where `a < b`, as unsigned numbers.
    fn below_unsigned(self, a: Self::Words, b: Self::Words) -> Self::Channels;
    fn both(self, a: Self::Channels, b: Self::Channels) -> Self::Channels;
    fn either(self, a: Self::Channels, b: Self::Channels) -> Self::Channels;
    /// Those of `a` that are not in `b`.
    fn without(self, a: Self::Channels, b: Self::Channels) -> Self::Channels;
    fn any(self, a: Self::Channels) -> bool;
    /// One bit a channel, channel 0 lowest.
    fn bits(self, a: Self::Channels) -> u64;
    /// `x` on these channels, 0 on the others.
    fn keep(self, a: Self::Channels, x: Self::Words) -> Self::Words;
    /// `x` on these channels, `y` on the others.
    fn choose(self, a: Self::Channels, x: Self::Words, y: Self::Words) -> Self::Words;

    /// 16-bit values saturated to signed bytes.
    fn narrow(self, x: Self::Words) -> Self::Bytes;
    /// Signed bytes as 16-bit values.
    fn widen(self, x: Self::Bytes) -> Self::Words;
    /// Unsigned bytes as 16-bit values.
    fn widen_unsigned(self, x: Self::Bytes) -> Self::Words;
    fn splat_bytes(self, x: i8) -> Self::Bytes;
    fn add_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    fn add_saturating_unsigned_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    fn subtract_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    fn subtract_saturating_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    fn abs_bytes(self, x: Self::Bytes) -> Self::Bytes;
    fn max_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    fn either_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    fn any_negative(self, x: Self::Bytes) -> bool;
    fn any_negative_words(self, x: Self::Words) -> bool;
    /// `a` times the low and `b` times the high bytes of `factors`, which are not negative, added.
    fn weigh(self, a: Self::Bytes, b: Self::Bytes, factors: Self::Words) -> Self::Words;

    /// Adds hits, of the quantities of the open hits in their order: those that end with the sample
    /// before, then those that end `samples_left` samples before the end. No channel has both. The
    /// high halves of the integrals are 0 unless `has_high`.
    #[inline(always)]
    fn append(
        self,
        endings: &mut Endings,
        quantities: [Self::Words; 5],
        _has_high: bool,
        ended: [Self::Channels; 2],
        samples_left: u16,
    ) {
        let mut hits = [[0u16; CHANNELS]; 5];
        for (hits, quantity) in hits.iter_mut().zip(quantities) {
            self.store(hits, quantity);
        }
        for (ended, left) in ended.into_iter().zip([samples_left + 1, samples_left]) {
            let mut ended = self.bits(ended);
            while ended != 0 {
                let channel = ended.trailing_zeros() as usize;
                let place = endings.count;
                endings.channel[place] = channel as u16;
                endings.samples_over_threshold[place] = hits[0][channel];
                endings.integral_low[place] = hits[1][channel];
                endings.integral_high[place] = hits[2][channel];
                endings.peak[place] = hits[3][channel];
                endings.samples_to_peak[place] = hits[4][channel];
                endings.samples_left[place] = left;
                endings.count += 1;
                ended &= ended - 1;
            }
        }
    }

    /// The primitives of eight hits from number `first` on; what is beyond the last may be anything.
    #[inline(always)]
    fn primitives(
        self,
        endings: &Endings,
        parameters: &Parameters,
        time_base: TimeBase,
        first: usize,
        primitives: &mut [TriggerPrimitive; AT_ONCE],
    ) {
        for (i, primitive) in primitives.iter_mut().enumerate() {
            *primitive = endings.primitive(parameters, time_base, first + i);
        }
    }

    /// A frugal estimate with this limit.
    fn frugal(self, limit: i8, tables: &FrugalTables) -> Self::Frugal;
    /// Limits of the frugal estimate in registers.
    type Frugal: Copy;
    /// The accumulators, as [`Lanes::count`] wants them.
    fn pack_accumulators(self, limits: Self::Frugal, accumulators: Self::Words) -> Self::Bytes;
    /// The opposite of [`Lanes::pack_accumulators`].
    fn unpack_accumulators(self, limits: Self::Frugal, accumulators: Self::Bytes) -> Self::Words;
    /// -1, 0 or 1 where `rise` is below, at or above `offset`, which is not negative.
    fn sign_of_difference(
        self,
        limits: Self::Frugal,
        rise: Self::Bytes,
        offset: Self::Bytes,
    ) -> Self::Bytes;
    /// `x` where `sign` is negative, 0 elsewhere.
    fn keep_where_negative(self, sign: Self::Bytes, x: Self::Bytes) -> Self::Bytes;
    /// `x` where `sign` is positive, 0 elsewhere.
    fn keep_where_positive(self, sign: Self::Bytes, x: Self::Bytes) -> Self::Bytes;
    /// Adds signs to the accumulators; where one passes the limit it starts again at 0, and the
    /// offset moves by one. Gives the moves.
    fn count(
        self,
        limits: Self::Frugal,
        sign: Self::Bytes,
        offset: &mut Self::Bytes,
        accumulators: &mut Self::Bytes,
    ) -> Self::Bytes;
}
