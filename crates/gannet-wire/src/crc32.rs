//! CRC-32 of IEEE 802.3: reflected, begun with ones, inverted at the end. And how it is run backwards.
//!
//! Source: IEEE 802.3, clause 3.2.9.

/// The polynomial, reflected: bit 31 is the coefficient of x^0.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// The CRC-32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// A polynomial times x, modulo that of the CRC.
const fn times_x(value: u32) -> u32 {
    value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// The product of two polynomials, modulo that of the CRC.
const fn product(left: u32, mut right: u32) -> u32 {
    let (mut sum, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if left & bit != 0 {
            sum ^= right;
        }
        right = times_x(right);
        bit >>= 1;
    }
    sum
}

/// The inverse of x, modulo the polynomial of the CRC.
const X_INVERSE: u32 = (1 << 31 ^ POLYNOMIAL) << 1 | 1;

/// Runs a CRC backwards: tells from two check sums where two messages of one length differ, if that is
/// in four bytes whose place is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backwards {
    /// The inverse of x to the power of the bits.
    factor: u32,
}

impl Backwards {
    /// Back over `bytes` bytes, from the end to the first of the four.
    pub(crate) const fn over(bytes: usize) -> Self {
        let (mut factor, mut square, mut exponent) = (1 << 31, X_INVERSE, 8 * bytes as u64);
        while exponent != 0 {
            if exponent & 1 == 1 {
                factor = product(factor, square);
            }
            square = product(square, square);
            exponent >>= 1;
        }
        Self { factor }
    }

    /// What the four bytes of two messages differ by (exclusive or), from what their check sums do.
    pub(crate) const fn four_bytes(self, difference: u32) -> [u8; 4] {
        product(self.factor, difference).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise;
    use proptest::prelude::*;

    #[test]
    fn the_check_value_is_the_published_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(product(X_INVERSE, times_x(1 << 31)), 1 << 31);
    }

    proptest! {
        #[test]
        fn run_backwards_it_tells_four_bytes(seed: u64, len in 4usize..200, at in 0usize..196, other: [u8; 4]) {
            let bytes = noise::bytes(seed, len);
            let at = at.min(len - 4);
            let mut changed = bytes.clone();
            for (byte, other) in changed[at..].iter_mut().zip(other) {
                *byte ^= other;
            }
            let difference = crc32(&bytes) ^ crc32(&changed);
            prop_assert_eq!(Backwards::over(len - at).four_bytes(difference), other);
        }
    }
}
