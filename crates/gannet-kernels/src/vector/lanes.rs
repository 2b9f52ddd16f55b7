//! What an instruction set must give to run the chain.

use crate::block::{CHANNELS, Row};
use crate::state::Word16;

/// Vector operations on one quantity of all 64 channels.
///
/// A value of the type is the proof that the machine has the instruction set, so every operation
/// is safe. All are inlined into one function that the instruction set is enabled for.
pub(crate) trait Lanes: Copy {
    /// Whether there are registers for two rows at once, which spares half of the questions.
    const PAIRS: bool;
    /// Primitives of [`SAMPLES`](crate::SAMPLES) samples from which on the dense path is the faster one.
    const DENSE_FROM: usize;

    /// A 16-bit quantity, channel 0 first.
    type Words: Copy;
    /// An 8-bit quantity, in an order that only the instruction set knows.
    type Bytes: Copy;
    /// Some of the channels.
    type Channels: Copy;

    fn load<T: Word16>(self, from: &[T; CHANNELS]) -> Self::Words;
    fn store<T: Word16>(self, to: &mut [T; CHANNELS], x: Self::Words);
    fn splat(self, x: i16) -> Self::Words;

    /// The samples of a row of 14-bit values.
    fn unpack_adc14(self, row: &Row) -> Self::Words;
    /// The samples of a COLDATA block.
    fn unpack_coldata(self, row: &Row) -> Self::Words;
    /// Fetches the cache lines that come so many bytes after the start of a row.
    fn prefetch<const LINES: usize>(self, row: &Row, bytes_ahead: usize);

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
    /// The numbers of the channels whose bits are set, one after the other; what is behind them
    /// may be anything.
    fn list(self, bits: u64, channels: &mut [u8; CHANNELS]);
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
    fn min_bytes(self, x: Self::Bytes, most: i8) -> Self::Bytes;
    fn any_byte_above(self, a: Self::Bytes, b: Self::Bytes) -> bool;

    /// A frugal estimate with this limit.
    fn frugal(self, limit: i8) -> Self::Frugal;
    /// Limits of the frugal estimate in registers.
    type Frugal: Copy;
    /// The accumulators, as [`Lanes::move_pedestals`] wants them.
    fn pack_accumulators(self, limits: Self::Frugal, accumulators: Self::Words) -> Self::Bytes;
    /// The opposite of [`Lanes::pack_accumulators`].
    fn unpack_accumulators(self, limits: Self::Frugal, accumulators: Self::Bytes) -> Self::Words;
    /// One sample of the frugal estimate: `rise` and `offset` are sample and pedestal over a
    /// common base.
    fn move_pedestals(
        self,
        limits: Self::Frugal,
        rise: Self::Bytes,
        offset: &mut Self::Bytes,
        accumulators: &mut Self::Bytes,
    );
}
