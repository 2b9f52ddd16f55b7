//! CRC-32C, with the polynomial of Castagnoli: of bytes, and of bytes whose parts have been summed.
//!
//! Source: RFC 3720, section 12.1.

use std::sync::atomic::AtomicU8;

use crate::kernel::Kernel;
use crate::shm::Source;

/// The polynomial, reflected: bit 31 is the coefficient of x^0.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Bytes of a block, in which bytes may be behind others: a word of a link.
const BLOCK_LEN: usize = 16;
/// Most blocks that may be behind others.
const BLOCKS_MAX: usize = 1023;
/// Below so many bytes memcpy and a sum beside it are as fast as both in one.
const SHORT: usize = 256;

/// The CRC-32C of bytes. That of none is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crc32c(pub u32);

impl Crc32c {
    /// The sum of `bytes`.
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        Self::default().and(bytes)
    }

    /// The sum of `bytes` and as many zeros as fill up the last block of 16 bytes.
    #[inline]
    pub fn of_padded(bytes: &[u8]) -> Self {
        Self::of(bytes).padded(bytes.len())
    }

    /// The sum of the same bytes, of which there are `len`, and as many zeros as fill up the last block of 16.
    #[inline]
    pub fn padded(self, len: usize) -> Self {
        match len % BLOCK_LEN {
            0 => self,
            more => self.and(&[0; BLOCK_LEN][more..]),
        }
    }

    /// The sum of the same bytes and `more` behind them.
    #[inline]
    #[must_use]
    pub fn and(self, more: &[u8]) -> Self {
        Self(!advanced(!self.0, more))
    }

    /// Copies `from` to the front of `to`, fills that up with zeros, and gives the sum of the same bytes and all of `to` behind them.
    ///
    /// # Panics
    /// When `to` is shorter than `from`.
    #[inline]
    #[must_use]
    pub fn and_copied(self, from: &[u8], to: &mut [u8]) -> Self {
        let (place, padding) = to.split_at_mut(from.len());
        if from.len() < SHORT {
            place.copy_from_slice(from);
            return self.and(from).and_zeros(padding);
        }
        self.and_copied_long(from.into(), place).and_zeros(padding)
    }

    /// The same from memory that others may write meanwhile: the sum is that of what is in `to` then.
    ///
    /// # Panics
    /// As [`and_copied`](Self::and_copied).
    #[inline]
    #[must_use]
    pub fn and_copied_shared(self, from: &[AtomicU8], to: &mut [u8]) -> Self {
        let (place, padding) = to.split_at_mut(from.len());
        if from.len() < SHORT {
            Source::from(from).copy_to(place);
            return self.and(place).and_zeros(padding);
        }
        self.and_copied_long(from.into(), place).and_zeros(padding)
    }

    #[inline]
    fn and_copied_long(self, from: Source<'_>, to: &mut [u8]) -> Self {
        Self(!Kernel::best().copy(!self.0, from, to))
    }

    /// The sum of the same bytes and the zeros behind them with which `padding` is filled.
    #[inline]
    fn and_zeros(self, padding: &mut [u8]) -> Self {
        if padding.is_empty() {
            return self;
        }
        padding.fill(0);
        self.and(padding)
    }

    /// What the sums of two messages differ by whose last `blocks` of 16 bytes are the same, where `self` is what the sums of the
    /// bytes in front of these differ by.
    ///
    /// # Panics
    /// When there are more than 1023 blocks.
    pub fn behind(self, blocks: usize) -> Self {
        let product = carryless_product(self.0, FACTORS[blocks]);
        // From 0 on the register becomes the polynomial of the bytes times x^32, modulo that of the CRC.
        Self(advanced(0, &product.to_le_bytes()))
    }
}

/// What the register of the CRC, which begins inverted and ends so, becomes by `bytes`.
#[inline]
fn advanced(register: u32, bytes: &[u8]) -> u32 {
    Kernel::best().sum(register, bytes)
}

/// For so many blocks, x to the power of their bits, less the 32 of a sum over the product and the one by which a reflected product is longer.
static FACTORS: [u32; BLOCKS_MAX + 1] = {
    let (mut factor, mut bit) = (1 << 31, 33);
    while bit > 0 {
        factor = by_x(factor);
        bit -= 1;
    }
    let (mut factors, mut at) = ([factor; BLOCKS_MAX + 1], 1);
    while at < factors.len() {
        bit = 8 * BLOCK_LEN;
        while bit > 0 {
            factor = times_x(factor);
            bit -= 1;
        }
        factors[at] = factor;
        at += 1;
    }
    factors
};

/// A polynomial times x, modulo that of the CRC.
pub(crate) const fn times_x(value: u32) -> u32 {
    value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// So high a power of x, modulo the polynomial of the CRC.
#[cfg(target_arch = "x86_64")]
pub(crate) const fn power_of_x(exponent: u32) -> u32 {
    let (mut power, mut at) = (1 << 31, 0);
    while at < exponent {
        power = times_x(power);
        at += 1;
    }
    power
}

/// The polynomial of which [`times_x`] makes `value`.
const fn by_x(value: u32) -> u32 {
    // Only the polynomial of the CRC brings in x^0.
    if value >> 31 == 1 { ((value ^ POLYNOMIAL) << 1) | 1 } else { value << 1 }
}

/// The product of two polynomials over GF(2).
///
/// Of each only every fourth bit is taken at once, so that what is carried does not reach the next one.
fn carryless_product(left: u32, right: u32) -> u64 {
    const FOURTHS: u64 = 0x1111_1111_1111_1111;
    let fourth = |value: u32, at: usize| u64::from(value) & (FOURTHS << at);
    let product_of = |at: usize| {
        (0..4)
            .map(|of_left| fourth(left, of_left) * fourth(right, (at + 4 - of_left) % 4))
            .fold(0, |sum, product| sum ^ product)
    };
    (0..4).fold(0, |whole, at| whole | (product_of(at) & (FOURTHS << at)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_check_value_is_the_published_one() {
        assert_eq!(Crc32c::of(b"123456789"), Crc32c(0xe306_9283));
        assert_eq!(Crc32c::of(b""), Crc32c::default());
    }

    proptest! {
        #[test]
        fn parts_make_the_whole(
            bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..300,
        ) {
            let len = bytes.len();
            let (front, back) = bytes.split_at(at.min(len));
            prop_assert_eq!(Crc32c::of(front).and(back), Crc32c::of(&bytes));
            let mut padded = vec![0xa5; len.next_multiple_of(BLOCK_LEN)];
            let copied = Crc32c::default().and_copied(&bytes, &mut padded);
            prop_assert_eq!(&padded[..len], &bytes);
            prop_assert_eq!(copied, Crc32c::of(&padded));
            prop_assert_eq!(copied, Crc32c::of_padded(&bytes));
            let shared: Vec<AtomicU8> = bytes.iter().copied().map(AtomicU8::new).collect();
            padded.fill(0xa5);
            prop_assert_eq!(Crc32c::default().and_copied_shared(&shared, &mut padded), copied);
            prop_assert_eq!(&padded[..len], &bytes);
        }

        #[test]
        fn differences_in_front_are_those_of_the_whole(
            pairs in prop::collection::vec(any::<(u8, u8)>(), 0..100), seed: u8, blocks in 0usize..=BLOCKS_MAX,
        ) {
            let (one, other): (Vec<u8>, Vec<u8>) = pairs.into_iter().unzip();
            let same: Vec<u8> = (0..blocks * BLOCK_LEN).map(|at| seed.wrapping_mul(at as u8)).collect();
            let front = Crc32c(Crc32c::of(&one).0 ^ Crc32c::of(&other).0);
            let whole = Crc32c(Crc32c::of(&one).and(&same).0 ^ Crc32c::of(&other).and(&same).0);
            prop_assert_eq!(front.behind(blocks), whole);
        }
    }
}
